"""glass explain: scores of tokens in the terminal, as JSON and on a page, for texts and for files."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer import explain_answer, pipeline
from glassformer.cli.main import main
from glassformer.cli.output import terminal

from .test_predict import make, parsed

TEXTS = ["so good", "the cat sat on the unaffable mat"]
CLASSIFY = "text-classification"
LONG = "the cat " * 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("models") / "classifier", "SequenceClassification")


@pytest.fixture(scope="module")
def reader(tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("models") / "reader", "QuestionAnswering")


def run(capsys, *arguments: object, code: int = 0) -> tuple[str, str]:
    found = main(["explain", *map(str, arguments)])
    shown = capsys.readouterr()
    assert found == code, shown.err
    return shown.out, shown.err


@pytest.mark.parametrize("method", ["integrated-gradients", "occlusion"])
def test_scores_are_those_of_the_function(folder, capsys, method):
    pipe = pipeline(CLASSIFY, model=folder)
    expected = [explain_answer(pipe, text, method=method) for text in TEXTS]
    found = parsed(run(capsys, CLASSIFY, folder, *TEXTS, "--method", method, "--json")[0])
    for number, (ours, right) in enumerate(zip(found, expected, strict=True)):
        assert (ours["row"], ours["tokens"]) == (number, right.attribution.tokens)
        assert ours["scores"] == pytest.approx(right.attribution.scores, abs=1e-6)
        assert ours["answer"]["label"] == right.attribution.word == ours["word"]
        assert ours["sum"] == pytest.approx(sum(ours["scores"]))
        assert (ours["error"] is None) == (method == "occlusion") and ours["unreliable"] is False
    out, _ = run(capsys, CLASSIFY, folder, *TEXTS, "--method", method)
    for right in expected:
        lines = [line.split() for line in out.splitlines()]
        for place, (token, score) in enumerate(zip(right.attribution.tokens, right.attribution.scores, strict=True)):
            assert [str(place), token, f"{score:+.4f}"] in [line[:3] for line in lines]
        assert f"{method}: {right.summary}" in out and "the scores add up to" in right.summary


def test_a_question_and_its_context(reader, capsys):
    context = "john smith lives in london ."
    (found,) = parsed(run(capsys, "question-answering", reader, "who ?", context, "--json")[0])
    assert found["answer"]["answer"] == found["word"] and found["word"] in context
    (other,) = parsed(run(capsys, "question-answering", reader, "who ?", context, "--target", "john", "--json")[0])
    assert other["word"] == "john"
    assert "give a text for each, got 1" in run(capsys, "question-answering", reader, "who ?", code=1)[1]


def test_colours_are_for_terminals(folder, capsys, monkeypatch):
    assert "\x1b[" not in run(capsys, CLASSIFY, folder, "so good")[0]
    monkeypatch.setattr(terminal.sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal.print_coloured([("so", 1.0), (" good", -1.0), (" ", 0.0)])
    out = capsys.readouterr().out
    assert "so" in out and " good" in out and "\x1b[" in out


def test_rows_of_a_file_and_a_page(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("id,body\n" + "".join(f"{i},{text}\n" for i, text in enumerate(TEXTS * 2)))
    call = (CLASSIFY, folder, "--input", "rows.csv", "--columns", "text=body", "--method", "occlusion")
    out, _ = run(capsys, *call, "--limit", 3, "--page", "why.html")
    assert out.endswith("wrote why.html\n")
    page = Path("why.html").read_text()
    assert page.count("<h2>") == 3 and "occlusion: how much lower" in page and "<script" not in page
    assert [one["row"] for one in parsed(run(capsys, *call, "--json")[0])] == [0, 1, 2, 3]
    Path("rows.csv").write_text("body\n")
    assert "rows.csv holds no rows" in run(capsys, *call, code=1)[1]


def test_texts_that_are_too_long_are_refused_or_cut_with_a_report(folder, capsys):
    assert "--option truncation=true" in run(capsys, CLASSIFY, folder, LONG, code=1)[1]
    out, err = run(capsys, CLASSIFY, folder, LONG, "so good", "--truncation", "--method", "occlusion", "--json")
    assert [one.get("truncated", False) for one in parsed(out)] == [True, False]
    assert err == "glass: note: 1 of 2 rows were cut to fit the model\n"


def test_bad_scores_are_noted(folder, capsys, monkeypatch):
    from glassformer.explain.analysis import answer_explanation

    monkeypatch.setattr(answer_explanation, "TOLERATED", -1.0)
    out, err = run(capsys, CLASSIFY, folder, "so good", "--steps", 1)
    assert "do not trust the scores" in out and "note: the scores of answer 1 do not add up: off by" in err
    assert parsed(run(capsys, CLASSIFY, folder, "so good", "--steps", 1, "--json")[0])[0]["unreliable"] is True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((CLASSIFY, "absent"), "give texts, or --input with a file of rows"),
        ((CLASSIFY, "absent", "a", "--input", "b.txt"), "not both"),
        ((CLASSIFY, "absent", "a", "--limit", "3"), "--limit is for --input"),
        ((CLASSIFY, "absent", "a", "--page", "no/page.html"), "--page no/page.html: name a page"),
        (("clasify", "absent", "a"), "clasify"),
    ],
)
def test_wrong_arguments(capsys, arguments, message):
    out, err = run(capsys, *arguments, code=1)
    assert message in err and not out


def test_tasks_without_an_explanation(folder, capsys):
    err = run(capsys, "feature-extraction", folder, "so good", code=1)[1]
    assert "answers of feature-extraction are not explained" in err and err.count("\n") == 1
