"""Reading and writing tokenizer folders, and finding the right class."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from glassformer.errors import ArgumentError, TokenizerError
from glassformer.text import AutoTokenizer, BertTokenizer

from .conftest import SMALL

TEXTS = ["The QUICK fox jumped, newtok NEWTOK!", "café 北京 [MASK] [E1] two words", ""]


def ids(tokenizer):
    return [list(tokenizer(text)["input_ids"]) for text in TEXTS]


def write(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def test_every_way_in(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    expected = ids(BertTokenizer.from_pretrained(folder))
    path = folder / "vocab.txt"
    for made in (
        BertTokenizer.from_pretrained(f"./{folder.name}/"),
        BertTokenizer.from_pretrained(folder, cache_dir="anywhere", local_files_only=True),
        BertTokenizer.from_pretrained(path),
        BertTokenizer(str(path)),
        BertTokenizer(vocab_file=path),
        BertTokenizer(vocab={token: i for i, token in enumerate(SMALL)}),
        BertTokenizer(path).from_pretrained(folder),
        AutoTokenizer.from_pretrained(folder),
    ):
        assert ids(made) == expected


def test_written_and_read_again(small, tmp_path):
    small.add_tokens(["NewTok", "two words"])
    small.add_special_tokens({"additional_special_tokens": ["[E1]"]})
    small.model_max_length, small.padding_side, small.truncation_side = 77, "left", "left"
    small.kept_settings["of_someone_else"] = {"kept": True}
    target = tmp_path / "made" / "here"
    small.save_pretrained(target)
    names = {path.name for path in target.iterdir()}
    assert names == {
        "vocab.txt",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
    }
    read = BertTokenizer.from_pretrained(target)
    assert ids(read) == ids(small)
    assert read.get_vocab() == small.get_vocab()
    assert read.special_tokens_map == small.special_tokens_map
    assert (read.model_max_length, read.padding_side, read.truncation_side) == (77, "left", "left")
    assert read.kept_settings["of_someone_else"] == {"kept": True}
    assert BertTokenizer.from_pretrained(target, padding_side="right").padding_side == "right"
    for name in ("vocab.txt", "added_tokens.json", "tokenizer_config.json", "special_tokens_map.json"):
        (target / name).unlink()
    assert ids(BertTokenizer.from_pretrained(target)) == ids(small)  # from tokenizer.json alone
    assert ids(BertTokenizer(target / "tokenizer.json")) == ids(small)
    assert ids(AutoTokenizer.from_pretrained(target)) == ids(small)


def test_settings_come_from_tokenizer_json(folder, tmp_path):
    cased = BertTokenizer.from_pretrained(folder, do_lower_case=False, tokenize_chinese_chars=False)
    cased.save_pretrained(tmp_path / "cased")
    for name in ("vocab.txt", "tokenizer_config.json"):
        (tmp_path / "cased" / name).unlink()
    read = BertTokenizer.from_pretrained(tmp_path / "cased")
    assert (read.do_lower_case, read.tokenize_chinese_chars) == (False, False)
    assert BertTokenizer.from_pretrained(tmp_path / "cased", do_lower_case=True).do_lower_case


def test_with_transformers(small, tmp_path):
    transformers = pytest.importorskip("transformers", minversion="5", reason="compared with transformers 5")
    transformers.logging.set_verbosity_error()
    small.add_tokens(["NewTok", "two words"])
    small.add_special_tokens({"additional_special_tokens": ["[E1]"]})
    small.save_pretrained(tmp_path / "ours")
    for kind in (transformers.BertTokenizer, transformers.AutoTokenizer):
        theirs = kind.from_pretrained(tmp_path / "ours")
        assert ids(theirs) == ids(small)
        assert len(theirs) == len(small)
        theirs.save_pretrained(tmp_path / "theirs")
        back = BertTokenizer.from_pretrained(tmp_path / "theirs")
        assert ids(back) == ids(small)
        assert back.special_tokens_map == small.special_tokens_map


def test_old_and_new_forms_of_added_tokens(folder):
    token = {"content": "[MASK]", "lstrip": True, "normalized": False, "rstrip": False, "single_word": False}
    write(folder / "special_tokens_map.json", {"mask_token": token})
    write(
        folder / "tokenizer_config.json",
        {
            "mask_token": {"__type": "AddedToken", **token},
            "do_lower_case": False,
            "max_len": 99,
            "never_split": None,
            "added_tokens_decoder": {str(len(SMALL)): {**token, "content": "[E1]", "special": True}},
            "additional_special_tokens": ["[E1]"],
        },
    )
    made = BertTokenizer.from_pretrained(folder)
    assert (made.mask_token_id, made.do_lower_case, made.model_max_length) == (4, False, 99)
    assert made.tokenize("a [E1]") == ["a", "[E1]"]
    assert len(made) == len(SMALL) + 1


def test_repeated_tokens(folder, tmp_path):
    write(folder / "vocab.txt", "\n".join([*SMALL, "fox", "last"]) + "\n")
    made = BertTokenizer.from_pretrained(folder)
    assert made.convert_tokens_to_ids("fox") == len(SMALL)  # the last one wins
    assert made.convert_ids_to_tokens(8) == "[UNK]"
    made.save_pretrained(tmp_path / "again")
    assert BertTokenizer.from_pretrained(tmp_path / "again").vocab == made.vocab


@pytest.mark.parametrize(
    "name, content, says",
    [
        ("tokenizer_config.json", "{", "tokenizer_config.json is not valid JSON: .* in line 1"),
        ("tokenizer_config.json", "[]", "must hold a JSON object"),
        ("special_tokens_map.json", {"mask_token": "[NONE]"}, r"has no '\[NONE\]' \(mask_token\)"),
        ("special_tokens_map.json", {"mask_token": 5}, "must be a string"),
        ("added_tokens.json", {"new": "x"}, "whole number"),
        ("added_tokens.json", {"new": 3}, "added token 'new' has id 3"),
        ("tokenizer.json", "no json", "tokenizer.json is not valid JSON: .* in line 1"),
        ("tokenizer.json", {"model": {"type": "BPE"}}, "BPE tokenizer"),
        ("vocab.txt", "", "vocab.txt is empty"),
    ],
)
def test_damaged_files(folder, name, content, says):
    write(folder / name, content)
    with pytest.raises(TokenizerError, match=says):
        BertTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer.json", "tokenizer_config.json", "config.json"])
def test_pointers_of_git_lfs(folder, name):
    write(folder / name, f"version https://git-lfs.github.com/spec/v1\noid sha256:{'4d7a2146' * 8}\nsize 12345\n")
    for kind in (AutoTokenizer,) if name == "config.json" else (AutoTokenizer, BertTokenizer):
        with pytest.raises(TokenizerError, match=rf"{name} is not the file itself but a Git LFS pointer.*git lfs pull"):
            kind.from_pretrained(folder)


def test_bytes_that_are_no_text(folder):
    (folder / "vocab.txt").write_bytes(b"[PAD]\n[UNK]\n\xff\xfe\n")
    with pytest.raises(TokenizerError, match=r"vocab\.txt, line 3: not UTF-8"):
        BertTokenizer.from_pretrained(folder)


def test_nothing_there(tmp_path):
    with pytest.raises(TokenizerError, match=r"neither vocab\.txt nor tokenizer\.json"):
        BertTokenizer.from_pretrained(tmp_path)
    with pytest.raises(TokenizerError, match="does not exist"):
        BertTokenizer(tmp_path / "vocab.txt")
    with pytest.raises(TokenizerError, match="needs a vocabulary"):
        BertTokenizer()


def test_different_vocabularies_are_reported(folder, small):
    small.save_pretrained(folder)
    write(folder / "vocab.txt", "\n".join([*SMALL, "more"]) + "\n")
    with pytest.warns(UserWarning, match="different vocabularies"):
        assert "more" in BertTokenizer.from_pretrained(folder).vocab


def test_auto(folder, tmp_path):
    write(folder / "config.json", {"model_type": "gpt2", "tokenizer_class": "BertTokenizer"})
    assert type(AutoTokenizer.from_pretrained(folder)) is BertTokenizer
    write(folder / "config.json", {"model_type": "bert"})
    assert type(AutoTokenizer.from_pretrained(folder, do_lower_case=False)) is BertTokenizer
    write(folder / "tokenizer_config.json", {"tokenizer_class": "ReformerTokenizer"})
    unsupported = "ReformerTokenizer, which is not supported yet; supported are AlbertTokenizer"
    with pytest.raises(TokenizerError, match=unsupported):
        AutoTokenizer.from_pretrained(folder)
    other = tmp_path / "other"
    other.mkdir()
    write(other / "config.json", {"model_type": "gpt_neox"})
    with pytest.raises(TokenizerError, match="'gpt_neox' model is not supported yet"):
        AutoTokenizer.from_pretrained(other)
    (other / "config.json").unlink()
    with pytest.raises(TokenizerError, match="it has nothing"):
        AutoTokenizer.from_pretrained(other)
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(ArgumentError, match="did you mean 'do_lower_case'"):
        AutoTokenizer.from_pretrained(folder, do_lowercase=True)
    with pytest.raises(TokenizerError, match="from_pretrained"):
        AutoTokenizer()


def test_a_name_goes_to_the_hub(folder, monkeypatch):
    from glassformer.checkpoints import hub

    asked = {}

    def find_folder(name, *, files, **options):
        asked.update(options, name=name, files=files)
        return Path(folder)

    monkeypatch.setattr(hub, "find_folder", find_folder)
    made = BertTokenizer.from_pretrained("someone/bert", revision="main", endpoint="https://mirror")
    assert made.name_or_path == asked["name"] == "someone/bert"
    assert "vocab.txt" in asked["files"]
    assert asked["revision"] == "main"
    assert asked["endpoint"] == "https://mirror"
    assert AutoTokenizer.from_pretrained("someone/bert").name_or_path == "someone/bert"
    assert "config.json" in asked["files"]


def test_quiet_on_ordinary_folders(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BertTokenizer.from_pretrained(folder)("the fox", padding=True)
