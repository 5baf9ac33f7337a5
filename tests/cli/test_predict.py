"""glass predict: every task from the shell, files, and runs that are killed and resumed."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import glassformer
from glassformer import pipeline
from glassformer.cli.main import main
from glassformer.cli.verbs.predict import predict, read_options
from glassformer.tasks.task_registry import ALIASES, TASKS, task_class

from ..conftest import ROOT
from ..models.architectures import tiny_bert
from ..tasks.conftest import close, save
from ..tasks.tiny import VOCAB

TEXTS = ["so good", "the cat sat on the mat in the park .", "我爱北京天安门", "today is so bad !", "the film"]
CLASSIFY = "text-classification"
TRAINED = (
    "masked-language-modeling",
    "pre-training",
    "next-sentence-prediction",
)  # their answers are those of another task


def make(folder: Path, kind: str, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    model = getattr(glassformer, f"BertFor{kind}")(tiny_bert(vocab_size=len(VOCAB), hidden_act="gelu")).eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return save(folder, model)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    kinds = "SequenceClassification QuestionAnswering MaskedLM MultipleChoice".split()
    return {kind: make(folder / kind, kind) for kind in kinds}


@pytest.fixture(scope="module")
def folder(models) -> Path:
    return models["SequenceClassification"]


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "rows.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


def run(capsys, *arguments: object, code: int = 0) -> tuple[str, str]:
    assert main(["predict", *map(str, arguments)]) == code
    shown = capsys.readouterr()
    return shown.out, shown.err


def parsed(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def numbered(answers: list) -> list[dict]:
    return [{"row": number, "answer": answer} for number, answer in enumerate(answers)]


def test_texts_in_a_table_and_as_json(folder, capsys):
    answers = [pipeline(CLASSIFY, folder)(text)[0] for text in TEXTS[:2]]
    shown, _ = run(capsys, CLASSIFY, folder, *TEXTS[:2])
    header, *lines = shown.splitlines()
    assert header.split() == ["text", "label", "score"]
    assert lines[0].split("  ")[0] == "so good"
    assert [line.split()[-2:] for line in lines] == [[one["label"], f"{one['score']:.4f}"] for one in answers]
    close(parsed(run(capsys, CLASSIFY, folder, *TEXTS[:2], "--json")[0]), numbered(answers))


def test_texts_are_the_columns_of_one_row(models, capsys):
    reader = models["QuestionAnswering"]
    ours = parsed(run(capsys, "question-answering", reader, "who sat ?", TEXTS[1], "--json")[0])
    close(ours, numbered([pipeline("question-answering", reader)(question="who sat ?", context=TEXTS[1])]))
    ours = parsed(run(capsys, "multiple-choice", models["MultipleChoice"], "the", "cat", "dog", "film", "--json")[0])
    assert len(ours[0]["answer"]["scores"]) == 3
    errors = run(capsys, "question-answering", reader, "who sat ?", code=1)[1]
    assert "question-answering reads question, context: give a text for each, got 1" in errors


def test_options_are_checked(models, capsys):
    filled = parsed(run(capsys, "fill-mask", models["MaskedLM"], "the [MASK] sat", "--option", "top_k=3", "--json")[0])
    assert len(filled[0]["answer"]) == 3
    for option, errors in (
        ("topk=3", "did you mean 'top_k'?"),
        ("top_k", "--option takes NAME=VALUE, got 'top_k'"),
        ("top_k=none", "top_k"),
    ):
        _, report = run(capsys, "fill-mask", models["MaskedLM"], "the [MASK] sat", "--option", option, code=1)
        assert errors in report
        assert report.count("\n") == 1


def test_rows_of_files_and_of_standard_input(folder, file, tmp_path, capsys, monkeypatch):
    answers = numbered([pipeline(CLASSIFY, folder)(text)[0] for text in TEXTS])
    close(parsed(run(capsys, CLASSIFY, folder, "--input", file)[0]), answers)
    close(parsed(run(capsys, CLASSIFY, folder, "--input", file, "--batch-tokens", 8, "--device", "cpu")[0]), answers)
    table = tmp_path / "rows.csv"
    table.write_text("id,sentence\n" + "".join(f"{i},{text}\n" for i, text in enumerate(TEXTS)), encoding="utf-8")
    for column in ("sentence", "1"):
        close(parsed(run(capsys, CLASSIFY, folder, "--input", table, "--columns", f"text={column}")[0]), answers)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(file.read_bytes())))
    close(parsed(run(capsys, CLASSIFY, folder, "--input", "-")[0]), answers)
    rows = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(rows.encode())))
    close(parsed(run(capsys, CLASSIFY, folder, "--input", "-", "--format", "jsonl")[0]), answers)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(rows.encode())))
    errors = run(capsys, CLASSIFY, folder, "--input", "-")[1]
    assert "note: standard input begins with a JSON object and is read as plain text; --format jsonl reads" in errors


def test_rows_that_are_cut_are_counted(folder, tmp_path, capsys):
    long = "the " * 500
    file, output = tmp_path / "rows.txt", tmp_path / "out.jsonl"
    file.write_text(f"so good\n{long}\n{long}\n")
    note = "glass: note: 2 of 3 rows were cut to fit the model\n"
    for given in (["so good", long, long], ["--input", file], ["--input", file, "-o", output]):
        assert "truncation=true" in run(capsys, CLASSIFY, folder, *given, code=1)[1]
        for way in (["--truncation"], ["--option", "truncation=true"], ["--truncation", "--option", "top_k=2"]):
            output.unlink(missing_ok=True)
            output.with_name("out.jsonl.run.json").unlink(missing_ok=True)
            shown, report = run(capsys, CLASSIFY, folder, *given, *way)
            assert report == note
            assert (output.read_text() if "-o" in given else shown).count("rue") >= 2
    assert "a long text is read in windows" in run(capsys, "ner", folder, "a", "--truncation", code=1)[1]


def test_special_tokens_in_files_are_text(folder, models, tmp_path, capsys):
    file = tmp_path / "rows.txt"
    file.write_text("good [SEP] bad\n")
    typed = parsed(run(capsys, CLASSIFY, folder, "good [SEP] bad", "--json")[0])
    assert parsed(run(capsys, CLASSIFY, folder, "--input", file)[0]) != typed
    kept = run(capsys, CLASSIFY, folder, "--input", file, "--option", "split_special_tokens=False")[0]
    close(parsed(kept), typed)
    file.write_text("the [MASK] sat\n")  # without its mask there would be nothing to fill
    assert parsed(run(capsys, "fill-mask", models["MaskedLM"], "--input", file)[0])[0]["answer"]


def test_bad_rows_are_named_or_skipped_and_counted(folder, tmp_path, capsys):
    file, output = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    long = json.dumps({"text": "the " * 500})
    file.write_text(
        '{"text": "so good"}\n{"text": \n{"text": "so bad"}\n' + long + '\n{"text": "the film"}\n{"a": 1}\n'
    )
    shown, errors = run(capsys, CLASSIFY, folder, "--input", file, code=1)
    assert [one["row"] for one in parsed(shown)] == [0]  # rows before the bad one are answered
    assert f"{file}, line 2: " in errors
    errors = run(capsys, CLASSIFY, folder, "--input", file, "--on-bad", "skip", "--output", output)[1]
    assert [one["row"] for one in parsed(output.read_text())] == [0, 2, 4]
    assert "note: 3 rows skipped: " in errors
    assert all(f"{file}, line {line}: " in errors for line in (2, 4, 6))
    assert "pass --option truncation=true to cut it" in errors
    file.write_text(long + "\n")
    output.unlink()
    assert "not one row could be used" in run(capsys, CLASSIFY, folder, "--input", file, "--on-bad", "skip", code=1)[1]


def test_bad_rows_among_many_cost_no_other_row(folder, tmp_path, capsys):
    file, output = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    rows = [json.dumps({"text": "so good " * (1 + i % 7)}) for i in range(150)]
    too_long, damaged = {11, 12, 40, 77, 149}, {13, 41, 76, 100}
    for place in too_long:
        rows[place] = json.dumps({"text": "the " * 500})
    for place in damaged:
        rows[place] = '{"text": '
    file.write_text("\n".join(rows) + "\n")
    errors = run(capsys, CLASSIFY, folder, "--input", file, "--on-bad", "skip", "--output", output)[1]
    bad = too_long | damaged
    assert [one["row"] for one in parsed(output.read_text())] == [i for i in range(150) if i not in bad]
    assert f"note: {len(bad)} rows skipped: " in errors


def test_a_damaged_file_is_reported_after_its_readable_rows(folder, tmp_path, capsys):
    import gzip

    packed = tmp_path / "rows.txt.gz"
    packed.write_bytes(gzip.compress(os.urandom(4000).hex().encode() + b"\nso good\n" * 5000)[:-20])
    shown, errors = run(capsys, CLASSIFY, folder, "--input", packed, "--on-bad", "skip", code=1)
    assert len(parsed(shown)) > 100
    assert "damaged" in errors


def test_a_complete_result_has_no_other_file_beside_it(folder, file, tmp_path, capsys):
    output = tmp_path / "out.jsonl"
    run(capsys, CLASSIFY, folder, "--input", file, "--output", output)
    close(parsed(output.read_text()), numbered([pipeline(CLASSIFY, folder)(text)[0] for text in TEXTS]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "rows.txt"]
    assert (
        f"--output {output} --restart\n"
        in run(capsys, CLASSIFY, folder, "--input", file, "--output", output, code=1)[1]
    )
    before = output.read_bytes()
    run(capsys, CLASSIFY, folder, "--input", file, "--output", output, "--restart")
    assert output.read_bytes() == before


def test_the_summary_is_printed_as_json(folder, tmp_path, capsys):
    file, output = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    file.write_text('{"text": "so good"}\n{\n')
    arguments = (CLASSIFY, folder, "--input", file, "--output", output)
    run(capsys, *arguments, code=1)
    report = json.loads(run(capsys, *arguments, "--on-bad", "skip", "--json")[0])
    assert report == {"output": str(output), "count": 1, "skipped": 1, "resumed_at": 1}
    assert run(capsys, *arguments, "--on-bad", "skip", "--restart")[0] == f"{output}: 1 answer\n"


def interrupted(folder, file, output, capsys) -> None:
    """A run that a bad fifth row stopped."""
    run(capsys, CLASSIFY, folder, "--input", file, "--output", output, code=1)
    assert [one["row"] for one in parsed(output.read_text())] == [0, 1, 2, 3]


def test_a_stopped_run_resumes(folder, tmp_path, capsys):
    file, output, whole = tmp_path / "rows.jsonl", tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    rows = [json.dumps({"text": text}) for text in TEXTS]
    file.write_text("\n".join([*rows[:4], "{", rows[4]]) + "\n")
    interrupted(folder, file, output, capsys)
    with open(output, "ab") as part_file:
        part_file.write(b'{"row": 5, "ans')
    errors = run(capsys, CLASSIFY, folder, "--input", file, "--output", output, "--on-bad", "skip")[1]
    assert "1 row skipped" in errors
    run(capsys, CLASSIFY, folder, "--input", file, "--output", whole, "--on-bad", "skip")
    close(parsed(output.read_text()), parsed(whole.read_text()))
    assert not list(tmp_path.glob("*.run.json"))


@pytest.mark.parametrize("changed", ["input", "option", "model", "task"])
def test_a_run_with_other_settings_does_not_resume(changed, folder, tmp_path, capsys):
    file, output = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    rows = [json.dumps({"text": text}) for text in TEXTS]
    file.write_text("\n".join([*rows[:4], "{", rows[4]]) + "\n")
    interrupted(folder, file, output, capsys)
    task, model, more = CLASSIFY, folder, ["--on-bad", "skip"]
    if changed == "input":
        file.write_text(file.read_text().replace("so good", "so cool"))
    elif changed == "option":
        more += ["--option", "top_k=1"]
    elif changed == "model":
        model = make(tmp_path / "model", "SequenceClassification", seed=1)
    else:
        task = "feature-extraction"
    arguments = (task, model, "--input", file, "--output", output, *more)
    errors = run(capsys, *arguments, code=1)[1]
    assert "was started with other settings" in errors
    assert "to start again: glass predict " in errors and errors.rstrip().endswith(" --restart")
    assert len(parsed(output.read_text())) == 4
    run(capsys, *arguments, "--restart")
    assert [one["row"] for one in parsed(output.read_text())] == [0, 1, 2, 3, 5]


@pytest.mark.parametrize("more", [[], ["--on-bad", "skip"]])
def test_a_run_without_results_leaves_no_file(more, folder, tmp_path, capsys):
    file, output = tmp_path / "rows.csv", tmp_path / "out.jsonl"
    file.write_text("id,review\n1,so good\n2,so bad\n")
    arguments = (CLASSIFY, folder, "--input", file, "--output", output, *more)
    assert "to resume it" not in run(capsys, *arguments, code=1)[1]
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
    run(capsys, *arguments, "--columns", "text=review")
    assert len(parsed(output.read_text())) == 2


def test_an_output_that_cannot_be_written_is_reported_by_its_name(folder, file, capsys):
    errors = run(capsys, CLASSIFY, folder, "--input", file, "--output", "/proc/out.jsonl", code=1)[1]
    assert errors.startswith("glass: /proc/out.jsonl cannot be written: ")


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_killed_run_resumes_and_the_result_is_complete(folder, tmp_path, capsys):
    file, output = tmp_path / "rows.txt", tmp_path / "out.jsonl"
    texts = [f"{TEXTS[i % 5]} {'the ' * (i % 20)}" for i in range(6000)]
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    arguments = ["predict", CLASSIFY, str(folder), "--input", str(file), "--output", str(output)]
    glass = [sys.executable, "-m", "glassformer.cli.main", *arguments, "--tokens-per-batch", "64"]
    process = subprocess.Popen(glass, cwd=ROOT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not output.exists() or output.stat().st_size < 1000:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    held = output.read_bytes().count(b"\n")
    assert 0 < held < 6000
    assert (tmp_path / "out.jsonl.run.json").exists()
    assert main(arguments) == 0
    answers = parsed(output.read_text())
    assert [one["row"] for one in answers] == list(range(6000))
    close(answers[held - 3 : held + 3], numbered(list(pipeline(CLASSIFY, folder)(texts)))[held - 3 : held + 3])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "rows.txt"]


def test_only_one_process_writes_a_result(folder, file, tmp_path, capsys):
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / "rows.jsonl").write_text('{"text": "so good"}\n{\n')
    arguments = (CLASSIFY, folder, "--input", tmp_path / "rows.jsonl", "--output", tmp_path / "out.jsonl")
    run(capsys, *arguments, code=1)
    with open(tmp_path / "out.jsonl", "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert "is being written by another process" in run(capsys, *arguments, code=1)[1]
        other.truncate(0)  # empty, but written by another process
        assert "is being written by another process" in run(capsys, *arguments, code=1)[1]
    assert (tmp_path / "out.jsonl").exists()


def test_options_that_are_lists_or_none(folder, models, capsys):
    def read(task: str, option: str) -> object:
        return next(iter(read_options(task, [option]).values()))

    assert read("fill-mask", "targets=cat, dog") == ["cat", "dog"]
    assert read("ner", "ignore_labels=O") == ["O"]
    assert read(CLASSIFY, "top_k=none") is None
    assert read(CLASSIFY, "function_to_apply=none") == read("ner", "aggregation_strategy=none") == "none"


def test_table_lines_name_their_mask_and_texts(models, capsys):
    shown = run(capsys, "fill-mask", models["MaskedLM"], "the [MASK] sat on [MASK]", "--option", "top_k=1")[0]
    header, *lines = shown.splitlines()
    assert header.split()[:2] == ["text", "#"]
    assert [line.removeprefix("the [MASK] sat on [MASK]").split()[0] for line in lines] == ["1", "2"]
    shown = run(capsys, "question-answering", models["QuestionAnswering"], "who sat ?", "the cat sat")[0]
    assert shown.split()[:2] == ["question", "context"]
    assert "the cat sat" in shown


def test_a_limit_and_the_ids_of_rows(folder, tmp_path, capsys):
    file, output = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    file.write_text("".join(json.dumps({"id": f"n{i}", "text": text}) + "\n" for i, text in enumerate(TEXTS)))
    run(capsys, CLASSIFY, folder, "--input", file, "--output", output, "--limit", 2)
    found = parsed(output.read_text())
    assert [(one["row"], one["id"]) for one in found] == [(0, "n0"), (1, "n1")]
    assert parsed(run(capsys, CLASSIFY, folder, "--input", file, "--limit", 2)[0]) == found


def test_the_help_names_every_task():
    assert all(re.search(rf"\b{task}\b", predict.__doc__) for task in (*TASKS, *ALIASES) if task not in TRAINED)


def test_the_options_in_the_help_exist():
    report = re.search(r"Some options of tasks: (.*?)\.\n", predict.__doc__, re.S)[1]
    report = re.sub(r"\([^)]*\)", "", " ".join(report.split()))
    for part in report.split("; "):
        task, _, names = part.partition(" ")
        assert {name.strip() for name in names.split(",")} <= {*task_class(task).option_names()}, task


def test_an_unknown_column_is_reported_with_the_option_that_names_it(folder, tmp_path, capsys):
    file = tmp_path / "rows.csv"
    file.write_text("id,review\n1,so good\n")
    assert "--columns text=..." in run(capsys, CLASSIFY, folder, "--input", file, code=1)[1]
    assert parsed(run(capsys, CLASSIFY, folder, "--input", file, "--columns", "text=1")[0])


@pytest.mark.parametrize(
    ("arguments", "errors"),
    [
        ([], "give texts, or --input with a file of rows"),
        (["a", "--input", "x.txt"], "not both"),
        (["-"], "standard input is read by --input -"),
        (["--input", "x.txt", "--output", "x.csv"], "name the file .jsonl, got 'x.csv'"),
        (["a", "--output", "x"], "--output is for --input with a file of rows"),
        (["--input", "x.txt", "--restart"], "--restart is for --output with a file"),
        (["a", "--batch-tokens", "0"], "--tokens-per-batch must be 1 or more, got 0"),
        (["--input", "no.txt"], "there is no file 'no.txt'"),
        (["--input", "-", "--columns", "txet=a"], "NAME is one of text, text_pair, got 'txet', did you mean 'text'?"),
        (["a", "--device", "nowhere"], "device 'nowhere' cannot be used"),
        (["a", "--topk", "2"], "glass predict has no --topk; text-classification has top_k: --option top_k=..."),
        (["a", "--limit", "2"], "--limit is for --input with a file of rows"),
        (["--input", "x.txt", "--limit", "0"], "--limit must be 1 or more, got 0"),
    ],
)
def test_wrong_use_is_one_line(folder, arguments, errors, capsys):
    shown, report = run(capsys, CLASSIFY, folder, *arguments, code=1)
    assert errors in report
    assert report.count("\n") == 1
    assert not shown


def test_a_missing_task_is_reported(folder, capsys):
    assert f"there is no task {str(folder)!r}" in run(capsys, folder, "so good", code=1)[1]


def test_a_misspelt_task_is_reported(folder, capsys):
    assert "did you mean 'fill-mask'?" in run(capsys, "fill-masks", folder, "a", code=1)[1]


def test_an_untrained_head_does_not_answer(models, capsys):
    assert "would answer at random" in run(capsys, CLASSIFY, models["QuestionAnswering"], "so good", code=1)[1]
