"""Constrained beam search: the sequences of transformers 4.30, and where we differ from it."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from glassformer import ConfigError, GPT2LMHeadModel
from glassformer.generate.constrained_beam_search import (
    ConstrainedBeamSearch,
    ConstraintState,
    allocate_round_robin,
    parse_constraints,
)
from glassformer.generate.model_runner import CachedRunner

from ..models.architectures import tiny_gpt2
from ..parity.test_transformers4 import PEER

EOS = 1
SCORED = {"return_dict_in_generate": True, "output_scores": True}
FORCED = [[5, 9], [[7], [8, 3]]]
PROMPTS = [[12, 30, 6], [25], [41, 11, 33, 50, 21], [14, 14]]


def model_with_likely_eos(vocabulary: int) -> GPT2LMHeadModel:
    """A model that ends its texts often."""
    torch.manual_seed(1)
    model = GPT2LMHeadModel(tiny_gpt2(vocab_size=vocabulary)).eval()
    end = model.transformer.embeddings.word_embeddings.weight[EOS].detach()
    with torch.no_grad():
        model.transformer.encoder.LayerNorm.bias += 4 * end / end.norm() ** 2
    return model


@pytest.fixture(scope="module")
def model() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    return GPT2LMHeadModel(tiny_gpt2()).eval()


def meets_all(row: list[int], forced: list) -> bool:
    return ConstraintState.initial(parse_constraints(forced, [])).after(*row).is_complete


def contains(row: list[int], word: list[int]) -> bool:
    return any(row[i : i + len(word)] == word for i in range(len(row)))


# --- transformers 4 ---------------------------------------------------------------------------------------------------


def cases(vocabulary: int, count: int) -> list[dict]:
    """Random prompts and settings, with some alternative words that share a prefix."""
    dice = random.Random(vocabulary)

    def word(low: int = 1, high: int = 3) -> list[int]:
        return [dice.randrange(2, vocabulary) for _ in range(dice.randint(low, high))]

    def entry() -> list:
        if dice.random() < 0.5:
            return word()
        stem = word(0, 2)
        return [[*stem, token, *word(0, 2)] for token in dice.sample(range(2, vocabulary), dice.randint(1, 3))]

    found = []
    for _ in range(count):
        beams, length = dice.randint(2, 5), dice.randint(1, 4)
        found.append(
            {
                "prompts": [word(length, length) for _ in range(dice.randint(1, 2))],
                "force_words_ids": [entry() for _ in range(dice.randint(1, 3))],
                "num_beams": beams,
                "num_return_sequences": dice.choice([1, beams]),
                "max_new_tokens": dice.randint(3, 14),
                "length_penalty": dice.choice([1.0, 0.0, 2.0, -0.5]),
                "early_stopping": dice.choice([True, False, "never"]),
                "repetition_penalty": dice.choice([1.0, 1.3]),
                "min_new_tokens": dice.choice([0, 3]),
            }
        )
    return found


def generate(model, folder: str, prompts: list, **settings) -> tuple[list, list]:
    ids = torch.tensor(prompts)
    out = model.generate(ids, attention_mask=torch.ones_like(ids), **SCORED, **settings)
    return out.sequences.tolist(), out.sequences_scores.tolist()


def unpadded(rows: list[list[int]]) -> list[list[int]]:
    """The rows up to the end token, or as they are: neither prompts nor words contain one."""
    return [row[: row.index(EOS) + 1] if EOS in row else row for row in rows]


def is_same(ours: tuple[list, list], theirs: tuple[list, list]) -> bool:
    close = all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-4) for a, b in zip(ours[1], theirs[1], strict=True))
    return close and unpadded(ours[0]) == unpadded(theirs[0])


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> list[tuple[GPT2LMHeadModel, dict, tuple, tuple]]:
    """A model, settings, and the results of transformers 4.30, as published and with two bugs fixed."""
    if not (PEER / "transformers").is_dir():
        pytest.skip("transformers 4.30.2 is not in .peers/transformers4 (./test.sh puts it there)")
    folder = tmp_path_factory.mktemp("reference")
    requests = []
    for vocabulary in (60, 8):
        model = model_with_likely_eos(vocabulary)
        model.save_pretrained(folder / str(vocabulary))
        requests += [(model, {"folder": str(folder / str(vocabulary)), **case}) for case in cases(vocabulary, 10)]
    (folder / "settings.json").write_text(json.dumps([case for _, case in requests]))
    script, files = (
        Path(__file__).with_name("transformers4_constraints.py"),
        (folder / "settings.json", folder / "out.json"),
    )
    run = subprocess.run(
        [sys.executable, *map(str, (script, *files))],
        env={**os.environ, "PYTHONPATH": str(PEER)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    results = json.loads((folder / "out.json").read_text())
    assert results["version"] == "4.30.2"
    return [(*one, *both) for one, *both in zip(requests, results["published"], results["fixed"], strict=True)]


def test_sequences_equal_those_of_transformers_4(reference):
    kinds, ended = set(), 0
    for model, case, published, fixed in reference:
        forced = case["force_words_ids"]
        ours = generate(model, **case)
        assert is_same(ours, fixed), (case, ours, fixed)
        complete, their_complete = (sum(meets_all(row, forced) for row in rows) for rows in (ours[0], published[0]))
        choices = [entry for entry in forced if isinstance(entry[0], list)]
        share_prefix = any(len({word[0] for word in choice}) < len(choice) for choice in choices)
        displaced = their_complete < len(published[0]) and complete > 0
        kinds.add((share_prefix, displaced))
        ended += sum(EOS in row for row in ours[0])
        if not share_prefix and not displaced:
            assert is_same(ours, published), (case, ours, published)
    assert len(kinds) == 4
    assert ended >= 4


# --- the search -------------------------------------------------------------------------------------------------------


def test_every_row_contains_the_words(model):
    ids = torch.tensor([[12, 30, 6]])
    out = model.generate(ids, num_beams=4, num_return_sequences=4, force_words_ids=FORCED)
    free = model.generate(ids, num_beams=4, num_return_sequences=4)
    for row in out.tolist():
        assert contains(row, [5, 9])
        assert contains(row, [7]) or contains(row, [8, 3])
    assert not any(contains(row, [5, 9]) for row in free.tolist())
    assert len({tuple(row) for row in out.tolist()}) == 4


def as_batch(prompts: list[list[int]]) -> dict[str, torch.Tensor]:
    longest = max(map(len, prompts))
    fill = [longest - len(prompt) for prompt in prompts]
    ids = torch.tensor([[5] * gap + prompt for gap, prompt in zip(fill, prompts, strict=True)])  # a word as padding
    return {"input_ids": ids, "attention_mask": (torch.arange(longest) >= torch.tensor(fill)[:, None]).long()}


@pytest.mark.parametrize("new", [4, 12])
def test_batched_equals_single(model, new):
    settings = {"num_beams": 4, "num_return_sequences": 3, "max_new_tokens": new, "force_words_ids": FORCED, **SCORED}
    together = model.generate(**as_batch(PROMPTS), **settings)
    longest = max(map(len, PROMPTS))
    for place, prompt in enumerate(PROMPTS):
        alone = model.generate(torch.tensor([prompt]), **settings)
        rows = slice(3 * place, 3 * place + 3)
        new = [row[longest:] for row in together.sequences[rows].tolist()]
        assert unpadded(new) == unpadded([row[len(prompt) :] for row in alone.sequences.tolist()])
        torch.testing.assert_close(together.sequences_scores[rows], alone.sequences_scores, rtol=1e-5, atol=1e-5)


def test_cached_equals_uncached(model):
    settings = {"num_beams": 4, "num_return_sequences": 4, "max_new_tokens": 12, "force_words_ids": FORCED, **SCORED}
    cached = model.generate(**as_batch(PROMPTS), **settings)
    uncached = model.generate(**as_batch(PROMPTS), **settings, use_cache=False)
    assert torch.equal(cached.sequences, uncached.sequences)
    torch.testing.assert_close(cached.sequences_scores, uncached.sequences_scores, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_scores_are_those_of_the_sequences(model):
    ids = torch.tensor([[12, 30, 6]])
    out = model.generate(ids, num_beams=4, num_return_sequences=4, force_words_ids=FORCED, **SCORED)
    assert out.finish_reasons == ("length",) * 4
    log_probs = model(out.sequences).logits.log_softmax(-1)[:, 2:-1].gather(2, out.sequences[:, 3:, None])[..., 0]
    torch.testing.assert_close(out.sequences_scores, log_probs.sum(1) / out.sequences.shape[1], rtol=1e-5, atol=1e-5)


def test_beams_share_one_cache(model, monkeypatch):
    calls = []

    def decode_step(self, tokens, parents=None, decode_step=CachedRunner.decode_step):
        calls.append((self.cache.capacity, tokens.shape, parents))
        return decode_step(self, tokens, parents)

    monkeypatch.setattr(CachedRunner, "decode_step", decode_step)
    model.generate(torch.tensor([[12, 30]]), num_beams=4, max_new_tokens=9, force_words_ids=FORCED)
    assert {shape for _, shape, _ in calls} == {(1, 4)}
    assert {capacity for capacity, _, _ in calls} == {2 + 4 * 9}  # the prompt once
    assert any(len(set(parents[0].tolist())) < 4 for _, _, parents in calls)


def test_beams_are_distinct(monkeypatch):
    def choose_beams(self, prompt, first, ranked, choose_beams=ConstrainedBeamSearch.choose_beams):
        beams = choose_beams(self, prompt, first, ranked)
        distinct.append(len({tuple(beam.tokens) for beam in beams}))
        return beams

    monkeypatch.setattr(ConstrainedBeamSearch, "choose_beams", choose_beams)
    model, distinct = model_with_likely_eos(8), []
    ids = torch.cartesian_prod(torch.arange(2, 8), torch.arange(2, 8))
    model.generate(ids, num_beams=3, max_new_tokens=12, force_words_ids=[[2], [3], [4], [5]])
    assert set(distinct) == {3}


def test_words_in_the_prompt_need_not_occur_again(model, caplog):
    ids = torch.tensor([[12, 30, 6, 41], [5, 9, 12, 30]])
    free = model.generate(ids, num_beams=3)
    forced = model.generate(ids, num_beams=3, force_words_ids=[[5, 9]])
    assert contains(forced[0].tolist(), [5, 9])
    assert torch.equal(forced[1], free[1])
    assert not caplog.records
    assert contains(model.generate(ids, num_beams=3, force_words_ids=[[9, 5]])[1].tolist(), [9, 5])


def test_rows_that_meet_all_constraints_come_first(model, caplog):
    ids = torch.tensor([[12, 30, 6]])
    out = model.generate(
        ids, num_beams=4, num_return_sequences=4, max_new_tokens=4, force_words_ids=[[5, 9], [7]], **SCORED
    )
    complete = [meets_all(row, [[5, 9], [7]]) for row in out.sequences.tolist()]
    assert complete == [True, False, False, False]
    assert out.sequences_scores[0] < out.sequences_scores[1]
    assert "rows [1, 2, 3] of the result lack" in caplog.text


def test_missing_words_are_reported(model, caplog):
    ids = torch.tensor([[12, 30, 6]])
    out = model.generate(ids, num_beams=2, max_new_tokens=2, force_words_ids=[[5, 9, 7]])
    assert out.shape == (1, 5)
    assert "rows [0] of the result lack some of the force_words_ids" in caplog.text


def test_no_warning_when_all_constraints_are_met(model, caplog):
    model.generate(torch.tensor([[12, 30, 6]]), num_beams=4, num_return_sequences=4, force_words_ids=FORCED)
    assert not caplog.records


def test_a_forced_end_also_ends_rows_without_the_words(model, caplog):
    ids = torch.tensor([[12, 30, 6]])
    out = model.generate(
        ids,
        num_beams=3,
        num_return_sequences=3,
        max_new_tokens=3,
        force_words_ids=[[5, 9, 7]],
        forced_eos_token_id=EOS,
        **SCORED,
    )
    assert out.sequences_scores.isfinite().all()
    assert all(EOS in row[3:] for row in out.sequences.tolist())
    assert "rows [0, 1, 2] of the result lack" in caplog.text


def test_a_forbidden_word_does_not_advance_a_constraint(model, caplog):
    ids = torch.tensor([[12, 30, 6]])
    forced = {"force_words_ids": [[5, 9]], "bad_words_ids": [[5, 9]]}
    out = model.generate(ids, num_beams=3, num_return_sequences=3, **forced, **SCORED)
    assert out.sequences_scores.isfinite().all()
    assert not any(contains(row, [5, 9]) for row in out.sequences.tolist())
    assert "rows [0, 1, 2] of the result lack" in caplog.text


class NumberTokenizer:
    """Decodes each token as its number between spaces."""

    def decode(self, ids, **_):
        return "".join(f" {token} " for token in ids)


@pytest.mark.parametrize(("stop", "words"), [(9, [[5, 9]]), (7, FORCED), (21, FORCED)])
def test_a_stop_string_ends_only_complete_sequences(model, stop, words):
    out = model.generate(
        torch.tensor([[12, 30, 6]]),
        num_beams=4,
        num_return_sequences=4,
        force_words_ids=words,
        stop_strings=[f" {stop} "],
        tokenizer=NumberTokenizer(),
        **SCORED,
    )
    stopped = [row for row, why in zip(out.sequences.tolist(), out.finish_reasons, strict=True) if why == "stop"]
    assert stopped
    for row in stopped:
        assert meets_all(row[: row.index(stop) + 1], words)
    assert len({tuple(row) for row in out.sequences.tolist()}) == 4


def test_words_with_an_end_token_are_refused(model):
    with pytest.raises(
        ConfigError, match=r"must not contain a token that ends a sequence, got \[9, 1\] and eos_token_id"
    ):
        model.generate(torch.tensor([[12]]), num_beams=2, force_words_ids=[[5], [[3], [9, EOS]]])


# --- constraint states ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forced", "tokens", "bank", "advancing"),
    [
        ([[5, 9, 2], [7]], [], 0, [5, 7]),
        ([[5, 9, 2], [7]], [4, 4], 0, [5, 7]),
        ([[5, 9, 2], [7]], [5], 1, [9]),
        ([[5, 9, 2], [7]], [5, 9], 2, [2]),
        ([[5, 9, 2], [7]], [5, 9, 2], 3, [7]),
        ([[5, 9, 2], [7]], [7], 3, [5]),
        ([[5, 9, 2], [7]], [7, 5, 9, 2], 6, []),
        ([[5, 9, 2], [7]], [7, 5, 9, 2, 7, 4], 6, []),
        ([[5, 9, 2], [7]], [5, 7], 0, [7, 5]),  # 7 breaks the first word off and begins nothing
        ([[5, 9, 2], [3, 4]], [3], 2, [4]),  # one token is missing, whatever the longest word has
        ([[5], [5]], [5], 1, [5]),
        ([[5], [5]], [5, 5], 2, []),
        ([[5, 9], [9]], [5, 9], 2, [9]),  # a token belongs to one word
        ([[[7], [8, 3]]], [], 0, [7, 8]),
        ([[[7], [8, 3]]], [8], 1, [3]),
        ([[[7], [8, 3]]], [7], 2, []),
        ([[[8, 4], [8, 3]]], [8], 1, [4, 3]),
        ([[[8, 4, 4], [8]]], [], 0, [8]),  # the shorter one is enough
        ([[[8, 4, 4], [8]]], [8], 1, []),
    ],
)
def test_constraint_states(forced, tokens, bank, advancing):
    state = ConstraintState.initial(parse_constraints(forced, [])).after(*tokens)
    assert (state.bank, state.advancing_tokens(), state.is_complete) == (bank, advancing, not advancing)


def test_round_robin_allocation():
    banks, log_probs = [0, 0, 2, 0, 2, 1, 2], [-1.0, -2.0, -300.0, -0.5, -301.0, -7.0, -math.inf]
    assert allocate_round_robin(banks, log_probs) == [2, 5, 3, 4, 0, 1, 6]
