"""Generation equals transformers 5 in all that it still has."""

from __future__ import annotations

import pytest
import torch

import glassformer

transformers = pytest.importorskip("transformers")

SETTINGS = {
    "greedy": {},
    "penalties": {"repetition_penalty": 1.4, "no_repeat_ngram_size": 2},
    "bad words": {"bad_words_ids": [[7], [8, 9], [20, 21]], "suppress_tokens": [30, 31]},
    "first words": {"begin_suppress_tokens": [12, 13, 14], "forced_eos_token_id": 3},
    "at least": {"min_new_tokens": 5, "eos_token_id": [3, 17, 23, 41]},
    "sampling": {"do_sample": True, "temperature": 0.8, "top_k": 0},
    "top k": {"do_sample": True, "top_k": 7},
    "top p": {"do_sample": True, "top_p": 0.8, "top_k": 0},
    "min p": {"do_sample": True, "min_p": 0.05, "top_k": 0},
    "typical": {"do_sample": True, "typical_p": 0.7, "top_k": 0},
    "epsilon": {"do_sample": True, "epsilon_cutoff": 0.01, "top_k": 0},
    "eta": {"do_sample": True, "eta_cutoff": 0.02, "top_k": 0},
    "all of them": {"do_sample": True, "temperature": 1.4, "top_k": 30, "top_p": 0.95, "min_p": 0.01},
    "beams": {"num_beams": 4},
    "returned beams": {"num_beams": 4, "num_return_sequences": 4, "length_penalty": 2.0},
    "early beams": {"num_beams": 4, "early_stopping": True, "length_penalty": 0.5},
    "patient beams": {"num_beams": 4, "early_stopping": "never"},
    "penalised beams": {"num_beams": 3, "no_repeat_ngram_size": 2, "repetition_penalty": 1.2},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    torch.manual_seed(0)
    shape = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
    tokens = {"bos_token_id": 1, "eos_token_id": 3, "pad_token_id": 0, "max_position_embeddings": 64}
    config = glassformer.GPT2Config(**shape, **tokens, initializer_range=0.4)
    folder = tmp_path_factory.mktemp("gpt2")
    ours = glassformer.GPT2LMHeadModel(config)
    ours.save_pretrained(folder)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float64)
    return ours.double().eval(), theirs.eval()


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_live(models, name, seed):
    torch.manual_seed(seed)
    ids = torch.randint(4, 60, (3, 5))
    mask = torch.ones_like(ids)
    if "repetition_penalty" not in SETTINGS[name]:  # there, padding counts as said
        ids[1, :2], mask[1, :2] = 0, 0
    given = {"input_ids": ids, "attention_mask": mask, "max_new_tokens": 20, **SETTINGS[name]}
    results = []
    for model, own in zip(models, ({"length_penalty_counts": "new"}, {}), strict=True):
        torch.manual_seed(seed)
        results.append(model.generate(**given, **own, return_dict_in_generate=True, output_scores=True))
    ours, theirs = results
    assert torch.equal(ours.sequences, theirs.sequences)
    assert len(ours.scores) == len(theirs.scores)
    if "num_beams" in given:
        torch.testing.assert_close(ours.sequences_scores.double(), theirs.sequences_scores.double(), rtol=0, atol=1e-6)
        return
    ended = torch.zeros(3, dtype=torch.bool)
    ends = torch.tensor(SETTINGS[name].get("eos_token_id", [3]))
    for step, (mine, other) in enumerate(zip(ours.scores, theirs.scores, strict=True)):
        torch.testing.assert_close(mine[~ended], other[~ended].double(), rtol=0, atol=1e-6)
        ended |= torch.isin(ours.sequences[:, 5 + step], ends)
