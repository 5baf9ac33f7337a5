"""SWAG, HellaSwag and Story Cloze in the columns of their files; rows that cannot be used name file and line."""

from __future__ import annotations

import json

import pytest

from glassformer import DataError, read_rows
from glassformer.data.choices import read_choices

SWAG = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
STORY = (
    "InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,"
    "RandomFifthSentenceQuiz1,RandomFifthSentenceQuiz2,AnswerRightEnding\n"
)


def rows(name):
    return [(dict(read_choices(row)), row.line) for row in read_rows(name)]


def test_swag(write):
    line = '0,anetv_1,3,He waits. He,He waits.,He,gold,"sits, bored.",flies.,melts.,sings.,1\n'
    name = write("train.csv", SWAG + line)
    choices = ["He sits, bored.", "He flies.", "He melts.", "He sings."]
    assert rows(name) == [({"prompt": "He waits.", "choices": choices, "label": "1"}, 2)]
    hidden = write("test.csv", SWAG.replace(",label", "") + line.replace(",1\n", "\n"))
    assert rows(hidden) == [({"prompt": "He waits.", "choices": choices}, 2)]


def test_story_cloze_counts_from_one(write):
    name = write("cloze.csv", STORY + "1,Rick grew up.,He had no father.,He left.,It hurt.,He changed.,He sang.,2\n")
    prompt = "Rick grew up. He had no father. He left. It hurt."
    assert rows(name) == [({"prompt": prompt, "choices": ["He changed.", "He sang."], "label": 1}, 2)]
    write("cloze.csv", STORY + "1,a.,b.,c.,d.,e.,f.,\n2,a.,b.,c.,d.,e.,f.,3\n")
    hidden, bad = read_rows(name)
    assert "label" not in read_choices(hidden)
    with pytest.raises(DataError, match=r"^cloze\.csv, line 3: 'AnswerRightEnding' must be 1 or 2, got str '3'$"):
        read_choices(bad)


def test_hellaswag_and_rows_that_are_none_of_these(write):
    one = {"ind": 4, "ctx": "A man", "endings": ["sits.", "flies."], "label": 0}
    name = write("hella.jsonl", json.dumps(one) + "\n" + json.dumps({**one, "label": ""}) + "\n")
    expected = {"prompt": "A man", "choices": ["sits.", "flies."]}
    assert rows(name) == [({**expected, "label": 0}, 1), (expected, 2)]
    ours = write("ours.jsonl", json.dumps({"prompt": "a", "choices": ["b", "c"], "sent1": "x"}))
    assert rows(ours)[0][0]["prompt"] == "a"


def test_an_ending_that_is_missing(write):
    name = write("train.csv", SWAG + "0,v,3,He waits. He,He waits.,He,gold,sits.,flies., ,sings.,1\n")
    with pytest.raises(DataError, match=r"^train\.csv, line 2: 'ending2' must be a text, got str ' '$"):
        rows(name)
