"""Batches of columns in, columns out, in whatever process; and parts that are complete or not there."""

from __future__ import annotations

import json
import multiprocessing
import pickle
from pathlib import Path

import numpy as np
import pytest

import glassformer
from glassformer.errors import DataError, InputError
from glassformer.scale.parts import PartWriter, Share, shares, start_or_resume
from glassformer.scale.predictor import EMBED, Predictor

from ..cli.test_predict import make

pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
TEXTS = ["so good", "the cat sat on the mat .", "so bad", "today", "the film"]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: make(folder / kind, kind) for kind in ("SequenceClassification", "TokenClassification")}


@pytest.fixture(scope="module")
def classifier(models) -> Path:
    return models["SequenceClassification"]


def test_answers_are_those_of_the_pipeline(classifier):
    predictor = Predictor("text-classification", classifier, columns={"text": "review"}, keep=["id"])
    found = predictor({"id": np.arange(5), "review": np.array(TEXTS, dtype=object), "other": [None] * 5})
    expected = glassformer.pipeline("text-classification", model=classifier)(TEXTS)
    assert list(found) == ["id", "label", "score"] and found["id"].tolist() == list(range(5))
    assert found["label"] == [each["label"] for each in expected]
    assert found["score"] == pytest.approx([each["score"] for each in expected], abs=1e-6)


def test_vectors_are_those_of_the_encoder(classifier):
    found = Predictor(EMBED, classifier, normalize=True)({"text": TEXTS})
    expected = glassformer.SentenceEncoder.from_pretrained(classifier).encode(TEXTS, normalize_embeddings=True)
    assert found["vector"].dtype == np.float32 and found["truncated"] == [False] * 5
    np.testing.assert_allclose(found["vector"], expected, atol=1e-6)


def test_nested_answers_are_json(models):
    found = Predictor("ner", models["TokenClassification"])({"text": TEXTS[:2]})
    pipe = glassformer.pipeline("ner", model=models["TokenClassification"])
    assert [[each["word"] for each in json.loads(row)] for row in found["answer"]] == [
        [each["word"] for each in row] for row in pipe(TEXTS[:2])
    ]


def test_a_predictor_is_small_and_works_in_another_process(classifier):
    predictor = Predictor("text-classification", classifier)
    here = predictor({"text": TEXTS})
    assert len(pickle.dumps(predictor)) < 2000  # without the model that it has loaded by now
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        (there,) = pool.map(predictor, [{"text": TEXTS}])
    assert there == here


def test_what_was_typed_is_checked_before_a_model_is_loaded(classifier):
    with pytest.raises(InputError, match="did you mean 'text-classification'"):
        Predictor("text-clasification", classifier)
    for wrong in ({"columns": {"texts": "a"}}, {"top_kk": 3}):
        with pytest.raises(TypeError, match="did you mean"):
            Predictor("text-classification", classifier, **wrong)
    with pytest.raises(InputError, match="no column text; it has review"):
        Predictor("text-classification", classifier)({"review": TEXTS})
    with pytest.raises(InputError, match="label is kept, and is a column of the answers, too"):
        Predictor("text-classification", classifier, keep=["label"])({"text": TEXTS, "label": TEXTS})


@pytest.fixture
def rows(tmp_path):
    for name, start in (("a.jsonl", 0), ("b.jsonl", 100)):
        lines = (json.dumps({"id": start + i, "text": TEXTS[i % 5]}) for i in range(25))
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return glassformer.read_rows([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])


def read(folder: Path) -> list[dict]:
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_row_is_in_one_part_whoever_writes_it(classifier, rows, tmp_path, workers):
    out = tmp_path / "out"
    start_or_resume(out, {"model": "m"}, restart=False)
    writer = PartWriter(Predictor("text-classification", classifier, keep=["id"]), rows, out, rows_per_part=10)
    work = shares(2, workers)
    assert len(work) >= min(workers, 2)
    assert sum(writer(share)["rows"] for share in work) == 50
    assert [path.name for path in sorted(out.glob("*.parquet"))] == [
        f"0000{f}-0000{p}.parquet" for f in (0, 1) for p in range(3)
    ]
    found = read(out)
    assert [row["id"] for row in found] == [*range(25), *range(100, 125)]  # in the order of the input
    assert [row["row"] for row in found] == [*range(25), *range(25)]
    assert {Path(row["file"]).name for row in found[:25]} == {"a.jsonl"}
    assert pq.read_table(out).num_rows == 50  # as other programs read such a folder
    assert sum(writer(share)["rows"] for share in work) == 0  # all is there


def test_a_run_goes_on_with_the_parts_that_are_missing(classifier, rows, tmp_path):
    out = tmp_path / "out"
    start_or_resume(out, {"model": "m"}, restart=False)
    writer = PartWriter(Predictor("text-classification", classifier, keep=["id"]), rows, out, rows_per_part=10)
    writer(Share(0))
    (out / "00000-00001.parquet").unlink()
    kept = (out / "00000-00002.parquet").stat().st_mtime_ns
    start_or_resume(out, {"model": "m"}, restart=False)
    assert writer(Share(0))["rows"] == 10
    assert (out / "00000-00002.parquet").stat().st_mtime_ns == kept
    assert [row["id"] for row in read(out)] == list(range(25))
    with pytest.raises(InputError, match='model was "m" and is "n"'):
        start_or_resume(out, {"model": "n"}, restart=False)
    start_or_resume(out, {"model": "n"}, restart=True)
    assert not list(out.glob("*.parquet"))


def test_a_bad_row_stops_with_its_place_and_keeps_the_parts_before_it(classifier, tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "so"}\n' * 12 + "{broken\n")
    out = tmp_path / "out"
    start_or_resume(out, {}, restart=False)
    writer = PartWriter(Predictor("text-classification", classifier), glassformer.read_rows(file), out, rows_per_part=5)
    with pytest.raises(DataError, match="line 13"):
        writer(Share(0))
    assert len(read(out)) == 10
