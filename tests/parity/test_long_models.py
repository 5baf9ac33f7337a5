"""Longformer and BigBird beside transformers 4.30.2, live: every class, global tokens, blocks, either side padded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer

from ..models.architectures import tiny_big_bird, tiny_longformer, tokens
from .test_bert_relatives import Case, call, seeded
from .test_transformers4 import PEER

BATCH, LENGTH, SEPARATOR = 3, 21, 58
LENGTHS = torch.tensor([21, 14, 9])
MASK = (torch.arange(LENGTH) < LENGTHS[:, None]).long()
GLOBAL = torch.zeros(BATCH, LENGTH).long().index_fill(1, torch.tensor([0, 6]), 1)
HEADS = {"head_mask": seeded((3, 4)).abs().round(decimals=1)}
LABELS = {
    "Model": {},
    "ForMaskedLM": {"labels": tokens(BATCH, LENGTH)},
    "ForSequenceClassification": {"labels": torch.ones(BATCH).long()},
    "ForTokenClassification": {"labels": torch.randint(0, 2, (BATCH, LENGTH))},
    "ForQuestionAnswering": {"start_positions": torch.tensor([7, 9, 8]), "end_positions": torch.tensor([8, 11, 99])},
    "ForMultipleChoice": {"labels": torch.tensor([2])},
}
UNPADDED = ("attention_mask",)
SPARSE = {"attention_type": "block_sparse"}
CASES = [
    *(Case(f"longformer-{head}", f"Longformer{head}", {}, labels) for head, labels in LABELS.items()),
    Case("longformer-global", "LongformerModel", {}, {"global_attention_mask": GLOBAL}),
    Case(
        "longformer-global-words",
        "LongformerForMaskedLM",
        {},
        {"global_attention_mask": GLOBAL, **LABELS["ForMaskedLM"]},
    ),
    Case("longformer-heads", "LongformerModel", {}, {"global_attention_mask": GLOBAL, **HEADS}),
    Case("longformer-left", "LongformerModel", {}, {"global_attention_mask": GLOBAL.flip(1)}, left=True),
    Case("longformer-wide", "LongformerModel", {"attention_window": 24}, {"global_attention_mask": GLOBAL}),
    *(Case(f"bigbird-full-{head}", f"BigBird{head}", {}, labels) for head, labels in LABELS.items()),
    *(Case(f"bigbird-{head}", f"BigBird{head}", SPARSE, labels, without=UNPADDED) for head, labels in LABELS.items()),
    Case(
        "bigbird-pre-training",
        "BigBirdForPreTraining",
        SPARSE,
        {**LABELS["ForMaskedLM"], "next_sentence_label": torch.tensor([1, 0, 1])},
        without=UNPADDED,
    ),
    Case("bigbird-two-blocks", "BigBirdModel", {**SPARSE, "num_random_blocks": 2}, without=UNPADDED),
    Case("bigbird-short", "BigBirdModel", {**SPARSE, "block_size": 4}),
    Case("bigbird-decoder", "BigBirdForCausalLM", {"is_decoder": True}, LABELS["ForMaskedLM"]),
]


def batch_of(case: Case, padding: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(2)
    mask = MASK.flip(1) if case.left else MASK
    ids = tokens(BATCH, LENGTH)
    ids[:, [5, 6, 8]] = SEPARATOR  # three in every text, as the reference asks for
    if "attention_mask" not in case.without:
        ids = torch.where(mask.bool(), ids, padding)
    batch = {"input_ids": ids, "attention_mask": mask, **case.inputs}
    if "labels" in batch and batch["labels"].shape == mask.shape and "attention_mask" not in case.without:
        batch["labels"] = batch["labels"].masked_fill(mask == 0, -100)
    if case.kind.endswith("ForMultipleChoice"):
        batch = {
            name: value[None] if name in ("input_ids", "attention_mask") else value for name, value in batch.items()
        }
    return {name: value for name, value in batch.items() if value is not None and name not in case.without}


@pytest.fixture(scope="module")
def references(tmp_path_factory) -> Path:
    """The folder of all cases, with what the old library computed: one process for all of them."""
    if not (PEER / "transformers").is_dir():
        pytest.skip("transformers 4.30.2 is not in .peers/transformers4 (./test.sh puts it there)")
    root = tmp_path_factory.mktemp("long")
    for case in CASES:
        torch.manual_seed(len(case.name))
        kind = getattr(glassformer, case.kind)
        tiny = tiny_longformer if "Longformer" in case.kind else tiny_big_bird
        model = kind(tiny(**{"initializer_range": 0.15, "sep_token_id": SEPARATOR, **case.fields}))
        for parameter in model.parameters():  # biases start at zero, and then nothing is seen of them
            parameter.data += 0.1 * torch.randn_like(parameter)
        model.save_pretrained(root / case.name / "model")
        save_file(batch_of(case, model.config.pad_token_id), root / case.name / "batch.safetensors")
    listed = [{"name": each.name, "kind": each.kind, "split": 0, "flags": flags_of(each)} for each in CASES]
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


def flags_of(case: Case) -> dict[str, bool]:
    """In blocks, the old library's weights lack those of the first block, which it reads several times."""
    return {"output_hidden_states": True, "output_attentions": "attention_type" not in case.fields}


@torch.no_grad()
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_outputs_equal_those_of_the_old_library(case, references):
    folder = references / case.name
    kind = getattr(glassformer, case.kind)
    batch, expected = load_file(folder / "batch.safetensors"), load_file(folder / "out.safetensors")
    mask = (MASK.flip(1) if case.left else MASK).bool()
    if "attention_mask" in case.without:
        mask = torch.ones_like(mask)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        model, info = kind.from_pretrained(folder / "model", dtype=dtype, output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"]
        assert not kind.from_pretrained(folder / "saved").load_report.unused
        found = call(model, Case(case.name, case.kind, case.fields, case.inputs), batch)
        assert found.keys() >= expected.keys()
        for name, theirs in expected.items():
            ours, theirs = (real_part(name, each.double(), mask) for each in (found[name], theirs))
            if name.startswith("global_attentions"):  # the reference has some weights for tokens that a text lacks
                theirs = theirs.masked_fill(ours == 0, 0)
            close = tolerance if expected[name].dtype == torch.float64 else max(tolerance, 1e-6)  # some losses are not
            torch.testing.assert_close(ours, theirs, rtol=close, atol=close, msg=lambda m, n=name: f"{n}: {m}")


def real_part(name: str, value: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """The part of an output that belongs to real tokens."""
    if name == "pooler_output":
        return value[seen[:, 0]]  # the reference pools the first column, and ours the first token
    if name.startswith(("attentions", "global_attentions", "past_key_values")):
        value = value.transpose(1, 2)
    if value.dim() > 2 and value.shape[1] > seen.shape[1]:  # padded to a multiple of the window, or of the block
        value = value[:, : seen.shape[1]]
    return value[seen] if value.dim() > 1 and value.shape[:2] == seen.shape else value
