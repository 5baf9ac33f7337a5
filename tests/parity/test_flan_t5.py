"""A really trained Flan-T5 small, distilled to name steps of work, from the ONNX files of a published package.

Their weights are int8. onnxruntime with these weights in float32 computes what ours does, and writes the same tokens.
The graphs as they stand quantise activations too, to 8 bits for a whole tensor: their logits are off by up to a quarter
of the largest, and other tokens follow.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

import glassformer
from glassformer import T5ForConditionalGeneration, pipeline

from ..conftest import ROOT

SOURCE = ROOT / ".peers/traceforge/traceforge_title_model/data/span"
TEXTS = [
    "translate English to German: The house is wonderful.",
    "user asked to add logging to the training loop; edited train.py and ran the tests",
    "Is this review positive or negative? I loved the film.",
    "grep for TODO comments and remove them",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    if not SOURCE.is_dir():
        pytest.skip("traceforge-title-model==0.2.0 is not in .peers/traceforge (./test.sh puts it there)")
    from .onnx_t5 import extract

    folder = tmp_path_factory.mktemp("flan")
    extract(SOURCE, folder)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    model = T5ForConditionalGeneration.from_pretrained(folder)
    report = model.load_report
    assert not report.initialised and not report.unused and not report.leftovers
    assert model.num_parameters() == 76_961_152  # as published
    return model


class OnnxRuntime:
    """The two graphs of a folder."""

    def __init__(self, folder):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(str(folder / f"{part}.onnx"), options, providers=["CPUExecutionProvider"])
            for part in ("encoder", "decoder")
        )

    def logits(self, batch, target):
        ids, mask = (batch[name].numpy() for name in ("input_ids", "attention_mask"))
        states = self.encoder.run(None, {"input_ids": ids, "attention_mask": mask})[0]
        source = {"encoder_hidden_states": states, "encoder_attention_mask": mask}
        return self.decoder.run(None, {"input_ids": np.array(target), **source})[0]


def greedy(logits_of, length=16):
    """The best token each time, from the logits of a target."""
    target = [0]
    while len(target) < length and target[-1] != 1:
        target.append(int(logits_of([target])[0, -1].argmax()))
    return target


@torch.no_grad()
def test_the_weights_compute_the_same(folder, model):
    tokenizer, theirs = glassformer.AutoTokenizer.from_pretrained(folder), OnnxRuntime(folder)
    together = tokenizer(TEXTS, padding=True, return_tensors="pt")
    written = model.generate(**together, max_new_tokens=15).tolist()
    engine = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text, tokens in zip(TEXTS, written, strict=True):
        batch = tokenizer(text, return_tensors="pt")
        assert batch["input_ids"][0].tolist() == engine.encode(text).ids
        wanted = greedy(lambda target, batch=batch: theirs.logits(batch, target))
        assert tokens[: len(wanted)] == wanted and not any(tokens[len(wanted) :])
        ours = model(**batch, decoder_input_ids=torch.tensor([wanted])).logits.numpy()
        expected = theirs.logits(batch, [wanted])
        assert np.abs(ours - expected).max() < 1e-5 * np.abs(expected).max()  # 1.4e-6 on one machine
    answer = pipeline("text2text-generation", model=folder, max_new_tokens=15)(TEXTS[0])
    assert answer == [{"generated_text": "Das Haus ist wunderbar."}]
