"""glass search: what `SentenceEncoder.search` finds, with and without a file of vectors."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest

from glassformer import SentenceEncoder
from glassformer.cli.main import main

from .sentences import TEXTS, make_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def corpus(tmp_path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


def run(capsys, *arguments: object, code: int = 0) -> tuple[str, str]:
    assert main(["search", *map(str, arguments)]) == code
    shown = capsys.readouterr()
    return shown.out, shown.err


def found(capsys, *arguments: object) -> list[dict]:
    return json.loads(run(capsys, *arguments, "--json")[0])


def test_hits_are_those_of_the_encoder(folder, corpus, capsys):
    queries = ["the dog is good", "北京"]
    report = found(capsys, folder, corpus, *queries, "-k", 3)
    expected = SentenceEncoder.from_pretrained(folder).search(queries, TEXTS, 3)
    assert [one["query"] for one in report] == queries
    for one, hits in zip(report, expected, strict=True):
        assert [hit["row"] for hit in one["hits"]] == [hit["corpus_id"] for hit in hits]
        assert [hit["text"] for hit in one["hits"]] == [hit["text"] for hit in hits]
        assert [hit["score"] for hit in one["hits"]] == pytest.approx([hit["score"] for hit in hits], abs=1e-5)


def test_hits_are_shown_as_a_table(folder, corpus, capsys):
    (report,) = found(capsys, folder, corpus, "so good", "-k", 2)
    lines = run(capsys, folder, corpus, "so good", "-k", 2)[0].splitlines()
    assert lines[:2] == ["so good", "#   score  row  text"]
    best = report["hits"][0]
    assert lines[2].split(maxsplit=3) == ["1", f"{best['score']:.4f}", str(best["row"]), best["text"]]
    assert len(lines) == 4


def test_a_table_is_searched_by_its_column(folder, tmp_path, capsys):
    (tmp_path / "c.csv").write_text("id,title\n1,so good\n2,the film\n")
    (report,) = found(capsys, folder, tmp_path / "c.csv", "the film", "--columns", "text=title", "-k", 9)
    assert {hit["text"] for hit in report["hits"]} == {"so good", "the film"}


def test_an_index_is_created_once_and_gives_the_same_hits(folder, corpus, tmp_path, capsys):
    index = tmp_path / "corpus.npy"
    plain = found(capsys, folder, corpus, "so good")
    first = found(capsys, folder, corpus, "so good", "--index", index)
    created = index.stat().st_mtime_ns
    second = found(capsys, folder, corpus, "so good", "--index", index)
    assert index.stat().st_mtime_ns == created
    assert numpy.load(index).shape == (6, 48)
    for report in (first, second):
        assert [hit["row"] for hit in report[0]["hits"]] == [hit["row"] for hit in plain[0]["hits"]]
        assert [hit["text"] for hit in report[0]["hits"]] == [hit["text"] for hit in plain[0]["hits"]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.npy", "corpus.txt"]


def test_what_glass_embed_wrote_is_an_index(folder, corpus, tmp_path, capsys):
    index = tmp_path / "corpus.npy"
    arguments = ["embed", folder, "--input", corpus, "-o", index, "--prompt-name", "document", "--normalize"]
    assert main(list(map(str, arguments))) == 0
    capsys.readouterr()
    plain, indexed = (found(capsys, folder, corpus, "so good", *more) for more in ([], ["--index", index]))
    assert [hit["row"] for hit in indexed[0]["hits"]] == [hit["row"] for hit in plain[0]["hits"]]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("longer", "it has 6 vectors and the corpus 7 texts"),
        ("touched", "it is older than the corpus"),
        ("other texts", "its vectors are not those of these texts by this model"),
        ("other model", "its vectors are not those of these texts by this model"),
        ("narrow", "its vectors have 3 numbers and those of the model 48"),
        ("damaged", "cannot be read as a .npy file: it is damaged or not such a file\n"),
        ("whole numbers", "does not hold vectors in float32"),
    ],
)
def test_an_index_of_something_else_is_refused(spoil, message, folder, corpus, tmp_path, capsys):
    index, model = tmp_path / "corpus.npy", folder
    run(capsys, folder, corpus, "so good", "--index", index)
    state = corpus.stat()
    if spoil == "longer":
        corpus.write_text(corpus.read_text() + "more\n")
    elif spoil == "touched":
        os.utime(corpus, (state.st_atime, index.stat().st_mtime + 10))
    elif spoil == "other texts":
        corpus.write_text("\n".join(["so bad", *TEXTS[1:]]) + "\n")
        os.utime(corpus, (state.st_atime, state.st_mtime))
    elif spoil == "other model":
        model = make_encoder(tmp_path / "other", seed=1)
    elif spoil == "damaged":
        index.write_bytes(b"nothing")
    else:
        numpy.save(index, numpy.zeros((6, 3), "f4") if spoil == "narrow" else numpy.zeros((6, 48), int))
    assert message in run(capsys, model, corpus, "so good", "--index", index, code=1)[1]
    os.utime(corpus, (state.st_atime, state.st_mtime))
    assert found(capsys, model, corpus, "so good", "--index", index, "--restart")[0]["hits"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "-k", "0"], "--top-k must be 1 or more, got 0"),
        (["a", "--restart"], "--restart is for --index with a file"),
        (["a", "--index", "x.txt"], "vectors are written as a .npy file, got 'x.txt'"),
    ],
)
def test_wrong_use_is_one_line(folder, corpus, arguments, message, capsys):
    shown, report = run(capsys, folder, corpus, *arguments, code=1)
    assert message in report
    assert report.count("\n") == 1
    assert not shown


def test_a_bad_row_of_the_corpus_is_named(folder, corpus, capsys):
    corpus.write_bytes(b"so good\n\xff\n")
    assert f"{corpus}, line 2: not UTF-8" in run(capsys, folder, corpus, "so good", code=1)[1]


@pytest.mark.parametrize("more", [[], ["--index"]])
def test_a_usual_column_name_is_found(more, folder, tmp_path, capsys):
    (tmp_path / "c.csv").write_text("id,sentence\n1,so good\n2,the film\n")
    index = [tmp_path / "c.npy"] if more else []
    (report,) = found(capsys, folder, tmp_path / "c.csv", "the film", "-k", 9, *more, *index)
    assert {hit["text"] for hit in report["hits"]} == {"so good", "the film"}


# --- queries from files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "more"),
    [
        ("asked.txt", "the dog is good\n北京\n", ()),
        ("asked.jsonl", '{"id": 1, "text": "the dog is good"}\n{"id": 2, "text": "北京"}\n', ()),
        ("asked.csv", "id,asked\n1,the dog is good\n2,北京\n", ("--query-column", "asked")),
        ("asked.csv", "id,asked\n1,the dog is good\n2,北京\n", ("--query-column", "1")),
    ],
)
def test_queries_of_a_file(folder, corpus, tmp_path, capsys, name, content, more):
    (tmp_path / name).write_text(content, encoding="utf-8")
    typed = found(capsys, folder, corpus, "the dog is good", "北京", "-k", 3)
    assert found(capsys, folder, corpus, "--queries", tmp_path / name, "-k", 3, *more) == typed
    shown = run(capsys, folder, corpus, "--queries", tmp_path / name, *more)[0]
    assert shown.startswith("the dog is good\n") and "\n北京\n" in shown


def test_queries_of_standard_input_and_in_another_encoding(folder, corpus, tmp_path, capsys, monkeypatch):
    typed = found(capsys, folder, corpus, "so good", "北京")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO("so good\n北京\n".encode())))
    assert found(capsys, folder, corpus, "--queries", "-") == typed
    corpus.write_text(corpus.read_text(encoding="utf-8"), encoding="gbk")
    (tmp_path / "asked.txt").write_text("so good\n北京\n", encoding="gbk")
    assert found(capsys, folder, corpus, "--queries", tmp_path / "asked.txt", "--encoding", "gbk") == typed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give queries to search for, or --queries with a file of them\n"),
        (["a", "--queries", "asked.csv"], "--queries with a file of them, not both"),
        (["a", "--query-column", "b"], "--query-column is for --queries with a file"),
        (
            ["--queries", "asked.csv"],
            "there is no column 'text'; there is 'id', 'asked'; say which of them it is: --query-column",
        ),
        (["--queries", "asked.csv", "--query-column", "askd"], "there is no column 'askd', did you mean 'asked'?"),
        (["--queries", "empty.txt"], "empty.txt, line 2: 'text' is empty"),
        (["--queries", "absent.txt"], "there is no file 'absent.txt'"),
    ],
)
def test_wrong_queries_are_one_line(folder, corpus, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("asked.csv").write_text("id,asked\n1,so good\n")
    Path("empty.txt").write_text("so good\n\n")
    report = run(capsys, folder, corpus, *arguments, code=1)[1]
    assert message in report and report.count("\n") == 1


def test_texts_that_are_cut_are_reported_once(folder, corpus, tmp_path, capsys):
    with open(corpus, "a") as file:
        file.write("the cat " * 300 + "\n")
    plain = run(capsys, folder, corpus, "so good")[1]
    assert plain.count("\n") == 1 and "1 of 7 texts are longer than 40 tokens and were truncated; the first is" in plain
    index = ("--index", tmp_path / "corpus.npy")
    first = run(capsys, folder, corpus, "so good", *index)[1]
    assert first.count("\n") == 1 and "1 of 7 texts are longer than 40 tokens" in first
    assert run(capsys, folder, corpus, "so good", *index)[1] == ""  # that was said when it was made
