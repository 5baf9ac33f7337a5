"""Batches in parallel: a few threads, each with its share of the cores.

Threads inside of every operator wait for each other, and for Python, hundreds of times in a batch. With a batch each
they wait once, at the end. The bits of the results are the same.

How many cores an operator uses is a setting of the thread that calls it, and what was set last is where new threads
start. So the workers are made once for the whole process and keep their setting; no other thread's setting changes
while anything runs, and any number of callers share the same workers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST = 4  # threads, however many cores: each holds a batch in memory

_pools: dict[int, ThreadPoolExecutor] = {}  # by the number of cores that their threads share
_making = threading.Lock()
_current = threading.local()


def side_by_side(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """`function` of every item, in their order. What is not begun when the caller stops is dropped."""
    cores = torch.get_num_threads()
    count = thread_count(cores)
    if count == 1 or len(items) < count or is_bound_to_thread():
        yield from map(function, items)
        return
    pool = pool_for(cores)
    futures: list[Future[Result] | None] = [pool.submit(function, item) for item in items]
    try:
        for place in range(len(futures)):
            future, futures[place] = futures[place], None  # a result is let go when it was handed out
            assert future is not None
            yield future.result()
    finally:
        wait([future for future in futures if future is not None and not future.cancel()])


def pool_for(cores: int) -> ThreadPoolExecutor:
    """The workers that share so many cores."""
    with _making:
        if cores not in _pools:
            count = thread_count(cores)
            together = threading.Barrier(count + 1)
            pool = ThreadPoolExecutor(
                count, thread_name_prefix="glassformer", initializer=begin_worker, initargs=(cores // count,)
            )
            for _ in range(count):
                pool.submit(together.wait)  # each in a thread of its own
            together.wait()
            torch.set_num_threads(cores)  # new threads start with all cores again
            _pools[cores] = pool
        return _pools[cores]


def begin_worker(cores: int) -> None:
    _current.is_worker = True
    torch.set_num_threads(cores)
    torch.get_num_threads()  # a thread takes over the process-wide number when it first looks: let that be now


def forget_pools() -> None:
    """A forked process has none of the threads of its parent."""
    global _making
    _making = threading.Lock()
    _pools.clear()


os.register_at_fork(after_in_child=forget_pools)


def thread_count(cores: int) -> int:
    """How many threads can have the same number of cores each.

    >>> [thread_count(cores) for cores in (1, 2, 6, 7, 8)]
    [1, 2, 3, 1, 4]
    """
    return max(count for count in range(1, MOST + 1) if cores % count == 0)


def is_bound_to_thread() -> bool:
    """Whether something is active that other threads would not notice: autocast, a profiler, a mode of torch."""
    return (
        getattr(_current, "is_worker", False)  # which must not wait for workers
        or torch.is_autocast_enabled("cpu")
        or torch.autograd._profiler_enabled()
        or torch._C._len_torch_dispatch_stack() + torch._C._len_torch_function_stack() > 0
    )
