"""Explained answers: what transformers' own gradients give, what the task answers, and scores that are checked."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import glassformer
from glassformer import InputError, explain_answer, pipeline
from glassformer.explain.analysis.answer_explanation import AnswerExplanation
from glassformer.explain.pages.attribution_page import explanation_page, shades, spaced_tokens

from ..generate.tiny_gpt2 import write_tiny_gpt2
from ..models.architectures import tiny_bert
from ..tasks.conftest import save
from ..tasks.tiny import VOCAB

MASK = VOCAB.index("[MASK]")
TAGS = dict(enumerate(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]))
CONTEXT = "john smith lives in london . the cat sat on the mat ."
ROWS = {
    "SequenceClassification": "the cat sat on the unaffable mat",
    "TokenClassification": "john smith lives in london",
    "QuestionAnswering": {"question": "who lives in london ?", "context": CONTEXT},
    "MaskedLM": "the [MASK] sat on the mat",
}
TASKS = {
    "SequenceClassification": "text-classification",
    "TokenClassification": "ner",
    "QuestionAnswering": "question-answering",
    "MaskedLM": "fill-mask",
}


@pytest.fixture
def make(tmp_path):
    def make(kind: str, **fields):
        torch.manual_seed(0)
        model = getattr(glassformer, f"BertFor{kind}")(tiny_bert(vocab_size=len(VOCAB), hidden_act="gelu", **fields))
        for parameter in model.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
        return pipeline(TASKS[kind], model=save(tmp_path / kind, model.eval()))

    return make


def theirs(kind: str, pipe, ids: list[int], segments: list[int], score, steps: int) -> tuple[list[float], float]:
    """Integrated gradients by transformers, from its word vectors, and the gap to their sum."""
    transformers = pytest.importorskip("transformers")
    model = getattr(transformers, f"BertFor{kind}").from_pretrained(pipe.model.config.name_or_path).eval()
    table = model.get_input_embeddings()
    special = {VOCAB.index(token) for token in ("[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]")}
    words = table(torch.tensor([ids])).detach()
    hidden = table(torch.tensor([[i if i in special else MASK for i in ids]])).detach()
    types, total = torch.tensor([segments]), torch.zeros_like(words)
    for step in range(steps):
        vectors = (hidden + (step + 0.5) / steps * (words - hidden)).requires_grad_()
        score(model(inputs_embeds=vectors, token_type_ids=types)).backward()
        total += vectors.grad / steps
    scores = ((words - hidden) * total).sum(-1)[0]
    with torch.no_grad():
        ends = [score(model(inputs_embeds=each, token_type_ids=types)).item() for each in (words, hidden)]
    return scores.tolist(), scores.sum().item() - (ends[0] - ends[1])


@pytest.mark.parametrize("kind", ROWS)
def test_integrated_gradients_are_those_of_transformers(make, kind):
    pipe = make(kind, **({"id2label": TAGS} if kind == "TokenClassification" else {}))
    found = explain_answer(pipe, ROWS[kind], steps=20)
    task = pipe.worker
    encoded = task.encode(task.read(ROWS[kind]))[0].encoded
    ids, segments = encoded.ids(), encoded.type_ids()
    if kind == "SequenceClassification":
        number = pipe.model.config.label2id[found.answer["label"]]
        score = lambda out: out.logits[0, number]  # noqa: E731
    elif kind == "TokenClassification":
        best = max(found.answer, key=lambda each: each["score"])
        number = pipe.model.config.label2id[best["entity"]]
        score = lambda out: out.logits[0, best["index"], number]  # noqa: E731
    elif kind == "MaskedLM":
        score = lambda out: out.logits[0, ids.index(MASK)].log_softmax(-1)[found.answer[0]["token"]]  # noqa: E731
    else:
        places = [
            pair if sequence == 1 else (-1, -1)
            for sequence, pair in zip(encoded.sequences(), encoded.offsets(), strict=True)
        ]
        first = [start for start, _ in places].index(found.answer["start"])
        last = [end for _, end in places].index(found.answer["end"])
        closed = torch.tensor([sequence != 1 and place > 0 for place, sequence in enumerate(encoded.sequences())])

        def score(out):
            logs = (
                each[0].masked_fill(closed, -10_000.0).log_softmax(-1) for each in (out.start_logits, out.end_logits)
            )
            return sum(each[place] for each, place in zip(logs, (first, last), strict=True))

    scores, gap = theirs(kind, pipe, ids, segments, score, 20)
    assert found.attribution.scores == pytest.approx(scores, abs=1e-5)
    assert found.attribution.gap == pytest.approx(gap, abs=1e-5)
    assert found.attribution.tokens == pipe.tokenizer.convert_ids_to_tokens(ids)


@pytest.mark.parametrize("kind", ROWS)
def test_the_value_is_that_of_the_answer(make, kind):
    pipe = make(kind, **({"id2label": TAGS} if kind == "TokenClassification" else {}))
    found = explain_answer(pipe, ROWS[kind], method="occlusion")
    assert found.answer == pipe(ROWS[kind], top_k=1)[0] if kind == "SequenceClassification" else True
    if kind == "QuestionAnswering":
        assert math.exp(found.attribution.value) == pytest.approx(found.answer["score"], rel=1e-4)
        assert found.attribution.word == found.answer["answer"]
    elif kind == "MaskedLM":
        assert math.exp(found.attribution.value) == pytest.approx(found.answer[0]["score"], rel=1e-4)
    elif kind == "SequenceClassification":
        assert found.attribution.word == found.answer["label"]
        place = found.attribution.tokens.index("cat")
        hidden = ROWS[kind].replace("cat", "[MASK]")
        labels = {each["label"]: each["score"] for each in pipe(hidden, function_to_apply="none", top_k=None)}
        lower = found.attribution.value - labels[found.answer["label"]]
        assert found.attribution.scores[place] == pytest.approx(lower, abs=1e-5)


def test_the_next_word(tmp_path):
    pipe = pipeline("text-generation", model=write_tiny_gpt2(tmp_path))
    text = "Once upon a time there was"
    found = explain_answer(pipe, text)
    logits = pipe.model(pipe.tokenizer(text, return_tensors="pt")["input_ids"]).logits[0, -1].log_softmax(-1)
    assert found.attribution.value == pytest.approx(logits.max().item(), abs=1e-5)
    assert found.answer == {"word": found.attribution.word, "score": pytest.approx(logits.max().exp().item())}
    assert found.attribution.error < 0.01
    letter = explain_answer(pipe, text, target="a").attribution
    ids = [pipe.tokenizer.encode(spelt)[0] for spelt in ("a", " a")]
    assert letter.value == pytest.approx(logits[ids].max().item(), abs=1e-5) and letter.word.strip() == "a"
    with pytest.raises(InputError, match="target must be one token of the vocabulary, and 'glass' is gl ass"):
        explain_answer(pipe, text, target="glass")


def test_windows_of_long_texts(make):
    reader, tagger = make("QuestionAnswering"), make("TokenClassification", id2label=TAGS)
    long = "the cat sat on the mat . " * 10 + CONTEXT
    row = {"question": "who ?", "context": long}
    answer = reader(row)
    assert answer["windows"] > 3
    found = explain_answer(reader, row)
    assert found.answer == answer and found.attribution.word == answer["answer"]
    assert math.exp(found.attribution.value) == pytest.approx(answer["score"], rel=1e-4)
    other = explain_answer(reader, row, target="john smith lives").attribution
    assert other.word == "john smith lives" and other.value <= found.attribution.value and "john" in other.tokens
    nothing = pipeline("question-answering", model=reader.model, tokenizer=reader.tokenizer)
    best = nothing(row, handle_impossible_answer=True, top_k=10**6)
    null = next(each["score"] for each in best if not each["answer"])
    found = explain_answer(reader, row, target="")
    assert found.attribution.word == "(no answer)" and math.exp(found.attribution.value) == pytest.approx(
        null, rel=1e-4
    )
    entity = max((each for each in tagger(long) if "window" in each), key=lambda each: each["score"])
    found = explain_answer(tagger, long, position=entity["index"]).attribution
    assert entity["word"] in found.target and found.word == entity["entity"]


def test_targets_and_positions(make):
    classifier = make("SequenceClassification", id2label={0: "bad", 1: "good"})
    both = [explain_answer(classifier, "the film", target=name).attribution for name in ("bad", "good")]
    assert [each.word for each in both] == ["bad", "good"] and both[0].scores != both[1].scores
    filler = make("MaskedLM")
    text = "the [MASK] sat on the [MASK]"
    second = explain_answer(filler, text, target="mat", position=6).attribution
    assert second.target == "log-probability of mat at 6 ([MASK])"
    for given, message in (
        (
            (classifier, "the film", {"target": "goood"}),
            "target must be one of bad, good, got 'goood', did you mean 'go",
        ),
        ((classifier, "the film", {"position": 1}), "position is for taggers and masks; text-classification has one"),
        ((classifier, "the film", {"method": "saliencey"}), "did you mean 'saliency'"),
        ((classifier, "the film", {"steps": 0}), "steps must be a whole number of at least 1"),
        ((filler, text, {"position": 1}), "position must be that of a mask, 2, 6, got 1"),
        ((filler, text, {"target": "unaffable"}), "is 3 tokens"),
        (
            (make("QuestionAnswering"), ROWS["QuestionAnswering"], {"target": "paris"}),
            "a part of the context, got 'paris",
        ),
    ):
        with pytest.raises(InputError, match=message.replace("[", r"\[")):
            explain_answer(*given[:2], **given[2])
    with pytest.raises(InputError, match="answers of multiple-choice are not explained, those of text-classification"):
        model = glassformer.BertForMultipleChoice(tiny_bert(vocab_size=len(VOCAB)))
        explain_answer(glassformer.MultipleChoice(model, classifier.tokenizer), ("the", ["cat"]))


def test_scores_that_do_not_add_up_are_reported(make):
    classifier = make("SequenceClassification")
    for parameter in classifier.model.bert.encoder.parameters():
        parameter.data *= 3  # so that the answer changes abruptly along the path
    text = "the cat sat on the unaffable mat in new york"
    coarse = explain_answer(classifier, text, steps=1)
    assert coarse.attribution.error > 0.05 and coarse.is_unreliable
    assert "do not trust the scores" in coarse.summary and coarse.to_dict()["unreliable"]
    assert coarse.attribution.gap == pytest.approx(coarse.attribution.total - coarse.attribution.change)
    fine = explain_answer(classifier, text)
    assert fine.attribution.steps >= 32 and fine.attribution.error < coarse.attribution.error
    assert fine.attribution.error <= 0.01 or fine.attribution.steps == 512
    others = {method: explain_answer(classifier, text, method=method) for method in ("occlusion", "saliency")}
    assert "occlusion does not promise" in others["occlusion"].summary
    assert "add up to nothing" in others["saliency"].summary
    assert "warning" in explanation_page([coarse], "model")


def test_the_page_holds_every_token_and_runs_nothing(make):
    found = explain_answer(make("SequenceClassification"), "unaffable <b> cat")
    page = explanation_page([found], "<model>")
    assert "<script" not in page and "<b>" not in page and "&lt;model&gt;" in page and "style=" not in page
    assert page.count('<span class="token') == len(found.attribution.tokens)
    assert [text for _, text in spaced_tokens(found.attribution)][1:4] == ["un", "aff", "able"]
    assert max(map(int, (shade[1:] for shade in shades(found.attribution) if shade))) == 10
    flat = replace(found.attribution, scores=[0.0] * len(found.attribution.scores))
    assert explanation_page([AnswerExplanation("text-classification", None, flat)], "model").count('"token "')
