"""Every engine in a process of its own: the idle threads of one would slow the others down."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BEFORE = "before"  # the engine that is an earlier commit of glassformer


class Worker:
    """A loaded engine that waits for calls; each is timed where it runs.

    With `checkout`, glassformer is imported from there; with `cpu`, the processor's time is counted, not the clock's.
    """

    def __init__(
        self,
        load: Callable[..., Callable],
        *arguments: Any,
        threads: int,
        checkout: Path | None = None,
        cpu: bool = False,
    ):
        os.environ["OMP_NUM_THREADS"] = str(threads)
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, load, arguments, checkout, cpu), daemon=True)
        self.process.start()

    def __call__(self, *arguments: Any) -> tuple[float, Any]:
        """(seconds, result)"""
        self.pipe.send(arguments)
        result = self.pipe.recv()
        if isinstance(result, BaseException):
            raise result
        return result

    def close(self) -> None:
        self.process.terminate()
        self.process.join()


def serve(pipe, load: Callable[..., Callable], arguments: tuple, checkout: Path | None, cpu: bool) -> None:
    if checkout is not None:
        sys.path.insert(0, str(checkout))
    engine = load(*arguments)
    clock = time.process_time if cpu else time.perf_counter
    while True:
        given = pipe.recv()
        start = clock()
        try:
            result = engine(*given)
        except Exception as error:  # raised where the call was made
            pipe.send(error)
        else:
            pipe.send((clock() - start, result))
