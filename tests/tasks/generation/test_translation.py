"""Translation and summarization: rows, losses, answers, metrics."""

from __future__ import annotations

import logging
import math

import pytest
import torch

import glassformer
from glassformer import (
    AutoModelForSeq2SeqLM,
    BertTokenizer,
    Summarization,
    TransformerConfig,
    TransformerForSeq2SeqLM,
    Translation,
    pipeline,
)
from glassformer.tasks.inference import answers
from glassformer.tasks.metrics import exact_match, rouge, translation_scores
from glassformer.train.step import take_step

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", *(f"##{letter}" for letter in "abcdefgh")]
ROWS = [
    {"source": "a b c", "target": "c b a"},
    {"source": "ab cd e f", "target": "f"},
    {"source": "h", "target": "a b c d e"},
]


@pytest.fixture
def tokenizer():
    return BertTokenizer(vocab={word: i for i, word in enumerate(WORDS)})


def tiny(words=21, **fields):
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 24}
    config = TransformerConfig(
        vocab_size=words,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        bos_token_id=2,
        eos_token_id=3,
        **shape,
        **fields,
    )
    model = TransformerForSeq2SeqLM(config).eval()
    model.fc_out.weight.data[0, 0] += 0.01  # as if it had been trained: a newly initialised model does not answer
    return model


@pytest.fixture
def task(tokenizer):
    return Translation(tiny(), tokenizer)


def batch_of(task, rows=ROWS):
    return task.collate([example for row in rows for example in task.encode(task.read(row))])


def test_a_row_becomes_a_source_and_a_target_with_its_end(task, tokenizer):
    batch = batch_of(task)
    assert batch.inputs["input_ids"].tolist()[0] == [2, 5, 6, 7, 3, 0, 0, 0]
    assert batch.labels["labels"].tolist()[0] == [7, 6, 5, 3, -100, -100]
    assert batch.inputs["decoder_input_ids"].tolist()[0][:4] == [2, 7, 6, 5]
    assert batch.inputs["decoder_attention_mask"].tolist()[0] == [1, 1, 1, 1, 0, 0]
    assert batch.targets_count == 4 + 2 + 6
    assert batch.lengths == [5 + 4, 8 + 2, 3 + 6]  # both sides count in a budget of tokens


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_every_word_alone(task, smoothing):
    task.label_smoothing = smoothing
    total = 0.0
    for row in ROWS:
        batch = batch_of(task, [row])
        source, words = batch.inputs["input_ids"], batch.labels["labels"][0].tolist()
        for place, word in enumerate(words):
            before = torch.tensor([[2, *words[:place]]])
            chances = task.model(source, decoder_input_ids=before).logits[0, -1].detach().log_softmax(-1)
            total -= (1 - smoothing) * float(chances[word]) + smoothing * float(chances.mean())
    batch = batch_of(task)
    assert task.loss(task.model, batch).item() == pytest.approx(total, rel=1e-5)
    assert task.loss(task.model, batch, "mean").item() == pytest.approx(total / 12, rel=1e-5)


def test_one_step_of_training_equals_one_written_by_hand(tokenizer):
    """Gradient descent on the mean loss of all words, computed with the plain forward and autograd alone."""
    task, by_hand = Translation(tiny(), tokenizer), tiny()
    batch = batch_of(task)
    result = take_step(task, task.model, [batch], torch.optim.SGD(task.model.parameters(), lr=0.5))
    assert result.targets == 12
    assert result.tokens == sum(batch.lengths)
    assert result.positions == 3 * (8 + 6)

    logits = by_hand(
        batch.inputs["input_ids"], batch.inputs["attention_mask"], batch.inputs["decoder_input_ids"]
    ).logits
    losses = [
        -logits[i, t].log_softmax(-1)[label]
        for i, row in enumerate(batch.labels["labels"].tolist())
        for t, label in enumerate(row)
        if label != -100
    ]
    mean = sum(losses) / len(losses)
    assert result.loss == pytest.approx(float(mean.detach()), rel=1e-5)
    mean.backward()
    for (name, ours), theirs in zip(task.model.named_parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(ours.detach(), theirs.detach() - 0.5 * theirs.grad, rtol=1e-4, atol=1e-6, msg=name)


def test_answers(task, tokenizer):
    pipe = pipeline("translation", model=task.model, tokenizer=tokenizer, max_new_tokens=5)
    (alone,) = pipe("a b c")
    assert set(alone) <= {"translation_text", "unfinished"}
    together = pipe([row["source"] for row in ROWS])
    assert together[0] == alone
    assert pipe({"source": "a b c"}) == [alone]
    ids = task.model.generate(torch.tensor([[2, 5, 6, 7, 3]]), max_new_tokens=5)[0, 1:]
    assert alone["translation_text"] == tokenizer.decode(ids, skip_special_tokens=True).strip()
    several = pipe("a b c", num_beams=3, num_return_sequences=2)
    assert len(several) == 2
    short = pipeline("summarization", model=task.model, tokenizer=tokenizer, max_new_tokens=5)
    assert short("a b c")[0]["summary_text"] == alone["translation_text"]
    assert "summary_token_ids" in short("a b c", return_tensors=True)[0]


def test_reaching_the_maximum_length_is_reported(task, tokenizer):
    pipe = pipeline("translation", model=task.model, tokenizer=tokenizer, suppress_tokens=[3])
    (answer,) = pipe("a b")
    assert answer["unfinished"]
    assert len(pipe("a b", return_tensors=True)[0]["translation_token_ids"]) == 15  # all positions of the model


def test_long_sources_are_refused_or_truncated_with_a_report(task, tokenizer):
    pipe = pipeline("translation", model=task.model, tokenizer=tokenizer, max_new_tokens=3)
    with pytest.raises(glassformer.InputError, match="20 tokens and the model takes 16; pass truncation=True"):
        pipe("a " * 18)
    (answer,) = pipe("a " * 18, truncation=True)
    assert answer["truncated"]
    with pytest.raises(glassformer.InputError, match="target has 20 tokens and the model writes 16"):
        task.encode({"source": "a", "target": "a " * 19})
    cut = task.with_options(truncation=True).encode({"source": "a", "target": "a " * 19})
    assert len(cut[0].labels["labels"]) == 16
    assert cut[0].labels["labels"][-1] == 3


def test_padding_rows_of_a_batch_are_not_reported(task, caplog):
    task.model.config.pad_token_id = task.model.generation_config.pad_token_id = None
    with caplog.at_level(logging.WARNING, "glassformer"):
        glassformer.Pipeline(task)(["a b c", "h"], max_new_tokens=3)
    assert not caplog.records


def test_bad_rows_are_reported(task):
    for row, message in (
        ("", "the source is empty"),
        ({"text": "a"}, "did you mean 'target'"),
        ({"target": "a"}, "needs source"),
        ({"source": 3}, "source must be a text"),
    ):
        with pytest.raises((glassformer.InputError, glassformer.ArgumentError), match=message):
            task.read(row)
    with pytest.raises(glassformer.InputError, match="target must be a text"):
        task.encode({"source": "a", "target": 3})
    with pytest.raises(glassformer.ArgumentError, match="did you mean 'num_beams'"):
        task.with_options(num_beam=3)


def test_a_folder_implies_its_task_and_keeps_two_vocabularies(tmp_path, tokenizer):
    letters = BertTokenizer(vocab={word: i for i, word in enumerate([*WORDS[:5], *"xyz"])})
    model = tiny(8, source_vocab_size=len(WORDS), share_embeddings=False)
    with pytest.raises(glassformer.InputError, match="reads 21 tokens and writes 8 others"):
        Translation(model, tokenizer)
    task = Translation(model, tokenizer, letters)
    assert task.encode({"source": "a", "target": "x y"})[0].labels["labels"] == [5, 6, 3]
    model.save_pretrained(tmp_path)
    task.save_processor(tmp_path)
    pipe = pipeline(model=tmp_path)
    assert pipe.task == "translation"
    said = pipe("a b", max_new_tokens=4, suppress_tokens=[0, 1, 2, 3, 4])[0]["translation_text"]
    assert set(said.split()) <= {"x", "y", "z"}
    assert type(AutoModelForSeq2SeqLM.from_pretrained(tmp_path)) is TransformerForSeq2SeqLM


def test_what_a_model_says_of_its_tasks_counts(tokenizer):
    model = tiny(task_specific_params={"summarization": {"prefix": "h ", "max_new_tokens": 2}})
    task = Summarization(model, tokenizer, suppress_tokens=[3])
    assert task.encode({"source": "a"})[0].encoded.ids() == [2, 12, 5, 3]
    assert len(task.forward(batch_of(task))[0][0][0]) == 2
    assert Translation(model, tokenizer).prefix == ""
    assert task.with_options(prefix="b ").prefix == "b "


def test_a_translator_gives_no_vectors(task, tokenizer):
    with pytest.raises(glassformer.InputError, match="feature-extraction takes an encoder or a decoder"):
        glassformer.FeatureExtraction(task.model, tokenizer)


def test_evaluation(task):
    found = glassformer.evaluate(task.with_options(max_new_tokens=4), ROWS)
    assert set(found) == {"loss", "bleu", "chrf", "exact_match", "rows"}
    assert math.isclose(found["loss"], task.loss(task.model, batch_of(task), "mean").item(), rel_tol=1e-5)
    assert found["bleu"].signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    short = glassformer.evaluate(Summarization(task.model, task.tokenizer, max_new_tokens=4), ROWS)
    assert set(short) == {"loss", "rouge1", "rouge2", "rougeL", "rows"}


def test_predictions_are_generated_from_the_encoded_rows(task, monkeypatch):
    task = task.with_options(max_new_tokens=4)
    encoded, predicted = [], []
    encode, score = Translation.encode, Translation.score_texts
    monkeypatch.setattr(Translation, "encode", lambda self, row: encoded.append(row) or encode(self, row))
    monkeypatch.setattr(
        Translation, "score_texts", lambda self, texts, right: predicted.extend(texts) or score(self, texts, right)
    )
    glassformer.evaluate(task, ROWS, tokens_per_batch=8)
    assert encoded == ROWS
    assert predicted == [answer["translation_text"] for answer in answers(task, [row["source"] for row in ROWS])]


def test_metrics_by_length(task):
    task_by_length = task.with_options(by_length=[1, 3])
    found = task_by_length.compute_metrics(["a b c", "f", "a b c d"], ["a b c", "f", "a b c d e"])
    assert found["exact_match"] == pytest.approx(2 / 3)
    assert (found["exact_match 1-1"], found["exact_match 2-3"], found["exact_match over 3"]) == (1.0, 1.0, 0.0)
    assert "exact_match over 3" not in task_by_length.compute_metrics(["a"], ["a"])
    for wrong in ([3, 1], [0], 5, ["a"]):
        with pytest.raises(glassformer.InputError, match="rising numbers of tokens"):
            task.with_options(by_length=wrong)


# --- metrics ----------------------------------------------------------------------------------------------------------


def test_bleu_and_chrf_are_sacrebleus(caplog):
    sacrebleu = pytest.importorskip("sacrebleu")
    said, due = ["the cat sat on the mat", "a dog barks"], ["the cat is on the mat", "a dog is barking"]
    found = translation_scores(said, due)
    assert found["bleu"] == sacrebleu.corpus_bleu(said, [due]).score
    assert found["chrf"] == sacrebleu.corpus_chrf(said, [due]).score
    assert "tok:none" in translation_scores(["a dog ."] * 100, ["a dog ."] * 100, "none")["bleu"].signature
    assert not caplog.records  # requested: no warning about tokenized text
    assert "tok:zh" in translation_scores(["一只狗"], ["一只猫"], "zh")["bleu"].signature
    assert translation_scores(["A Dog Is Here Now"], ["a dog is here now"], lowercase=True)["bleu"] == pytest.approx(
        100
    )
    assert exact_match(["a ", "b"], ["a", "c"]) == {"exact_match": 0.5}


def test_without_sacrebleu_the_extra_is_named_once(task, caplog, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for _ in range(2):
        assert task.compute_metrics(["a dog"], ["a cat"]) == {"exact_match": 0.0}
    (record,) = caplog.records
    assert "BLEU and chrF need sacrebleu: pip install 'glassformer[translation]'" in record.getMessage()


def test_words_without_spaces_are_reported_once(task, caplog):
    with caplog.at_level(logging.WARNING, "glassformer"):
        task.compute_metrics(["a dog"], ["a cat 猫"])
        task.with_options(bleu_tokenize="zh").compute_metrics(["一只狗"], ["一只猫"])
        assert not caplog.records
        for _ in range(2):
            task.compute_metrics(["一只狗"], ["一只猫"])
    (record,) = caplog.records
    assert "bleu_tokenize='zh' splits Chinese into characters, got 13a" in record.getMessage()


def test_rouge_by_hand():
    # said: police killed the gunman; due: police kill the gunman -> 3 of 4 words, 1 of 3 pairs, 3 in order
    found = rouge(["police killed the gunman"], ["Police kill the gunman."])
    assert found == pytest.approx({"rouge1": 3 / 4, "rouge2": 1 / 3, "rougeL": 3 / 4})
    # the same words in another order: the longest common subsequence of "the gunman kill police" is "the gunman"
    found = rouge(["the gunman kill police"], ["police kill the gunman"])
    assert found == pytest.approx({"rouge1": 1.0, "rouge2": 1 / 3, "rougeL": 1 / 2})
    assert rouge(["the the the"], ["the cat"])["rouge1"] == pytest.approx(2 * 1 / (3 + 2))  # counted once
    assert rouge(["今天 好"], ["今天很好"])["rouge1"] == pytest.approx(2 * 3 / (3 + 4))
    assert rouge([""], ["a"]) == {"rouge1": 0.0, "rouge2": 0.0, "rougeL": 0.0}


def test_a_requested_length_is_the_only_one(task, caplog):
    with caplog.at_level(logging.WARNING, "glassformer"):
        glassformer.Pipeline(task)("a b c", max_length=3)
    assert not caplog.records
