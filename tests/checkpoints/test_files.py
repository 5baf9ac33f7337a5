"""Small files: written in one step, read with suspicion."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer import AutoModel, BertConfig, BertModel
from glassformer.checkpoints import files
from glassformer.checkpoints.files import read_json, read_weight_map, remove_stale_temporaries, write_atomically
from glassformer.checkpoints.weights import open_weights
from glassformer.errors import CheckpointError, DamagedFileError

DEAD = 2**22 + 1  # beyond the largest process number that Linux gives


def test_text_and_bytes_replace_what_was_there(tmp_path):
    path = tmp_path / "config.json"
    write_atomically(path, "né")
    assert path.read_bytes() == "né".encode()
    write_atomically(str(path), b"\x00new")
    assert path.read_bytes() == b"\x00new"
    assert os.listdir(tmp_path) == ["config.json"]


def test_the_file_has_ordinary_permissions(tmp_path):
    before = os.umask(0o022)
    try:
        write_atomically(tmp_path / "x", b"1")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644


def test_a_link_is_replaced_and_its_target_kept(tmp_path):
    (tmp_path / "blob").write_bytes(b"shared")
    (tmp_path / "config.json").symlink_to("blob")
    write_atomically(tmp_path / "config.json", b"mine")
    assert (tmp_path / "blob").read_bytes() == b"shared"
    assert (tmp_path / "config.json").read_bytes() == b"mine"


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_temporary(tmp_path, monkeypatch, step):
    path = tmp_path / "config.json"
    path.write_bytes(b"old")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if step == "write":
        real = open

        class Full:
            def __init__(self, file):
                self.file = file

            def __enter__(self):
                return self

            def __exit__(self, *error):
                self.file.close()

            write = full

        monkeypatch.setattr(files, "open", lambda *a: Full(real(*a)), raising=False)
    else:
        monkeypatch.setattr(files.os, step, full)
    with pytest.raises(CheckpointError, match=r"could not write .*config.json: no space left"):
        write_atomically(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["config.json"]


def test_a_really_full_file_system(tmp_path):
    """The size limit of a process stands for the disk: the write itself fails, half way."""
    code = """
import resource, sys
from glassformer.checkpoints.files import write_atomically
from glassformer.errors import CheckpointError
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomically(sys.argv[1], b"x" * 100_000)
except CheckpointError as error:
    print(error)
"""
    path = tmp_path / "config.json"
    path.write_bytes(b"old")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"could not write {path}: file too large"
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["config.json"]


def test_a_folder_that_is_missing_or_no_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    for folder, reason in (("nowhere", "no such file"), ("file", "not a directory")):
        with pytest.raises(CheckpointError, match=reason):
            write_atomically(tmp_path / folder / "config.json", b"x")


def test_only_our_own_abandoned_temporaries_are_removed(tmp_path):
    stale = [f".model.safetensors.{DEAD}-0123abcd.glassformer-tmp", f".x.{os.getpid()}-0123abcd.glassformer-tmp"]
    kept = [
        f".x.{os.getppid()}-0123abcd.glassformer-tmp",  # its writer lives
        f"model.safetensors.{DEAD}-0123abcd.glassformer-tmp",
        f".x.{DEAD}-0123abcd.tmp",
        f".x.{DEAD}-0123abcg.glassformer-tmp",
        ".x.glassformer-tmp",
        "config.json",
    ]
    for name in stale + kept:
        (tmp_path / name).write_text("x")
    assert sorted(path.name for path in remove_stale_temporaries(tmp_path)) == sorted(stale)
    assert sorted(os.listdir(tmp_path)) == sorted(kept)
    os.utime(tmp_path / kept[0], (0, 0))  # so old that the number must have been given anew
    remove_stale_temporaries(tmp_path)
    assert not (tmp_path / kept[0]).exists()
    assert remove_stale_temporaries(tmp_path / "nowhere") == []


def test_a_temporary_in_use_is_not_stale(tmp_path):
    with files.open_atomically(tmp_path / "x") as file:
        file.write(b"1")
        assert remove_stale_temporaries(tmp_path) == []
    assert (tmp_path / "x").read_bytes() == b"1"


def test_a_file_that_a_library_writes_by_name(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), files.replace_atomically(path) as name:
        name.write_bytes(b"half")
        name.with_name(".tmp123").write_bytes(b"the library's own")
        assert remove_stale_temporaries(tmp_path) == []
        raise RuntimeError
    assert os.listdir(tmp_path) == ["x"] and path.read_bytes() == b"old"
    with files.replace_atomically(path) as name:
        name.write_bytes(b"new")
    assert os.listdir(tmp_path) == ["x"] and path.read_bytes() == b"new"
    left = tmp_path / f".x.{DEAD}-0123abcd.glassformer-tmp"
    left.mkdir()
    (left / ".tmp123").write_bytes(b"the library's own")
    assert remove_stale_temporaries(tmp_path) == [left]
    assert os.listdir(tmp_path) == ["x"]


def test_read_json(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('\ufeff{"a": [1, {"b": null}], "ü": "é"}', "utf-8")
    assert read_json(path) == {"a": [1, {"b": None}], "ü": "é"}
    path.write_text('{"a": 1, "a": 2}')
    assert read_json(path) == {"a": 2}
    with pytest.raises(DamagedFileError, match="names 'a' twice"):
        read_json(path, unique=True)


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"", "empty"),
        (b" \n ", "empty"),
        (b"[1]", "must hold a JSON object, got a list"),
        (b"3", "got a number"),
        (b"null", "got null"),
        (b'{"a": 1,\n"b": }', "not valid JSON: .* in line 2"),
        (b'{"a": 1', "not valid JSON"),
        (b'{"a": 1}{', "not valid JSON"),
        (b'{\n"a": "\xff"}', "not UTF-8 text: byte 0xff in line 2"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a":' + b"[" * 1_000_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not usable"),
        (b"\x00" * 100, "not valid JSON"),
    ],
)
def test_damaged_json_is_refused_with_its_reason(tmp_path, content, reason):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(DamagedFileError, match=reason) as caught:
        read_json(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "config.json")  # reading it would wait for ever
    with pytest.raises(DamagedFileError, match="not a file"):
        read_json(tmp_path / "config.json")
    with pytest.raises(DamagedFileError, match="not a file"):
        read_json(tmp_path)
    with pytest.raises(CheckpointError, match=r"vocab.json \(vocabulary\) does not exist"):
        read_json(tmp_path / "vocab.json", "vocabulary")
    with pytest.raises(CheckpointError):
        read_json(tmp_path / "a\0b")


def test_the_size_is_bounded_before_reading(tmp_path):
    path = tmp_path / "config.json"
    with open(path, "wb") as file:
        file.truncate(2**40)  # a sparse terabyte
    with pytest.raises(DamagedFileError, match="more than"):
        read_json(path)


@pytest.mark.parametrize(
    "shard", ["../x.safetensors", "/x.safetensors", "a/b.safetensors", "a\\b.safetensors", "..", "", "x.bin", 3, None]
)
def test_an_index_names_only_files_beside_it(tmp_path, shard):
    import json

    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": shard}}))
    with pytest.raises(DamagedFileError, match="places 'a' in"):
        read_weight_map(index)


@pytest.mark.parametrize("content", ["{}", '{"weight_map": {}}', '{"weight_map": ["a"]}'])
def test_an_index_without_a_table(tmp_path, content):
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(content)
    with pytest.raises(DamagedFileError, match="weight_map"):
        read_weight_map(index)


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'4d7a2146' * 8}\nsize 12345\n"


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "model.safetensors.index.json"])
def test_a_pointer_of_git_lfs_is_no_weight_file(tmp_path, name):
    (tmp_path / name).write_text(POINTER)
    with pytest.raises(DamagedFileError, match=rf"{name} .*Git LFS pointer to it; run `git lfs pull`"):
        open_weights(tmp_path)


def test_a_pointer_of_git_lfs_is_no_config(tmp_path):
    (tmp_path / "config.json").write_text(POINTER)
    for kind in (BertConfig, BertModel, AutoModel):
        with pytest.raises(DamagedFileError, match=r"config\.json is not the file itself .*git lfs pull"):
            kind.from_pretrained(tmp_path)
    write_atomically(tmp_path / "config.json", "{}")
    assert read_json(tmp_path / "config.json") == {}
