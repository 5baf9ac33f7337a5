"""From a name or a path to a folder with files: a local folder, the cache, or mirrors in their order.

The real huggingface_hub client does the fetching, into its own cache layout. What it reads from the environment once,
when it is imported, is read here at every call. A local folder and an offline call never import it. Imports run one
way:

    hub -> mirrors -> local_folder -> hub_cache
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import HubError
from .hub_cache import Wanted, cache_folder, check_revision, find_in_cache
from .local_folder import local_folder, no_folder
from .mirrors import fetch, read_endpoints

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

_TRUE = {"1", "ON", "YES", "TRUE"}


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

    A folder that exists is returned as it is, without a connection, whatever the other arguments; a hub name gives
    way to a folder of the same name. The folder of a repository in the client's cache stands for its snapshot.

    `files` lists what to fetch: a name is fetched if the repository has it; of a tuple of names the first that the
    repository has, and it must have one. An index of shards brings its shards. So MODEL_FILES fetches
    pytorch_model.bin only where there is no safetensors file; CONFIG_FILES, WEIGHT_FILES and TOKENIZER_FILES can be
    added together.

    `endpoint` is one mirror or several, as a sequence or with commas, else HF_ENDPOINT, else the official hub. They
    are tried in order. Whatever a mirror's failure - no connection, no answer in time, a server error, no permission,
    no such repository, for it may lag behind - the next one is tried; the error at the end reports the answer of each.
    All files come from one commit of one mirror. If none can be reached at all, a complete copy in the cache is used,
    with a warning.

    With `local_files_only` or HF_HUB_OFFLINE=1 only the cache is read and no connection opened.

    >>> find_folder("org/name", files=MODEL_FILES, endpoint=["https://near", "https://far"])  # doctest: +SKIP
    """
    folder = local_folder(name_or_path, revision)
    if folder is not None:
        return folder
    name = str(name_or_path)
    revision = check_revision(revision)
    cache = cache_folder(cache_dir)
    if local_files_only or is_offline():
        why = "in offline mode (HF_HUB_OFFLINE)" if is_offline() else "without a connection (local_files_only)"
        try:
            return find_in_cache(name, files, revision, cache)
        except HubError as error:
            raise HubError(
                f"{no_folder(name)}, and {why} only the cache is read: {error}. Fetch it once with a connection, or "
                f"copy the files into a folder and pass its path"
            ) from None
    return fetch(name, files, revision, cache, token, read_endpoints(endpoint))


def without_pickles(files: Wanted) -> Wanted:
    """The same files but pytorch_model.bin, so that a repository with nothing else is refused before it is fetched."""
    return tuple(
        each if isinstance(each, str) else tuple(name for name in each if not name.startswith("pytorch_model.bin"))
        for each in files
    )


def is_offline() -> bool:
    """Whether the environment, as it stands now, allows only the cache."""
    return any(os.environ.get(variable, "").upper() in _TRUE for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
