"""What we write, transformers 4.30.2 reads back equal, pruned heads and relative positions included; and the reverse.

`./test.sh` puts that old library into .peers/transformers4, beside the torch of this environment.
"""

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
from glassformer.cli.main import main

from ..conftest import ROOT
from ..models.architectures import tiny_bert, tokens

PEER = ROOT / ".peers/transformers4"


def old_library(name: str, folder: Path, batch: dict, tmp_path: Path) -> tuple[dict, Path]:
    if not (PEER / "transformers").is_dir():
        pytest.skip("transformers 4.30.2 is not in .peers/transformers4 (./test.sh puts it there)")
    save_file(batch, tmp_path / "batch.safetensors")
    saved = tmp_path / "saved"
    run = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("old_library.py")),
            name,
            str(folder),
            str(tmp_path / "batch.safetensors"),
            str(tmp_path / "out.safetensors"),
            str(saved),
        ],
        env={**os.environ, "PYTHONPATH": str(PEER)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.split()[-1] == "4.30.2"
    return load_file(tmp_path / "out.safetensors"), saved


@pytest.mark.parametrize(
    ("kind", "fields", "pruned"),
    [
        (glassformer.BertModel, {}, {0: [1], 2: [0, 3]}),
        (glassformer.BertForPreTraining, {"position_embedding_type": "relative_key_query"}, {}),
        (glassformer.BertForSequenceClassification, {"num_labels": 5}, {1: [2]}),
    ],
)
@torch.no_grad()
def test_round_trip(tmp_path, kind, fields, pruned):
    torch.manual_seed(0)
    model = kind(tiny_bert(**fields)).eval()
    model.prune_heads(pruned)
    model.save_pretrained(tmp_path / "ours")
    mask = (torch.arange(9) < torch.tensor([[9], [4]])).long()
    batch = {"input_ids": tokens(2, 9) * mask, "attention_mask": mask}
    theirs, saved = old_library(kind.__name__, tmp_path / "ours", batch, tmp_path)
    again = kind.from_pretrained(saved)
    assert again.config.pruned_heads == pruned
    for result in (model(**batch), again(**batch)):
        for name, value in result.items():
            seen = mask.bool() if value.shape[:2] == mask.shape else slice(None)
            torch.testing.assert_close(value[seen], theirs[name][seen], rtol=1e-5, atol=1e-5)
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


@torch.no_grad()
def test_a_real_model_that_glass_prune_made_smaller(minilm, tmp_path, capsys):
    data, small = tmp_path / "rows.tsv", tmp_path / "small"
    data.write_text("text\ttext_pair\tscore\nA cat sleeps.\tThe kitten naps.\t0.9\nA cat sleeps.\tIt rains.\t0.1\n")
    prune = ["prune", "sentence-similarity", str(minilm), "--data", str(data), "--share", "0.5", "-o", str(small)]
    assert main([*prune, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["cut"]) == 36
    ours, whole = (glassformer.BertModel.from_pretrained(path) for path in (small, minilm))
    assert whole.num_parameters() - ours.num_parameters() == 36 * 32 * (4 * 384 + 3)
    batch = {"input_ids": torch.tensor([[101, 1996, 4937, 2938, 102]])}
    theirs, _ = old_library("BertModel", small, batch, tmp_path)
    torch.testing.assert_close(ours(**batch).last_hidden_state, theirs["last_hidden_state"], rtol=1e-5, atol=1e-5)
