"""Batches side by side: a few threads, each with its share of the cores.

Threads inside of every operator wait for each other, and for Python, hundreds of times in a batch. With a batch each
they wait once, at the end. The bits of the results are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST = 4  # threads, however many cores: each holds a batch in memory


def side_by_side(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """`function` of every item, in their order."""
    cores = torch.get_num_threads()
    count = crew_for(cores)
    if count == 1 or len(items) < count or is_bound_to_thread():
        yield from map(function, items)
        return
    try:
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(cores // count,)) as pool:
            yield from pool.map(function, items)  # when this ends early, the items not yet begun are dropped
    finally:
        torch.set_num_threads(cores)  # what was set in a thread is also where later threads begin


def crew_for(cores: int) -> int:
    """How many threads can have the same number of cores each.

    >>> [crew_for(cores) for cores in (1, 2, 6, 7, 8)]
    [1, 2, 3, 1, 4]
    """
    return max(count for count in range(1, MOST + 1) if cores % count == 0)


def is_bound_to_thread() -> bool:
    """Whether something is at work that other threads would not notice: autocast, a profiler, a mode of torch."""
    return (
        torch.is_autocast_enabled("cpu")
        or torch.autograd._profiler_enabled()
        or torch._C._len_torch_dispatch_stack() + torch._C._len_torch_function_stack() > 0
    )
