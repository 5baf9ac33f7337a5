"""Added and special tokens as people's folders name them, against the original: the slow one of 4.30.2 decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from glassformer import AutoTokenizer, BertTokenizer, GPT2Tokenizer
from glassformer.errors import TokenizerError
from glassformer.text.auto_tokenizer import MODEL_TYPES, OTHER_CLASSES

from ..conftest import ROOT
from .conftest import SMALL

PEER = ROOT / ".peers/transformers4"
N = len(SMALL)
UNK, MASK, WHOLE = SMALL.index("[UNK]"), SMALL.index("[MASK]"), SMALL.index
LEFT, RIGHT = WHOLE("["), WHOLE("]")
PLAIN = {"content": "Q7", "lstrip": False, "rstrip": False, "single_word": False, "normalized": True, "special": False}
LOG = {"added_tokens.json": {"Q7": N, "Q8": N + 1}}
NAMED = {"added_tokens.json": {"[Q7]": N}, "special_tokens_map.json": {"additional_special_tokens": ["[Q7]"]}}

# The small files of a folder, a text, and the ids of the original.
CASES: dict[str, tuple[dict[str, Any], str, list[int]]] = {
    "a plain token is found in lower-cased text": (LOG, "Q7 q7 the Q8", [N, N, WHOLE("the"), N + 1]),
    "and inside of words": (LOG, "[Q7]", [LEFT, N, RIGHT]),
    "a special one is found letter by letter": (NAMED, "[Q7]x[q7]", [N, WHOLE("x"), LEFT, UNK, RIGHT]),
    "one that is a word when lower-cased is that word": (
        {"added_tokens.json": {"New": N}},
        "New new NEW",
        [WHOLE("new")] * 3,
    ),
    "a token in brackets is plain where nothing names it": ({"added_tokens.json": {"[Q7]": N}}, "[Q7][q7]", [N, N]),
    "an own name of a special token adds nothing to its id": (
        {"added_tokens.json": {"[Q7]": N}, "special_tokens_map.json": {"noi_token": "[Q7]"}},
        "x [Q7]",
        [WHOLE("x"), N],
    ),
}
# What 4.30.2 cannot load, or does not know of yet: the ids of transformers 5.
LATER: dict[str, tuple[dict[str, Any], str, list[int]]] = {
    "special tokens of the vocabulary among the added ones": (
        {"added_tokens.json": {"[MASK]": MASK, "[CLS]": 2, "[Q7]": N}, **{k: NAMED[k] for k in NAMED if "map" in k}},
        "x[MASK] [Q7]",
        [WHOLE("x"), MASK, N],
    ),
    "added_tokens_decoder wins over a stale added_tokens.json": (
        {
            "added_tokens.json": {"Q7": N + 1, "Q8": N},
            "tokenizer_config.json": {
                "added_tokens_decoder": {
                    str(N): PLAIN,
                    str(N + 1): {**PLAIN, "content": "Z9", "normalized": False},
                }
            },
        },
        "Q7 q7 Q8 Z9 z9",
        [N, N, UNK, N + 1, UNK],
    ),
    "also where it gives another id to the same token": (
        {
            "added_tokens.json": {"Q7": N + 1},
            "tokenizer_config.json": {"added_tokens_decoder": {str(N): PLAIN}},
        },
        "Q7 q7",
        [N, N],
    ),
    "special tokens under own names": ({"tokenizer_config.json": {"noi_token": "fox"}}, "x[foxy]", None),
    "special tokens under own names, in a section": (
        {"tokenizer_config.json": {"extra_special_tokens": {"noi_token": "fox", "end_token": "[Q7]"}}},
        "x[foxy]",
        None,
    ),
}
for name, (files, text, _) in list(LATER.items())[-2:]:
    LATER[name] = files, text, [WHOLE("x"), LEFT, WHOLE("fox"), UNK, RIGHT]


def write(folder: Path, files: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(SMALL) + "\n", encoding="utf-8")
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    for name, content in {**files, "tokenizer_config.json": config | files.get("tokenizer_config.json", {})}.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.mark.filterwarnings("ignore:.*(unlike added_tokens_decoder|stays plain text)")
@pytest.mark.parametrize("case", [*CASES, *LATER])
def test_ids_are_those_of_the_original_also_when_saved(tmp_path, case):
    files, text, ids = (CASES | LATER)[case]
    made = AutoTokenizer.from_pretrained(write(tmp_path / "a", files))
    assert made.encode(text, add_special_tokens=False) == ids
    made.save_pretrained(tmp_path / "b")
    again = AutoTokenizer.from_pretrained(tmp_path / "b")
    assert again.encode(text, add_special_tokens=False) == ids
    assert again.all_special_tokens == made.all_special_tokens


def test_the_slow_original_agrees(tmp_path):
    if not (PEER / "transformers").is_dir():
        pytest.skip("transformers 4.30.2 is not in .peers/transformers4 (./test.sh puts it there)")
    folders = {case: (str(write(tmp_path / str(i), CASES[case][0])), CASES[case][1]) for i, case in enumerate(CASES)}
    code = (
        "import json, sys, transformers\n"
        "made = {case: transformers.BertTokenizer.from_pretrained(folder).encode(text, add_special_tokens=False)\n"
        "        for case, (folder, text) in json.loads(sys.argv[1]).items()}\n"
        "print(json.dumps([transformers.__version__, made]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, json.dumps(folders)],
        env={**os.environ, "PYTHONPATH": str(PEER)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    version, made = json.loads(run.stdout.splitlines()[-1])
    assert version == "4.30.2"
    assert made == {case: ids for case, (_, _, ids) in CASES.items()}


@pytest.mark.parametrize("case", LATER)
def test_the_later_original_agrees(tmp_path, case):
    theirs = pytest.importorskip("transformers")
    files, text, ids = LATER[case]
    made = theirs.BertTokenizer.from_pretrained(write(tmp_path, files))
    assert made.encode(text, add_special_tokens=False) == ids


def test_own_names_are_attributes_and_unknown_ones_are_reported(tmp_path):
    named = {"noi_token": "fox", "end_token": "[Q7]", "add_bos_token": False}
    with pytest.warns(UserWarning, match=r"has no '\[Q7\]' \(end_token\), which stays plain text"):
        made = BertTokenizer.from_pretrained(write(tmp_path, {"tokenizer_config.json": named}))
    assert (made.noi_token, made.noi_token_id) == ("fox", WHOLE("fox"))
    assert made.all_special_tokens[-1] == "fox" and made.special_tokens_map["noi_token"] == "fox"
    assert made.decode([WHOLE("fox"), WHOLE("x")], skip_special_tokens=True) == "x"
    with pytest.raises(AttributeError, match="BertTokenizer has no attribute 'end_token'"):
        made.end_token  # noqa: B018
    made.save_pretrained(tmp_path / "saved")
    saved = json.loads((tmp_path / "saved/tokenizer_config.json").read_text("utf-8"))
    assert saved["end_token"] == "[Q7]" and saved["noi_token"] == "fox"


def test_a_stale_file_of_added_tokens_is_reported(tmp_path):
    files, _, _ = LATER["added_tokens_decoder wins over a stale added_tokens.json"]
    with pytest.warns(UserWarning, match=rf"gives 'Q7' {N + 1}, unlike added_tokens_decoder in tokenizer_config.json"):
        BertTokenizer.from_pretrained(write(tmp_path, files))


def test_flags_of_plain_tokens_hold_in_lower_case_too(tmp_path):
    token = {**PLAIN, "single_word": True}
    made = BertTokenizer.from_pretrained(
        write(tmp_path, {"tokenizer_config.json": {"added_tokens_decoder": {str(N): token}}})
    )
    assert made.tokenize("Q7 xQ7") == ["Q7", "[UNK]"]


# --- bytes that a vocabulary lacks ---------------------------------------------------------------------------------


def test_a_tokenizer_json_without_an_unknown_token_leaves_symbols_out(bpe_folder, tmp_path):
    whole = GPT2Tokenizer.from_pretrained(bpe_folder)
    whole.save_pretrained(tmp_path / "whole")
    engine = json.loads((tmp_path / "whole/tokenizer.json").read_text("utf-8"))
    engine["model"]["unk_token"] = None
    (tmp_path / "one").mkdir()
    (tmp_path / "one/tokenizer.json").write_text(json.dumps(engine), encoding="utf-8")
    made = GPT2Tokenizer.from_pretrained(tmp_path / "one")
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "one/tokenizer.json"))
    with pytest.warns(UserWarning, match="lacks the symbol 'x' and names no unknown token"):
        for text in ("low xlow", "lxow", "xx", "l\u00e9ow!"):
            assert made.encode(text) == theirs.encode(text).ids
    assert made.unk_token == "<|endoftext|>" and whole.encode("x") == [whole.unk_token_id]  # the slow original's
    made.save_pretrained(tmp_path / "again")
    again = GPT2Tokenizer.from_pretrained(tmp_path / "again")
    with pytest.warns(UserWarning, match="left out"):
        assert again.encode("lxow") == made.encode("low")


# --- classes that are not there ------------------------------------------------------------------------------------


@pytest.mark.parametrize("model_type", sorted(OTHER_CLASSES.keys() - MODEL_TYPES.keys()))
def test_the_tokenizer_of_another_model_is_refused_by_name(bpe_folder, model_type):
    (bpe_folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    (bpe_folder / "vocab.txt").write_text("\n".join(SMALL) + "\n", encoding="utf-8")
    with pytest.raises(TokenizerError, match=f"'{model_type}' model needs a {OTHER_CLASSES[model_type]}, which is not"):
        AutoTokenizer.from_pretrained(bpe_folder)
    named = {"tokenizer_class": "GPT2Tokenizer"}  # the file's own word comes first
    (bpe_folder / "tokenizer_config.json").write_text(json.dumps(named))
    assert isinstance(AutoTokenizer.from_pretrained(bpe_folder), GPT2Tokenizer)
