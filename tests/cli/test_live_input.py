"""Rows of standard input are answered as they come, and together if they are there together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from glassformer.cli.main import main
from glassformer.data import standard_input
from glassformer.tasks import inference

from ..conftest import ROOT
from ..train.test_evaluation_report import translation
from .test_predict import CLASSIFY, TEXTS, make, parsed

PATIENCE = 120  # seconds, on a busy machine


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("models") / "classifier", "SequenceClassification")


def start(*arguments: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "glassformer.cli.main", *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, env={**os.environ, "PYTHONPATH": str(ROOT)})


def next_line(process: subprocess.Popen) -> bytes:
    """The next line of output; the process is killed if none comes, so that the test fails and does not hang."""
    guard = threading.Timer(PATIENCE, process.kill)
    guard.start()
    try:
        return process.stdout.readline()
    finally:
        guard.cancel()


@pytest.mark.skipif(os.name == "nt", reason="pipes cannot be polled there")
def test_every_line_is_answered_when_it_has_come(folder):
    process = start("predict", CLASSIFY, folder, "--input", "-")
    for number, text in enumerate(TEXTS):
        process.stdin.write(f"{text}\n".encode())
        if number % 2:  # a part of the next line does not keep this one waiting
            process.stdin.write(b"the ")
        process.stdin.flush()
        answer = json.loads(next_line(process))
        assert answer["row"] == number and answer["answer"]["label"].startswith("LABEL_")
    process.stdin.write(b"last")  # without a line end
    process.stdin.close()
    assert json.loads(next_line(process))["row"] == len(TEXTS)
    assert process.stdout.read() == b"" and process.wait(PATIENCE) == 0, process.stderr.read()


@pytest.mark.skipif(os.name == "nt", reason="pipes cannot be polled there")
def test_answers_to_a_file_are_there_when_their_line_has_come(folder, tmp_path):
    output = tmp_path / "answers.jsonl"
    process = start("predict", CLASSIFY, folder, "--input", "-", "--format", "jsonl", "--on-bad", "skip", "-o", output)
    for row in ('{"text": "so good"}', "broken", '{"text": "so bad"}'):
        process.stdin.write(f"{row}\n".encode())
    process.stdin.flush()
    deadline = time.monotonic() + PATIENCE
    while not (output.exists() and output.read_text().count("\n") == 2) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [one["row"] for one in parsed(output.read_text())] == [0, 2] and process.poll() is None
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
    assert b"1 row skipped" in process.stderr.read()


@pytest.mark.skipif(os.name == "nt", reason="pipes cannot be polled there")
def test_every_line_is_translated_when_it_has_come(tmp_path):
    task = translation(tmp_path)
    task.model.save_pretrained(tmp_path / "model")
    task.save_processor(tmp_path / "model")
    process = start("translate", tmp_path / "model", "--max-new-tokens", 2)
    for text in ("so good", "", "the cat sat"):
        process.stdin.write(f"{text}\n".encode())
        process.stdin.flush()
        answer = next_line(process)
        assert answer.endswith(b"\n") and (text or answer == b"\n")
    process.stdin.close()
    assert process.wait(PATIENCE) == 0, process.stderr.read()


class Piped:
    """Standard input as a pipe that holds some bytes."""

    def __init__(self, data: bytes) -> None:
        self.reader, writer = os.pipe()
        os.write(writer, data)
        os.close(writer)

    def fileno(self) -> int:
        return self.reader


@pytest.mark.skipif(os.name == "nt", reason="pipes cannot be polled there")
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_rows_that_are_there_together_share_batches(folder, monkeypatch, capsys, encoding):
    given = Piped(("\n".join(TEXTS * 100) + "\n").encode(encoding))
    monkeypatch.setattr(sys, "stdin", given)
    batches = []
    collate = inference.run
    monkeypatch.setattr(
        inference, "run", lambda task, examples: batches.append(len(examples)) or collate(task, examples)
    )
    assert main(["predict", CLASSIFY, str(folder), "--input", "-", "--encoding", encoding]) == 0
    assert [one["row"] for one in parsed(capsys.readouterr().out)] == list(range(500))
    assert sum(batches) == 500 and len(batches) < 25  # not one batch for each row
    os.close(given.reader)


@pytest.mark.skipif(os.name == "nt", reason="pipes cannot be polled there")
def test_waiting_is_seen(monkeypatch):
    reader, writer = os.pipe()
    monkeypatch.setattr(sys, "stdin", type("In", (), {"fileno": lambda self: reader})())
    found = standard_input.standard_input()
    assert standard_input.would_wait()
    os.write(writer, b"one\ntw")
    assert not standard_input.would_wait() and found.readline() == b"one\n"
    assert standard_input.would_wait()  # for the rest of the line
    os.write(writer, b"o\n")
    assert not standard_input.would_wait() and standard_input.standard_input().readline() == b"two\n"
    os.close(writer)
    assert not standard_input.would_wait() and found.readline() == b""  # the end has come
    os.close(reader)


def test_a_file_does_not_wait(tmp_path, monkeypatch):
    path = tmp_path / "lines.txt"
    path.write_text("one\n")
    with open(path) as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert not standard_input.would_wait() and standard_input.standard_input() is file.buffer
