"""Training that is killed at any moment and resumed: the weights of the run that was not, bit for bit."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from glassformer.train.checkpoint import checkpoints_in, read_checkpoint
from glassformer.train.trainer import Trainer

from ..train.small import ROWS, classifier, weights
from ..train.test_resume import settings
from .case import Case

NAME = "kills"
FEW = 2  # cases in the test of all campaigns
STEPS, KILLS, LONGEST = 6, 3, 1.0  # seconds until a kill
DEADLINE = 120


def cases(rng: random.Random, folder: Path) -> Iterator[Case]:
    while True:
        for ranks, buffer in ((1, None), (1, 4), (2, None), (2, 4)):
            waits = [rng.uniform(0, LONGEST) for _ in range(rng.randrange(1, KILLS + 1))]
            victims = [rng.randrange(ranks) for _ in waits]
            how = f"{ranks} ranks, {'in memory' if buffer is None else 'streamed'}"
            killed = ", ".join(f"rank {rank} after {wait:.2f} s" for rank, wait in zip(victims, waits, strict=True))
            run = partial(kill_and_resume, folder, ranks, buffer, waits, victims)
            yield Case(f"{how}: {killed}", run)


def kill_and_resume(folder: Path, ranks: int, buffer: int | None, waits: list[float], victims: list[int]) -> None:
    whole = folder / f"whole-{ranks}-{buffer}"
    if not (whole / "result.pt").exists():
        finish(start(whole, ranks, buffer))
    broken = folder / "broken"
    shutil.rmtree(broken, ignore_errors=True)
    for wait, victim in zip(waits, victims, strict=True):
        processes = start(broken, ranks, buffer)
        time.sleep(wait)
        os.kill(processes[victim], signal.SIGKILL)
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        for checkpoint in checkpoints_in(broken / "run").values():
            read_checkpoint(checkpoint)
    finish(start(broken, ranks, buffer))
    expected, found = (torch.load(each / "result.pt", weights_only=True) for each in (whole, broken))
    different = [name for name in expected if not torch.equal(expected[name], found[name])]
    assert not different, f"other weights: {', '.join(different[:3])}"
    assert not list((broken / "run").glob(".*")), "temporary files are left"


def start(folder: Path, ranks: int, buffer: int | None) -> list[int]:
    """The processes of a run that continues where the one before was killed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                silence()
                if ranks > 1:
                    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
                    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                train(folder, buffer, writes=rank == 0)
                os._exit(0)
            os._exit(1)
        started.append(child)
    return started


def silence() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def train(folder: Path, buffer: int | None, writes: bool) -> None:
    torch.set_num_threads(1)
    task = classifier(folder / "vocabulary")
    options = {"max_steps": STEPS, "gradient_accumulation_steps": 1, "save_steps": 1, "rank_timeout": 30.0}
    trainer = Trainer(task, ROWS, ROWS[:3], settings(folder / "run", **options), buffer=buffer)
    trainer.train(resume=True)
    if writes:
        torch.save(weights(task), folder / "result.pt")


def finish(processes: list[int]) -> None:
    """Wait for processes to end well."""
    end = time.monotonic() + DEADLINE
    waiting = list(processes)
    while waiting and time.monotonic() < end:
        for process in list(waiting):
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                waiting.remove(process)
                assert status == 0, f"a rank ended with the status {status}"
        time.sleep(0.01)
    for process in waiting:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    assert not waiting, f"not done after {DEADLINE} s"
