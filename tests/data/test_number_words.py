"""Numbers and dates in words, against readings that people know."""

from __future__ import annotations

import importlib.util

import pytest

from glassformer import read_rows
from glassformer.data.number_words import (
    date_in_chinese,
    date_in_english,
    number_in_chinese,
    number_in_english,
    number_word_pairs,
    pairs_of,
)

from ..conftest import ROOT


@pytest.mark.parametrize(
    ("number", "english", "chinese"),
    [
        (0, "zero", "零"),
        (10, "ten", "十"),
        (14, "fourteen", "十四"),
        (40, "forty", "四十"),
        (101, "one hundred and one", "一百零一"),
        (110, "one hundred and ten", "一百一十"),
        (1001, "one thousand and one", "一千零一"),
        (1010, "one thousand and ten", "一千零一十"),
        (1100, "one thousand one hundred", "一千一百"),
        (10_000, "ten thousand", "一万"),
        (10_010, "ten thousand and ten", "一万零一十"),
        (100_000, "one hundred thousand", "十万"),
        (120_034, "one hundred and twenty thousand and thirty four", "十二万零三十四"),
        (305_000, "three hundred and five thousand", "三十万五千"),
        (999_999, "nine hundred and ninety nine thousand nine hundred and ninety nine", "九十九万九千九百九十九"),
    ],
)
def test_numbers(number, english, chinese):
    assert number_in_english(number) == english
    assert number_in_chinese(number) == chinese


@pytest.mark.parametrize(
    ("date", "english", "chinese"),
    [
        ((1984, 3, 3), "the third of march nineteen eighty four", "一九八四年三月三日"),
        ((1900, 1, 20), "the twentieth of january nineteen hundred", "一九零零年一月二十日"),
        ((1905, 12, 12), "the twelfth of december nineteen oh five", "一九零五年十二月十二日"),
        ((2000, 2, 29), "the twenty ninth of february two thousand", "二零零零年二月二十九日"),
        ((2007, 10, 31), "the thirty first of october two thousand and seven", "二零零七年十月三十一日"),
        ((2026, 11, 30), "the thirtieth of november twenty twenty six", "二零二六年十一月三十日"),
    ],
)
def test_dates(date, english, chinese):
    assert date_in_english(*date) == english
    assert date_in_chinese(*date) == chinese


def test_every_form_of_a_meaning():
    assert [pair[:2] for pair in pairs_of((101,))] == [
        ("one hundred and one", "一百零一"),
        ("one hundred one", "一百零一"),
        ("一百零一", "one hundred and one"),
    ]
    forms = [pair.source for pair in pairs_of((1984, 3, 3))]
    assert forms[1:3] == ["march the third nineteen eighty four", "march third nineteen eighty four"]


def test_evaluation_meanings_are_never_trained():
    learnt, judged = number_word_pairs(300, 60)
    assert len(judged) == 60
    assert not {pair.meaning for pair in learnt} & {pair.meaning for pair in judged}
    assert {(n,) for n in range(100)} <= {pair.meaning for pair in learnt}
    assert len({pair.meaning for pair in learnt}) == 400
    assert number_word_pairs(300, 60) == (learnt, judged)
    assert number_word_pairs(300, 60, seed=1) != (learnt, judged)
    assert any(pair.source.isascii() for pair in judged)
    assert any(pair.target.isascii() for pair in judged)


def test_lists_of_numbers_are_of_all_lengths_and_none_is_in_both_parts(tmp_path):
    spec = importlib.util.spec_from_file_location("make_number_lists", ROOT / "scripts/make_number_lists.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.PARTS, script.LENGTHS = {"test": 60, "train": 100}, range(1, 3)  # of 100 lists of one, 80 are wanted
    script.main(str(tmp_path))
    judged, learnt = ([tuple(row.values()) for row in read_rows(tmp_path / f"{part}.tsv")] for part in script.PARTS)
    assert len({*judged, *learnt}) == 160
    words = {number_in_english(number): number_in_chinese(number) for number in range(100)}
    for rows in (judged, learnt):
        assert sum("," in source for source, _ in rows) == len(rows) / 2
        assert all("、".join(words[word] for word in source.split(", ")) == target for source, target in rows)
