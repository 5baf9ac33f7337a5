"""Whether a name is a folder on this machine; if it is not, folders of a similar name."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

from ..errors import HubError
from .folder_save import finish_save
from .hub_cache import check_revision, snapshot_of

_HUB_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)?", re.ASCII)


def local_folder(name_or_path: str | os.PathLike, revision: str | None) -> Path | None:
    """The folder that a path names, or None when only a hub can know the name."""
    text = os.fspath(name_or_path) if isinstance(name_or_path, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise HubError(f"a folder or a name such as 'org/name' is needed, got {name_or_path!r}")
    path = Path(text).expanduser()
    if path.is_dir():
        finish_save(path)
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
        raise HubError(f"{no_folder(text)}, and it is not a name that a hub can have, such as 'org/name'")
    return None


def no_folder(name: str) -> str:
    """The part of an error that reports a name that is no folder here."""
    return f"there is no folder {name!r} in {Path.cwd()}{_near(Path(name))}"


def _near(path: Path) -> str:
    """A hint at folders of a similar name beside a missing one."""
    try:
        beside = sorted(entry.name for entry in path.absolute().parent.iterdir() if entry.is_dir())
    except OSError:
        return f" (nor does {str(path.parent)!r})" if str(path.parent) not in (".", "") else ""
    close = difflib.get_close_matches(path.name, beside, n=3, cutoff=0.6)
    return f" (near it: {', '.join(map(repr, close))})" if close else ""


def _snapshot_of_folder(repository: Path, revision: str | None) -> Path:
    snapshot = snapshot_of(repository, check_revision(revision))
    if snapshot is not None:
        return snapshot
    held = sorted(entry.name for entry in (repository / "snapshots").iterdir() if entry.is_dir())
    if revision is None and len(held) == 1:
        return repository / "snapshots" / held[0]
    raise HubError(
        f"{repository} is a folder of the cache without revision {revision or 'main'!r}; "
        f"its snapshots are {', '.join(held) or 'none'}: pass the path of one"
    )
