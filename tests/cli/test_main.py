"""The command as a whole: finding verbs, help without torch, one line for every error."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import glassformer
from glassformer.cli import main as command
from glassformer.cli.arguments import message_in
from glassformer.errors import InputError, WeightsError

from ..conftest import ROOT

GLASS = [sys.executable, "-m", "glassformer.cli.main"]
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able", "hello", "!")


@pytest.fixture
def vocabulary(tmp_path) -> Path:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(VOCABULARY) + "\n")
    return path


def test_version(capsys):
    assert command.main(["--version"]) == 0
    assert capsys.readouterr().out == f"glassformer {glassformer.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_help_lists_every_verb(arguments, capsys):
    assert command.main(arguments) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {verb} " in shown for verb in command.VERBS)


@pytest.mark.parametrize("verb", command.VERBS)
def test_each_verb_has_help_with_examples(verb, capsys):
    assert command.main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"usage: glass {verb}" in shown
    assert f"examples:\n  glass {verb}" in shown


def test_help_imports_no_torch():
    script = (
        "import sys; from glassformer.cli.main import VERBS, main\n"
        "for arguments in (['--help'], ['--version'], *([verb, '--help'] for verb in VERBS if verb != 'train')):\n"
        "    assert main(arguments) == 0\n"
        "from glassformer.train.recipes.recipe_reference import plain_sections; plain_sections()\n"  # and train's first
        "heavy = [name for name in ('torch', 'numpy', 'transformers', 'tokenizers', 'huggingface_hub')"
        " if name in sys.modules]\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def test_tokenizing_imports_no_torch(vocabulary):
    script = (
        "import sys; from glassformer.cli.main import main\n"
        f"assert main(['tokenize', {str(vocabulary)!r}, 'hello', '--explain']) == 0\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tokenise"], "glass: there is no verb 'tokenise', did you mean 'tokenize'?\n"),
        (["zzz"], f"glass: there is no verb 'zzz'; the verbs are {', '.join(command.VERBS)}\n"),
        (["--verbose"], "glass: there is no option '--verbose'"),
    ],
)
def test_a_misspelt_verb_is_reported(arguments, message, capsys):
    assert command.main(arguments) == command.MISUSED
    shown = capsys.readouterr()
    assert shown.err.startswith(message)
    assert shown.err.count("\n") == 1
    assert not shown.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tokenize", "vocab.txt", "a", "--explian"], "unrecognized options: --explian, did you mean --explain?"),
        (["predict", "ner"], "missing from glass predict: MODEL A checkpoint folder or a name on the hub."),
        (["predict", "ner", "x", "a", "--on-bad", "no"], "invalid choice 'no' for argument '--on-bad'."),
        (["predict", "ner", "x", "a", "--limit", "no"], "error parsing --limit: "),
        (["generate", "x", "a", "--set"], "missing value for argument '--set'."),
    ],
)
def test_wrong_arguments_are_reported_in_one_line(arguments, message, capsys):
    assert command.main(arguments) == command.MISUSED
    shown = capsys.readouterr()
    assert shown.err.startswith(f"glass: {message}")
    assert shown.err.endswith(f"; glass {arguments[0]} --help explains it\n")
    assert shown.err.count("\n") == 1
    assert not shown.out


def test_a_box_in_colours_or_without_a_frame_becomes_one_line():
    side, off = "\x1b[31m│\x1b[0m", "\x1b[0m"
    coloured = f"\x1b[31m╭─{off} Title ──╮\n{side} Wrong: \x1b[1m--x{off} {side}\n{side} ──────────── {side}"
    plain = " Title\n ------\n  Wrong: --x\n  ------\n  For full helptext, run glass\n"
    assert message_in(coloured) == message_in(plain) == "wrong: --x"


def test_an_error_of_many_lines_becomes_one():
    faults = "\n".join(f"  weight {i}: missing" for i in range(9))
    line = command.one_line(WeightsError(f"9 weights do not fit:\n{faults}"))
    assert line.startswith("9 weights do not fit: weight 0: missing; weight 1: missing;")
    assert line.endswith("; and 4 more")
    assert "\n" not in line
    assert command.one_line(InputError()) == "InputError"


def test_an_interrupt_ends_with_130(monkeypatch, capsys):
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", interrupted)
    assert command.main(["demo"]) == 130
    assert capsys.readouterr().err == "glass: interrupted\n"


@pytest.mark.skipif(os.name == "nt", reason="signals and pipes of POSIX")
def test_a_real_interrupt_shows_no_traceback(vocabulary):
    process = subprocess.Popen(
        [*GLASS, "tokenize", str(vocabulary), "--input", "-", "--json"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdin.write(b"hello\n" * 300)  # enough that it writes some; then it waits for more
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=30)
    assert (process.returncode, message) == (130, b"glass: interrupted\n")


@pytest.mark.skipif(os.name == "nt", reason="signals and pipes of POSIX")
def test_a_closed_pipe_is_quiet(vocabulary, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("hello unaffable!\n" * 20000)
    process = subprocess.Popen(
        [*GLASS, "tokenize", str(vocabulary), "--input", str(texts)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"hello un ##aff ##able !\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=30) == 141


def test_notes_and_warnings_are_single_lines(capsys):
    import warnings

    with command.notes_on_stderr(), warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.getLogger("glassformer").warning("the head is new")
        warnings.warn("the vocabulary has a hole", stacklevel=1)
    assert capsys.readouterr().err == "glass: note: the head is new\nglass: note: the vocabulary has a hole\n"
    log = logging.getLogger("glassformer")
    assert log.propagate
    assert not any(isinstance(handler, command.Notes) for handler in log.handlers)


def test_a_note_of_a_fault_of_ours_has_its_traceback(capsys):
    with command.notes_on_stderr():
        try:
            1 // 0  # noqa: B018
        except ZeroDivisionError:
            logging.getLogger("glassformer").exception("the page failed")
    first, *trace = capsys.readouterr().err.splitlines()
    assert first == "glass: note: the page failed"
    assert trace[0].startswith("Traceback") and trace[-1].startswith("ZeroDivisionError")


def test_only_the_first_of_several_processes_prints_notes(capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with command.notes_on_stderr():
        logging.getLogger("glassformer").warning("the head is new")
    assert capsys.readouterr().err == ""


def test_json_of_every_quick_verb_parses(vocabulary, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("hello again, hello world, hello hello again\n" * 20)
    (tmp_path / "config.json").write_text('{"model_type": "bert", "num_hidden_layers": 1}')
    for arguments in (
        ["tokenize", str(vocabulary), "hello"],
        ["inspect", str(tmp_path)],
        ["train-vocabulary", str(text), "--output", str(tmp_path / "made"), "--vocab-size", "60"],
    ):
        assert command.main([*arguments, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)
