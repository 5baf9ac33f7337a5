"""Tokenizers with a SentencePiece vocabulary, against transformers 4.30.2 and 5: ids, pieces, offsets, files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import glassformer
from glassformer import AutoTokenizer

from ..conftest import ROOT
from .test_sentencepiece import TEXTS

PEER = ROOT / ".peers/transformers4"
BERT = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, "pad_piece": "[PAD]", "bos_piece": "[CLS]"}
OWN: dict[str, tuple[str, str, dict]] = {  # each kind: its file, its model type, and how its vocabulary is trained
    "AlbertTokenizer": (
        "spiece.model",
        "albert",
        {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "control_symbols": ["[CLS]", "[SEP]", "[MASK]"]},
    ),
    "BigBirdTokenizer": (
        "spiece.model",
        "big_bird",
        {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "control_symbols": ["[CLS]", "[SEP]", "[MASK]"]},
    ),
    "XLMRobertaTokenizer": ("sentencepiece.bpe.model", "xlm-roberta", {}),
    "CamembertTokenizer": ("sentencepiece.bpe.model", "camembert", {}),
    "DebertaV2Tokenizer": ("spm.model", "deberta-v2", {**BERT, "eos_piece": "[SEP]", "unk_piece": "[UNK]"}),
    "T5Tokenizer": ("spiece.model", "t5", {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}),
    "XLNetTokenizer": (
        "spiece.model",
        "xlnet",
        {
            "control_symbols": ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"],
            "user_defined_symbols": [".", "(", ")", "-", "–"],
        },
    ),
}
SETTINGS: dict[str, list[dict]] = {
    "AlbertTokenizer": [{}, {"do_lower_case": False}, {"keep_accents": True}, {"remove_space": False}],
    "DebertaV2Tokenizer": [{}, {"do_lower_case": True}, {"split_by_punct": True}],
    "XLNetTokenizer": [{}, {"do_lower_case": True, "keep_accents": True}],
    "T5Tokenizer": [{}, {"extra_ids": 5}],
}
INPUTS = [
    *TEXTS,
    "",
    "  ",
    " two  spaces ",
    "``quoted'' Text, 9,500 and 1,9, ½ ﬁ ﾊﾟ",
    "ÉCOLE Élan Straße İstanbul ΟΔΟΣ e\u0301",
    "春天 😀 unknown ☃☃ 中",
    "a<mask>b [MASK] c <s>d</s> [CLS] e [SEP]<pad>",
    "  ( see ) \t \n\u3000x\u200by ",
    "sea shore-sea.shore,sea!",
    "<extra_id_0> she <extra_id_3>sells </s>",
    "<cls> a <sep>b<eop>",
]
PAIRS = [("sea shells", "by the sea"), ("", "花"), ("看花", "")]


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> dict[str, Path]:
    """A folder for each kind, with a small vocabulary of its own."""
    library = pytest.importorskip("sentencepiece", reason="the sentencepiece package is not installed")
    made = {}
    for kind, (file, model_type, settings) in OWN.items():
        folder = tmp_path_factory.mktemp(kind)
        library.SentencePieceTrainer.train(
            sentence_iterator=iter([*TEXTS, "1,9,5, 9,0 9,5"] * 20),
            model_prefix=str(folder / "m"),
            minloglevel=2,
            vocab_size=170,
            hard_vocab_limit=False,
            num_threads=1,
            **settings,
        )
        (folder / "m.model").rename(folder / file)
        (folder / "m.vocab").unlink()
        (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
        made[kind] = folder
    return made


def requests_for(folders: dict[str, Path], suffix: str = "") -> list[dict]:
    return [
        {
            "class": kind + suffix,
            "folder": str(folder),
            "init": init,
            "texts": INPUTS,
            "pairs": PAIRS,
        }
        for kind, folder in folders.items()
        for init in SETTINGS.get(kind, [{}])
    ]


def answers_of(requests: list[dict], tmp_path: Path, old: bool) -> list[dict]:
    """What transformers 4.30.2 (`old`) or the installed one makes of requests."""
    if old and not (PEER / "transformers").is_dir():
        pytest.skip("transformers 4.30.2 is not in .peers/transformers4 (./test.sh puts it there)")
    (tmp_path / "requests.json").write_text(json.dumps(requests))
    script = Path(__file__).with_name("transformers_tokenizer.py")
    files = [str(tmp_path / "requests.json"), str(tmp_path / "answers.json")]
    path = {"PYTHONPATH": str(PEER)} if old else {}
    run = subprocess.run(
        [sys.executable, str(script), *files],
        env={**os.environ, **path, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    answers = json.loads((tmp_path / "answers.json").read_text())
    assert all((each["version"] == "4.30.2") == old for each in answers)
    return answers


def ours_of(request: dict):
    return getattr(glassformer, request["class"]).from_pretrained(request["folder"], **request["init"])


def test_everything_equals_the_original(folders, tmp_path):
    requests = requests_for(folders)
    for request, answer in zip(requests, answers_of(requests, tmp_path, old=True), strict=True):
        tokenizer = ours_of(request)
        named = request["class"], request["init"]
        assert len(tokenizer) == answer["length"], named
        for number, text in enumerate(INPUTS):
            encoded = tokenizer(text)
            assert encoded["input_ids"] == answer["ids"][number], (named, text)
            assert encoded.get("token_type_ids") == answer["types"][number], (named, text)
            assert tokenizer.tokenize(text) == answer["tokens"][number], (named, text)
            ids = encoded["input_ids"]
            assert tokenizer.decode(ids) == answer["decoded"][number], (named, text)
            assert tokenizer.decode(ids, skip_special_tokens=True) == answer["plain"][number], (named, text)
            explained = tokenizer.explain(text)
            assert list(explained.ids) == tokenizer.encode(text, add_special_tokens=False), (named, text)
        assert [dict(tokenizer(*pair)) for pair in PAIRS] == answer["pairs"], named
        assert dict(tokenizer(INPUTS[:5], padding=True, truncation=True, max_length=9)) == answer["batch"], named


# The Rust tokenizers of transformers keep white space at the end, or before a special token, as a piece of its own, and
# cut it otherwise around punctuation (split_by_punct). Those of transformers 5 give DeBERTa's text another normal form,
# and take the accents of XLNet's in any case. There the original decides.
COMMON = [text for text in INPUTS if text and text == text.strip() and not {*text} & {"[", "<", "\u0301", "`"}]


def trimmed(text: str, span: tuple[int, int]) -> tuple[int, int]:
    """A span without the white space that it begins with, unless it is only that."""
    start, end = span
    while start < end - 1 and text[start].isspace():
        start += 1
    return start, end


@pytest.mark.parametrize("old", [True, False], ids=["4.30.2", "5"])
def test_folders_go_there_and_back(folders, tmp_path, old):
    own = [each for each in requests_for(folders) if "split_by_punct" not in each["init"]]
    # Those of transformers 5 leave out the rules by which the model normalises texts.
    own = [each for each in own if old or each["class"] not in ("DebertaV2Tokenizer", "BigBirdTokenizer")]
    own = [each for each in own if old or each["class"] != "XLNetTokenizer" or not each["init"]]
    requests = []
    for number, request in enumerate(own):
        saved = tmp_path / f"saved{number}"
        ours_of(request).save_pretrained(saved)
        (saved / "config.json").write_text((Path(request["folder"]) / "config.json").read_text())
        for suffix in ("", "Fast") if old else ("",):
            back = str(tmp_path / f"back{number}{suffix}")
            there = {"class": request["class"] + suffix, "folder": str(saved), "init": {}, "saved": back}
            requests.append({**request, **there, "texts": COMMON, "ours": request})
    for request, answer in zip(requests, answers_of(requests, tmp_path, old), strict=True):
        tokenizer, named = ours_of(request["ours"]), (request["class"], request["init"])
        encoded = [tokenizer(text, return_offsets_mapping=True) for text in COMMON]
        assert [each["input_ids"] for each in encoded] == answer["ids"], named
        for text, each, offsets, words in zip(
            COMMON, encoded, answer["offsets"] or (), answer["words"] or (), strict=False
        ):
            if old:
                expected = [trimmed(text, span) for span in offsets]
                assert [trimmed(text, span) for span in each["offset_mapping"]] == expected, (named, text)
            assert each.word_ids() == words, (named, text)
        for folder in (request["folder"], request["saved"]):
            again = AutoTokenizer.from_pretrained(folder)
            assert type(again) is type(tokenizer), named
            assert [again(text)["input_ids"] for text in INPUTS] == [tokenizer(text)["input_ids"] for text in INPUTS]
            assert again.special_tokens_map == tokenizer.special_tokens_map, named
