"""The processes that train together, started by `torchrun`; one alone is a rank among one.

Every rank holds the whole model and reads its share of each step's batches. Gradients are summed, not averaged, since
each rank divides its loss by the targets of all: the sum is the gradient of the whole step, however unevenly the rows
fell.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..errors import GlassformerError, TrainingError

SILENCE = re.compile("gloo|nccl|connection|timed? ?out|peer", re.IGNORECASE)  # how a lost rank is told by torch
BUCKET = 32 * 2**20  # bytes of gradients that travel together


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is, and what they say to each other."""

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")  # where values must lie to travel
    shards: bool = False  # whether each holds a part of the model, and gradients are summed on the way back

    @property
    def leads(self) -> bool:
        """Whether this is the one that writes files and speaks."""
        return self.rank == 0

    def sum(self, values: Sequence[float]) -> list[float]:
        """Each value, summed over all ranks."""
        if self.size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        with heard():
            dist.all_reduce(tensor)
            return tensor.tolist()

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Give every rank the gradient of the whole step. What got none on any rank stays without."""
        if self.size == 1 or self.shards:
            return
        listed = list(parameters)
        reached = torch.tensor([float(each.grad is not None) for each in listed], device=self.device)
        with heard():
            dist.all_reduce(reached)
        learning = [each for each, flag in zip(listed, reached.tolist(), strict=True) if flag]
        for bucket in buckets(learning):
            for each in bucket:
                if each.grad is None:
                    each.grad = torch.zeros_like(each)
            flat = torch.cat([each.grad.flatten() for each in bucket if each.grad is not None])
            with heard():
                dist.all_reduce(flat)
            for each, part in zip(bucket, flat.split([each.numel() for each in bucket]), strict=True):
                each.grad = part.view_as(each).clone()

    def gather(self, value: Any) -> list[Any]:
        """What every rank holds, by rank."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        with heard():
            dist.all_gather_object(found, value)
        return found

    def lead(self, action: Callable[[], None]) -> None:
        """Let the first rank do something; if it fails, it fails in all, and none waits for the others."""
        error: GlassformerError | None = None
        if self.leads:
            try:
                action()
            except GlassformerError as problem:
                error = problem
        told = self.gather(None if error is None else str(error))[0]
        if error is not None:
            raise error
        if told is not None:
            raise TrainingError(f"the first rank could not go on: {told}")

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Give every rank the first one's values."""
        if self.size > 1:
            with heard():
                for tensor in tensors:
                    dist.broadcast(tensor, src=0)


ALONE = Ranks()


def speaks() -> bool:
    """Whether this process tells a user what happens; torchrun says which one it is."""
    return os.environ.get("RANK", "0") == "0"


@contextlib.contextmanager
def heard() -> Iterator[None]:
    """Say what it means when a call to the other ranks fails."""
    try:
        yield
    except (RuntimeError, ConnectionError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TrainingError(f"the other ranks do not answer, one has died or hangs: {reason}") from error


@contextlib.contextmanager
def heard_among() -> Iterator[None]:
    """The same around code that can fail for other reasons too."""
    try:
        yield
    except RuntimeError as error:
        if not SILENCE.search(str(error)):
            raise
        with heard():
            raise


def buckets(parameters: Sequence[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Parameters that travel together: alike in type and not too many bytes."""
    found: list[list[nn.Parameter]] = []
    held = 0
    for each in parameters:
        if not found or found[-1][0].dtype != each.dtype or held + each.nbytes > BUCKET:
            found.append([])
            held = 0
        found[-1].append(each)
        held += each.nbytes
    return found


def join_ranks(timeout: float, device: torch.device) -> Ranks:
    """Meet the other processes that torchrun started; alone when there are none.

    A rank that dies or stays silent for `timeout` seconds ends the job: each call above then raises in all others.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return Ranks(device=device)
    if not dist.is_initialized():
        on_gpu = device.type == "cuda"
        if on_gpu:
            torch.cuda.set_device(device)
        try:
            dist.init_process_group("nccl" if on_gpu else "gloo", timeout=timedelta(seconds=timeout))
        except (RuntimeError, ValueError) as error:
            raise TrainingError(f"the {size} ranks did not meet within {timeout:.0f} s: {error}") from error
    return Ranks(dist.get_rank(), dist.get_world_size(), device)
