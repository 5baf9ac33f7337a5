"""The folder in which the hub's client keeps what it has fetched: repositories, their revisions, their snapshots."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path

from ..errors import HubError
from .files import read_weight_map

# What to look for: a name is taken if it is there, and of a pattern such as data/*.csv all that fit it; of a tuple of
# names the first that is there, and one must be.
Wanted = tuple[str | tuple[str, ...], ...]

COMMIT = re.compile(r"[0-9a-f]{40}")


def cache_folder(cache_dir: str | os.PathLike | None) -> Path:
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


def kind_of(name: str) -> tuple[str, str]:
    """Whether a repository is a model or a dataset, and its name there: `datasets/org/name` is the dataset org/name."""
    return ("dataset", name.removeprefix("datasets/")) if name.count("/") == 2 else ("model", name)


def repository_folder(cache: Path, name: str) -> Path:
    kind, name = kind_of(name)
    return cache / f"{kind}s--{name.replace('/', '--')}"


def snapshot_of(repository: Path, revision: str) -> Path | None:
    """The snapshot of a revision in a cached repository, if there is one."""
    commit = revision
    if not COMMIT.fullmatch(revision):
        try:
            commit = (repository / "refs" / revision).read_text("ascii").strip()
        except (OSError, ValueError):
            return None
    snapshot = repository / "snapshots" / commit
    return snapshot if COMMIT.fullmatch(commit) and snapshot.is_dir() else None


def find_in_cache(name: str, files: Wanted, revision: str, cache: Path) -> Path:
    snapshot = snapshot_of(repository_folder(cache, name), revision)
    if snapshot is None:
        raise HubError(f"{name!r} (revision {revision!r}) is not in the cache {cache}")
    held = held_in(snapshot)
    chosen = choose(files, held, f"the cached copy {snapshot}")
    for file in chosen:
        if kind_of(name)[0] == "model" and file.endswith(".index.json"):
            for shard in dict.fromkeys(read_weight_map(snapshot / file).values()):
                if shard not in held:
                    raise HubError(f"the cached copy {snapshot} lacks the shard {shard!r}")
    return snapshot


def held_in(snapshot: Path) -> set[str]:
    """The files of a snapshot, by the names they have in the repository; a link to a missing file does not count."""
    return {entry.relative_to(snapshot).as_posix() for entry in snapshot.rglob("*") if entry.is_file()}


def choose(files: Wanted, held: set[str], holder: str) -> list[str]:
    """The wanted files among those that exist; HubError when a needed one does not, or none at all does."""
    chosen = []
    for wanted in files:
        if isinstance(wanted, str):
            chosen += [wanted] if wanted in held else sorted(file for file in held if fits(file, wanted))
            continue
        first = next((file for file in wanted if file in held), None)
        if first is None:
            raise HubError(f"{holder} lacks {' or '.join(wanted)}; it has {_listed(held)}")
        chosen.append(first)
    if files and not chosen:
        raise HubError(f"{holder} has none of {', '.join(map(str, files))}; it has {_listed(held)}")
    return list(dict.fromkeys(chosen))


def fits(file: str, pattern: str) -> bool:
    """Whether a file fits a pattern, folder by folder; a name that leads out of its folder fits none."""
    parts, wanted = file.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and ".." not in parts and all(map(fnmatchcase, parts, wanted))


def _listed(names: set[str], most: int = 12) -> str:
    shown = ", ".join(sorted(names)[:most])
    return (shown + (", ..." if len(names) > most else "")) or "no files"


def check_revision(revision: str | None) -> str:
    """The revision by name, refusing what would leave the cache folder."""
    revision = revision or "main"
    parts = revision.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in revision or not revision.isprintable():
        raise HubError(f"revision must be a branch, tag or commit, got {revision!r}")
    return revision
