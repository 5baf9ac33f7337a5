"""Saves over a folder that break off: killed at any moment, on a disk that is full, on one that is read-only."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from glassformer import AutoModelForSequenceClassification, AutoTokenizer, pipeline
from glassformer.checkpoints.folder_save import saved_together
from glassformer.errors import GlassformerError
from tests.checkpoints.killed import dies_at

from .case import Case
from .small_models import small_classifier

NAME = "saves"
SIZES = ("5GB", 400, 1500)


def cases(rng: random.Random, folder: Path) -> Iterator[Case]:
    small_classifier(folder / "old", 1)
    small_classifier(folder / "new", 2, ("yes", "no", "maybe"))
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(small_disk(folder / "disk"))
        while True:
            how = {"max_shard_size": rng.choice(SIZES), "safe_serialization": rng.random() < 0.7}
            kind, tokenizer_too = rng.choice(("killed", "killed", "full", "read-only")), rng.random() < 0.8
            if kind == "killed":
                moment = rng.randrange(60)
                run: Callable[[], None] = partial(killed, folder, how, tokenizer_too, moment)
                description = f"killed at moment {moment}, {how}"
            elif kind == "full" and disk is None:
                limit = rng.randrange(1, 9_000)
                run = partial(limited, folder, how, tokenizer_too, limit)
                description = f"no file above {limit} bytes, {how}"
            elif kind == "full":
                free = rng.randrange(0, 20) * 4096
                run = partial(full, folder, disk, how, tokenizer_too, free)
                description = f"a disk with {free} bytes free, {how}"
            else:
                run = partial(read_only, folder, disk, how)
                description = f"a read-only disk, {how}"
            yield Case(description, run, forked=True)


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[Path | None]:
    """A disk of 256 kB, where this process may mount one."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    try:
        is_mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        is_mounted = False
    try:
        yield place if is_mounted else None
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


def what_is_in(folder: Path) -> Any:
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    return model.config.id2label, model.classifier.weight.tolist(), tokenizer.get_vocab()


def save(new: Any, folder: Path, how: dict[str, Any], tokenizer_too: bool) -> None:
    with saved_together(folder) as staged:
        new.model.save_pretrained(staged, **how)
        if tokenizer_too:
            new.worker.save_processor(staged)


def prepared(folder: Path, target: Path) -> tuple[Any, Any, Any]:
    """What is in a copy of the old model at `target`, what a save would put there, and the pipeline to save."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder / "old", target)
    (target / "notes.txt").write_text("mine")
    return what_is_in(target), what_is_in(folder / "new"), pipeline("text-classification", model=folder / "new")


def check(target: Path, before: Any, after: Any, is_saved: bool) -> None:
    """The folder holds the old model or the new one, whole, and what a user put there."""
    held = what_is_in(target)
    assert held == after if is_saved else held in (before, after)
    assert (target / "notes.txt").read_text() == "mine"


def killed(folder: Path, how: dict[str, Any], tokenizer_too: bool, moment: int) -> None:
    target = folder / "target"
    before, after, new = prepared(folder, target)
    died = dies_at(moment, lambda: save(new, target, how, tokenizer_too))
    check(target, before, after, is_saved=not died)
    save(new, target, how, tokenizer_too)
    check(target, before, after, is_saved=True)
    assert not [name for name in os.listdir(target) if "glassformer" in name], "leftovers of the killed save"


def fails_cleanly(target: Path, save: Callable[[], None], before: Any, after: Any) -> None:
    names = sorted(os.listdir(target))
    try:
        save()
    except GlassformerError as error:
        assert str(error) and "\n" not in str(error)
        assert sorted(os.listdir(target)) == names, "a failed save leaves files"
        check(target, before, before, is_saved=True)
    else:
        check(target, before, after, is_saved=True)


def limited(folder: Path, how: dict[str, Any], tokenizer_too: bool, limit: int) -> None:
    """The size that a process may give a file stands for a full disk."""
    before, after, new = prepared(folder, folder / "target")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def save_limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            save(new, folder / "target", how, tokenizer_too)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    fails_cleanly(folder / "target", save_limited, before, after)


def full(folder: Path, disk: Path, how: dict[str, Any], tokenizer_too: bool, free: int) -> None:
    for each in disk.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    before, after, new = prepared(folder, disk / "target")
    status = os.statvfs(disk)
    (disk / "filler").write_bytes(bytes(max(0, status.f_bavail * status.f_frsize - free)))
    fails_cleanly(disk / "target", lambda: save(new, disk / "target", how, tokenizer_too), before, after)


def read_only(folder: Path, disk: Path | None, how: dict[str, Any]) -> None:
    if disk is None:
        if os.geteuid() == 0:
            return  # root writes wherever the modes forbid it
        before, after, new = prepared(folder, folder / "target")
        os.chmod(folder / "target", 0o500)
        try:
            fails_cleanly(folder / "target", lambda: save(new, folder / "target", how, True), before, after)
        finally:
            os.chmod(folder / "target", 0o700)
        return
    for each in disk.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    before, after, new = prepared(folder, disk / "target")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True, capture_output=True)
    try:
        fails_cleanly(disk / "target", lambda: save(new, disk / "target", how, True), before, after)
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True, capture_output=True)
