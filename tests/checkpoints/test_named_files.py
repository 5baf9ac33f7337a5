"""A path in a checkpoint names a file of that checkpoint; only a caller may name others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from glassformer import AutoTokenizer, BertTokenizer, GPT2Tokenizer, SentenceEncoder
from glassformer.checkpoints.weights import open_weights, write_weights
from glassformer.errors import ConfigError, DamagedFileError, TokenizerError
from tests.checkpoints.weight_files import same, some_tensors

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] low ##er".split()


@pytest.fixture
def secret(tmp_path):
    """A file that a checkpoint must not read."""
    path = tmp_path / "secret.txt"
    path.write_text("\n".join(["root:x:0:0", "daemon:x:1:1", *WORDS]))
    return path


@pytest.fixture
def bert(tmp_path):
    folder = tmp_path / "bert"
    BertTokenizer(vocab={word: i for i, word in enumerate(WORDS)}).save_pretrained(folder)
    (folder / "tokenizer.json").unlink()
    return folder


def configure(folder: Path, **values) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize("way", ["absolute", "relative", "link", "link to a folder", "NUL", "number"])
@pytest.mark.parametrize("reader", [AutoTokenizer, BertTokenizer])
def test_a_vocabulary_outside_is_refused(bert, secret, way, reader):
    (bert / "link.txt").symlink_to(secret)
    (bert / "sub").symlink_to(secret.parent)
    named = {"absolute": str(secret), "relative": "../secret.txt", "link": "link.txt", "NUL": "a\0b", "number": 3}
    configure(bert, vocab_file=named.get(way, "sub/secret.txt"))
    with pytest.raises(TokenizerError, match="vocab_file") as caught:
        reader.from_pretrained(bert)
    assert "root" not in str(caught.value)
    assert "outside of the checkpoint" in str(caught.value) or way == "number"


def test_a_vocabulary_inside_is_read_and_a_caller_may_name_any(bert, secret):
    (bert / "words.txt").write_text("\n".join([*WORDS, "more"]))
    configure(bert, vocab_file="words.txt")
    assert AutoTokenizer.from_pretrained(bert).convert_tokens_to_ids("more") == 7
    configure(bert, vocab_file=str(bert / "words.txt"))
    assert AutoTokenizer.from_pretrained(bert).convert_tokens_to_ids("more") == 7
    configure(bert, vocab_file="/etc/passwd")
    elsewhere = shutil.copy(bert / "words.txt", secret.parent / "elsewhere.txt")
    assert BertTokenizer.from_pretrained(bert, vocab_file=elsewhere).convert_tokens_to_ids("more") == 7


def test_merges_outside_are_refused(tmp_path, secret):
    letters = {letter: i for i, letter in enumerate([*"lower", "lo", "<|endoftext|>"])}
    made = GPT2Tokenizer(vocab=dict(zip(letters, range(len(letters)), strict=True)), merges=[("l", "o")])
    made.save_pretrained(tmp_path / "gpt2")
    configure(tmp_path / "gpt2", merges_file="../secret.txt", vocab_file="vocab.json")
    with pytest.raises(TokenizerError, match=r"merges_file '\.\./secret.txt' is outside of the checkpoint"):
        AutoTokenizer.from_pretrained(tmp_path / "gpt2")


def test_a_link_of_the_usual_name_must_lead_to_a_vocabulary(bert, secret, tmp_path):
    shared = tmp_path / "shared" / "vocab.txt"
    shared.parent.mkdir()
    shutil.move(bert / "vocab.txt", shared)
    (bert / "vocab.txt").symlink_to(shared)  # how people share one vocabulary
    assert AutoTokenizer.from_pretrained(bert).vocab_size == len(WORDS)
    (bert / "vocab.txt").unlink()
    (bert / "vocab.txt").symlink_to(secret)
    with pytest.raises(TokenizerError, match="a link out of the checkpoint"):
        AutoTokenizer.from_pretrained(bert)
    assert BertTokenizer(vocab_file=bert / "vocab.txt").vocab_size == 2 + len(WORDS)  # the caller named it


@pytest.mark.parametrize("name", ["added_tokens.json", "special_tokens_map.json", "tokenizer_config.json"])
def test_a_table_that_is_a_link_to_another_file_is_refused(bert, tmp_path, name):
    outside = tmp_path / "credentials.json"
    outside.write_text('{"password": "of-the-user"}')
    (bert / name).unlink(missing_ok=True)
    (bert / name).symlink_to(outside)
    with pytest.raises(TokenizerError, match="is a link out of its folder, to a file of another name") as caught:
        AutoTokenizer.from_pretrained(bert)
    assert "of-the-user" not in str(caught.value)


def as_cached(folder: Path, repository: Path) -> Path:
    """The files of a folder as the hub's client keeps them: a snapshot of links to blobs."""
    snapshot = repository / "snapshots" / ("a" * 40)
    (repository / "blobs").mkdir(parents=True)
    for number, file in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        blob = repository / "blobs" / f"{number:040x}"
        shutil.copy(file, blob)
        link = snapshot / file.relative_to(folder)
        link.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * (len(file.relative_to(folder).parts) + 1)
        link.symlink_to(f"{up}blobs/{blob.name}")
    return snapshot


def test_the_links_of_the_hubs_cache_are_followed(bert, tmp_path, secret):
    configure(bert, vocab_file="vocab.txt")
    write_weights(bert, some_tensors(), max_shard_size=40)
    snapshot = as_cached(bert, tmp_path / "models--org--name")
    assert AutoTokenizer.from_pretrained(snapshot).vocab_size == len(WORDS)
    assert same(open_weights(snapshot), some_tensors())
    (snapshot / "vocab.txt").unlink()
    (snapshot / "vocab.txt").symlink_to("../../../secret.txt")
    with pytest.raises(TokenizerError, match="outside of the checkpoint"):
        AutoTokenizer.from_pretrained(snapshot)


def test_shards_that_are_links_out_of_the_checkpoint_are_refused(tmp_path):
    write_weights(tmp_path / "other", some_tensors(), max_shard_size=40)
    shutil.copytree(tmp_path / "other", tmp_path / "own")
    (shard,) = [path for path in (tmp_path / "own").iterdir() if path.name.startswith("model-00002")]
    name = shard.name
    shard.unlink()
    shard.symlink_to(tmp_path / "other" / name)
    with pytest.raises(DamagedFileError, match="a link to a file outside of the checkpoint"):
        open_weights(tmp_path / "own")
    index = tmp_path / "own" / "model.safetensors.index.json"
    index.unlink()
    index.symlink_to(tmp_path / "other" / index.name)  # who links the index too names that checkpoint
    assert same(open_weights(tmp_path / "own"), some_tensors())


def test_modules_that_are_links_out_of_the_checkpoint_are_refused(tmp_path):
    folder, other = tmp_path / "own", tmp_path / "other"
    folder.mkdir(), other.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "1_Dense").symlink_to(other)
    for path in ("1_Dense", "../other", str(other), "a\0b"):
        modules = [{"type": "x.Transformer", "path": ""}, {"type": "x.Dense", "path": path}]
        (folder / "modules.json").write_text(json.dumps(modules))
        with pytest.raises(ConfigError, match="outside the folder"):
            SentenceEncoder.from_pretrained(folder)


def test_names_that_no_file_can_have_lead_nowhere(bert):
    (bert / "loop").symlink_to("loop")
    for named in ("x" * 5000, "loop", "a\0b"):
        configure(bert, vocab_file=named)
        with pytest.raises(TokenizerError, match="outside of the checkpoint"):
            AutoTokenizer.from_pretrained(bert)
    configure(bert, vocab_file=None)
    (bert / "vocab.txt").unlink()
    (bert / "vocab.txt").symlink_to("vocab.txt")
    with pytest.raises(TokenizerError):
        BertTokenizer.from_pretrained(bert)
