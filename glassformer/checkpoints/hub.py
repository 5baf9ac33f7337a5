"""From a name or a path to a folder with files: a local folder, the cache, or mirrors in their order.

The real huggingface_hub client does the fetching, into its own cache layout. What it reads from the environment once,
when it is imported, is read here at every call. A local folder and an offline call never import it.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from glassformer.checkpoints.files import read_weight_map, reason_of, write_atomically
from glassformer.errors import CheckpointError, HubError

Wanted = tuple[str | tuple[str, ...], ...]

CONFIG_FILES: Wanted = (("config.json",),)
WEIGHT_FILES: Wanted = (
    ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"),
)
MODEL_FILES: Wanted = (*CONFIG_FILES, "generation_config.json", *WEIGHT_FILES)
TOKENIZER_FILES: Wanted = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "config.json",
)

_HUB_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_TRUE = {"1", "ON", "YES", "TRUE"}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def find_folder(
    name_or_path: str | os.PathLike,
    *,
    files: Wanted,
    revision: str | None = None,
    cache_dir: str | os.PathLike | None = None,
    token: str | bool | None = None,
    local_files_only: bool = False,
    endpoint: str | Sequence[str] | None = None,
) -> Path:
    """The local folder that holds a checkpoint, fetched first if the name is one of a hub.

    A folder that exists is returned as it is, without a connection, whatever else is asked for; a hub name gives way
    to a folder of the same name. The folder of a repository in the client's cache stands for its snapshot.

    `files` says what to fetch: a name is fetched if the repository has it; of a tuple of names the first that the
    repository has, and it must have one. An index of shards brings its shards. So MODEL_FILES fetches
    pytorch_model.bin only where there is no safetensors file; CONFIG_FILES, WEIGHT_FILES and TOKENIZER_FILES can be
    added together.

    `endpoint` is one mirror or several, as a sequence or with commas, else HF_ENDPOINT, else the official hub. They
    are tried in order. Whatever a mirror's failure - no connection, no answer in time, a server error, no permission,
    no such repository, for it may lag behind - the next one is tried; the error at the end tells what each one said.
    All files come from one commit of one mirror. If none can be reached at all, a complete copy in the cache is used,
    with a warning.

    With `local_files_only` or HF_HUB_OFFLINE=1 only the cache is read and no connection opened.

    >>> find_folder("org/name", files=MODEL_FILES, endpoint=["https://near", "https://far"])  # doctest: +SKIP
    """
    folder = _local_folder(name_or_path, revision)
    if folder is not None:
        return folder
    name = str(name_or_path)
    revision = _check_revision(revision)
    cache = _cache_folder(cache_dir)
    if local_files_only or _is_true("HF_HUB_OFFLINE") or _is_true("TRANSFORMERS_OFFLINE"):
        why = "local_files_only=True" if local_files_only else "offline mode (HF_HUB_OFFLINE)"
        try:
            return _find_in_cache(name, files, revision, cache)
        except HubError as error:
            raise HubError(
                f"{_no_folder(name)}, and {why} allows only the cache: {error}. Fetch it once with a connection, or "
                f"copy the files into a folder and pass its path"
            ) from None
    return _fetch(name, files, revision, cache, token, _endpoints(endpoint))


# --- local folders ----------------------------------------------------------------------------------------------------


def _local_folder(name_or_path: str | os.PathLike, revision: str | None) -> Path | None:
    """The folder that a path names, or None when only a hub can know the name."""
    text = os.fspath(name_or_path)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise HubError(f"a folder or a name such as 'org/name' is needed, got {name_or_path!r}")
    path = Path(text).expanduser()
    if path.is_dir():
        is_cached_repository = (path / "snapshots").is_dir() and not (path / "config.json").exists()
        return _snapshot_of_folder(path, revision) if is_cached_repository else path
    if path.exists():
        raise HubError(f"{text!r} is a file; the folder that holds it is needed")
    looks_like_path = (
        not isinstance(name_or_path, str)
        or text[0] in "./~"
        or "\\" in text
        or text.count("/") > 1
        or text.endswith("/")
        or path.is_absolute()
    )
    if looks_like_path:
        raise HubError(f"the folder {text!r} does not exist{_near(path)}")
    if not _HUB_NAME.fullmatch(text) or "--" in text or ".." in text or len(text) > 96 or text[-1] in ".-":
        raise HubError(f"{_no_folder(text)}, and it is not a name that a hub can have, such as 'org/name'")
    return None


def _no_folder(name: str) -> str:
    path = Path(name)
    return f"there is no folder {name!r} in {Path.cwd()}{_near(path)}"


def _near(path: Path) -> str:
    """A hint at folders beside a missing one: those with a similar name, else the first of all."""
    try:
        beside = sorted(entry.name for entry in path.absolute().parent.iterdir() if entry.is_dir())
    except OSError:
        return f" (nor does {str(path.parent)!r})" if str(path.parent) not in (".", "") else ""
    close = difflib.get_close_matches(path.name, beside, n=3, cutoff=0.6)
    return f" (near it: {', '.join(map(repr, close))})" if close else ""


def _snapshot_of_folder(repository: Path, revision: str | None) -> Path:
    snapshot = _snapshot(repository, _check_revision(revision))
    if snapshot is not None:
        return snapshot
    held = sorted(entry.name for entry in (repository / "snapshots").iterdir() if entry.is_dir())
    if revision is None and len(held) == 1:
        return repository / "snapshots" / held[0]
    raise HubError(
        f"{repository} is a folder of the cache without revision {revision or 'main'!r}; "
        f"its snapshots are {', '.join(held) or 'none'}: pass the path of one"
    )


# --- the cache --------------------------------------------------------------------------------------------------------


def _cache_folder(cache_dir: str | os.PathLike | None) -> Path:
    """Where the client keeps its files, as the environment stands now."""
    environment = os.environ
    home = environment.get("HF_HOME") or os.path.join(environment.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    chosen = (
        cache_dir
        or environment.get("HF_HUB_CACHE")
        or environment.get("HUGGINGFACE_HUB_CACHE")
        or os.path.join(home, "hub")
    )
    return Path(os.path.expandvars(os.path.expanduser(os.fspath(chosen)))).absolute()


def _repository_folder(cache: Path, name: str) -> Path:
    return cache / f"models--{name.replace('/', '--')}"


def _snapshot(repository: Path, revision: str) -> Path | None:
    """The snapshot of a revision in a cached repository, if there is one."""
    commit = revision
    if not _COMMIT.fullmatch(revision):
        try:
            commit = (repository / "refs" / revision).read_text("ascii").strip()
        except (OSError, ValueError):
            return None
    snapshot = repository / "snapshots" / commit
    return snapshot if _COMMIT.fullmatch(commit) and snapshot.is_dir() else None


def _find_in_cache(name: str, files: Wanted, revision: str, cache: Path) -> Path:
    snapshot = _snapshot(_repository_folder(cache, name), revision)
    if snapshot is None:
        raise HubError(f"{name!r} (revision {revision!r}) is not in the cache {cache}")
    held = {entry.name for entry in snapshot.iterdir() if entry.exists()}  # a link to a missing file does not count
    chosen = _choose(files, held, f"the cached copy {snapshot}")
    for file in chosen:
        if file.endswith(".index.json"):
            for shard in dict.fromkeys(read_weight_map(snapshot / file).values()):
                if shard not in held:
                    raise HubError(f"the cached copy {snapshot} lacks the shard {shard!r}")
    return snapshot


def _choose(files: Wanted, held: set[str], holder: str) -> list[str]:
    """The wanted files among those that exist; HubError when a needed one does not, or none at all does."""
    chosen = []
    for wanted in files:
        if isinstance(wanted, str):
            chosen += [wanted] if wanted in held else []
            continue
        found = next((file for file in wanted if file in held), None)
        if found is None:
            raise HubError(f"{holder} lacks {' or '.join(wanted)}; it has {_listed(held)}")
        chosen.append(found)
    if files and not chosen:
        raise HubError(f"{holder} has none of {', '.join(map(str, files))}; it has {_listed(held)}")
    return list(dict.fromkeys(chosen))


def _listed(names: set[str], most: int = 12) -> str:
    shown = ", ".join(sorted(names)[:most])
    return (shown + (", ..." if len(names) > most else "")) or "no files"


# --- mirrors ----------------------------------------------------------------------------------------------------------


class _MirrorError(Exception):
    """One mirror's failure; `reached` tells whether it gave an answer of its own about the repository."""

    def __init__(self, answer: str, reached: bool) -> None:
        super().__init__(answer)
        self.reached = reached


def _endpoints(endpoint: str | Sequence[str] | None) -> list[str]:
    if endpoint is None:
        endpoint = os.environ.get("HF_ENDPOINT") or _official_endpoint()
    parts = endpoint.split(",") if isinstance(endpoint, str) else list(endpoint)
    endpoints = [str(part).strip().rstrip("/") for part in parts if str(part).strip()]
    for one in endpoints:
        if not one.startswith(("http://", "https://")):
            raise HubError(f"an endpoint must start with http:// or https://, got {one!r}")
    if not endpoints:
        raise HubError(f"an endpoint must start with http:// or https://, got {endpoint!r}")
    return list(dict.fromkeys(endpoints))


def _official_endpoint() -> str:
    from huggingface_hub import constants

    return constants.HUGGINGFACE_CO_URL_HOME  # not ENDPOINT, which holds HF_ENDPOINT as it was at import


def _fetch(
    name: str, files: Wanted, revision: str, cache: Path, token: str | bool | None, endpoints: list[str]
) -> Path:
    failures: dict[str, _MirrorError] = {}
    for endpoint in endpoints:
        try:
            with _client_settings():
                return _fetch_from(endpoint, name, files, revision, cache, token)
        except _MirrorError as error:
            failures[endpoint] = error
    said = "; ".join(f"{endpoint} {error}" for endpoint, error in failures.items())
    if not any(error.reached for error in failures.values()):
        with contextlib.suppress(HubError):
            snapshot = _find_in_cache(name, files, revision, cache)
            warnings.warn(f"using the cached copy of {name!r} in {snapshot}, because {said}", stacklevel=4)
            return snapshot
    raise HubError(f"could not get {name!r} (revision {revision!r}): {_no_folder(name)}, and {said}")


def _fetch_from(endpoint: str, name: str, files: Wanted, revision: str, cache: Path, token: str | bool | None) -> Path:
    """Fetch the wanted files of one commit from one mirror, and note the commit under the revision's name."""
    from huggingface_hub import HfApi, hf_hub_download

    api = HfApi(endpoint=endpoint, token=token, library_name="glassformer")
    timeout = _seconds("HF_HUB_ETAG_TIMEOUT")
    asked = None if revision == "main" else revision
    info = _ask(lambda: api.model_info(name, revision=asked, timeout=timeout), name, revision, cache)
    commit, held = info.sha or "", {sibling.rfilename for sibling in info.siblings or ()}
    if not _COMMIT.fullmatch(commit):
        raise _MirrorError("gave no commit for it, so it is not a hub", reached=False)
    try:
        chosen = _choose(files, held, "its repository")
    except HubError as error:
        raise _MirrorError(f"answered, but {error}", reached=True) from None

    def download(file: str) -> Path:
        def call() -> str:
            return hf_hub_download(
                name,
                file,
                revision=commit,
                cache_dir=cache,
                endpoint=endpoint,
                token=token,
                etag_timeout=timeout,
                library_name="glassformer",
            )

        path = Path(_ask(call, name, revision, cache, file))
        if path.parent.name != commit:
            raise _MirrorError(f"sent {file!r} of another commit than it had announced", reached=True)
        return path

    snapshot = _repository_folder(cache, name) / "snapshots" / commit
    for file in chosen:
        index = download(file)
        if file.endswith(".index.json"):
            for shard in dict.fromkeys(read_weight_map(index).values()):
                download(shard)
    # Noted last and not by the client, so that an offline call finds the older complete copy until then.
    if revision != commit:
        with contextlib.suppress(OSError, CheckpointError):  # a cache that cannot be written still serves
            reference = _repository_folder(cache, name) / "refs" / revision
            reference.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(reference, commit)
    return snapshot


def _ask(call: Callable, name: str, revision: str, cache: Path, file: str | None = None):
    """Call the client; its failure becomes a mirror's answer, a failure of the own disk a HubError at once."""
    try:
        return call()
    except Exception as error:  # the client speaks through three HTTP libraries, each with its own tree of errors
        if isinstance(error, OSError) and (error.filename or error.errno in _FULL):  # no network error names a file
            raise HubError(f"could not write into the cache {cache}: {reason_of(error)}") from error
        raise _describe(error, revision, file) from error


def _describe(error: Exception, revision: str, file: str | None) -> _MirrorError:
    while error.__cause__ is not None and _status(error) is None:  # the client wraps what happened
        error = error.__cause__
    status, kind = _status(error), type(error).__name__
    which = f" {file!r}" if file else ""
    if status is None:
        if "Timeout" in kind:
            return _MirrorError(f"did not send{which} in time", reached=False)
        words = (str(error) or kind).split("\n")[0][:160]
        verb = f"broke off sending{which}" if file else "could not be reached"
        return _MirrorError(f"{verb} ({words})", reached=False)
    if status >= 500 or status in (408, 429):
        return _MirrorError(f"failed with status {status}", reached=False)
    if kind == "GatedRepoError" or status == 403:
        return _MirrorError(
            f"refused it (status {status}): ask for access there, and pass token= or set HF_TOKEN", True
        )
    if status == 401:
        return _MirrorError("refused it (status 401): no such repository, or a private one that needs token=", True)
    if kind == "RevisionNotFoundError":
        return _MirrorError(f"has the repository, but no revision {revision!r}", reached=True)
    if status == 404:
        return _MirrorError(f"has no{which or ' such repository'} (status 404)", reached=True)
    return _MirrorError(f"answered with status {status}", reached=True)


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


_settings_lock = threading.RLock()


@contextlib.contextmanager
def _client_settings() -> Iterator[None]:
    """Let the client see the environment as it is now, and put its settings back afterwards; one fetch at a time.

    Its telemetry is off meanwhile: it would contact the official hub even when the caller named a mirror.
    """
    from huggingface_hub import constants

    settings = {
        "HF_HUB_OFFLINE": False,  # asked before we came here
        "HF_HUB_DISABLE_TELEMETRY": True,
        "HF_HUB_ETAG_TIMEOUT": _seconds("HF_HUB_ETAG_TIMEOUT"),
        "HF_HUB_DOWNLOAD_TIMEOUT": _seconds("HF_HUB_DOWNLOAD_TIMEOUT"),
    }
    with _settings_lock:
        before = {name: getattr(constants, name) for name in settings if hasattr(constants, name)}
        try:
            for name in before:
                setattr(constants, name, settings[name])
            yield
        finally:
            for name, value in before.items():
                setattr(constants, name, value)


def _seconds(variable: str) -> float:
    text = os.environ.get(variable) or "10"
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise HubError(f"{variable} must be a positive number of seconds, got {text!r}")
    return seconds


def _is_true(variable: str) -> bool:
    return os.environ.get(variable, "").upper() in _TRUE


def _check_revision(revision: str | None) -> str:
    """The revision by name, refusing what would leave the cache folder."""
    revision = revision or "main"
    parts = revision.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in revision or not revision.isprintable():
        raise HubError(f"revision must be a branch, tag or commit, got {revision!r}")
    return revision
