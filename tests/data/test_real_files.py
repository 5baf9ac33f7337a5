"""The real files, each as it is: how many rows it is known to have, and what the first of them says."""

from __future__ import annotations

import pytest

from glassformer import count_labels, make_label2id, read_parallel, read_rows

COUNTS = {
    "sst2/train.tsv": 67_349,
    "sst2/dev.tsv": 872,
    "agnews/train.tsv": 10_001,
    "agnews/test.tsv": 7_600,
    "cola/train.tsv": 7_250,
    "cola/val.tsv": 1_301,
    "cola/dev.tsv": 1_043,
    "rte/train.tsv": 2_127,  # below a header; the rest of the 2,490 is in val.tsv, which has none
    "rte/val.tsv": 363,
    "rte/dev.tsv": 277,
    "stsb/stsb-en-train.csv": 5_749,
    "stsb/stsb-en-dev.csv": 1_500,
    "stsb/stsb-en-test.csv": 1_379,
    "stsb/stsb-zh-train.csv": 5_749,
    "stsb/stsb-zh-dev.csv": 1_500,
    "stsb/stsb-zh-test.csv": 1_379,
    "wnut17/wnut17train.conll": 3_394,
    "wnut17/emerging.dev.conll": 1_009,
    "wnut17/emerging.test.annotated": 1_287,
    "resume_ner/train.char.bmes": 3_821,
    "resume_ner/dev.char.bmes": 463,
    "resume_ner/test.char.bmes": 477,
    "chnsenticorp/train.tsv": 9_600,
    "chnsenticorp/dev.tsv": 1_200,
    "chnsenticorp/test.tsv": 1_200,
    "xquad/xquad.en.json": 1_190,
    "xquad/xquad.zh.json": 1_190,
    "cmrc2018/dev.json": 3_219,
}


@pytest.mark.parametrize("name", COUNTS)
def test_as_many_rows_as_there_are(shared, name):
    format = "conll" if name.endswith(".annotated") else None
    assert sum(1 for _ in read_rows(shared / "data" / name, format=format)) == COUNTS[name]


@pytest.mark.parametrize(
    "name, columns, first",
    [
        ("sst2/dev.tsv", {"text": "sentence"}, {"text": "it 's a charming and often affecting journey . "}),
        ("agnews/test.tsv", {"y": 1}, {"y": "Business"}),
        ("cola/train.tsv", {"id": 0, "y": 1, "mark": 2}, {"id": "gj04", "y": "1", "mark": ""}),
        ("rte/train.tsv", {"y": "label"}, {"y": "not_entailment"}),
        ("rte/val.tsv", {"i": 0}, {"i": "2"}),
        ("chnsenticorp/test.tsv", {"text": "text_a"}, {"text": "这个宾馆比较陈旧了，特价的房间也很一般。总体来说一般"}),
    ],
)
def test_first_rows(shared, name, columns, first):
    assert next(iter(read_rows(shared / "data" / name, columns=columns))) == first


def test_scores(shared):
    rows = read_rows(
        shared / "data/stsb/stsb-en-test.csv", columns={"a": 0, "b": 1, "score": 2}, types={"score": float}
    )
    scores = [row["score"] for row in rows]
    assert (min(scores), max(scores)) == (0.0, 5.0)


def test_labels_and_tags(shared):
    row = next(iter(read_rows(shared / "data/wnut17/emerging.dev.conll")))
    assert row["tokens"][:4] == ["Stabilized", "approach", "or", "not"] and set(row["tags"]) == {"O"}
    assert count_labels(read_rows(shared / "data/sst2/dev.tsv")) == {"0": 428, "1": 444}
    assert list(make_label2id(read_rows(shared / "data/agnews/test.tsv"), 1)) == [
        "Business",
        "Sci/Tech",
        "Sports",
        "World",
    ]
    tags = make_label2id(read_rows(shared / "data/wnut17/wnut17train.conll"), "tags")
    assert len(tags) == 13 and tags["O"] == 12
    assert {"B-NAME", "M-NAME", "E-NAME", "O"} <= set(make_label2id(read_rows(shared / "data/resume_ner"), "tags"))


def test_answers_stand_in_their_contexts(shared):
    for row in read_rows([shared / "data/xquad/xquad.en.json", shared / "data/xquad/xquad.zh.json"]):
        for text, start in zip(*row["answers"].values(), strict=True):
            assert row["context"][start : start + len(text)] == text
    starts = [start for row in read_rows(shared / "data/cmrc2018/dev.json") for start in row["answers"]["answer_start"]]
    assert starts.count(-1) == 193  # as the file has it: answers that do not stand in the text


def test_two_crooked_lines_of_tatoeba(shared):
    """Of its 29,155 lines, two have spaces where a tab should be."""
    rows = read_rows(shared / "data/tatoeba-cmn-eng/cmn.txt", format="tsv", columns={"en": 0, "zh": 1}, on_bad="skip")
    pairs = list(rows)
    assert pairs[0] == {"en": "Hi.", "zh": "嗨。"} and len(pairs) == 29_153
    assert [reason.partition(", ")[2] for reason in rows.skipped.reasons] == [
        "line 29: 2 fields, but line 1 has 3",
        "line 31: 2 fields, but line 1 has 3",
    ]
    assert len(pairs) + rows.skipped.count == 29_155


def test_translations(shared):
    folder = shared / "data/multi30k"
    for part, count in (("val", 1_014), ("test_2016_flickr", 1_000), ("train", 29_000)):
        rows = list(read_parallel({"source": folder / f"{part}.de", "target": folder / f"{part}.en"}))
        assert len(rows) == count
    assert rows[2] == {
        "source": "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
        "target": "A little girl climbing into a wooden playhouse.",
    }
