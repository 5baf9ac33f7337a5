"""From the name of a data set on a hub to its files here: the cache, mirrors and offline rules of checkpoints."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import HubError
from .hub import is_offline
from .hub_cache import cache_folder, check_revision, choose, find_in_cache, held_in
from .mirrors import fetch, read_endpoints

log = logging.getLogger("glassformer")


def find_dataset_files(
    name: str,
    path: str,
    *,
    revision: str | None = None,
    cache_dir: str | os.PathLike | None = None,
    token: str | bool | None = None,
    local_files_only: bool = False,
    endpoint: str | Sequence[str] | None = None,
) -> dict[str, Path]:
    """The files of a data set that `path` names, or matches as a pattern: their names there, and their paths here.

    The keywords are those of `find_folder`. Offline, a pattern finds what has been fetched before, with a
    warning that the hub may have more.

    >>> find_dataset_files("org/name", "data/train-*.parquet", endpoint="https://near")  # doctest: +SKIP
    """
    if any(part in ("", ".", "..") for part in [*name.split("/"), *path.split("/")]) or "\\" in path:
        raise HubError(f"a data file such as 'data/train.csv' of 'org/name' is needed, got {path!r} of {name!r}")
    repository, files = f"datasets/{name}", (path,)
    revision = check_revision(revision)
    cache = cache_folder(cache_dir)
    only_cache = local_files_only or is_offline()
    if only_cache:
        try:
            folder = find_in_cache(repository, files, revision, cache)
        except HubError as error:
            why = "in offline mode (HF_HUB_OFFLINE)" if is_offline() else "without a connection (local_files_only)"
            raise HubError(f"{why} only the cache is read: {error}. Fetch it once with a connection") from None
    else:
        folder = fetch(repository, files, revision, cache, token, read_endpoints(endpoint))
    held = held_in(folder)
    chosen = choose(files, held, f"the cached copy {folder}")
    if only_cache and path not in held:
        log.warning(
            "%s: %r is answered from the cache alone (%d); the hub may have more", repository, path, len(chosen)
        )
    return {file: folder / file for file in chosen}
