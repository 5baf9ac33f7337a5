"""Paths that the files of a checkpoint name: they lead to files of that checkpoint, and nowhere else.

Whoever writes a checkpoint chooses the paths in it; whoever loads it may have files that others must not see.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def is_inside(path: Path, folder: Path, named_in: Path | None = None) -> bool:
    """Whether a path leads to a file of the checkpoint in `folder`, links followed.

    The files of a checkpoint are those in its folder; in the cache of the hub's client, those of the same repository;
    and where the file that names the path is itself a link, those beside its target.
    """
    try:
        target, home = path.resolve(), folder.resolve()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.stat(path)
    except (OSError, ValueError, RuntimeError):  # a name that is too long, a NUL in it, links in a circle
        return False
    homes = [home, *(parent.parent / "blobs" for parent in home.parents if parent.name == "snapshots")]
    if any(target.is_relative_to(each) for each in homes):
        return True
    return named_in is not None and named_in.is_symlink() and target.parent == named_in.resolve().parent


def leads_elsewhere(path: Path, folder: Path) -> bool:
    """Whether a file in a checkpoint's folder is a link to a file of another name outside of it.

    A link to a file of the same name is how people share one vocabulary among folders.
    """
    if not path.is_symlink():
        return False
    target = Path(os.path.realpath(path))  # which stops at links in a circle
    return target.name != path.name and not is_inside(target, folder)
