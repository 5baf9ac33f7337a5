"""Batches in parallel: a few threads, each with an equal share of the cores.

Threads inside an operator wait for each other, and for Python, hundreds of times in a batch. Threads with a batch each
wait once, at the end. The results are identical bit for bit.

The number of cores that an operator uses is a setting of the calling thread, and new threads start with the value that
was set last. So the workers are started once per process and keep their setting, and the value for new threads
is restored as soon as they run; no other thread's setting changes, and any number of callers share the same workers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_THREADS = 4  # however many cores: each thread holds a batch in memory

_pools: dict[int, ThreadPoolExecutor] = {}  # by the number of cores that their threads share
_pools_lock = threading.Lock()
_current = threading.local()


def parallel_map(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """`function` of every item, in order. Items that have not started when the caller stops are cancelled."""
    cores = torch.get_num_threads()
    count = thread_count(cores)
    if count == 1 or len(items) < count or is_bound_to_thread():
        yield from map(function, items)
        return
    pool = pool_for(cores)
    futures: list[Future[Result] | None] = [pool.submit(function, item) for item in items]
    try:
        for index in range(len(futures)):
            future, futures[index] = futures[index], None  # a result is released once it is returned
            assert future is not None
            yield future.result()
    finally:
        wait([future for future in futures if future is not None and not future.cancel()])


def pool_for(cores: int) -> ThreadPoolExecutor:
    """The workers that share this number of cores."""
    with _pools_lock:
        if cores not in _pools:
            default = in_new_thread(torch.get_num_threads)
            count = thread_count(cores)
            started = threading.Barrier(count + 1)
            pool = ThreadPoolExecutor(
                count, thread_name_prefix="glassformer", initializer=initialise_worker, initargs=(cores // count,)
            )
            for _ in range(count):
                pool.submit(started.wait)  # each in a thread of its own
            started.wait()
            in_new_thread(partial(torch.set_num_threads, default))
            _pools[cores] = pool
        return _pools[cores]


def in_new_thread(function: Callable[[], Result]) -> Result:
    """What `function` returns in a thread that has changed no setting; those of this thread stay as they are."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def initialise_worker(cores: int) -> None:
    _current.is_worker = True
    torch.set_num_threads(cores)
    torch.get_num_threads()  # a thread adopts the process-wide number at its first call: make that call now


def forget_pools() -> None:
    """Reset after a fork: the child process has none of its parent's threads."""
    global _pools_lock
    _pools_lock = threading.Lock()
    _pools.clear()


os.register_at_fork(after_in_child=forget_pools)


def thread_count(cores: int) -> int:
    """The largest number of threads among which the cores can be divided evenly.

    >>> [thread_count(cores) for cores in (1, 2, 6, 7, 8)]
    [1, 2, 3, 1, 4]
    """
    return max(count for count in range(1, MAX_THREADS + 1) if cores % count == 0)


def is_bound_to_thread() -> bool:
    """Whether a state is active that other threads would not see: autocast, a profiler, a mode of torch."""
    return (
        getattr(_current, "is_worker", False)  # a worker must not wait for workers
        or torch.is_autocast_enabled("cpu")
        or torch.autograd._profiler_enabled()
        or torch._C._len_torch_dispatch_stack() + torch._C._len_torch_function_stack() > 0
    )
