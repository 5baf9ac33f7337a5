"""Files of data sets on a hub: the real client against a small hub on this machine."""

from __future__ import annotations

import logging
import os
import socket

import huggingface_hub.constants  # noqa: F401  read here, before a test changes the environment
import pytest

from glassformer import HubError, InputError, read_rows
from glassformer.checkpoints.dataset_files import find_dataset_files

from ..checkpoints.hub_server import HubServer

FILES = {
    "README.md": b"# a data set",
    "train.csv": b"text,label\nfine,1\n",
    "data/part-0.jsonl": b'{"text": "a"}\n',
    "data/part-1.jsonl": b'{"text": "b"}\n',
    "data/deep/part-2.jsonl": b'{"text": "c"}\n',
    "data/odd.index.json": b'[{"text": "d"}]',
}
REPOS = {
    "datasets/org/name": {
        "main": FILES,
        "v1": {"train.csv": b"text,label\nold,0\n"},
        "refs/convert/parquet": {"x.txt": b"converted"},
    },
    "org/name": {"main": {"train.csv": b"text,label\na model's,0\n"}},
}


@pytest.fixture(autouse=True)
def own_environment(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("HF_", "HUGGING", "TRANSFORMERS_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def hub(monkeypatch):
    with HubServer(REPOS) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


@pytest.fixture
def no_socket(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a socket was opened")

    def apply():
        monkeypatch.setattr(socket, "socket", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)

    return apply


def test_a_file(hub, tmp_path):
    rows = list(read_rows("hf://datasets/org/name/train.csv"))
    assert rows == [{"text": "fine", "label": "1"}]
    assert rows[0].place == "hf://datasets/org/name/train.csv, line 2"
    assert hub.fetched() == ["train.csv"]
    assert (tmp_path / "home/hub/datasets--org--name/refs/main").exists()


@pytest.mark.parametrize(
    "address, text",
    [
        ("org/name@v1/train.csv", "old"),
        ("org/name@main/train.csv", "fine"),
        ("org/name@refs/convert/parquet/x.txt", "converted"),
        ("org/name@refs%2Fconvert%2Fparquet/x.txt", "converted"),
    ],
)
def test_revisions(hub, address, text):
    (row,) = read_rows("hf://datasets/" + address)
    assert row["text"] == text and row.file == "hf://datasets/" + address


def test_patterns(hub):
    rows = list(read_rows("hf://datasets/org/name/data/*.jsonl"))
    assert [(row["text"], row.file.rsplit("/", 1)[1]) for row in rows] == [("a", "part-0.jsonl"), ("b", "part-1.jsonl")]
    assert hub.fetched() == ["part-0.jsonl", "part-1.jsonl"]
    assert [row["text"] for row in read_rows("hf://datasets/org/name/data/*/part-?.jsonl")] == ["c"]


def test_a_file_named_like_an_index_of_weights(hub):
    assert [row["text"] for row in read_rows("hf://datasets/org/name/data/odd.index.json")] == ["d"]
    assert [row["text"] for row in read_rows("hf://datasets/org/name/data/odd.index.json", local_files_only=True)] == [
        "d"
    ]


def test_beside_files_from_here(hub, write):
    rows = read_rows([write("a.csv", "text,label\nhere,0\n"), "hf://datasets/org/name/train.csv"])
    assert [row["text"] for row in rows] == ["here", "fine"]


def test_mirrors_and_token_of_the_call(monkeypatch):
    with HubServer({}) as lagging, HubServer(REPOS, needs_token="let-me-in") as second:
        mirrors = [lagging.url, second.url]
        rows = read_rows("hf://datasets/org/name/train.csv", endpoint=mirrors, token="let-me-in")
        assert [row["text"] for row in rows] == ["fine"]
        assert lagging.requests and {request.token for request in second.requests} == {"Bearer let-me-in"}
        with pytest.raises(HubError, match=r"no such repository.*; .*refused it \(status 401\)"):
            read_rows("hf://datasets/org/name@v1/train.csv", endpoint=mirrors)


def test_cache_dir(hub, tmp_path):
    list(read_rows("hf://datasets/org/name/train.csv", cache_dir=tmp_path / "given"))
    assert (tmp_path / "given" / "datasets--org--name").is_dir()


def test_rows_are_read_again_without_a_connection(hub, no_socket):
    rows = read_rows("hf://datasets/org/name/train.csv")
    no_socket()
    assert list(rows) == list(rows) == [{"text": "fine", "label": "1"}]


@pytest.mark.parametrize("way", ["argument", "HF_HUB_OFFLINE"])
def test_offline(hub, monkeypatch, no_socket, way, caplog):
    list(read_rows("hf://datasets/org/name/data/part-1.jsonl"))
    if way != "argument":
        monkeypatch.setenv(way, "1")
    no_socket()
    offline = {"local_files_only": way == "argument"}
    with caplog.at_level(logging.WARNING, "glassformer"):
        assert [row["text"] for row in read_rows("hf://datasets/org/name/data/part-1.jsonl", **offline)] == ["b"]
        assert not caplog.messages
        assert [row["text"] for row in read_rows("hf://datasets/org/name/data/*.jsonl", **offline)] == ["b"]
    assert caplog.messages == [
        "datasets/org/name: 'data/*.jsonl' is answered from the cache alone (1); the hub may have more"
    ]
    with pytest.raises(HubError, match=r"only the cache is read: .* has none of train\.csv; it has data/part-1\.jsonl"):
        read_rows("hf://datasets/org/name/train.csv", **offline)
    with pytest.raises(HubError, match=r"'datasets/org/other' \(revision 'main'\) is not in the cache"):
        read_rows("hf://datasets/org/other/train.csv", **offline)


def test_an_unreachable_hub_falls_back_to_the_cache_with_a_warning(hub):
    list(read_rows("hf://datasets/org/name/train.csv"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{probe.getsockname()[1]}"
    with pytest.warns(UserWarning, match="using the cached copy of 'datasets/org/name'"):
        rows = read_rows("hf://datasets/org/name/train.csv", endpoint=dead)
    assert [row["text"] for row in rows] == ["fine"]


def test_what_is_not_there(hub):
    with pytest.raises(HubError, match=r"^could not get 'datasets/org/none' .*has no such repository") as caught:
        read_rows("hf://datasets/org/none/train.csv")
    assert "folder" not in str(caught.value)
    with pytest.raises(HubError, match=r"has none of trian\.csv; it has README\.md, data/deep/part-2\.jsonl"):
        read_rows("hf://datasets/org/name/trian.csv")
    with pytest.raises(HubError, match="no revision 'v7'"):
        read_rows("hf://datasets/org/name@v7/train.csv")


@pytest.mark.parametrize(
    "address",
    ["hf://datasets/org/name", "hf://datasets/org/name/", "hf://org/name/train.csv", "hf://datasets/name.csv", "hf://"],
)
def test_addresses_that_name_no_file(address, no_socket):
    no_socket()
    with pytest.raises(InputError, match=r"a file of a data set is named hf://datasets/OWNER/NAME/PATH"):
        read_rows(address)


@pytest.mark.parametrize("path", ["../x.csv", "a//b.csv", "a/../../b.csv", "./a.csv", "a\\b.csv"])
def test_paths_that_leave_the_data_set(path, no_socket):
    no_socket()
    with pytest.raises(HubError, match=r"is needed, got "):
        find_dataset_files("org/name", path)
    with pytest.raises(HubError, match=r"is needed, got "):
        find_dataset_files("../name", "a.csv")


def test_a_hostile_list_of_files_stays_outside(tmp_path):
    with HubServer(
        {"datasets/org/name": {"main": {"data/..": b"x", "../x.csv": b"text\nx", "data/a.csv": b"text\na"}}}
    ) as evil:
        rows = read_rows("hf://datasets/org/name/*/*.csv", endpoint=evil.url)
        assert [row["text"] for row in rows] == ["a"]
        assert evil.fetched() == ["a.csv"]
        with pytest.raises(HubError, match="has none of"):
            read_rows("hf://datasets/org/name/data/..*", endpoint=evil.url)
