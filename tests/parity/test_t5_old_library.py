"""T5 beside transformers 4.30.2, live: every class it has, v1.0 and gated, head masks, left padding, losses."""

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
from glassformer import T5ForConditionalGeneration

from ..models.encoder_decoders import T5, tiny_t5
from .test_transformers4 import PEER

SOURCE = (torch.arange(9) < torch.tensor([[9], [4]])).long()
IDS, TARGET = torch.randint(1, 60, (2, 15), generator=torch.Generator().manual_seed(0)).split((9, 6), 1)
TARGET = TARGET.contiguous()
HEADS = torch.tensor([[0.5, 1.0, 0.0, 1.0], [1.0, 0.25, 1.0, 1.0]])
MASKS = {"head_mask": HEADS, "decoder_head_mask": HEADS.flip(0), "cross_attn_head_mask": HEADS.flip(1)}
LABELS = {"labels": TARGET.masked_fill(torch.tensor([[0] * 6, [0, 0, 0, 1, 1, 1]]).bool(), -100)}
DECODED = {"decoder_input_ids": TARGET}
KINDS = {"T5EncoderModel": {}, "T5Model": DECODED, "T5ForConditionalGeneration": LABELS}
# name -> class, fields, inputs beside the source
CASES = {
    **{f"{kind}-{name}": (kind, v, KINDS[kind]) for kind in KINDS for name, v in T5.variants.items()},
    "masked": ("T5ForConditionalGeneration", {}, {**LABELS, **MASKS}),
    "masked-encoder": ("T5EncoderModel", {}, {"head_mask": HEADS}),
    "left": ("T5ForConditionalGeneration", {"feed_forward_proj": "gated-silu", "initializer_factor": 1.0}, LABELS),
    "buckets": ("T5Model", {"relative_attention_num_buckets": 4, "relative_attention_max_distance": 4}, DECODED),
}


def inputs_of(name):
    mask = SOURCE.flip(1) if name == "left" else SOURCE
    return {"input_ids": (IDS * mask).contiguous(), "attention_mask": mask, **CASES[name][2]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """All cases, computed by the old library in one process."""
    if not (PEER / "transformers").is_dir():
        pytest.skip("transformers 4.30.2 is not in .peers/transformers4 (./test.sh puts it there)")
    root = tmp_path_factory.mktemp("t5")
    listed = []
    for name, (kind, fields, _) in CASES.items():
        torch.manual_seed(len(listed))
        model = getattr(glassformer, kind)(tiny_t5(**fields))
        model.save_pretrained(root / name / "model")
        save_file(inputs_of(name), root / name / "batch.safetensors")
        flags = {"output_hidden_states": True, "output_attentions": True}
        listed.append({"name": name, "kind": kind, "split": 0, "flags": flags})
    (root / "cases.json").write_text(json.dumps(listed))
    script = str(Path(__file__).with_name("old_library_cases.py"))
    environment = {**os.environ, "PYTHONPATH": str(PEER)}
    run = subprocess.run(
        [sys.executable, script, str(root)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return root


def flat(output):
    for name, value in output.items():
        if torch.is_tensor(value):
            yield name, value
        elif name != "past_key_values":
            yield from ((f"{name}.{i}", each) for i, each in enumerate(value))


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_equals_the_old_library(folder, name):
    theirs, batch = load_file(folder / name / "out.safetensors"), inputs_of(name)
    kind = getattr(glassformer, CASES[name][0])
    models = [kind.from_pretrained(folder / name / part, dtype=torch.float64).eval() for part in ("model", "saved")]
    source = batch["attention_mask"].bool()
    target = batch.get("labels", TARGET) != -100
    for model in models:
        ours = dict(flat(model(**batch, output_hidden_states=True, output_attentions=True)))
        assert ours.keys() == {key for key in theirs if not key.startswith("past_key_values")}
        for key, value in ours.items():
            wanted = theirs[key]
            if key != "loss":
                is_encoder = kind is glassformer.T5EncoderModel or key.startswith("encoder")
                seen = source if is_encoder else target
                if "attentions" in key:  # B H T S
                    value, wanted = value.transpose(1, 2), wanted.transpose(1, 2)
                value, wanted = value[seen], wanted[seen]
            torch.testing.assert_close(value, wanted, rtol=1e-10, atol=1e-10)
        if kind is T5ForConditionalGeneration:
            single, wanted = model.float()(**batch).logits[target].double(), theirs["logits"][target]
            assert (single - wanted).abs().max() < 1e-5 * wanted.abs().max()
