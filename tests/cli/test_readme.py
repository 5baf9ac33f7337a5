"""The READMEs: alike in both languages, and their code runs as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import glassformer
from glassformer import pipeline
from glassformer.cli.main import VERBS

from ..conftest import ROOT

READMES = ("README.md", "README.zh.md")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) ", re.MULTILINE)


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str) -> list[tuple[str, str]]:
    return BLOCK.findall(text_of(name))


def test_both_have_the_same_headings_tables_and_code():
    english, chinese = map(text_of, READMES)
    prose = [BLOCK.sub("", text) for text in (english, chinese)]
    assert HEADING.findall(prose[0]) == HEADING.findall(prose[1])
    assert blocks("README.md") == blocks("README.zh.md")
    rows = [[line.count("|") for line in text.splitlines() if line.startswith("|")] for text in prose]
    assert rows[0] == rows[1]


def test_both_name_the_same_identifiers():
    names = [set(re.findall(r"`([A-Za-z_][\w./-]*)`", BLOCK.sub("", text_of(name)))) for name in READMES]
    assert names[0] == names[1]


def test_the_python_code_runs(minilm, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(block for language, block in blocks("README.md") if language == "python")  # and in the other one
    assert code.count("import") >= 3
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    shown = capsys.readouterr().out
    assert "torch.Size([2, 9, 384]) torch.Size([2, 12, 9, 9])" in shown
    assert "gives  una 14477 [0:3]" in shown
    assert "['classifier']" in shown
    assert Path("by-hand/model.safetensors").exists()
    assert "it" in Path("heads.html").read_text("utf-8")
    assert pipeline("text-classification", model="by-hand")(["Very fine.", "So dull."])[0]["score"] > 0.5


@pytest.mark.parametrize("name", READMES)
def test_what_has_another_name_says_so(name):
    """The first column of the table holds no public names, and importing one names what has its place."""
    table = text_of(name).partition("| transformers ")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    given = {found for row in rows for found in re.findall(r"`([A-Za-z_]+)`", row)}
    assert {"TrainingArguments", "DataCollatorWithPadding", "TrainerCallback"} <= given
    for each in given:
        with pytest.raises(AttributeError, match=f"no '{each}': ") as caught:
            getattr(glassformer, each)
        assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("name", READMES)
def test_lessons_are_numbered_and_named_as_they_are_titled(name):
    listed = re.findall(r"^(\d+)\. \[(.*)\]\((docs/.*)\)$", text_of(name), re.MULTILINE)
    assert [int(number) for number, _, _ in listed] == list(range(1, len(listed) + 1))
    assert all((ROOT / path).read_text("utf-8").startswith(f"# {title}\n") for _, title, path in listed)
    assert len({title for _, title, _ in listed}) == len(listed)


def run_script(first_line: str, folder: Path) -> str:
    """What the block of the shell that begins in this way prints."""
    [script] = [block for language, block in blocks("README.md") if language == "bash" and block.startswith(first_line)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        ["bash", "-euc", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_example_on_a_file_of_ones_own_runs(minilm, tmp_path):
    shown = run_script("cat > reviews.csv", tmp_path)
    assert re.search(r"accuracy +1\.0000", shown) and "unseen.csv, line 2" in shown
    [printed] = [block for language, block in blocks("README.md") if language == "text"]
    without_scores = [re.sub(r"0\.\d+$", "", line) for line in printed.splitlines()]
    assert "\n".join(without_scores) in re.sub(r"0\.\d+$", "", shown, flags=re.MULTILINE)


def test_the_examples_on_text_and_pairs_of_ones_own_run(tmp_path):
    shown = run_script("cat > story.txt", tmp_path)
    assert "The lighthouse keeper climbed the stairs" in shown
    assert shown.splitlines()[-1] == "图书馆在哪里"


@pytest.mark.parametrize("name", READMES)
def test_exactly_the_existing_verbs_are_named(name):
    [shell] = [block for language, block in blocks(name) if language == "bash" and "glass doctor" in block]
    assert set(re.findall(r"^glass ([\w-]+)", shell, re.MULTILINE)) == set(VERBS)


@pytest.mark.parametrize("name", READMES)
def test_every_file_named_in_the_readme_exists(name):
    text = text_of(name)
    named = set(re.findall(r"`((?:glassformer|tests|bench)/[\w./]*)`", text)) | set(
        re.findall(r"\]\((\w[^)]*)\)", text)
    )
    named |= set(re.findall(r"^\./(\w+\.sh)", text, re.MULTILINE))
    missing = sorted(path for path in named if not (ROOT / path).exists())
    assert not missing


def test_the_changelog_knows_this_version():
    versions = re.findall(r"^## \[([\w.]+)\]", text_of("CHANGELOG.md"), re.MULTILINE)
    assert versions[0] == "Unreleased" and glassformer.__version__ in versions
    assert len(versions) == len(set(versions))
