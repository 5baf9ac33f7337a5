"""Transformer-XL beside transformers 4.30.2, live: texts read part by part, losses, words generated behind a memory."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer
from glassformer.text.moses import cut_words, normalize_punctuation, split_numbers

from ..conftest import ROOT
from .test_transformers4 import PEER

SACREMOSES = ROOT / ".peers/sacremoses"
PARTS = (7, 5, 9)
FLAGS = {"output_hidden_states": True, "output_attentions": True}
GENERATED = {
    "greedy": {"max_new_tokens": 14, "do_sample": False, "eos_token_id": 1, "pad_token_id": 0},
    "beams": {"max_new_tokens": 12, "num_beams": 3, "do_sample": False, "eos_token_id": 1, "pad_token_id": 0},
}


@dataclass
class Case:
    """One model; it reads three parts, each with the memory that the last one left."""

    name: str
    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    labels: bool = False
    head_mask: bool = False
    vectors: bool = False
    batch: int = 2
    safe: bool = True
    generated: dict[str, Any] = field(default_factory=dict)


SIGNS = random.Random(0)
TEXTS_TO_CUT = [
    "Dr. Smith's e-mail from No. 10 (Downing St.) cost $5,000.50, e.g. on 1.5.2020 - didn't it?",
    "“So ,” he said … ‘ the Jones' house, rock 'n' roll, 90's ’ — 50 % of <eos> it <EOS>. U.S. and p. 5, pp. 7.",
    "well-known facts...and more....  Etc.\tTabs; colons: [brackets] {braces} #tag @user a/b a_b 3.14 x,y ,z .'",
    "Les « guillemets » de l'été coûtent 3\u00a0€ ; 中文 字 und Straße, на русском языке. Ende.",
    *("".join(SIGNS.choices("abcXY 019 .,'\"-`!?()[]<>@#$%&*/…“”‘’–—«»\u00a0é中가", k=24)) for _ in range(300)),
]
LM, BODY, TEXTS = "TransfoXLLMHeadModel", "TransfoXLModel", "TransfoXLForSequenceClassification"
NARROW = {"d_embed": 16, "proj_share_all_but_first": False}
CASES = [
    Case("body", BODY, head_mask=True),
    Case("vectors", BODY, {"pre_lnorm": True, "untie_r": False}, vectors=True, safe=False),
    Case("no-memory", BODY, {"mem_len": 0, "same_length": False}),
    Case("growing", LM, {"mem_len": 30, "same_length": False, "clamp_len": -1}, generated=GENERATED),
    Case("window", LM, {"mem_len": 6, "clamp_len": 4}, generated=GENERATED),
    Case("wide-heads", LM, {"d_head": 20, "untie_r": False, "mem_len": 3}, labels=True),
    Case("one-cluster", LM, {"cutoffs": [], "div_val": 1}, labels=True, safe=False),
    Case("one-table", LM, {"div_val": 1}, labels=True),
    Case("one-table-narrow", LM, {"div_val": 1, "d_embed": 16}, generated={"greedy": GENERATED["greedy"]}),
    Case("one-table-untied", LM, {"div_val": 1, **NARROW}, labels=True),
    Case("untied", LM, {**NARROW, "tie_word_embeddings": False, "pre_lnorm": True}, labels=True),
    Case("generated-shorter", LM, {"mem_len": 5, "same_length": False, "pre_lnorm": True}, generated=GENERATED),
    Case("generated-without", LM, {"mem_len": 0, "same_length": False}, generated={"greedy": GENERATED["greedy"]}),
    Case("texts", TEXTS, {"num_labels": 3, "pad_token_id": 0}, labels=True),
    Case("one-text", TEXTS, {"num_labels": 1, "mem_len": 4}, labels=True, batch=1),
]


def tiny(**fields: Any) -> glassformer.TransfoXLConfig:
    shape = {"vocab_size": 60, "cutoffs": [20, 40], "d_model": 32, "d_embed": 32, "n_head": 4, "d_head": 8}
    shape |= {"d_inner": 40, "div_val": 2, "n_layer": 3, "mem_len": 8, "clamp_len": 10, "eos_token_id": 1}
    scale = {"init_std": 0.2, "proj_init_std": 0.2}
    return glassformer.TransfoXLConfig(**{**shape, **scale, **fields})


def batch_of(case: Case, config: glassformer.TransfoXLConfig) -> dict[str, torch.Tensor]:
    batch = {}
    for part, length in enumerate(PARTS):
        ids = torch.randint(2, 60, (case.batch, length))
        batch[f"{part}.input_ids"] = ids
        if case.vectors:
            batch[f"{part}.inputs_embeds"] = torch.randn(case.batch, length, 32, dtype=torch.float64)
            del batch[f"{part}.input_ids"]
        if case.head_mask:
            batch[f"{part}.head_mask"] = torch.rand(3, 4, dtype=torch.float64)
        if case.labels and case.kind == LM:
            ignored = torch.rand(ids.shape) < 0.3
            batch[f"{part}.labels"] = ids.masked_fill(ignored & (torch.arange(length) != 1), -100)
        elif case.labels:
            scores = torch.rand(case.batch, dtype=torch.float64)
            batch[f"{part}.labels"] = scores if config.num_labels == 1 else torch.arange(case.batch)
            ids[-1, length - 2 * (case.batch > 1) :] = 0
    return batch


@pytest.fixture(scope="module")
def references(tmp_path_factory) -> Path:
    """The folder of all cases, with what the old library computed: one process for all of them."""
    if not (PEER / "transformers").is_dir():
        pytest.skip("transformers 4.30.2 is not in .peers/transformers4 (./test.sh puts it there)")
    root = tmp_path_factory.mktemp("transfo-xl")
    for number, case in enumerate(CASES):
        torch.manual_seed(number)
        model = getattr(glassformer, case.kind)(tiny(**case.fields))
        for parameter in model.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
        model.save_pretrained(root / case.name / "model")
        save_file(batch_of(case, model.config), root / case.name / "batch.safetensors")
    listed = [{**asdict(case), "parts": len(PARTS), "flags": FLAGS} for case in CASES]
    (root / "cases.json").write_text(json.dumps(listed))
    if SACREMOSES.is_dir():
        write_words(root / "words")
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("old_library_transfo_xl.py")), str(root)],
        env={**os.environ, "PYTHONPATH": f"{PEER}{os.pathsep}{SACREMOSES}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.split()[-1] == "4.30.2"
    return root


def write_words(folder: Path) -> None:
    """A vocabulary and texts for the original's tokenizer, of which it knows most words."""
    words = sorted({word for text in TEXTS_TO_CUT for word in normal_words(text)})
    vocab = {word: number for number, word in enumerate(["<eos>", "<unk>", *words[::2], *words[1::4]])}
    glassformer.TransfoXLTokenizer(vocab=vocab).save_pretrained(folder / "ours")
    (folder / "texts.json").write_text(json.dumps(TEXTS_TO_CUT))


def normal_words(text: str) -> list[str]:
    return [part for word in cut_words(normalize_punctuation(text)) for part in split_numbers(word)]


def test_words_equal_those_of_the_old_library(references):
    """A list of words that we wrote, read there; the pickle that was written there, read here without running it."""
    if not SACREMOSES.is_dir():
        pytest.skip("sacremoses is not in .peers/sacremoses (./test.sh puts it there)")
    folder = references / "words"
    found, decoded = json.loads((folder / "found.json").read_text())
    assert (folder / "theirs" / "vocab.pkl").is_file() and not (folder / "theirs" / "vocab.txt").exists()
    for name in ("ours", "theirs"):
        tokenizer = glassformer.AutoTokenizer.from_pretrained(folder / name)
        for text, (words, ids), joined in zip(TEXTS_TO_CUT, found, decoded, strict=True):
            assert tokenizer.tokenize(text) == words, text
            assert tokenizer(text)["input_ids"] == ids
            assert tokenizer.convert_tokens_to_string(words) == joined


def flatten(name: str, value: Any) -> dict[str, torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return {name: value}
    return {k: v for i, each in enumerate(value) for k, v in flatten(f"{name}.{i}", each).items()}


@torch.no_grad()
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_outputs_equal_those_of_the_old_library(case, references):
    folder, kind = references / case.name, getattr(glassformer, case.kind)
    batch, expected = load_file(folder / "batch.safetensors"), load_file(folder / "out.safetensors")
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        model = kind.from_pretrained(folder / "model", dtype=dtype)
        mems, found = None, {}
        for part in range(len(PARTS)):
            given = {name[2:]: each for name, each in batch.items() if name.startswith(f"{part}.")}
            given = {name: each.to(dtype) if each.is_floating_point() else each for name, each in given.items()}
            out = model(**given, mems=mems, **FLAGS)
            mems = out.mems
            found |= {f"{part}.{k}": v for name, value in out.items() for k, v in flatten(name, value).items()}
        compared = {name for name in expected if not name.startswith("generated")}
        assert found.keys() == compared
        for name in compared:
            close = tolerance if expected[name].dtype == torch.float64 else 1e-5
            a, b = found[name].double(), expected[name].double()
            torch.testing.assert_close(a, b, rtol=close, atol=close, msg=lambda m, n=name: f"{n}: {m}")


@torch.no_grad()
@pytest.mark.parametrize("case", [each for each in CASES if each.generated], ids=lambda case: case.name)
def test_generated_words_equal_those_of_the_old_library(case, references):
    """Both prompts at once, and each of them alone beside a longer one."""
    folder = references / case.name
    ids, expected = (load_file(folder / f"{name}.safetensors") for name in ("batch", "out"))
    model = glassformer.TransfoXLLMHeadModel.from_pretrained(folder / "model", dtype=torch.float64)
    prompts = ids["0.input_ids"]
    for name, settings in case.generated.items():
        want = expected[f"generated.{name}"]
        assert torch.equal(model.generate(prompts, **settings), want)
        longer = torch.full((2, prompts.shape[1] + 4), 5)
        longer[0, 4:] = prompts[0]
        mask = torch.ones_like(longer)
        mask[0, :4] = 0
        got = model.generate(longer, attention_mask=mask, **settings)[0, 4:]
        length = min(len(got), want.shape[1])
        assert torch.equal(got[:length], want[0, :length])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_the_old_library_saves_is_read_back(case, references):
    folder, kind = references / case.name, getattr(glassformer, case.kind)
    ours, again = kind.from_pretrained(folder / "model"), kind.from_pretrained(folder / "saved")
    assert not again.load_report.initialised and not again.load_report.unused
    for (name, a), (other, b) in zip(ours.state_dict().items(), again.state_dict().items(), strict=True):
        assert name == other
        assert torch.equal(a, b), name
