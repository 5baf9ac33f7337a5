"""A really trained ALBERT, RXNMapper's model of chemical reactions, computes the same as in transformers 4.30.2."""

from __future__ import annotations

import re

import pytest
import torch

import glassformer

from ..conftest import ROOT
from .test_transformers4 import old_library

FOLDER = ROOT / ".peers/rxnmapper/rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k"
REACTIONS = [  # each atom or bond is a token
    "CC(=O)O.OCC>>CC(=O)OCC.O",
    "BrCCBr.c1ccccc1>>BrCCc1ccccc1",
    "O=C=O>>C",
]


@pytest.fixture(scope="module")
def batch() -> dict[str, torch.Tensor]:
    if not FOLDER.is_dir():
        pytest.skip("rxnmapper==0.4.3 is not in .peers/rxnmapper (./test.sh puts it there)")
    vocabulary = {token: number for number, token in enumerate((FOLDER / "vocab.txt").read_text().splitlines())}
    rows = [
        [vocabulary[token] for token in ("[CLS]", *re.findall(r">>|Br|[A-Za-z0-9=().]", text), "[SEP]")]
        for text in REACTIONS
    ]
    width, mask_id = max(map(len, rows)), vocabulary["[MASK]"]
    for row in rows:
        row[2] = mask_id
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    return {"input_ids": ids, "attention_mask": torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in rows])}


@torch.no_grad()
def test_a_trained_albert_computes_the_same(batch, tmp_path):
    model = glassformer.AutoModelForMaskedLM.from_pretrained(FOLDER)
    assert type(model) is glassformer.AlbertForMaskedLM
    assert not model.load_report.initialised and not model.untrained
    assert len(model.layers) == 12 and model.num_parameters() < 900_000
    theirs, saved = old_library("AlbertForMaskedLM", FOLDER, batch, tmp_path)
    seen = batch["attention_mask"].bool()
    ours = model(**batch).logits
    scale = float(theirs["logits"].abs().max())  # 33: a logit has so many times the error of a unit
    torch.testing.assert_close(ours[seen], theirs["logits"][seen], rtol=0, atol=1e-5 * scale)
    torch.testing.assert_close(ours[seen].softmax(-1), theirs["logits"][seen].softmax(-1), rtol=0, atol=1e-5)
    again = glassformer.AlbertForMaskedLM.from_pretrained(saved)
    assert torch.equal(again(**batch).logits, ours)
    (hidden,) = ours[:1, 2].argmax(-1).tolist()
    assert (FOLDER / "vocab.txt").read_text().splitlines()[hidden] == "C"  # what stood there in acetic acid
