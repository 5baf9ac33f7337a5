"""A really trained Performer, the TIS Transformer (Clauwaert et al. 2023), finds where a human gene's protein begins.

It computes what performer-pytorch computes with the local-attention of its time. Today's local-attention turns queries
by one window more, and the same weights then find nothing.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import glassformer

from ..conftest import ROOT

FOLDER = ROOT / ".peers/transcript-transformer/transcript_transformer/pretrained/tt_models"
FILE = FOLDER / "Homo_sapiens.GRCh38.113_f0.tt.ckpt"
# The messenger RNA of human beta-globin (NM_000518), which begins with a methionine behind 50 nucleotides.
BETA_GLOBIN = (
    "ACATTTGCTTCTGACACAACTGTGTTCACTAGCAACCTCAAACAGACACCATGGTGCATCTGACTCCTGAGGAGAAGTCTGCCGTTACTGCCCTGTGGGGCAAGGTG"
    "AACGTGGATGAAGTTGGTGGTGAGGCCCTGGGCAGGCTGCTGGTGGTCTACCCTTGGACCCAGAGGTTCTTTGAGTCCTTTGGGGATCTGTCCACTCCTGATGCTGT"
    "TATGGGCAACCCTAAGGTGAAGGCTCATGGCAAGAAAGTGCTCGGTGCCTTTAGTGATGGCCTGGCTCACCTGGACAACCTCAAGGGCACCTTTGCCACACTGAGTG"
    "AGCTGCACTGTGACAAGCTGCACGTGGATCCTGAGAACTTCAGGCTCCTGGGCAACGTGCTGGTCTGTGTGCTGGCCCATCACTTTGGCAAAGAATTCACCCCACCA"
    "GTGCAGGCTGCCTATCAGAAAGTGGTGGCTGGTGTGGCTAATGCCCTGGCCCACAAGTATCACTAAGCTCGCTTTCTTGCTGTCCAATTTCTATTAAAGGTTCCTTT"
    "GTTCCCTAAGTCCAACTACTAAACTGGGGGATATTATGAAGGGCCTTGAGCATCTGGATTCTGCCTAATAAAAAACATTTATTTTCATTGC"
)
BEGIN, END = 5, 6  # the tokens around a transcript


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    if not FILE.is_file():
        pytest.skip("transcript-transformer==1.1.1 is not in .peers/transcript-transformer (./test.sh puts it there)")
    return torch.load(FILE, weights_only=True, map_location="cpu")["state_dict"]


def performer(weights: dict[str, Tensor], shift: bool) -> glassformer.PerformerModel:
    fields = {"local_attn_heads": 5, "max_seq_len": 30002, "rotary_position_emb": True, "shift_local_queries": shift}
    return glassformer.PerformerModel.from_performer_pytorch(weights, prefix="transformer.", **fields)


@torch.no_grad()
def test_a_trained_performer_finds_the_start_of_beta_globin(weights):
    ids = torch.tensor([[BEGIN, *map("ATCGN".index, BETA_GLOBIN), END]])
    vectors = weights["nuc_emb.weight"][ids]

    model = performer(weights, shift=False)
    assert model.num_parameters() > 250_000 and not model.untrained
    rows = model(inputs_embeds=vectors).last_hidden_state[0]
    hidden = (rows @ weights["ff_1.weight"].T + weights["ff_1.bias"]).relu()
    starts = (hidden @ weights["ff_2.weight"].T + weights["ff_2.bias"]).softmax(-1)[:, 1]
    assert BETA_GLOBIN[50:53] == "ATG" and int(starts.argmax()) == 51
    assert starts[51] > 0.8 and starts.sort().values[-2] < 0.01

    library = pytest.importorskip("performer_pytorch")
    theirs = library.Performer(48, 8, 8, 16, nb_features=80, local_attn_heads=5).double().eval()
    prefix = "transformer."
    theirs.load_state_dict({n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)})
    length = ids.shape[1]
    tables = weights["pos_emb.emb"][:length].double(), weights["layer_pos_emb.emb"][None, :length].double()
    want = theirs(vectors.double() + tables[0], pos_emb=tables[1], mask=torch.ones_like(ids).bool())
    ours = performer(weights, shift=True).double()(inputs_embeds=vectors.double()).last_hidden_state
    torch.testing.assert_close(ours, want, rtol=0, atol=1e-10 * want.abs().max().item())
