"""BERT's relatives beside transformers 4.30.2, live: every class, with losses, head masks, pruning, relative positions,
caches, either side padded. The reference computes in float64; ours is compared in float64 and in float32.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer

from ..models.architectures import ARCHITECTURES, tokens
from .test_transformers4 import PEER

BATCH, LENGTH, WIDTH = 3, 8, 48
LENGTHS = torch.tensor([8, 5, 3])
FLAGS = {"output_hidden_states": True, "output_attentions": True}
TINY = {each.model_type: each.tiny for each in ARCHITECTURES}
LABEL = {"labels": torch.ones(BATCH).long()}
LABELS = {
    "Model": {},
    "ForPreTraining": {"labels": tokens(BATCH, LENGTH), "sentence_order_label": LABEL["labels"]},
    "ForMaskedLM": {"labels": tokens(BATCH, LENGTH)},
    "ForCausalLM": {"labels": tokens(BATCH, LENGTH)},
    "ForSequenceClassification": LABEL,
    "ForTokenClassification": {"labels": torch.randint(0, 2, (BATCH, LENGTH))},
    "ForQuestionAnswering": {"start_positions": torch.tensor([0, 2, 1]), "end_positions": torch.tensor([4, 4, 99])},
    "ForMultipleChoice": {"labels": torch.tensor([2])},
}
DECODER = {"is_decoder": True, "add_cross_attention": True}


@dataclass
class Case:
    """One model, one call."""

    name: str
    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, torch.Tensor] = field(default_factory=dict)  # besides ids and mask
    pruned: dict[int, list[int]] = field(default_factory=dict)
    left: bool = False
    split: int = 0  # so many tokens go into a cache first
    without: tuple[str, ...] = ()  # inputs that are left out
    every: int = 1  # the reference returns the hidden states of every second layer, ...

    @property
    def flags(self) -> dict[str, bool]:
        return {**FLAGS, "use_cache": True} if "is_decoder" in self.fields else FLAGS


def seeded(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def cases_of(model_type: str, prefix: str, heads: list[str], decodes: bool, relative: bool) -> list[Case]:
    """What is compared of one architecture."""

    def case(name: str, head: str, **options: Any) -> Case:
        return Case(f"{model_type}-{name}", prefix + head, **options)

    width = getattr(TINY[model_type](), "embedding_size", WIDTH)
    types = {"token_type_ids": (torch.arange(LENGTH) > 3).long().repeat(BATCH, 1)}
    heads_of_layers = {"head_mask": seeded((3, 4)).abs().round(decimals=1)}
    found = [case(head, head, inputs={**LABELS[head], **types}) for head in heads]
    found += [case(f"{head}-masked", head, inputs=heads_of_layers) for head in ("Model", "ForSequenceClassification")]
    found += [
        case("left", "Model", left=True),
        case("left-tokens", "ForTokenClassification", left=True),
        case("unmasked", "Model", without=("attention_mask",)),
        case("embedded", "Model", inputs={"inputs_embeds": seeded((BATCH, LENGTH, width))}, without=("input_ids",)),
        case("positions", "Model", inputs={"position_ids": torch.arange(LENGTH).flip(0).repeat(BATCH, 1) + 4}),
        case("pruned", "ForTokenClassification", pruned={0: [1], 2: [0, 3]}, inputs=LABELS["ForTokenClassification"]),
        case("relu-chunks", "Model", fields={"hidden_act": "relu", "chunk_size_feed_forward": 2}),
        case("regression", "ForSequenceClassification", fields={"num_labels": 1}, inputs={"labels": seeded((BATCH,))}),
        case(
            "several-labels",
            "ForSequenceClassification",
            fields={"num_labels": 4, "problem_type": "multi_label_classification"},
            inputs={"labels": seeded((BATCH, 4)).round().clamp(0, 1)},
        ),
    ]
    if relative:
        kinds = ("relative_key", "relative_key_query")
        found += [case(kind, "Model", fields={"position_embedding_type": kind}) for kind in kinds]
    if decodes:
        source = {"encoder_hidden_states": seeded((BATCH, 6, WIDTH))}
        source["encoder_attention_mask"] = (torch.arange(6) < torch.tensor([[2], [6], [4]])).long()
        labels = LABELS["ForCausalLM"]
        found += [
            case("decoder", "ForCausalLM", fields={"is_decoder": True}, inputs=labels),
            case("decoder-left", "ForCausalLM", fields={"is_decoder": True}, left=True),
            case("decoder-body", "Model", fields=DECODER, inputs=source),
            case("cross", "ForCausalLM", fields=DECODER, inputs={**source, **labels}),
            case("cross-masked", "ForCausalLM", fields=DECODER, inputs={**source, **heads_of_layers}),
            case("cached", "ForCausalLM", fields={"is_decoder": True}, split=5),
            case("cached-cross", "ForCausalLM", fields=DECODER, inputs=source, split=5),
        ]
    return found


def deberta_cases(model_type: str, prefix: str, heads: list[str], **variants: dict[str, Any]) -> list[Case]:
    """What is compared of a DeBERTa, which has no head masks, no pruning and no decoder there."""
    types = {"token_type_ids": (torch.arange(LENGTH) > 3).long().repeat(BATCH, 1)}
    several = {"labels": seeded((BATCH, 4)).softmax(-1)}
    words = LABELS["ForMaskedLM"]
    cases = {head: Case("", head, inputs={**LABELS[head], **types}) for head in heads}
    # The old library's queries at padded positions see nothing, those of today see all; their logits are in this loss.
    cases["ForQuestionAnswering"].without = ("attention_mask",)
    cases |= {
        "left": Case("", "Model", left=True),
        "left-words": Case("", "ForMaskedLM", left=True, inputs=words),
        "unmasked": Case("", "Model", without=("attention_mask",)),
        "embedded": Case("", "Model", inputs={"inputs_embeds": seeded((BATCH, LENGTH, WIDTH))}, without=("input_ids",)),
        "positions": Case("", "Model", inputs={"position_ids": torch.arange(LENGTH).flip(0).repeat(BATCH, 1) + 4}),
        "c2p": Case("", "Model", fields={"pos_att_type": ["c2p"]}),
        "p2c": Case("", "Model", fields={"pos_att_type": ["p2c"]}),
        "none": Case("", "Model", fields={"pos_att_type": ["none"]}),
        "not-relative": Case("", "Model", fields={"relative_attention": False}),
        "unbiased": Case("", "Model", fields={"position_biased_input": False, "type_vocab_size": 0}, inputs=types),
        "near": Case("", "Model", fields={"max_relative_positions": 3}),
        "narrow": Case("", "Model", fields={"embedding_size": 20}),
        "regression": Case(
            "",
            "ForSequenceClassification",
            fields={"num_labels": 1, "problem_type": "regression"},  # without it logits lose a dimension there
            inputs={"labels": seeded((BATCH,))},
        ),
        "soft-labels": Case("", "ForSequenceClassification", fields={"num_labels": 4}, inputs=several),
        "unlabelled": Case("", "ForSequenceClassification", inputs={"labels": torch.tensor([1, -1, 0])}),
        "pooled": Case("", "ForSequenceClassification", fields={"pooler_hidden_act": "relu", "hidden_act": "relu"}),
        **{name: Case("", "Model", fields=fields) for name, fields in variants.items()},
    }
    return [replace(case, name=f"{model_type}-{name}", kind=prefix + case.kind) for name, case in cases.items()]


HEADS = [*LABELS]
SHARED = {"num_hidden_layers": 4, "num_hidden_groups": 2}
DEBERTA_HEADS = ["Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"]
FOLLOWS = torch.tensor([1, 0, 1])
NO_MEMORY = {"use_mems_eval": False}
TASKS = {"task_type_ids": (torch.arange(LENGTH) % 3).repeat(BATCH, 1)}
CASES = [
    *cases_of("roberta", "Roberta", [head for head in HEADS if head != "ForPreTraining"], decodes=True, relative=True),
    *cases_of("albert", "Albert", [head for head in HEADS if head != "ForCausalLM"], decodes=False, relative=True),
    *cases_of("electra", "Electra", [head for head in HEADS if head != "ForPreTraining"], decodes=True, relative=True),
    Case("electra-discriminator", "ElectraForPreTraining", {}, {"labels": torch.randint(0, 2, (BATCH, LENGTH))}),
    Case("electra-wide", "ElectraForMaskedLM", {"embedding_size": WIDTH}, LABELS["ForMaskedLM"]),
    Case(
        "electra-mean",
        "ElectraForMultipleChoice",
        {"summary_type": "mean", "summary_activation": "tanh"},
        without=("attention_mask",),
    ),
    Case("albert-shared", "AlbertForPreTraining", SHARED, LABELS["ForPreTraining"]),
    Case("albert-shared-pruned", "AlbertModel", SHARED, pruned={2: [0, 3]}),
    Case("albert-shared-heads", "AlbertModel", SHARED, {"head_mask": torch.tensor([1.0, 0.5, 0.0, 2.0])}),
    Case("albert-inner", "AlbertForMaskedLM", {**SHARED, "inner_group_num": 2}, LABELS["ForMaskedLM"], every=2),
    *cases_of("ernie", "Ernie", [head for head in HEADS if head != "ForPreTraining"], decodes=True, relative=True),
    Case("ernie-pre-training", "ErnieForPreTraining", inputs={**LABELS["ForMaskedLM"], "next_sentence_label": FOLLOWS}),
    Case("ernie-next-sentence", "ErnieForNextSentencePrediction", inputs={"labels": FOLLOWS}),
    Case("ernie-tasks", "ErnieModel", inputs=TASKS),
    Case("ernie-tasks-tokens", "ErnieForTokenClassification", inputs={**TASKS, **LABELS["ForTokenClassification"]}),
    Case("ernie-without-tasks", "ErnieForMaskedLM", fields={"use_task_id": False}, inputs=LABELS["ForMaskedLM"]),
    *deberta_cases("deberta", "Deberta", DEBERTA_HEADS),
    *deberta_cases(
        "deberta-v2",
        "DebertaV2",
        [*DEBERTA_HEADS, "ForMultipleChoice"],
        **{
            "own-projections": {"share_att_key": False},
            "every-distance": {"position_buckets": -1},
            "wide-buckets": {"position_buckets": 6, "max_relative_positions": 7},
            "plain-table": {"norm_rel_ebd": "none"},
            "groups": {"conv_kernel_size": 5, "conv_groups": 4, "conv_act": "gelu"},
            "no-convolution": {"conv_kernel_size": 0},
        },
    ),
    Case("xlnet-left", "XLNetModel", NO_MEMORY, left=True),
    Case("xlnet-masked", "XLNetModel", NO_MEMORY, {"head_mask": seeded((3, 4)).abs().round(decimals=1)}, left=True),
    Case("xlnet-texts", "XLNetForSequenceClassification", NO_MEMORY, LABEL, left=True),
    Case("xlnet-tokens", "XLNetForTokenClassification", NO_MEMORY, LABELS["ForTokenClassification"], left=True),
    Case("xlnet-causal", "XLNetLMHeadModel", {**NO_MEMORY, "clamp_len": 3}, LABELS["ForMaskedLM"], left=True),
    Case("xlnet-choice", "XLNetForMultipleChoice", NO_MEMORY, LABELS["ForMultipleChoice"], left=True),
    Case("xlnet-spans", "XLNetForQuestionAnsweringSimple", NO_MEMORY, LABELS["ForQuestionAnswering"], left=True),
    Case("xlm-roberta", "XLMRobertaForMaskedLM", inputs=LABELS["ForMaskedLM"]),
    Case("camembert", "CamembertForSequenceClassification", inputs=LABELS["ForSequenceClassification"]),
]


def batch_of(case: Case, padding: int) -> dict[str, torch.Tensor]:
    mask = (torch.arange(LENGTH) < LENGTHS[:, None]).long()
    mask = mask.flip(1) if case.left else mask
    ids = torch.where(mask.bool(), tokens(BATCH, LENGTH), padding)
    batch = {"input_ids": ids, "attention_mask": mask, **case.inputs}
    for name, value in batch.items():
        if name == "labels" and value.shape == mask.shape:
            batch[name] = value.masked_fill(mask == 0, -100)
    if case.kind.endswith("ForMultipleChoice"):
        choices = {name: value[None] for name, value in batch.items() if value.shape[:1] == (BATCH,)}
        batch |= {**choices, "head_mask": None, "labels": LABELS["ForMultipleChoice"]["labels"]}
    return {name: value for name, value in batch.items() if value is not None and name not in case.without}


@pytest.fixture(scope="module")
def references(tmp_path_factory) -> Path:
    """The folder of all cases, with what the old library computed: one process for all of them."""
    if not (PEER / "transformers").is_dir():
        pytest.skip("transformers 4.30.2 is not in .peers/transformers4 (./test.sh puts it there)")
    root = tmp_path_factory.mktemp("relatives")
    for case in CASES:
        torch.manual_seed(len(case.name))
        kind = getattr(glassformer, case.kind)
        model = kind(TINY[kind.config_class.model_type](**{"initializer_range": 0.15, **case.fields}))
        for parameter in model.parameters():  # biases start at zero, and then nothing is seen of them
            parameter.data += 0.1 * torch.randn_like(parameter)
        model.prune_heads(case.pruned)
        model.save_pretrained(root / case.name / "model")
        save_file(batch_of(case, model.config.pad_token_id), root / case.name / "batch.safetensors")
    listed = [{"name": each.name, "kind": each.kind, "split": each.split, "flags": each.flags} for each in CASES]
    (root / "cases.json").write_text(json.dumps(listed))
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("old_library_cases.py")), str(root)],
        env={**os.environ, "PYTHONPATH": str(PEER)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.split()[-1] == "4.30.2"
    return root


def flatten(name: str, value: Any) -> dict[str, torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return {name: value}
    return {k: v for i, each in enumerate(value) for k, v in flatten(f"{name}.{i}", each).items()}


def call(model: glassformer.PreTrainedModel, case: Case, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    batch = {name: value.to(model.dtype) if value.is_floating_point() else value for name, value in batch.items()}
    if case.split:
        ids, mask = batch["input_ids"], batch["attention_mask"]
        first = {**batch, "input_ids": ids[:, : case.split], "attention_mask": mask[:, : case.split]}
        batch["past_key_values"] = model(**first, use_cache=True).past_key_values
        batch["input_ids"] = ids[:, case.split :]
    out = model(**batch, **case.flags)
    out.hidden_states = out.hidden_states[:: case.every]
    return {k: v for name, value in out.items() for k, v in flatten(name, value).items()}


def real_part(name: str, value: torch.Tensor, seen: torch.Tensor, split: int) -> torch.Tensor:
    """The part of an output that belongs to real tokens."""
    if name == "pooler_output":
        return value[seen[:, 0]]  # the reference pools the first column, and ours the first token
    if name.startswith(("attentions", "cross_attentions")):
        return value.transpose(1, 2)[seen[:, split:]]
    if name.startswith("past_key_values"):
        return value.transpose(1, 2)[seen] if value.shape[2] == seen.shape[1] else value[0, :, :2]  # of the source
    per_token = value.dim() > 1 and value.shape[:2] == seen[:, split:].shape
    return value[seen[:, split:]] if per_token else value


@torch.no_grad()
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_outputs_equal_those_of_the_old_library(case, references):
    folder = references / case.name
    kind = getattr(glassformer, case.kind)
    batch, expected = load_file(folder / "batch.safetensors"), load_file(folder / "out.safetensors")
    mask = (torch.arange(LENGTH) < LENGTHS[:, None]).flip(1) if case.left else torch.arange(LENGTH) < LENGTHS[:, None]
    if "attention_mask" in case.without:
        mask = torch.ones_like(mask)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        model, info = kind.from_pretrained(folder / "model", dtype=dtype, output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"]
        found = call(model, case, batch)
        assert found.keys() == expected.keys()
        for name, value in found.items():
            ours, theirs = (real_part(name, each.double(), mask, case.split) for each in (value, expected[name]))
            close = tolerance if expected[name].dtype == torch.float64 else max(tolerance, 1e-6)  # some losses are not
            torch.testing.assert_close(ours, theirs, rtol=close, atol=close, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_the_old_library_saves_is_read_back(case, references):
    folder, kind = references / case.name, getattr(glassformer, case.kind)
    ours, again = kind.from_pretrained(folder / "model"), kind.from_pretrained(folder / "saved")
    assert not again.load_report.initialised and not again.load_report.unused
    assert again.config.pruned_heads == ours.config.pruned_heads and bool(case.pruned) == bool(ours.config.pruned_heads)
    for (name, a), (other, b) in zip(ours.state_dict().items(), again.state_dict().items(), strict=True):
        assert name == other
        assert torch.equal(a, b), name


@torch.no_grad()
@pytest.mark.parametrize("name", ["AlbertForMultipleChoice", "ElectraForMultipleChoice", "ElectraForCausalLM"])
def test_heads_with_inputs_of_another_shape_equal_the_new_library_too(name, tmp_path):
    """What the contract leaves out: choices, and a decoder with its loss."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    kind = getattr(glassformer, name)
    model = kind(TINY[kind.config_class.model_type](**({"is_decoder": True} if "Causal" in name else {})))
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(tmp_path)
    model = model.double().eval()
    theirs = getattr(transformers, name).from_pretrained(tmp_path, dtype=torch.float64, attn_implementation="eager")
    ids = tokens(3, LENGTH)
    batch = {"input_ids": ids, "labels": ids}
    if "Choice" in name:
        batch = {"input_ids": ids[None], "labels": torch.tensor([2])}
    ours, expected = model(**batch, output_hidden_states=True), theirs.eval()(**batch, output_hidden_states=True)
    for key in ("loss", "logits", "hidden_states"):
        found, wanted = (torch.stack([*out[key]]) if key == "hidden_states" else out[key] for out in (ours, expected))
        torch.testing.assert_close(found.double(), wanted.double(), rtol=1e-6 if key == "loss" else 1e-10, atol=1e-10)
