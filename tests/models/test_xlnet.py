"""XLNet beside transformers: both streams, permutations, memory, segments, heads; and what it generates."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import glassformer
from glassformer import XLNetConfig, XLNetForQuestionAnswering, XLNetLMHeadModel, XLNetModel

from .architectures import XLNET, tiny_xlnet, tokens

BATCH, LENGTH = 3, 7
HEADS = ("Model", "LMHeadModel", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnsweringSimple")
FLAGS = {"output_hidden_states": True, "output_attentions": True}


@pytest.fixture(autouse=True)
def exact_positions(monkeypatch):
    """The reference casts positions to the type of the weights in the first stream only."""
    module = pytest.importorskip("transformers.models.xlnet.modeling_xlnet")
    made = module.XLNetModel.relative_positional_encoding
    monkeypatch.setattr(
        module.XLNetModel,
        "relative_positional_encoding",
        lambda self, *args, **kw: made(self, *args, **kw).to(self.dtype),
    )


def pair(kind: str, folder, **fields: Any) -> tuple[torch.nn.Module, torch.nn.Module]:
    torch.manual_seed(0)
    ours = getattr(glassformer, f"XLNet{kind}")(tiny_xlnet(**fields)).double().eval()
    ours.save_pretrained(folder)
    return ours, XLNET.reference.load(f"XLNet{kind}", folder)


def flat(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else [each for part in value for each in flat(part)]


def assert_alike(ours: Any, theirs: Any, seen: torch.Tensor | None = None) -> None:
    assert list(ours.keys()) == list(theirs.keys())
    for name, value in ours.items():
        for a, b in zip(flat(value), flat(theirs[name]), strict=True):
            if seen is not None and a.shape[:2] == seen.shape:
                a, b = a[seen], b[seen]
            elif seen is not None and name == "attentions":
                a, b = a.transpose(1, 2)[seen], b.transpose(1, 2)[seen]
            torch.testing.assert_close(a, b.to(a.dtype), rtol=1e-10, atol=1e-10, msg=lambda m, n=name: f"{n}: {m}")


def left_padded() -> dict[str, torch.Tensor]:
    lengths = torch.tensor([7, 4, 2])
    mask = (torch.arange(LENGTH) >= LENGTH - lengths[:, None]).long()
    types = torch.tensor([[0, 0, 0, 1, 1, 1, 2], [4, 4, 4, 0, 1, 1, 2], [4, 4, 4, 4, 4, 0, 2]])
    return {"input_ids": tokens(BATCH, LENGTH) * mask, "attention_mask": mask, "token_type_ids": types}


def permuted() -> dict[str, torch.Tensor]:
    """An order of the tokens for each sequence; two predictions in each."""
    order = torch.stack([torch.randperm(LENGTH) for _ in range(BATCH)])
    hidden = (order[:, :, None] <= order[:, None, :]).long()  # a token sees those before it in the order
    targets = torch.zeros(BATCH, 2, LENGTH).double()
    for row in range(BATCH):
        targets[row, 0, int(order[row].argmax())] = 1
        targets[row, 1, int(order[row].argmin())] = 1  # the first in the order: it sees nothing
    return {"perm_mask": hidden.float(), "target_mapping": targets}


def labels_of(kind: str) -> dict[str, torch.Tensor]:
    return {
        "Model": {},
        "LMHeadModel": {"labels": tokens(BATCH, LENGTH)},
        "ForSequenceClassification": {"labels": torch.tensor([1, 0, 1])},
        "ForTokenClassification": {"labels": torch.randint(0, 2, (BATCH, LENGTH))},
        "ForQuestionAnsweringSimple": {
            "start_positions": torch.tensor([6, 3, 9]),
            "end_positions": torch.ones(3).long(),
        },
    }[kind]


@torch.no_grad()
@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("use_mems", [None, True, False])
def test_heads_with_segments_and_left_padding(kind, use_mems, tmp_path):
    ours, theirs = pair(kind, tmp_path)
    batch = {**left_padded(), "use_mems": use_mems}
    if use_mems is None:  # by default a padded batch leaves no memory
        del batch["attention_mask"]
    labels = labels_of(kind)
    seen = batch.get("attention_mask", torch.ones(BATCH, LENGTH)).bool()
    if kind == "ForTokenClassification":
        labels["labels"] = labels["labels"].masked_fill(~seen, -100)
    assert_alike(ours(**batch, **labels, **FLAGS), theirs(**batch, **labels, **FLAGS), None if use_mems else seen)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["Model", "LMHeadModel"])
@pytest.mark.parametrize("padded", [True, False])
def test_two_streams(kind, padded, tmp_path):
    ours, theirs = pair(kind, tmp_path)
    batch = {**(left_padded() if padded else {"input_ids": tokens(BATCH, LENGTH)}), **permuted()}
    labels = {"labels": tokens(BATCH, 2)} if kind == "LMHeadModel" else {}
    ours_out, theirs_out = (model(**batch, **labels, **FLAGS) for model in (ours, theirs))
    assert len(ours_out.hidden_states) == 8 and len(ours_out.attentions[0]) == 2
    assert_alike(ours_out, theirs_out)
    soft = {**batch, "target_mapping": torch.rand(BATCH, 4, LENGTH).double()}  # any mapping, not only of one token each
    assert_alike(ours(**soft), theirs(**soft))


@torch.no_grad()
@pytest.mark.parametrize("fields", [{}, {"mem_len": 5}, {"mem_len": 9, "reuse_len": 2}, {"clamp_len": 3}], ids=str)
def test_memory(fields, tmp_path):
    """Three parts of a text, one after the other, each with what the last call remembered; then two streams."""
    ours, theirs = pair("Model", tmp_path, **fields)
    memory: Any = None
    for part in range(3):
        batch = {"input_ids": tokens(BATCH, LENGTH), "token_type_ids": torch.randint(0, 3, (BATCH, LENGTH))}
        if part == 2:
            batch |= permuted()
        results = [model(**batch, mems=memory, use_mems=True, **FLAGS) for model in (ours, theirs)]
        assert_alike(*results)
        memory = results[0].mems


@torch.no_grad()
def test_memory_is_what_a_causal_model_would_compute_again(tmp_path):
    ours, theirs = pair("Model", tmp_path, attn_type="uni", mem_len=None)
    ids = tokens(2, 12)
    whole = ours(ids)
    assert_alike(whole, theirs(ids))
    first = ours(ids[:, :5])
    second = ours(ids[:, 5:], mems=first.mems)
    torch.testing.assert_close(second.last_hidden_state, whole.last_hidden_state[:, 5:], rtol=1e-10, atol=1e-10)
    for a, b in zip(second.mems, whole.mems, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
    padded = torch.cat((torch.zeros(2, 3).long(), ids), 1)
    mask = torch.cat((torch.zeros(2, 3).long(), torch.ones_like(ids)), 1)
    out = ours(padded, attention_mask=mask)
    torch.testing.assert_close(out.last_hidden_state[:, 3:], whole.last_hidden_state, rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_causal_with_equal_lengths(tmp_path):
    ours, theirs = pair("Model", tmp_path, attn_type="uni", same_length=True)
    memory: Any = None
    for _ in range(2):
        ids = tokens(BATCH, LENGTH)
        results = [model(ids, mems=memory, use_mems=True, **FLAGS) for model in (ours, theirs)]
        assert_alike(*results)
        memory = results[0].mems


@torch.no_grad()
def test_input_mask_and_vectors(tmp_path):
    ours, theirs = pair("Model", tmp_path)
    batch = left_padded()
    seen = batch["attention_mask"].bool()
    given = {"input_mask": 1.0 - batch["attention_mask"], "inputs_embeds": torch.randn(BATCH, LENGTH, 48).double()}
    assert_alike(ours(**given, use_mems=False), theirs(**given, use_mems=False), seen)
    with pytest.raises(glassformer.InputError, match="either attention_mask or input_mask"):
        ours(**batch, input_mask=given["input_mask"])


@torch.no_grad()
@pytest.mark.parametrize("kind", ["bert", "mean", "first", "cls_index"])
def test_kinds_of_summaries(kind, tmp_path):
    fields = {"summary_use_proj": False} if kind == "bert" else {"summary_type": kind, "summary_activation": "relu"}
    ours, theirs = pair("ForSequenceClassification", tmp_path, num_labels=3, **fields)
    ids = tokens(BATCH, LENGTH)
    assert_alike(ours(ids), theirs(ids))
    right = left_padded()["attention_mask"].flip(1)
    for row in range(BATCH):  # a text padded on the right reads its own last token
        alone = ours(ids[row][right[row].bool()][None]).logits[0]
        assert torch.allclose(ours(ids, attention_mask=right).logits[row], alone)


@torch.no_grad()
def test_choices(tmp_path):
    ours, theirs = pair("ForMultipleChoice", tmp_path)
    batch = {name: value[None] for name, value in left_padded().items()}
    labels = torch.tensor([2])
    assert_alike(ours(**batch, labels=labels, use_mems=True), theirs(**batch, labels=labels, use_mems=True))


@torch.no_grad()
def test_answers_by_beams(tmp_path):
    ours, theirs = pair("ForQuestionAnswering", tmp_path, start_n_top=3, end_n_top=2)
    for p_mask in (None, (torch.arange(LENGTH) > 4).double().repeat(BATCH, 1)):
        batch = {**left_padded(), "p_mask": p_mask, "use_mems": True}
        for more in ({}, {"cls_index": torch.tensor([6, 5, 6])}):
            assert_alike(ours(**batch, **more), theirs(**batch, **more))
    given = {"start_positions": torch.tensor([3, 4, 6]), "end_positions": torch.tensor([5, 4, 6])}
    given |= {"is_impossible": torch.tensor([0.0, 1.0, 0.0]).double(), "cls_index": torch.tensor([6, 5, 6])}
    batch = {**left_padded(), "use_mems": False}
    assert_alike(ours(**batch, **given), theirs(**batch, **given))
    small = {name: value.to(torch.uint8) if name.endswith("positions") else value for name, value in given.items()}
    assert_alike(ours(**batch, **small), ours(**batch, **given))
    with pytest.raises(glassformer.InputError, match="too short for beams of 3 starts"):
        ours(tokens(1, 2))


@pytest.mark.parametrize("kind", ["LMHeadModel", "ForQuestionAnswering"])
def test_gradients_equal_those_of_transformers(kind, tmp_path):
    ours, theirs = pair(kind, tmp_path, dropout=0.0, summary_last_dropout=0.0)
    batch = left_padded()
    if kind == "LMHeadModel":
        batch |= {**permuted(), "labels": tokens(BATCH, 2)}
    else:
        batch |= {"start_positions": torch.tensor([3, 4, 6]), "end_positions": torch.tensor([5, 4, 6])}
        batch |= {"is_impossible": torch.tensor([0.0, 1.0, 0.0]).double(), "cls_index": torch.tensor([6, 5, 6])}
    for model in (ours, theirs):
        model.train()
        model(**batch).loss.backward()
    gradients = {name: p.grad for name, p in theirs.named_parameters() if p.grad is not None}
    mine = {name: p.grad for name, p in ours.named_parameters() if p.grad is not None}
    written = ours.keymap.to_file(mine, prefixed=True, config=ours.config)
    assert written.keys() == gradients.keys()
    for name, gradient in written.items():
        torch.testing.assert_close(gradient, gradients[name], rtol=1e-9, atol=1e-10, msg=lambda m, n=name: f"{n}: {m}")


@torch.no_grad()
def test_pruned_heads_with_segments_and_predictions(tmp_path):
    ours, _ = pair("LMHeadModel", tmp_path)
    batch = {**left_padded(), **permuted()}
    mask = torch.ones(3, 4)
    mask[0, 1] = mask[2, 0] = mask[2, 3] = 0
    masked = ours(**batch, head_mask=mask).logits
    ours.prune_heads({0: [1], 2: [0, 3]})
    assert torch.allclose(ours(**batch).logits, masked, atol=1e-10)
    ours.save_pretrained(tmp_path / "pruned")
    again = XLNetLMHeadModel.from_pretrained(tmp_path / "pruned", dtype=torch.float64)
    assert torch.allclose(again(**batch).logits, masked, atol=1e-10)


@torch.no_grad()
def test_it_generates_what_transformers_does(tmp_path):
    ours, theirs = (model.float() for model in pair("LMHeadModel", tmp_path, use_mems_eval=False))
    ids = tokens(1, 5)
    settings = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    alone = ours.generate(ids, **settings)
    assert torch.equal(alone, theirs.generate(ids, **settings))
    beams = {**settings, "num_beams": 3, "num_return_sequences": 2}
    assert torch.equal(ours.generate(ids, **beams), theirs.generate(ids, **beams))
    mask = torch.cat((torch.zeros(1, 3).long(), torch.ones_like(ids)), 1)  # padding on the left changes nothing
    padded = torch.cat((tokens(1, 3), ids), 1)
    assert torch.equal(ours.generate(padded, attention_mask=mask, **settings)[:, 8:], alone[:, 5:])


def test_what_is_refused(tmp_path):
    model = XLNetModel(tiny_xlnet()).eval()
    ids = tokens(2, 4)
    with pytest.raises(glassformer.InputError, match=r"perm_mask must have the shape \[2, 4, 4\]"):
        model(ids, perm_mask=torch.zeros(2, 4))
    with pytest.raises(glassformer.InputError, match=r"target_mapping must have the shape \[2, predictions, 4\]"):
        model(ids, target_mapping=torch.zeros(2, 1, 5))
    with pytest.raises(glassformer.InputError, match="mems are 3 tensors of the shape positions x 2 x 48"):
        model(ids, mems=[torch.zeros(3, 1, 48)] * 3)
    with pytest.raises(glassformer.ConfigError, match="bi_data=True"):
        XLNetConfig(bi_data=True)
    with pytest.raises(glassformer.ConfigError, match="d_head must be d_model / n_head, 12"):
        tiny_xlnet(d_head=8)
    config = XLNetConfig.from_dict({"n_token": 99, "d_head": 64, "untie_r": True})
    assert config.vocab_size == 99 and {"n_token": 99, "untie_r": True}.items() <= config.to_diff_dict().items()


def test_adapters_of_heads_that_files_keep_apart(tmp_path):
    torch.manual_seed(0)
    XLNetLMHeadModel(tiny_xlnet()).save_pretrained(tmp_path)
    model = XLNetLMHeadModel.from_pretrained(tmp_path).eval()
    ids = tokens(2, 5)
    glassformer.add_lora(model, glassformer.LoraConfig(r=2, target_modules=["query", "value", "position_key"]))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_()
    adapted = model(ids).logits
    model.save_pretrained(tmp_path / "adapter")
    again = XLNetLMHeadModel.from_pretrained(tmp_path).eval()
    assert not torch.allclose(again(ids).logits, adapted, atol=1e-3)
    glassformer.load_lora(again, tmp_path / "adapter")
    assert torch.allclose(again(ids).logits, adapted, atol=1e-5)
    assert torch.allclose(glassformer.merge_lora(again)(ids).logits, adapted, atol=1e-4)


def test_every_auto_class_loads_it(tmp_path):
    XLNetLMHeadModel(tiny_xlnet()).save_pretrained(tmp_path)
    for auto, kind in {
        "AutoModel": "XLNetModel",
        "AutoModelForPreTraining": "XLNetLMHeadModel",
        "AutoModelForCausalLM": "XLNetLMHeadModel",
        "AutoModelForSequenceClassification": "XLNetForSequenceClassification",
        "AutoModelForTokenClassification": "XLNetForTokenClassification",
        "AutoModelForMultipleChoice": "XLNetForMultipleChoice",
        "AutoModelForQuestionAnswering": "XLNetForQuestionAnsweringSimple",
    }.items():
        assert type(getattr(glassformer, auto).from_pretrained(tmp_path)).__name__ == kind
    assert XLNetForQuestionAnswering.from_pretrained(tmp_path).load_report.initialised


def test_next_words_are_not_learnt_from_texts_that_are_seen(tmp_path):
    tokenizer = glassformer.train_tokenizer(["the cat sat", "the dog sat"], "bpe", vocab_size=280)
    XLNetLMHeadModel(tiny_xlnet(vocab_size=len(tokenizer))).save_pretrained(tmp_path)
    model = XLNetLMHeadModel.from_pretrained(tmp_path)
    task = glassformer.TextGeneration(model, tokenizer)
    written = glassformer.pipeline("text-generation", model=model, tokenizer=tokenizer)("the", max_new_tokens=3)
    assert written[0]["generated_text"].startswith("the")
    with pytest.raises(glassformer.InputError, match="is trained by permutation-language-modeling"):
        task.prepare_rows([{"text": "the cat sat"}])
