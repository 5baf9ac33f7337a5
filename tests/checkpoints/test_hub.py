"""Names and paths to folders: the real client against a small hub on 127.0.0.1. No request may leave the machine."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import huggingface_hub.constants  # read here, before any test sets what only find_folder reads at every call
import pytest

from glassformer.checkpoints.hub import CONFIG_FILES, MODEL_FILES, TOKENIZER_FILES, WEIGHT_FILES, find_folder
from glassformer.errors import CheckpointError, HubError
from tests.checkpoints.hub_server import HubServer

SHARDED = {
    "config.json": b"{}",
    "model.safetensors.index.json": json.dumps(
        {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    ).encode(),
    "model-00001-of-00002.safetensors": b"first",
    "model-00002-of-00002.safetensors": b"second",
    "pytorch_model.bin": b"pickle",
}
REPOS = {
    "org/tiny": {
        "main": {
            "config.json": b'{"of": "main"}',
            "model.safetensors": b"weights" * 1000,
            "pytorch_model.bin": b"pickle" * 1000,
            "vocab.txt": b"[PAD]\n",
            "tokenizer_config.json": b"{}",
            "README.md": b"# tiny",
        },
        "v1": {"config.json": b'{"of": "v1"}', "pytorch_model.bin": b"old"},
        "refs/pr/1": {"config.json": b'{"of": "pr"}'},
    },
    "bare-name": {"main": {"config.json": b"{}"}},
    "org/sharded": {"main": SHARDED},
    "org/other": {"main": {"README.md": b"nothing here"}},
}


@pytest.fixture(autouse=True)
def own_environment(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("HF_", "HUGGING", "TRANSFORMERS_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch):
    connect = socket.socket.connect
    resolve = socket.getaddrinfo
    outside = []

    def guarded_connect(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] != "127.0.0.1":
            outside.append(address)
            raise OSError(f"a request left the machine: {address}")
        return connect(self, address)

    def guarded_resolve(host, *args, **kwargs):
        if host not in ("127.0.0.1", None):
            outside.append(host)
            raise socket.gaierror(f"a request left the machine: {host}")
        return resolve(host, *args, **kwargs)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_resolve)
    yield
    assert not outside


@pytest.fixture
def hub():
    with HubServer(REPOS) as server:
        yield server


@pytest.fixture
def no_socket(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a socket was opened")

    def apply():
        monkeypatch.setattr(socket, "socket", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)

    return apply


def unused_url() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


# --- local folders ---


@pytest.mark.parametrize("spelling", ["model", "./model", "./model/", "nested/../model", "{abs}", "~/model"])
def test_a_local_folder_opens_no_connection(tmp_path, monkeypatch, no_socket, spelling):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model").mkdir()
    (tmp_path / "nested").mkdir()
    no_socket()
    found = find_folder(spelling.format(abs=tmp_path / "model"), files=MODEL_FILES)
    assert found.resolve() == tmp_path / "model"
    assert find_folder(Path("model"), files=MODEL_FILES, revision="v9").resolve() == tmp_path / "model"


def test_a_local_folder_does_not_import_the_client(tmp_path):
    (tmp_path / "org" / "name").mkdir(parents=True)
    code = (
        "import sys; from glassformer.checkpoints.hub import find_folder, MODEL_FILES;"
        "find_folder('org/name', files=MODEL_FILES);"
        "assert not {'huggingface_hub', 'torch', 'socket'} & set(sys.modules), sorted(sys.modules)"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)}, check=True)


@pytest.mark.parametrize(
    "spelling", ["./modle", "/nowhere/at/all", "~/modle", "a/b/c", "a\\b", "modle/", Path("modle")]
)
def test_a_missing_path_is_never_taken_for_a_hub_name(tmp_path, spelling, no_socket, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model").mkdir()
    no_socket()
    with pytest.raises(HubError, match="does not exist") as caught:
        find_folder(spelling, files=MODEL_FILES)
    if "modle" in str(spelling):
        assert "'model'" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["", "  ", "a b", "org/na me", "-x", "a--b", "a..b", "x.", "名", "a" * 97, "a\0b", "http:"]
)
def test_a_name_no_hub_can_have_is_refused(name, no_socket):
    no_socket()
    with pytest.raises(HubError):
        find_folder(name, files=MODEL_FILES)


def test_a_file_is_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("x")
    with pytest.raises(HubError, match="is a file"):
        find_folder("vocab.txt", files=TOKENIZER_FILES)


def test_the_folder_of_a_cached_repository_stands_for_its_snapshot(hub, tmp_path):
    main = find_folder("org/tiny", files=CONFIG_FILES, endpoint=hub.url)
    repository = main.parents[1]
    assert repository.name == "models--org--tiny"
    assert find_folder(repository, files=MODEL_FILES) == main
    old = find_folder("org/tiny", files=CONFIG_FILES, endpoint=hub.url, revision="v1")
    assert find_folder(repository, files=MODEL_FILES) == main
    assert find_folder(repository, files=MODEL_FILES, revision="v1") == old
    (repository / "refs" / "main").unlink()
    with pytest.raises(HubError, match=main.name):
        find_folder(repository, files=MODEL_FILES)


# --- fetching ---


def test_endpoint_argument_and_only_the_wanted_files(hub, tmp_path):
    folder = find_folder("org/tiny", files=MODEL_FILES, endpoint=hub.url)
    assert folder.is_relative_to(tmp_path / "home" / "hub" / "models--org--tiny" / "snapshots")
    assert sorted(os.listdir(folder)) == ["config.json", "model.safetensors"]
    assert (folder / "model.safetensors").read_bytes() == REPOS["org/tiny"]["main"]["model.safetensors"]
    assert hub.fetched() == ["config.json", "model.safetensors"]
    assert find_folder("org/tiny", files=TOKENIZER_FILES, endpoint=hub.url) == folder
    assert set(hub.fetched()) == {"config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"}


def test_a_second_fetch_makes_one_request_and_downloads_nothing(hub):
    find_folder("org/tiny", files=MODEL_FILES, endpoint=hub.url)
    hub.requests.clear()
    find_folder("org/tiny", files=MODEL_FILES, endpoint=hub.url)
    assert [r.path for r in hub.requests] == ["api/models/org/tiny"]


def test_a_name_without_an_organisation(hub):
    assert (find_folder("bare-name", files=CONFIG_FILES, endpoint=hub.url) / "config.json").exists()


def test_shards_follow_their_index_and_the_bin_stays(hub):
    folder = find_folder("org/sharded", files=MODEL_FILES, endpoint=hub.url)
    assert sorted(os.listdir(folder)) == sorted(set(SHARDED) - {"pytorch_model.bin"})


def test_the_bin_where_there_is_nothing_else(hub):
    folder = find_folder("org/tiny", files=MODEL_FILES, endpoint=hub.url, revision="v1")
    assert sorted(os.listdir(folder)) == ["config.json", "pytorch_model.bin"]


@pytest.mark.parametrize("revision, of", [("v1", "v1"), ("refs/pr/1", "pr"), (None, "main"), ("main", "main")])
def test_revision(hub, revision, of):
    folder = find_folder("org/tiny", files=CONFIG_FILES, endpoint=hub.url, revision=revision)
    assert json.loads((folder / "config.json").read_text()) == {"of": of}
    offline = find_folder("org/tiny", files=CONFIG_FILES, revision=revision, local_files_only=True)
    by_commit = find_folder("org/tiny", files=CONFIG_FILES, revision=folder.name, endpoint=hub.url)
    assert offline == by_commit == folder


@pytest.mark.parametrize("revision", ["../../x", "/etc", "a//b", "a\\b", "a\nb"])
def test_a_revision_cannot_leave_the_cache(hub, revision):
    with pytest.raises(HubError, match="revision must be"):
        find_folder("org/tiny", files=CONFIG_FILES, revision=revision, endpoint=hub.url)


def test_cache_dir(hub, tmp_path, monkeypatch):
    for number, (variable, value, expected) in enumerate(
        [
            (None, None, tmp_path / "given"),
            ("HF_HUB_CACHE", tmp_path / "hub-cache", tmp_path / "hub-cache"),
            ("HF_HOME", tmp_path / "new-home", tmp_path / "new-home" / "hub"),
        ]
    ):
        monkeypatch.delenv("HF_HUB_CACHE", raising=False)
        if variable:
            monkeypatch.setenv(variable, str(value))
        given = None if variable else tmp_path / "given"
        folder = find_folder("bare-name", files=CONFIG_FILES, endpoint=hub.url, cache_dir=given)
        assert folder.is_relative_to(expected), number


def test_the_environment_counts_at_the_moment_of_the_call(hub, monkeypatch, no_socket):

    monkeypatch.setenv("HF_ENDPOINT", hub.url + "/")
    monkeypatch.setenv("HF_TOKEN", "secret")
    folder = find_folder("org/tiny", files=CONFIG_FILES)
    assert {r.token for r in hub.requests} == {"Bearer secret"}
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert find_folder("org/tiny", files=CONFIG_FILES) == folder
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)  # as if it had been set at import
    hub.requests.clear()
    find_folder("org/tiny", files=CONFIG_FILES)
    assert hub.requests
    assert huggingface_hub.constants.HF_HUB_OFFLINE is True  # put back


def test_a_token_is_sent_as_a_header(hub):
    hub.needs_token = "let-me-in"
    with pytest.raises(HubError, match=r"401.*token"):
        find_folder("org/tiny", files=CONFIG_FILES, endpoint=hub.url)
    with pytest.raises(HubError, match="401"):
        find_folder("org/tiny", files=CONFIG_FILES, endpoint=hub.url, token="wrong")
    find_folder("org/tiny", files=CONFIG_FILES, endpoint=hub.url, token="let-me-in")


def test_token_false_sends_no_token(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    find_folder("org/tiny", files=CONFIG_FILES, endpoint=hub.url, token=False)
    assert {r.token for r in hub.requests} == {None}


# --- mirrors ---


def test_mirrors_in_order(hub, monkeypatch):
    with HubServer(REPOS) as second:
        find_folder("org/tiny", files=CONFIG_FILES, endpoint=[second.url, hub.url])
        assert second.requests and not hub.requests


@pytest.mark.parametrize("first", ["refuses", 500, 503, 429, 404, "stalls", "page"])
def test_the_next_mirror_is_used(hub, monkeypatch, first):
    monkeypatch.setenv("HF_HUB_ETAG_TIMEOUT", "0.5")
    bad = HubServer({})
    if first == "stalls":
        bad.stall = 3
    elif first == "page":
        bad.page = b"<html>not a hub</html>"
    elif isinstance(first, int) and first != 404:
        bad.fail_with = first
    with bad:
        url = unused_url() if first == "refuses" else bad.url
        monkeypatch.setenv("HF_ENDPOINT", f"{url}, {hub.url}/")
        start = time.monotonic()
        assert (find_folder("org/tiny", files=CONFIG_FILES) / "config.json").exists()
        assert time.monotonic() - start < 3
        assert len(bad.requests) == (first != "refuses")  # asked once, not again and again


def test_the_error_reports_the_answer_of_each_mirror(hub):
    dead = unused_url()
    with HubServer(REPOS, fail_with=500) as broken, pytest.raises(HubError) as caught:
        find_folder("org/unknown", files=CONFIG_FILES, endpoint=[dead, broken.url, hub.url])
    message = str(caught.value)
    assert f"{dead} could not be reached" in message
    assert f"{broken.url} failed with status 500" in message
    assert f"{hub.url} has no such repository" in message
    assert "there is no folder 'org/unknown'" in message
    assert "\n" not in message


def test_unknown_revision_and_missing_files(hub):
    with pytest.raises(HubError, match="no revision 'v7'"):
        find_folder("org/tiny", files=CONFIG_FILES, endpoint=hub.url, revision="v7")
    with pytest.raises(HubError, match=r"lacks config.json; it has README.md"):
        find_folder("org/other", files=CONFIG_FILES, endpoint=hub.url)
    with pytest.raises(HubError, match=r"has none of tokenizer.json.*README.md"):
        find_folder("org/other", files=TOKENIZER_FILES, endpoint=hub.url)
    with pytest.raises(HubError, match=r"lacks model.safetensors or "):
        find_folder("bare-name", files=WEIGHT_FILES, endpoint=hub.url)


@pytest.mark.parametrize("endpoint", ["ftp://x", "127.0.0.1", "", []])
def test_an_endpoint_must_be_a_web_address(endpoint, no_socket):
    no_socket()
    with pytest.raises(HubError, match="http://"):
        find_folder("org/tiny", files=CONFIG_FILES, endpoint=endpoint if endpoint != "" else " ")


def test_a_hostile_commit_or_index_stays_outside_the_cache(tmp_path):
    with HubServer({"org/x": {"main": {"config.json": b"{}"}}}) as evil:
        evil.commit = lambda repo, revision: "../../../../escaped"
        with pytest.raises(HubError, match="not a hub"):
            find_folder("org/x", files=CONFIG_FILES, endpoint=evil.url)
    index = json.dumps({"weight_map": {"a": "../../x.safetensors"}}).encode()
    repos = {"org/x": {"main": {"config.json": b"{}", "model.safetensors.index.json": index}}}
    with HubServer(repos) as evil, pytest.raises(CheckpointError, match=r"\.\./\.\./x\.safetensors"):
        find_folder("org/x", files=MODEL_FILES, endpoint=evil.url)
    assert not list(tmp_path.rglob("escaped*")) and not list(tmp_path.rglob("x.safetensors"))


def test_files_of_two_commits_are_not_mixed(hub):
    hub.other_commit = "f" * 40
    with pytest.raises(HubError, match="another commit"):
        find_folder("org/tiny", files=CONFIG_FILES, endpoint=hub.url)


# --- offline ---


@pytest.mark.parametrize("way", ["argument", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_after_a_fetch_opens_no_socket(hub, monkeypatch, no_socket, way):
    folder = find_folder("org/sharded", files=MODEL_FILES, endpoint=hub.url)
    if way != "argument":
        monkeypatch.setenv(way, "1")
    no_socket()
    assert find_folder("org/sharded", files=MODEL_FILES, local_files_only=way == "argument") == folder


def test_offline_says_what_is_missing_and_where(hub, tmp_path, no_socket):
    folder = find_folder("org/tiny", files=CONFIG_FILES, endpoint=hub.url)
    sharded = find_folder("org/sharded", files=MODEL_FILES, endpoint=hub.url)
    (sharded / "model-00002-of-00002.safetensors").unlink()
    no_socket()
    with pytest.raises(HubError, match=r"lacks model\.safetensors") as caught:
        find_folder("org/tiny", files=MODEL_FILES, local_files_only=True)
    assert str(folder) in str(caught.value)
    with pytest.raises(HubError, match="lacks the shard 'model-00002-of-00002"):
        find_folder("org/sharded", files=MODEL_FILES, local_files_only=True)
    with pytest.raises(HubError, match="not in the cache") as caught:
        find_folder("org/never", files=MODEL_FILES, local_files_only=True)
    assert str(tmp_path / "home" / "hub") in str(caught.value) and "no folder 'org/never'" in str(caught.value)


def test_an_unreachable_hub_falls_back_to_the_cache_with_a_warning(hub):
    folder = find_folder("org/tiny", files=MODEL_FILES, endpoint=hub.url)
    dead = unused_url()
    with pytest.warns(UserWarning, match="using the cached copy"):
        assert find_folder("org/tiny", files=MODEL_FILES, endpoint=dead) == folder
    with pytest.raises(HubError, match="could not be reached"):
        find_folder("org/tiny", files=MODEL_FILES, endpoint=dead, revision="v1")
    hub.repos = {}
    with pytest.raises(HubError, match="no such repository"):  # an answer, so the cache does not overrule it
        find_folder("org/tiny", files=MODEL_FILES, endpoint=hub.url)


# --- broken transfers ---


@pytest.fixture
def hurried(monkeypatch):
    """The client waits a second before each new attempt; a test need not."""
    sleep = time.sleep
    monkeypatch.setattr("time.sleep", lambda seconds: sleep(0.01 if seconds == 1 else seconds))


def half_files(cache: Path) -> list[Path]:
    """Files in the cache whose content is not what their name, a hash, says; old clients keep some to resume from."""
    blobs = [path for path in cache.rglob("blobs/*") if not path.name.endswith(".incomplete")]
    return [path for path in blobs if hashlib.sha1(path.read_bytes()).hexdigest() != path.name]


def test_a_transfer_that_breaks_off_leaves_nothing_and_can_be_repeated(hub, tmp_path, hurried):
    hub.cut["model.safetensors"] = 100
    with pytest.raises(HubError, match=r"broke off sending 'model.safetensors'"):
        find_folder("org/tiny", files=MODEL_FILES, endpoint=hub.url)
    cache = tmp_path / "home" / "hub"
    assert not half_files(cache) and not list(cache.rglob("model.safetensors"))
    with pytest.raises(HubError, match="not in the cache"):
        find_folder("org/tiny", files=MODEL_FILES, local_files_only=True)
    hub.cut.clear()
    folder = find_folder("org/tiny", files=MODEL_FILES, endpoint=hub.url)
    assert (folder / "model.safetensors").read_bytes() == REPOS["org/tiny"]["main"]["model.safetensors"]


def test_a_stalled_transfer_ends_and_the_next_mirror_is_used(hub, monkeypatch, hurried):
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "0.2")
    with HubServer(REPOS, stall_half_way={"model.safetensors": 4}) as slow:
        start = time.monotonic()
        folder = find_folder("org/tiny", files=MODEL_FILES, endpoint=[slow.url, hub.url])
        assert time.monotonic() - start < 10
    assert (folder / "model.safetensors").read_bytes() == REPOS["org/tiny"]["main"]["model.safetensors"]
    assert hub.fetched() == ["model.safetensors"]  # the config had already come from the first


def test_quiet_when_not_a_terminal(hub, tmp_path):
    code = (
        "from glassformer.checkpoints.hub import *; import sys;"
        f"find_folder('org/tiny', files=MODEL_FILES, endpoint={hub.url!r})"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


def test_a_cache_that_cannot_be_written_is_named(hub, tmp_path, monkeypatch):
    (tmp_path / "plain-file").write_text("x")
    with pytest.raises(HubError, match=r"could not write into the cache .*plain-file.*: not a directory"):
        find_folder("org/tiny", files=CONFIG_FILES, endpoint=hub.url, cache_dir=tmp_path / "plain-file" / "cache")
