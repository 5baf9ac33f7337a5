"""Fetching from mirrors: one after the other, all files from one commit of one of them, every failure reported."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, HubError
from .files import read_weight_map, reason_of, write_atomically
from .hub_cache import COMMIT, Wanted, choose, find_in_cache, kind_of, repository_folder
from .local_folder import no_folder

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class _MirrorError(Exception):
    """One mirror's failure; `reached` is whether it gave an answer of its own about the repository."""

    def __init__(self, answer: str, reached: bool) -> None:
        super().__init__(answer)
        self.reached = reached


def read_endpoints(endpoint: str | Sequence[str] | None) -> list[str]:
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


def fetch(name: str, files: Wanted, revision: str, cache: Path, token: str | bool | None, endpoints: list[str]) -> Path:
    failures: dict[str, _MirrorError] = {}
    for endpoint in endpoints:
        try:
            with _client_settings():
                return _fetch_from(endpoint, name, files, revision, cache, token)
        except _MirrorError as error:
            failures[endpoint] = error
    answers = "; ".join(f"{endpoint} {error}" for endpoint, error in failures.items())
    if not any(error.reached for error in failures.values()):
        with contextlib.suppress(HubError):
            snapshot = find_in_cache(name, files, revision, cache)
            warnings.warn(f"using the cached copy of {name!r} in {snapshot}, because {answers}", stacklevel=4)
            return snapshot
    here = f"{no_folder(name)}, and " if kind_of(name)[0] == "model" else ""
    raise HubError(f"could not get {name!r} (revision {revision!r}): {here}{answers}")


def _fetch_from(endpoint: str, name: str, files: Wanted, revision: str, cache: Path, token: str | bool | None) -> Path:
    """Fetch the wanted files of one commit from one mirror, and note the commit under the revision's name."""
    from huggingface_hub import HfApi

    kind, known_as = kind_of(name)
    api = HfApi(endpoint=endpoint, token=token, library_name="glassformer")
    timeout = _seconds("HF_HUB_ETAG_TIMEOUT")
    requested = None if revision == "main" else revision
    info = _call(lambda: api.repo_info(known_as, revision=requested, repo_type=kind, timeout=timeout), revision, cache)
    commit, held = info.sha or "", {sibling.rfilename for sibling in info.siblings or ()}
    if not COMMIT.fullmatch(commit):
        raise _MirrorError("gave no commit for it, so it is not a hub", reached=False)
    try:
        chosen = choose(files, held, "its repository")
    except HubError as error:
        raise _MirrorError(f"answered, but {error}", reached=True) from None

    def download(file: str) -> Path:
        def call() -> str:
            return api.hf_hub_download(
                known_as, file, repo_type=kind, revision=commit, cache_dir=cache, etag_timeout=timeout
            )

        path = Path(_call(call, revision, cache, file))
        if path != snapshot / file:
            raise _MirrorError(f"sent {file!r} of another commit than it had announced", reached=True)
        return path

    snapshot = repository_folder(cache, name) / "snapshots" / commit
    for file in chosen:
        index = download(file)
        if kind == "model" and file.endswith(".index.json"):
            for shard in dict.fromkeys(read_weight_map(index).values()):
                download(shard)
    # Noted last and not by the client, so that an offline call finds the older complete copy until then.
    if revision != commit:
        with contextlib.suppress(OSError, CheckpointError):  # a cache that cannot be written still serves
            reference = repository_folder(cache, name) / "refs" / revision
            reference.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(reference, commit)
    return snapshot


def _call(call: Callable[[], Any], revision: str, cache: Path, file: str | None = None) -> Any:
    """Call the client; its failure becomes a mirror's answer, a failure of the own disk a HubError at once."""
    try:
        return call()
    except Exception as error:  # the client speaks through three HTTP libraries, each with its own tree of errors
        if isinstance(error, OSError) and (error.filename or error.errno in _FULL):  # no network error names a file
            raise HubError(f"could not write into the cache {cache}: {reason_of(error)}") from error
        raise _describe(error, revision, file) from error


def _describe(error: BaseException, revision: str, file: str | None) -> _MirrorError:
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
            f"refused it (status {status}): request access there, and pass token= or set HF_TOKEN", True
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
        "HF_HUB_OFFLINE": False,  # checked before we came here
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
