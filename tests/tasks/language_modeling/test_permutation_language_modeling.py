"""XLNet's training: what each prediction sees, its loss, and a model that has learnt to fill masks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import glassformer
from glassformer import InputError, PermutationLanguageModeling, XLNetLMHeadModel
from glassformer.nn.loss import IGNORED
from glassformer.train.batches import Batches

from ...models.architectures import tiny_bert, tiny_xlnet

LINES = [f"{who} {does} {what} ." for who in ("cat", "dog") for does in ("sees", "has") for what in ("sun", "sea")]
ROWS = [{"text": line} for line in LINES]


@pytest.fixture(scope="module")
def tokenizer():
    return glassformer.train_tokenizer(LINES, "wordpiece", vocab_size=60)


@pytest.fixture
def task(tokenizer) -> PermutationLanguageModeling:
    torch.manual_seed(0)
    config = tiny_xlnet(vocab_size=len(tokenizer), initializer_range=0.05, dropout=0.0)
    return PermutationLanguageModeling(XLNetLMHeadModel(config), tokenizer, mask_fraction=0.5)


def batch_of(task):
    batches = Batches(task, ROWS, max_tokens=4096)
    return batches.collate(next(iter(batches))[0])


@torch.no_grad()
def test_predictions_are_those_of_the_order_one_by_one(task):
    """A prediction equals that of a text in which all that it must not see is another word."""
    batch, model = batch_of(task), task.model.eval()
    labels, order, ids = batch.labels["labels"], batch.labels["order"], batch.inputs["input_ids"]
    assert torch.equal(ids[labels != IGNORED], labels[labels != IGNORED])  # nothing is masked
    logits, indices = task.outputs(model, batch)
    assert len(logits) == int((labels != IGNORED).sum())
    for row, index in zip(logits, indices.tolist(), strict=True):
        text, place = divmod(index, ids.shape[1])
        unseen = order[text] >= order[text, place]
        changed = torch.where(unseen, (ids[text] + 7) % 30, ids[text])
        seen = batch.inputs["attention_mask"][text].bool() if "attention_mask" in batch.inputs else ids[text] >= 0
        target = F.one_hot(torch.tensor([place]), ids.shape[1])[None]
        hidden = (order[text] > 0) & (order[text][:, None] <= order[text])
        types = batch.inputs.get("token_type_ids")
        alone = model(
            changed[None],
            attention_mask=seen[None].long(),
            perm_mask=hidden[None],
            target_mapping=target,
            token_type_ids=None if types is None else types[text][None],
        )
        assert torch.allclose(alone.logits[0, 0], row, atol=1e-5)


def test_every_target_has_its_own_place_in_the_order(task):
    batch = batch_of(task)
    for labels, order in zip(batch.labels["labels"], batch.labels["order"], strict=True):
        places = order[labels != IGNORED].tolist()
        assert sorted(places) == list(range(1, len(places) + 1))
        assert not order[labels == IGNORED].clamp(min=0).any()
    again = [example.labels["order"] for example in task.training_examples(task.prepare_rows(ROWS)[0], (1, 2))]
    assert again == [example.labels["order"] for example in task.training_examples(task.prepare_rows(ROWS)[0], (1, 2))]


def test_it_learns_and_fills_masks(task, tokenizer, tmp_path):
    settings = glassformer.TrainSettings(
        output_dir=str(tmp_path), max_steps=150, learning_rate=5e-3, tokens_per_batch=64
    )
    glassformer.Trainer(task, ROWS, ROWS, settings).train()
    pipe = glassformer.pipeline("permutation-language-modeling", model=task.model, tokenizer=tokenizer)
    answers = {each["token_str"] for each in pipe(f"cat {tokenizer.mask_token} sun .", top_k=2)}
    assert answers == {"sees", "has"}


def test_other_models_are_refused(tokenizer):
    model = glassformer.BertForMaskedLM(tiny_bert(vocab_size=len(tokenizer)))
    with pytest.raises(InputError, match="takes an XLNetLMHeadModel, not a BertForMaskedLM"):
        PermutationLanguageModeling(model, tokenizer)


def test_the_order_is_random(task):
    piece = task.prepare_rows([{"text": " ".join(LINES)}])[0]
    orders = {tuple(task.training_examples(piece, (0, step))[0].labels["order"]) for step in range(5)}
    assert len(orders) == 5
    assert np.mean([max(order) for order in orders]) == pytest.approx(len(orders.pop()) / 2, abs=2)
