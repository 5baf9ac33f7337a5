"""A tokenizer explains itself."""

from __future__ import annotations

import json

import pytest

from glassformer.errors import InputError


def test_steps(small):
    explained = small.explain("Unaffable Café\u200d, [MASK] 北 zz")
    assert list(explained.ids) == small.encode("Unaffable Café\u200d, [MASK] 北 zz", add_special_tokens=False)
    first, cafe, comma = explained.stretches[0].words
    assert (first.source, first.word, first.tokens) == ("Unaffable", "unaffable", ("un", "##aff", "##able"))
    assert [a.candidate for a in first.attempts[:2]] == ["unaffable", "unaffabl"]
    assert [a.candidate for a in first.attempts if a.found] == ["un", "##aff", "##able"]
    assert cafe.source == "Café\u200d"
    assert cafe.changes == ("control characters removed", "lower-cased", "accents stripped")
    assert comma.changes == ("punctuation, a word of its own",)
    assert explained.stretches[1].special_id == 4
    chinese, unknown = explained.stretches[2].words
    assert chinese.changes == ("Chinese character, a word of its own",)
    assert unknown.tokens == ("[UNK]",)
    assert "unknown" in unknown.note


def test_report_fits_a_terminal(small):
    report = str(small.explain("Unaffable " * 3 + "q" * 90 + " 北京 [MASK] " + "x" * 150))
    assert all(len(line) <= 80 for line in report.splitlines())
    assert "##aff yes" in report
    str(small.explain("a\ud800")).encode()
    assert "cut at punctuation" in str(small.explain("fox-fox"))
    assert "(none)" in str(small.explain("  "))


def test_as_json(small):
    whole = json.loads(json.dumps(small.explain("Fox! [SEP]").to_dict()))
    assert whole["tokens"] == ["fox", "!", "[SEP]"]
    assert whole["offsets"] == [[0, 3], [3, 4], [5, 10]]
    with pytest.raises(InputError, match="must be a string"):
        small.explain(["a"])


def test_other_settings(folder):
    from glassformer.text import BertTokenizer

    for settings in ({"never_split": ["well-known"]}, {"do_basic_tokenize": False}, {"do_lower_case": False}):
        made = BertTokenizer.from_pretrained(folder, **settings)
        explained = made.explain("the well-known Fox é [MASK]")
        assert list(explained.tokens) == made.tokenize("the well-known Fox é [MASK]")
