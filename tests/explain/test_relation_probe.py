"""Which heads link related words: shares by hand, the baseline of position, own sentences, the verb and its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer import BertModel, Subject, probe_relations
from glassformer.cli.main import main
from glassformer.explain.analysis import relation_probe as probe
from glassformer.explain.analysis.relation_probe import AnnotatedSentence, Link

from ..generate.tiny_gpt2 import write_tiny_gpt2
from ..models.architectures import tiny_bert
from ..tasks.conftest import save
from ..tasks.tiny import VOCAB

CAT = AnnotatedSentence(("the", "cat", "sat", "on", "the", "mat"), (Link("subject", 2, 1), Link("place", 2, 5)))
PLAYED = AnnotatedSentence(("so", "the", "dog", "played", "."), (Link("subject", 3, 2),))


@pytest.fixture
def folder(tmp_path) -> Path:
    torch.manual_seed(0)
    return save(tmp_path / "model", BertModel(tiny_bert(vocab_size=len(VOCAB))).eval())


@pytest.fixture
def subject(folder) -> Subject:
    return Subject.load(folder)


def write(path: Path, rows: list) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def test_pieces_of_words_are_joined():
    """Attention to a word is the sum over its pieces, from a word the mean."""
    weights = torch.tensor([[[0.0, 0.6, 0.1, 0.3], [0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.2, 0.2], [0.1, 0.2, 0.3, 0.4]]])
    owns = torch.tensor([[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])  # the first token is special
    found = probe.word_attention(weights, owns)[0]
    expected = torch.tensor([[(0.2 + 0.3 + 0.1 + 0.2) / 2, (0.4 + 0.2) / 2], [0.2 + 0.3, 0.4]])
    torch.testing.assert_close(found, expected)


def test_the_strongest_other_word():
    attention = torch.tensor([[[0.9, 0.02, 0.05], [0.0, 0.9, 0.0], [0.3, 0.2, 0.5]]])
    assert probe.strongest(attention).tolist() == [[2, -1, 0]]


def test_words_know_their_tokens(subject):
    text, spans = probe.joined(PLAYED.words)
    assert text == "so the dog played."
    tokens = subject.encode(text).tokens
    owners = probe.word_of_tokens(subject, text, spans)
    assert list(zip(tokens, owners, strict=True)) == [
        *(("[CLS]", -1), ("so", 0), ("the", 1), ("dog", 2), ("play", 3), ("##ed", 3), (".", 4), ("[SEP]", -1)),
    ]
    assert probe.joined(["我", "爱", "北京", "。"])[0] == "我爱北京。"
    assert probe.joined(["a", "(", "b", ")", "，", "c"])[0] == "a (b)，c"


@torch.no_grad()
def test_shares_are_those_of_the_models_weights(subject):
    """Every head's strongest word, from the weights that the model returns."""
    found = probe_relations(subject, [CAT, PLAYED])
    hits: dict = {}
    for text, groups, links in (
        ("the cat sat on the mat", [[1], [2], [3], [4], [5], [6]], [("subject", 2, 1), ("place", 2, 5)]),
        ("so the dog played.", [[1], [2], [3], [4, 5], [6]], [("subject", 3, 2)]),
    ):
        out = subject.model(**subject.tokenizer(text, return_tensors="pt"), output_attentions=True)
        for layer, weights in enumerate(out.attentions):
            for head in range(4):
                for relation, word, related in links:
                    sums = [sum(float(weights[0, head, i, j]) for i in groups[word] for j in group) for group in groups]
                    sums[word] = -1.0
                    hits.setdefault((relation, layer, head), []).append(sums.index(max(sums)) == related)
    for score in found.scores:
        for (layer, head), share in score.shares.items():
            expected = hits[score.relation, layer, head]
            assert share == pytest.approx(sum(expected) / len(expected))
    assert [(score.relation, score.cases) for score in found.scores] == [("subject", 2), ("place", 1)]
    assert found.sentences == 2 and found.left_out == []


def case(sentence: int, offsets: set[int], *hits: bool) -> probe.Case:
    return probe.Case(sentence, frozenset(offsets), torch.tensor(hits))


def test_a_head_counts_if_it_beats_the_best_offset():
    cases = [
        case(0, {-1}, True, False),
        case(1, {-1, 3}, True, True),
        case(2, {3}, True, False),
        case(3, {2}, False, True),
    ]
    score = probe.score_of("subject", cases, [(0, 0), (0, 1)])
    assert (score.offset, score.position) == (-1, 0.5)
    assert score.shares == {(0, 0): 0.75, (0, 1): 0.5}
    assert score.best == (0, 0) and score.beyond_position == [(0, 0)]
    # even sentences choose head 0 and offset -1, right once in the odd ones; these choose head 1 and offset -1
    assert (score.held_out, score.held_out_position) == ((1 + 0) / 4, (1 + 1) / 4)
    assert probe.score_of("subject", cases[::2], [(0, 0), (0, 1)]).held_out is None


def test_several_related_words_are_one_case():
    sentence = AnnotatedSentence(("a", "b", "c"), (Link("modifier", 2, 0), Link("modifier", 2, 1)))
    assert sentence.cases == {("modifier", 2): {0, 1}}


def test_the_built_in_sentences():
    found = {language: probe.read_relation_sentences(language=language) for language in probe.LANGUAGES}
    assert (len(found["en"]), len(found["zh"])) == (70, 14)
    for sentences in found.values():
        relations = [link.relation for sentence in sentences for link in sentence.links]
        assert set(relations) <= set(probe.RELATIONS)
        assert len({(sentence.words, link) for sentence in sentences for link in sentence.links}) == len(relations)
    pairs = {
        (link.relation, sentence.words[link.word], sentence.words[link.related])
        for sentence in (*found["en"], *found["zh"])
        for link in sentence.links
    }
    assert {("pronoun", "it", "animal"), ("subject", "barked", "dog"), ("pronoun", "它", "猫")} <= pairs


def test_a_decoder_sees_what_came_before(tmp_path):
    subject = Subject.load(write_tiny_gpt2(tmp_path))
    words = ("Once", "upon", "a", "time")
    forward = AnnotatedSentence(words, (Link("later", 0, 3), Link("earlier", 1, 0)))
    later, earlier = probe_relations(subject, [forward]).scores
    assert set(later.shares.values()) == {0.0} and set(earlier.shares.values()) == {1.0}


def test_a_sentence_with_unknown_words_is_left_out(subject):
    strange = AnnotatedSentence(("the", "zebra", "sat"), (Link("subject", 2, 1),), "x.jsonl, line 3")
    found = probe_relations(subject, [CAT, strange])
    assert found.sentences == 1 and found.left_out == ["x.jsonl, line 3: the tokenizer does not know 'zebra'"]
    with pytest.raises(glassformer.InputError, match=r"no sentence could be used: x\.jsonl, line 3"):
        probe_relations(subject, [strange])


def test_the_real_model_finds_the_noun_of_a_pronoun(minilm):
    sentences = probe.read_relation_sentences()[:12]
    score = next(each for each in probe_relations(Subject.load(minilm), sentences).scores if each.relation == "pronoun")
    assert score.shares[1, 3] > score.position + 0.2


# --- glass heads ------------------------------------------------------------------------------------------------------


ROWS = [
    {"words": [*CAT.words], "links": [{"relation": "subject", "from": 2, "to": 1}], "language": "en"},
    {"words": ["我", "爱", "北", "京"], "links": [{"relation": "object", "from": 3, "to": 1}], "language": "zh"},
]


def test_the_verb(folder, tmp_path, capsys):
    file, page = write(tmp_path / "own.jsonl", ROWS), tmp_path / "heads.html"
    assert main(["heads", str(folder), "--input", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["relation"], each["cases"]) for each in found["relations"]] == [("subject", 1), ("object", 1)]
    assert [each[:2] for each in found["relations"][0]["heads"]] == [[i, j] for i in range(3) for j in range(4)]
    assert main(["heads", str(folder), "--input", str(file), "--language", "zh", "-o", str(page)]) == 0
    shown = capsys.readouterr().out
    assert "object" in shown and "subject" not in shown and f"wrote {page}" in shown
    text = page.read_text(encoding="utf-8")
    assert "object: 1 case, position 1.00 (-2)" in text and text.count("<rect") == 12 and "http-equiv" in text


def test_a_pruned_head_has_no_share(folder, tmp_path, capsys):
    model = BertModel.from_pretrained(folder)
    model.prune_heads({1: [0, 3]})
    save(tmp_path / "small", model)
    file, page = write(tmp_path / "own.jsonl", ROWS), tmp_path / "heads.html"
    assert main(["heads", str(tmp_path / "small"), "--input", str(file), "-o", str(page), "--json"]) == 0
    heads = json.loads(capsys.readouterr().out)["relations"][0]["heads"]
    assert [each[1] for each in heads if each[0] == 1] == [1, 2]
    assert page.read_text(encoding="utf-8").count("<rect") == 2 * 10


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"words": []}, "own.jsonl, line 1: 'words' is empty"),
        ({"words": [1, "b"]}, "own.jsonl, line 1: words must be a list of words"),
        ({"words": ["a ", "b"]}, "without spaces around them"),
        (
            {"links": [{"relation": "subject", "from": 2}]},
            'line 1: a link is {"relation": ..., "from": ..., "to": ...}',
        ),
        ({"links": [{"relation": "", "from": 2, "to": 1}]}, "a relation is a name, got ''"),
        ({"links": [{"relation": "subject", "from": 2, "to": 6}]}, "words are numbered 0 to 5, got 6"),
        ({"links": [{"relation": "subject", "from": 2, "to": 2}]}, "word 2 (sat) is linked to itself"),
        ({"links": []}, "line 1: 'links' is empty"),
        ({"words": ["zebra", "cat", "sat"]}, "the tokenizer does not know 'zebra'"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(change, said, folder, tmp_path, capsys):
    file = write(tmp_path / "own.jsonl", [{**ROWS[0], **change}])
    assert main(["heads", str(folder), "--input", str(file)]) == 1
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1


def test_wrong_use_is_one_line(folder, tmp_path, capsys):
    for arguments, said in (
        (["-o", str(tmp_path)], "name a page"),
        (["--language", "zn"], "sentences in en and zh, got 'zn'"),
        (
            ["--input", str(write(tmp_path / "own.jsonl", ROWS)), "--language", "de"],
            "no sentence whose language is 'de'",
        ),
    ):
        assert main(["heads", str(folder), *arguments]) == 1
        told = capsys.readouterr().err
        assert said in told and told.count("\n") == 1


def test_an_encoder_decoder_is_refused(tmp_path, capsys):
    from ..models.encoder_decoders import tiny_transformer

    model = glassformer.TransformerForSeq2SeqLM(
        tiny_transformer(vocab_size=len(VOCAB), bos_token_id=2, eos_token_id=3, decoder_start_token_id=2)
    )
    model.save_pretrained(tmp_path)
    glassformer.BertTokenizer(vocab={word: i for i, word in enumerate(VOCAB)}).save_pretrained(tmp_path)
    assert main(["heads", str(tmp_path)]) == 1
    assert "is an encoder-decoder" in capsys.readouterr().err
