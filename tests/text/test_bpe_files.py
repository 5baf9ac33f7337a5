"""Reading and writing the folders of BPE tokenizers, and finding the right class."""

from __future__ import annotations

import json
import warnings

import pytest

from glassformer.errors import TokenizerError
from glassformer.text import AutoTokenizer, BertTokenizer, GPT2Tokenizer, OpenAIGPTTokenizer, RobertaTokenizer

from .conftest import SMALL

TEXTS = ["Hello <mask> naïve\n\n  world's <|endoftext|> 12", "a<e1>b newtok 北京<e1>", "", " <unk>x"]
PUBLISHED = {"gpt2": GPT2Tokenizer, "roberta-base": RobertaTokenizer, "openai-gpt": OpenAIGPTTokenizer}
SEED_004 = {  # the config.json of the Chinese GPT-2 in the tutorials
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "gradient_checkpointing": False,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_embd": 768,
    "n_head": 12,
    "n_inner": None,
    "n_layer": 12,
    "n_positions": 1024,
    "output_past": True,
    "resid_pdrop": 0.1,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 320}},
    "tokenizer_class": "BertTokenizer",
    "vocab_size": 21128,
}


def ids(tokenizer):
    return [list(tokenizer(text)["input_ids"]) for text in TEXTS]


def write(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def with_additions(kind, folder):
    made = kind.from_pretrained(folder)
    made.add_special_tokens({"additional_special_tokens": ["<e1>"]})
    made.add_tokens(["newtok"])
    return made


def test_every_way_in(bpe_folder, monkeypatch):
    monkeypatch.chdir(bpe_folder)
    made = GPT2Tokenizer.from_pretrained(bpe_folder)
    vocab, merges = bpe_folder / "vocab.json", bpe_folder / "merges.txt"
    made.save_pretrained(bpe_folder / "saved")
    for other in (
        GPT2Tokenizer.from_pretrained("."),
        GPT2Tokenizer.from_pretrained(vocab),
        GPT2Tokenizer(str(vocab), str(merges)),
        GPT2Tokenizer(vocab_file=vocab, merges_file=merges),
        GPT2Tokenizer(vocab=made.vocab, merges=made.merges.pairs),
        GPT2Tokenizer(bpe_folder / "saved" / "tokenizer.json"),
        GPT2Tokenizer.from_pretrained(bpe_folder / "saved" / "tokenizer.json"),
        AutoTokenizer.from_pretrained(bpe_folder),
        AutoTokenizer.from_pretrained(bpe_folder / "saved" / "tokenizer.json"),
    ):
        assert type(other) is GPT2Tokenizer
        assert ids(other) == ids(made)
    vocab.rename("encoder.json")
    merges.rename("vocab.bpe")
    assert ids(AutoTokenizer.from_pretrained(bpe_folder)) == ids(made)


@pytest.mark.parametrize("name", PUBLISHED)
def test_written_and_read_again(shared, tmp_path, name):
    made = with_additions(PUBLISHED[name], shared / "vocab" / name)
    made.padding_side = "left"
    target = tmp_path / "saved"
    made.save_pretrained(target)
    names = {path.name for path in target.iterdir()}
    assert {"vocab.json", "merges.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"} <= names
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = AutoTokenizer.from_pretrained(target)
    assert type(read) is PUBLISHED[name]
    assert ids(read) == ids(made)
    assert read.get_vocab() == made.get_vocab()
    assert read.special_tokens_map == made.special_tokens_map
    assert read.added_tokens_decoder == made.added_tokens_decoder
    assert read.padding_side == "left"
    for gone in ("vocab.json", "merges.txt", "added_tokens.json", "tokenizer_config.json", "special_tokens_map.json"):
        (target / gone).unlink()
    assert ids(AutoTokenizer.from_pretrained(target)) == ids(made)  # from tokenizer.json alone
    assert type(AutoTokenizer.from_pretrained(target)) is PUBLISHED[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_with_transformers(shared, tmp_path, name):
    transformers = pytest.importorskip("transformers", minversion="5", reason="compared with transformers 5")
    transformers.logging.set_verbosity_error()
    made = with_additions(PUBLISHED[name], shared / "vocab" / name)
    made.save_pretrained(tmp_path / "ours")
    for kind in (getattr(transformers, PUBLISHED[name].__name__), transformers.AutoTokenizer):
        theirs = kind.from_pretrained(tmp_path / "ours")
        assert ids(theirs) == ids(made)
        assert len(theirs) == len(made)
        theirs.save_pretrained(tmp_path / "theirs")
        for back in (PUBLISHED[name], AutoTokenizer):
            read = back.from_pretrained(tmp_path / "theirs")
            assert ids(read) == ids(made)
            assert read.special_tokens_map == made.special_tokens_map


def test_settings_are_written(shared, tmp_path):
    GPT2Tokenizer.from_pretrained(
        shared / "vocab" / "gpt2", add_prefix_space=True, add_bos_token=True, errors="ignore"
    ).save_pretrained(tmp_path)
    read = GPT2Tokenizer.from_pretrained(tmp_path)
    assert (read.add_prefix_space, read.add_bos_token, read.errors) == (True, True, "ignore")
    (tmp_path / "tokenizer_config.json").unlink()
    read = GPT2Tokenizer.from_pretrained(tmp_path)  # tokenizer.json tells these two as well
    assert (read.add_prefix_space, read.add_bos_token) == (True, True)
    assert GPT2Tokenizer.from_pretrained(tmp_path, add_prefix_space=False).add_prefix_space is False
    with pytest.raises(AttributeError):
        read.add_prefix_space = False


def test_files_of_2020(bpe_folder, tmp_path):
    """A tokenizer.json that does not name its model, with merges as strings."""
    made = GPT2Tokenizer.from_pretrained(bpe_folder)
    made.save_pretrained(tmp_path / "old")
    path = tmp_path / "old" / "tokenizer.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    assert whole["model"].pop("type") == "BPE"
    assert whole["model"]["merges"][0] == "l o"
    for file in (tmp_path / "old").iterdir():
        file.unlink()
    write(path, whole)
    assert ids(AutoTokenizer.from_pretrained(path.parent)) == ids(made)
    whole["model"]["merges"] = [pair.split() for pair in whole["model"]["merges"]]  # and as lists, as of 2024
    write(path, whole)
    assert ids(AutoTokenizer.from_pretrained(path.parent)) == ids(made)


def test_mask_keeps_its_flags(shared, tmp_path):
    from glassformer.text import AddedToken

    kept = RobertaTokenizer.from_pretrained(shared / "vocab" / "roberta-base", mask_token=AddedToken("<mask>"))
    assert kept.tokenize("a <mask>") == ["a", "Ġ", "<mask>"]
    kept.save_pretrained(tmp_path)
    assert RobertaTokenizer.from_pretrained(tmp_path).tokenize("a <mask>") == ["a", "Ġ", "<mask>"]


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_a_gpt2_with_the_tokenizer_of_bert(tmp_path, file):
    write(tmp_path / file, SEED_004)
    if file == "tokenizer_config.json":
        write(tmp_path / file, {"tokenizer_class": "BertTokenizer"})
        write(tmp_path / "config.json", {"model_type": "gpt2"})
    write(tmp_path / "vocab.txt", "\n".join(SMALL) + "\n")
    made = AutoTokenizer.from_pretrained(tmp_path)
    assert type(made) is BertTokenizer
    assert made.tokenize("北京") == ["北", "京"]


@pytest.mark.parametrize(
    "config, kind",
    [
        ({"model_type": "gpt2"}, GPT2Tokenizer),
        ({"model_type": "gpt2", "tokenizer_class": "GPT2TokenizerFast"}, GPT2Tokenizer),
        ({"model_type": "roberta"}, RobertaTokenizer),
        ({"model_type": "anything", "tokenizer_class": "RobertaTokenizer"}, RobertaTokenizer),
        ({}, RobertaTokenizer),
    ],
)
def test_auto(shared, tmp_path, config, kind):
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes((shared / "vocab" / "roberta-base" / name).read_bytes())
    write(tmp_path / "config.json", config)
    assert (
        type(AutoTokenizer.from_pretrained(tmp_path, **({"add_bos_token": True} if kind is GPT2Tokenizer else {})))
        is kind
    )


def test_auto_by_files(shared, tmp_path):
    for name, kind in PUBLISHED.items():
        assert type(AutoTokenizer.from_pretrained(shared / "vocab" / name)) is kind
    OpenAIGPTTokenizer.from_pretrained(shared / "vocab" / "openai-gpt").save_vocabulary(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"vocab.json", "merges.txt"}
    assert type(AutoTokenizer.from_pretrained(tmp_path)) is OpenAIGPTTokenizer
    write(tmp_path / "config.json", {"model_type": "openai-gpt"})
    assert type(AutoTokenizer.from_pretrained(tmp_path)) is OpenAIGPTTokenizer


@pytest.mark.parametrize(
    "name, content, says",
    [
        ("vocab.json", "{", "vocab.json is not valid JSON: .* in line 1"),
        ("vocab.json", {}, "has no vocabulary"),
        ("vocab.json", {"a": 0, "<|endoftext|>": 0}, "two tokens the same id"),
        ("vocab.json", {"a": "x"}, "whole number"),
        ("vocab.json", {"a": 0}, r"has no '<\|endoftext\|>' \(bos_token\)"),
        ("merges.txt", "#version: 0.2\nl o\nl o w\n", r"merges\.txt, line 3: a merge must be two symbols, got 'l o w'"),
        ("tokenizer.json", {"model": {"type": "Unigram"}}, "describes a Unigram tokenizer"),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]}}, "merge 0"),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {"a": 0}, "dropout": 0.1}}, "dropout is 0.1"),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}, "does what ByteLevel"),
        (
            "tokenizer.json",
            {
                "model": {"type": "BPE", "vocab": {"a": 0}},
                "pre_tokenizer": {"type": "ByteLevel"},
                "post_processor": {"type": "RobertaProcessing"},
            },
            "RobertaProcessing",
        ),
    ],
)
def test_damaged_files(bpe_folder, name, content, says):
    write(bpe_folder / name, content)
    with pytest.raises(TokenizerError, match=says):
        GPT2Tokenizer.from_pretrained(bpe_folder)


def test_bytes_that_are_no_text(bpe_folder):
    (bpe_folder / "merges.txt").write_bytes(b"#version: 0.2\nl o\n\xff \xfe\n")
    with pytest.raises(TokenizerError, match=r"merges\.txt, line 3: not UTF-8"):
        GPT2Tokenizer.from_pretrained(bpe_folder)


def test_nothing_there(tmp_path, bpe_folder):
    (bpe_folder / "merges.txt").unlink()
    with pytest.raises(TokenizerError, match=r"neither vocab\.json and merges\.txt nor tokenizer\.json"):
        GPT2Tokenizer.from_pretrained(bpe_folder)
    with pytest.raises(TokenizerError, match="does not exist"):
        GPT2Tokenizer(bpe_folder / "vocab.json", bpe_folder / "merges.txt")
    for arguments in ({}, {"vocab": {"a": 0}}, {"vocab_file": "vocab.json"}):
        with pytest.raises(TokenizerError, match="needs a vocabulary and its merges"):
            GPT2Tokenizer(**arguments)


def test_different_vocabularies_are_reported(bpe_folder):
    GPT2Tokenizer.from_pretrained(bpe_folder).save_pretrained(bpe_folder)
    write(bpe_folder / "merges.txt", "l o\n")
    with pytest.warns(UserWarning, match="different vocabularies"):
        assert len(GPT2Tokenizer.from_pretrained(bpe_folder).merges) == 1


def test_a_trained_vocabulary(tmp_path):
    from glassformer.text import train_vocabulary

    train_vocabulary(iter(["low lower newest widest"] * 20), "bpe", vocab_size=300).save(tmp_path)
    made = AutoTokenizer.from_pretrained(tmp_path)
    assert type(made) is GPT2Tokenizer
    assert made.decode(made.encode("lowest 北京")) == "lowest 北京"


def test_merges_that_are_no_pairs():
    with pytest.raises(TokenizerError, match=r"merges: a merge must be two symbols, got \['l', 'o', 'w'\]"):
        GPT2Tokenizer(vocab={"l": 0, "o": 1, "<|endoftext|>": 2}, merges=[("l", "o", "w")])
