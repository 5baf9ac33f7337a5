"""glass embed: vectors equal to those of `SentenceEncoder.encode`, in files that can be resumed."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest

from glassformer import SentenceEncoder
from glassformer.cli.main import main
from glassformer.cli.verbs import embed as embed_verb

from ..conftest import ROOT
from .sentences import TEXTS, make_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def encoder(folder) -> SentenceEncoder:
    return SentenceEncoder.from_pretrained(folder)


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


def run(capsys, *arguments: object, code: int = 0) -> tuple[str, str]:
    assert main(["embed", *map(str, arguments)]) == code
    shown = capsys.readouterr()
    return shown.out, shown.err


def same(ours: numpy.ndarray, reference: numpy.ndarray) -> None:
    assert ours.dtype == numpy.float32
    assert ours.shape == reference.shape
    assert numpy.abs(ours - reference).max() < 1e-5


def test_texts_are_printed(folder, encoder, capsys):
    vectors = encoder.encode(TEXTS[:2])
    shown, _ = run(capsys, folder, *TEXTS[:2])
    assert numpy.abs(numpy.loadtxt(io.StringIO(shown)) - vectors).max() < 1e-5
    report = [json.loads(line) for line in run(capsys, folder, *TEXTS[:2], "--json", "--normalize")[0].splitlines()]
    assert [one["text"] for one in report] == TEXTS[:2]
    assert [one["truncated"] for one in report] == [False, False]
    same(numpy.float32([one["vector"] for one in report]), encoder.encode(TEXTS[:2], normalize_embeddings=True))


def test_bfloat16_has_fewer_digits(folder, encoder, file, tmp_path, capsys):
    run(capsys, folder, "--input", file, "--output", tmp_path / "v.npy", "--dtype", "bfloat16")
    found, exact = numpy.load(tmp_path / "v.npy"), encoder.encode(TEXTS)
    assert found.dtype == numpy.float32
    assert 1e-5 < numpy.abs(found - exact).max() / numpy.abs(exact).max() < 0.05


@pytest.mark.parametrize(
    ("flags", "arguments"),
    [
        ([], {}),
        (["--normalize"], {"normalize_embeddings": True}),
        (["--prompt-name", "query"], {"prompt_name": "query"}),
        (["--tokens-per-batch", "9"], {}),
    ],
)
def test_a_file_becomes_an_array(folder, encoder, file, tmp_path, capsys, flags, arguments):
    shown, errors = run(capsys, folder, "--input", file, "--output", tmp_path / "v.npy", *flags)
    same(numpy.load(tmp_path / "v.npy", mmap_mode="r"), encoder.encode(TEXTS, **arguments))
    assert shown == f"{tmp_path / 'v.npy'}: 6 vectors of {encoder.get_sentence_embedding_dimension()} numbers\n"
    assert not errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts.txt", "v.npy"]


def test_a_column_and_standard_input(folder, encoder, file, tmp_path, capsys, monkeypatch):
    table = tmp_path / "t.csv"
    table.write_text("id,title\n1,so good\n2,the film\n")
    report = run(capsys, folder, "--input", table, "--columns", "text=title", "-o", tmp_path / "t.npy", "--json")[0]
    assert json.loads(report) == {"output": str(tmp_path / "t.npy"), "count": 2, "width": 48, "resumed_at": 0}
    same(numpy.load(tmp_path / "t.npy"), encoder.encode(["so good", "the film"]))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(file.read_bytes())))
    run(capsys, folder, "--input", "-", "-o", tmp_path / "s.npy")
    same(numpy.load(tmp_path / "s.npy"), encoder.encode(TEXTS))


def test_truncation_is_reported(folder, tmp_path, capsys):
    (tmp_path / "t.txt").write_text("so good\n" + "the " * 500 + "\n")
    errors = run(capsys, folder, "--input", tmp_path / "t.txt", "-o", tmp_path / "v.npy")[1]
    assert "note: 1 of 2 texts are longer than " in errors
    assert f"the first is {tmp_path / 't.txt'}, line 2" in errors
    assert "was cut" in run(capsys, folder, "the " * 500)[1]


@pytest.mark.parametrize(("name", "content"), [("t.txt", b""), ("t.txt", b"\xff\n"), ("t.csv", b"id,title\n1,a\n")])
def test_a_run_without_results_leaves_no_file(name, content, folder, tmp_path, capsys):
    (tmp_path / name).write_bytes(content)
    errors = run(capsys, folder, "--input", tmp_path / name, "-o", tmp_path / "v.npy", code=1)[1]
    assert "to resume it" not in errors
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_bad_row_stops_the_run_which_resumes_when_it_is_fixed(folder, encoder, tmp_path, capsys):
    file, output = tmp_path / "t.txt", tmp_path / "v.npy"
    file.write_bytes(b"so good\nso bad\nthe \xff film\nthe cat\n")
    errors = run(capsys, folder, "--input", file, "-o", output, code=1)[1]
    assert f"{file}, line 3: not UTF-8" in errors
    assert not output.exists()
    part = tmp_path / "v.npy.part"
    with open(part, "ab") as part_file:
        part_file.write(b"torn")
    note = tmp_path / "v.npy.run.json"
    file.write_bytes(b"so good\nso bad\nthe film\nthe cat\n")
    assert "rows was" in run(capsys, folder, "--input", file, "-o", output, code=1)[1]
    values = json.loads(note.read_text())
    from glassformer.cli.rows.resumable_run import fingerprint

    note.write_text(json.dumps({**values, "rows": fingerprint([file])}))  # as if the row had been valid from the start
    report = run(capsys, folder, "--input", file, "-o", output, "--json")[0]
    assert json.loads(report)["resumed_at"] == 2
    same(numpy.load(output), encoder.encode(["so good", "so bad", "the film", "the cat"]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.txt", "v.npy"]


def test_restart_keeps_the_old_result_until_the_new_one_is_complete(folder, encoder, file, tmp_path, capsys):
    output = tmp_path / "v.npy"
    run(capsys, folder, "--input", file, "-o", output)
    assert f"-o {output} --restart\n" in run(capsys, folder, "--input", file, "-o", output, code=1)[1]
    file.write_bytes(b"so good\n\xff\n")
    run(capsys, folder, "--input", file, "-o", output, "--restart", code=1)
    same(numpy.load(output), encoder.encode(TEXTS))
    file.write_text("so good\n")
    run(capsys, folder, "--input", file, "-o", output, "--restart")
    same(numpy.load(output), encoder.encode(["so good"]))


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_killed_run_resumes_and_the_array_is_complete(folder, encoder, tmp_path, capsys):
    file, output, part = tmp_path / "t.txt", tmp_path / "v.npy", tmp_path / "v.npy.part"
    texts = [f"{TEXTS[i % 6]} {'the ' * (i % 20)}" for i in range(6000)]
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    arguments = ["embed", str(folder), "--input", str(file), "--output", str(output)]
    glass = [sys.executable, "-m", "glassformer.cli.main", *arguments, "--tokens-per-batch", "64"]
    process = subprocess.Popen(glass, cwd=ROOT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not part.exists() or part.stat().st_size < 10000:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not output.exists()
    report = json.loads(run(capsys, *arguments[1:], "--json")[0])
    assert 0 < report["resumed_at"] < 6000
    vectors = numpy.load(output)
    assert vectors.shape == (6000, 48)
    near = slice(report["resumed_at"] - 50, report["resumed_at"] + 50)
    same(vectors[near], encoder.encode(texts[near]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.txt", "v.npy"]


def test_memory_does_not_grow_with_the_input(folder, tmp_path, capsys, monkeypatch):
    held = []
    monkeypatch.setattr(embed_verb, "BLOCK", 10)
    from glassformer.cli.rows import npy_file as vectors

    append = vectors.append
    monkeypatch.setattr(vectors, "append", lambda file, waiting: (held.append(len(waiting)), append(file, waiting)))
    (tmp_path / "t.txt").write_text("so good\n" * 95)
    run(capsys, folder, "--input", tmp_path / "t.txt", "-o", tmp_path / "v.npy")
    assert sum(held) == 95
    assert max(held) == 10


@pytest.mark.parametrize(
    ("arguments", "errors"),
    [
        ([], "give texts, or --input with a file of texts"),
        (["--input", "a.txt"], "belong together"),
        (["a", "--output", "v.npy"], "belong together"),
        (["--input", "a.txt", "--output", "v.npz"], "vectors are written as a .npy file, got 'v.npz'"),
        (["a", "--prompt-name", "querry"], "did you mean 'query'?"),
        (["a", "--batch-tokens", "0"], "--tokens-per-batch must be 1 or more, got 0"),
    ],
)
def test_wrong_use_is_one_line(folder, arguments, errors, capsys):
    shown, report = run(capsys, folder, *arguments, code=1)
    assert errors in report
    assert report.count("\n") == 1
    assert not shown


def test_the_output_folder_must_exist(folder, file, tmp_path, capsys):
    errors = run(capsys, folder, "--input", file, "-o", tmp_path / "no" / "v.npy", code=1)[1]
    assert "there is no folder" in errors
