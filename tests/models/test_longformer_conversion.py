"""A BERT or a RoBERTa made long."""

from __future__ import annotations

import logging

import pytest
import torch

import glassformer
from glassformer import to_longformer

from .architectures import tiny_bert, tiny_relative, tokens

HEADS = [
    "Model",
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
]


def model_of(kind: str, head: str) -> glassformer.PreTrainedModel:
    torch.manual_seed(0)
    config = tiny_bert() if kind == "Bert" else tiny_relative(kind, pad_token_id=1)
    model = getattr(glassformer, kind + head)(config).eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


@torch.no_grad()
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("kind", ["Bert", "Roberta"])
def test_short_texts_get_the_same_numbers(kind, head, tmp_path):
    """Whether tokens are global or not; after a round trip; and longer texts are read."""
    model = model_of(kind, head)
    long = to_longformer(model, max_length=100, attention_window=32, save_to=tmp_path)
    assert type(long).__name__ == f"Longformer{head}"
    ids = tokens(2, 12)
    ids[:, 3] = 2  # a separator
    batch = {"input_ids": ids[None] if head == "ForMultipleChoice" else ids}
    for each in (long, type(long).from_pretrained(tmp_path)):
        for ours, theirs in zip(each(**batch).to_tuple(), model(**batch).to_tuple(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    longer = tokens(1, 100).index_fill(1, torch.tensor([3]), 2)
    assert long.base_model(longer).last_hidden_state.shape == (1, 100, 48)
    table, old = (each.base_model.embeddings.position_embeddings.weight for each in (long, model))
    first = old[2 if kind == "Roberta" else 0]
    assert torch.equal(table[2 if kind == "Roberta" else 1], first)
    assert torch.equal(table[(2 if kind == "Roberta" else 1) + (38 if kind == "Roberta" else 40)], first)


def test_a_folder_keeps_its_head_and_its_tokenizer(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]))
    config = tiny_bert(vocab_size=7, num_labels=3)
    glassformer.BertForSequenceClassification(config).save_pretrained(tmp_path / "short")
    glassformer.BertTokenizer(tmp_path / "vocab.txt").save_pretrained(tmp_path / "short")
    long = to_longformer(tmp_path / "short", max_length=64, attention_window=8, save_to=tmp_path / "long")
    assert long.config.sep_token_id == 3
    assert glassformer.AutoTokenizer.from_pretrained(tmp_path / "long").model_max_length == 64
    answer = glassformer.pipeline("text-classification", model=str(tmp_path / "long"))("good bad " * 25)
    assert answer[0]["label"].startswith("LABEL_")


def test_what_cannot_be_made_long_is_refused(caplog):
    with pytest.raises(glassformer.InputError, match="GPT2Model cannot be made long"):
        to_longformer(glassformer.GPT2Model(glassformer.GPT2Config(n_layer=1, n_embd=12, n_head=2, vocab_size=9)))
    with pytest.raises(glassformer.ConfigError, match="absolute positions"):
        to_longformer(glassformer.BertModel(tiny_bert(position_embedding_type="relative_key")))
    with pytest.raises(glassformer.InputError, match="no head like that of BertForNextSentencePrediction"):
        to_longformer(glassformer.BertForNextSentencePrediction(tiny_bert()))
    with pytest.raises(glassformer.InputError, match="max_length must be"):
        to_longformer(glassformer.BertModel(tiny_bert()), max_length=0)
    with caplog.at_level(logging.WARNING):
        to_longformer(glassformer.BertForPreTraining(tiny_bert()), 64, 8)
    assert "cls.seq_relationship.weight" in caplog.text
