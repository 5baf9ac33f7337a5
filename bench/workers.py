"""Every engine in a process of its own: the idle threads of one would slow the others down."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from typing import Any


class Worker:
    """A loaded engine that waits for calls; each is timed where it runs."""

    def __init__(self, load: Callable[..., Callable], *arguments: Any, threads: int):
        os.environ["OMP_NUM_THREADS"] = str(threads)
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, load, arguments), daemon=True)
        self.process.start()

    def __call__(self, *arguments: Any) -> tuple[float, Any]:
        """(seconds, result)"""
        self.pipe.send(arguments)
        told = self.pipe.recv()
        if isinstance(told, BaseException):
            raise told
        return told

    def close(self) -> None:
        self.process.terminate()
        self.process.join()


def serve(pipe, load: Callable[..., Callable], arguments: tuple) -> None:
    engine = load(*arguments)
    while True:
        given = pipe.recv()
        start = time.perf_counter()
        try:
            result = engine(*given)
        except Exception as error:  # told to the one who asked
            pipe.send(error)
        else:
            pipe.send((time.perf_counter() - start, result))
