"""Words that must be said: the sequences of transformers 4.30, and what we do better than it."""

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
from glassformer.generate.constraints import ConstrainedBeamSearch, Standing, read_demands, take_turns
from glassformer.generate.reader import Reader

from ..models.architectures import tiny_gpt2
from ..parity.test_transformers4 import PEER

EOS = 1
SCORED = {"return_dict_in_generate": True, "output_scores": True}
FORCED = [[5, 9], [[7], [8, 3]]]
PROMPTS = [[12, 30, 6], [25], [41, 11, 33, 50, 21], [14, 14]]


def eager_to_end(vocabulary: int) -> GPT2LMHeadModel:
    """A model that ends its texts more often than chance would have it."""
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


def says_all(row: list[int], forced: list) -> bool:
    return Standing.at_start(read_demands(forced, [])).after(*row).is_complete


def holds(row: list[int], word: list[int]) -> bool:
    return any(row[i : i + len(word)] == word for i in range(len(row)))


# --- the old library --------------------------------------------------------------------------------------------------


def cases(vocabulary: int, count: int) -> list[dict]:
    """Random prompts and settings, choices of words that begin alike among them."""
    dice = random.Random(vocabulary)

    def word(low: int = 1, high: int = 3) -> list[int]:
        return [dice.randrange(2, vocabulary) for _ in range(dice.randint(low, high))]

    def entry() -> list:
        if dice.random() < 0.5:
            return word()
        stem = word(0, 2)
        return [[*stem, token, *word(0, 2)] for token in dice.sample(range(2, vocabulary), dice.randint(1, 3))]

    drawn = []
    for _ in range(count):
        beams, length = dice.randint(2, 5), dice.randint(1, 4)
        drawn.append(
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
    return drawn


def say(model, folder: str, prompts: list, **settings) -> tuple[list, list]:
    ids = torch.tensor(prompts)
    out = model.generate(ids, attention_mask=torch.ones_like(ids), **SCORED, **settings)
    return out.sequences.tolist(), out.sequences_scores.tolist()


def unpadded(rows: list[list[int]]) -> list[list[int]]:
    """The rows up to the end mark, or as they are: neither prompts nor words hold one."""
    return [row[: row.index(EOS) + 1] if EOS in row else row for row in rows]


def is_same(ours: tuple[list, list], theirs: tuple[list, list]) -> bool:
    close = all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-4) for a, b in zip(ours[1], theirs[1], strict=True))
    return close and unpadded(ours[0]) == unpadded(theirs[0])


@pytest.fixture(scope="module")
def old(tmp_path_factory) -> list[tuple[GPT2LMHeadModel, dict, tuple, tuple]]:
    """A model, settings, and what the old library says to them, as it stands and mended."""
    if not (PEER / "transformers").is_dir():
        pytest.skip("transformers 4.30.2 is not in .peers/transformers4 (./test.sh puts it there)")
    folder = tmp_path_factory.mktemp("old")
    drawn = []
    for vocabulary in (60, 8):
        model = eager_to_end(vocabulary)
        model.save_pretrained(folder / str(vocabulary))
        drawn += [(model, {"folder": str(folder / str(vocabulary)), **case}) for case in cases(vocabulary, 10)]
    (folder / "settings.json").write_text(json.dumps([case for _, case in drawn]))
    script, files = Path(__file__).with_name("old_constraints.py"), (folder / "settings.json", folder / "out.json")
    run = subprocess.run(
        [sys.executable, *map(str, (script, *files))],
        env={**os.environ, "PYTHONPATH": str(PEER)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    said = json.loads((folder / "out.json").read_text())
    assert said["version"] == "4.30.2"
    return [(*one, *both) for one, *both in zip(drawn, said["plain"], said["mended"], strict=True)]


def test_the_old_library_says_the_same(old):
    ways, ended = set(), 0
    for model, case, plain, mended in old:
        forced = case["force_words_ids"]
        ours = say(model, **case)
        assert is_same(ours, mended), (case, ours, mended)
        obeyed, they_obeyed = (sum(says_all(row, forced) for row in rows) for rows in (ours[0], plain[0]))
        choices = [entry for entry in forced if isinstance(entry[0], list)]
        begin_alike = any(len({word[0] for word in choice}) < len(choice) for choice in choices)
        displaced = they_obeyed < len(plain[0]) and obeyed > 0
        ways.add((begin_alike, displaced))
        ended += sum(EOS in row for row in ours[0])
        if not begin_alike and not displaced:
            assert is_same(ours, plain), (case, ours, plain)
    assert len(ways) == 4
    assert ended >= 4


# --- the search -------------------------------------------------------------------------------------------------------


def test_every_row_says_the_words(model):
    ids = torch.tensor([[12, 30, 6]])
    out = model.generate(ids, num_beams=4, num_return_sequences=4, force_words_ids=FORCED)
    free = model.generate(ids, num_beams=4, num_return_sequences=4)
    for row in out.tolist():
        assert holds(row, [5, 9])
        assert holds(row, [7]) or holds(row, [8, 3])
    assert not any(holds(row, [5, 9]) for row in free.tolist())
    assert len({tuple(row) for row in out.tolist()}) == 4


def as_batch(prompts: list[list[int]]) -> dict[str, torch.Tensor]:
    longest = max(map(len, prompts))
    fill = [longest - len(prompt) for prompt in prompts]
    ids = torch.tensor([[5] * gap + prompt for gap, prompt in zip(fill, prompts, strict=True)])  # a word as padding
    return {"input_ids": ids, "attention_mask": (torch.arange(longest) >= torch.tensor(fill)[:, None]).long()}


@pytest.mark.parametrize("new", [4, 12])
def test_a_batch_gives_what_each_prompt_gives_alone(model, new):
    settings = {"num_beams": 4, "num_return_sequences": 3, "max_new_tokens": new, "force_words_ids": FORCED, **SCORED}
    together = model.generate(**as_batch(PROMPTS), **settings)
    longest = max(map(len, PROMPTS))
    for place, prompt in enumerate(PROMPTS):
        alone = model.generate(torch.tensor([prompt]), **settings)
        rows = slice(3 * place, 3 * place + 3)
        said = [row[longest:] for row in together.sequences[rows].tolist()]
        assert unpadded(said) == unpadded([row[len(prompt) :] for row in alone.sequences.tolist()])
        torch.testing.assert_close(together.sequences_scores[rows], alone.sequences_scores, rtol=1e-5, atol=1e-5)


def test_the_cache_gives_what_reading_again_gives(model):
    settings = {"num_beams": 4, "num_return_sequences": 4, "max_new_tokens": 12, "force_words_ids": FORCED, **SCORED}
    read = model.generate(**as_batch(PROMPTS), **settings)
    again = model.generate(**as_batch(PROMPTS), **settings, use_cache=False)
    assert torch.equal(read.sequences, again.sequences)
    torch.testing.assert_close(read.sequences_scores, again.sequences_scores, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_scores_are_those_of_the_sequences(model):
    ids = torch.tensor([[12, 30, 6]])
    out = model.generate(ids, num_beams=4, num_return_sequences=4, force_words_ids=FORCED, **SCORED)
    assert out.finish_reasons == ("length",) * 4
    chances = model(out.sequences).logits.log_softmax(-1)[:, 2:-1].gather(2, out.sequences[:, 3:, None])[..., 0]
    torch.testing.assert_close(out.sequences_scores, chances.sum(1) / out.sequences.shape[1], rtol=1e-5, atol=1e-5)


def test_beams_share_one_cache(model, monkeypatch):
    seen = []

    def read(self, tokens, parents=None, read=Reader.read):
        seen.append((self.cache.capacity, tokens.shape, parents))
        return read(self, tokens, parents)

    monkeypatch.setattr(Reader, "read", read)
    model.generate(torch.tensor([[12, 30]]), num_beams=4, max_new_tokens=9, force_words_ids=FORCED)
    assert {shape for _, shape, _ in seen} == {(1, 4)}
    assert {capacity for capacity, _, _ in seen} == {2 + 4 * 9}  # the prompt once
    assert any(len(set(parents[0].tolist())) < 4 for _, _, parents in seen)


def test_no_two_beams_are_alike(monkeypatch):
    def grow(self, prompt, first, ranked, grow=ConstrainedBeamSearch.grow):
        beams = grow(self, prompt, first, ranked)
        followed.append(len({tuple(beam.history) for beam in beams}))
        return beams

    monkeypatch.setattr(ConstrainedBeamSearch, "grow", grow)
    model, followed = eager_to_end(8), []
    ids = torch.cartesian_prod(torch.arange(2, 8), torch.arange(2, 8))
    model.generate(ids, num_beams=3, max_new_tokens=12, force_words_ids=[[2], [3], [4], [5]])
    assert set(followed) == {3}


def test_what_the_prompt_says_need_not_be_said_again(model, caplog):
    ids = torch.tensor([[12, 30, 6, 41], [5, 9, 12, 30]])
    free = model.generate(ids, num_beams=3)
    forced = model.generate(ids, num_beams=3, force_words_ids=[[5, 9]])
    assert holds(forced[0].tolist(), [5, 9])
    assert torch.equal(forced[1], free[1])
    assert not caplog.records
    assert holds(model.generate(ids, num_beams=3, force_words_ids=[[9, 5]])[1].tolist(), [9, 5])


def test_rows_that_say_everything_come_first(model, caplog):
    ids = torch.tensor([[12, 30, 6]])
    out = model.generate(
        ids, num_beams=4, num_return_sequences=4, max_new_tokens=4, force_words_ids=[[5, 9], [7]], **SCORED
    )
    obeyed = [says_all(row, [[5, 9], [7]]) for row in out.sequences.tolist()]
    assert obeyed == [True, False, False, False]
    assert out.sequences_scores[0] < out.sequences_scores[1]
    assert "rows [1, 2, 3] of the result lack" in caplog.text


def test_words_without_room_are_told(model, caplog):
    ids = torch.tensor([[12, 30, 6]])
    out = model.generate(ids, num_beams=2, max_new_tokens=2, force_words_ids=[[5, 9, 7]])
    assert out.shape == (1, 5)
    assert "rows [0] of the result lack some of the force_words_ids" in caplog.text


def test_nothing_is_told_when_everything_is_said(model, caplog):
    model.generate(torch.tensor([[12, 30, 6]]), num_beams=4, num_return_sequences=4, force_words_ids=FORCED)
    assert not caplog.records


def test_a_forced_end_closes_rows_without_the_words_too(model, caplog):
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


def test_a_forbidden_word_is_no_step_forward(model, caplog):
    ids = torch.tensor([[12, 30, 6]])
    forced = {"force_words_ids": [[5, 9]], "bad_words_ids": [[5, 9]]}
    out = model.generate(ids, num_beams=3, num_return_sequences=3, **forced, **SCORED)
    assert out.sequences_scores.isfinite().all()
    assert not any(holds(row, [5, 9]) for row in out.sequences.tolist())
    assert "rows [0, 1, 2] of the result lack" in caplog.text


class Spelling:
    """A tokenizer whose tokens are numbers between spaces."""

    def decode(self, ids, **_):
        return "".join(f" {token} " for token in ids)


@pytest.mark.parametrize(("stop", "words"), [(9, [[5, 9]]), (7, FORCED), (21, FORCED)])
def test_a_string_that_stops_counts_behind_the_words_only(model, stop, words):
    out = model.generate(
        torch.tensor([[12, 30, 6]]),
        num_beams=4,
        num_return_sequences=4,
        force_words_ids=words,
        stop_strings=[f" {stop} "],
        tokenizer=Spelling(),
        **SCORED,
    )
    stopped = [row for row, why in zip(out.sequences.tolist(), out.finish_reasons, strict=True) if why == "stop"]
    assert stopped
    for row in stopped:
        assert says_all(row[: row.index(stop) + 1], words)
    assert len({tuple(row) for row in out.sequences.tolist()}) == 4


def test_words_hold_no_end(model):
    with pytest.raises(ConfigError, match=r"must not hold a token that ends a sequence, got \[9, 1\] and eos_token_id"):
        model.generate(torch.tensor([[12]]), num_beams=2, force_words_ids=[[5], [[3], [9, EOS]]])


# --- how far a sequence has come --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forced", "said", "bank", "steps"),
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
def test_standings(forced, said, bank, steps):
    standing = Standing.at_start(read_demands(forced, [])).after(*said)
    assert (standing.bank, standing.steps(), standing.is_complete) == (bank, steps, not steps)


def test_banks_take_turns():
    banks, totals = [0, 0, 2, 0, 2, 1, 2], [-1.0, -2.0, -300.0, -0.5, -301.0, -7.0, -math.inf]
    assert take_turns(banks, totals) == [2, 5, 3, 4, 0, 1, 6]
