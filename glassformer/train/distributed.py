"""The processes that train together, started by `torchrun`; a single process is rank 0 of 1.

Every rank has the full model and reads its share of each step's batches. Gradients are summed, not averaged, since each
rank divides its loss by the targets of all ranks: the sum is the gradient of the entire step, however unevenly the rows
are distributed.
"""

from __future__ import annotations

import atexit
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

LOST_RANK = re.compile("gloo|nccl|connection|timed? ?out|peer", re.IGNORECASE)  # in torch's messages
BUCKET = 32 * 2**20  # bytes of gradients that are reduced together


@dataclass(frozen=True)
class ProcessGroup:
    """The rank of this process, the number of processes, and their communication."""

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")  # of the tensors that are sent
    shards: bool = False  # whether each rank holds a part of the model, and the backward pass reduces gradients

    @property
    def is_main(self) -> bool:
        """Whether this is the rank that writes files and prints."""
        return self.rank == 0

    def sum(self, values: Sequence[float]) -> list[float]:
        """Each value, summed over all ranks."""
        if self.size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        with communication_errors():
            dist.all_reduce(tensor)
            return tensor.tolist()

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Give every rank the gradient of the entire step. A parameter without one on any rank stays without."""
        if self.size == 1 or self.shards:
            return
        listed = list(parameters)
        has_gradient = torch.tensor([float(each.grad is not None) for each in listed], device=self.device)
        with communication_errors():
            dist.all_reduce(has_gradient)
        trained = [each for each, flag in zip(listed, has_gradient.tolist(), strict=True) if flag]
        for bucket in make_buckets(trained):
            for each in bucket:
                if each.grad is None:
                    each.grad = torch.zeros_like(each)
            flat = torch.cat([each.grad.flatten() for each in bucket if each.grad is not None])
            with communication_errors():
                dist.all_reduce(flat)
            for each, part in zip(bucket, flat.split([each.numel() for each in bucket]), strict=True):
                each.grad = part.view_as(each).clone()

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, by rank."""
        if self.size == 1:
            return [value]
        gathered: list[Any] = [None] * self.size
        with communication_errors():
            dist.all_gather_object(gathered, value)
        return gathered

    def run_on_main(self, action: Callable[[], None]) -> None:
        """Run an action on the main rank; if it fails there, all ranks raise, and none waits for the others."""
        error: GlassformerError | None = None
        if self.is_main:
            try:
                action()
            except GlassformerError as problem:
                error = problem
        reason = self.gather(None if error is None else str(error))[0]
        if error is not None:
            raise error
        if reason is not None:
            raise TrainingError(f"the first rank failed: {reason}")

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Copy the main rank's values to every rank."""
        if self.size > 1:
            with communication_errors():
                for tensor in tensors:
                    dist.broadcast(tensor, src=0)


SINGLE_PROCESS = ProcessGroup()


def is_main_process() -> bool:
    """Whether this process is the one that prints, according to torchrun."""
    return os.environ.get("RANK", "0") == "0"


@contextlib.contextmanager
def communication_errors() -> Iterator[None]:
    """Explain errors of calls to other ranks."""
    try:
        yield
    except (RuntimeError, ConnectionError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TrainingError(f"the other ranks do not answer, one has died or hangs: {reason}") from error


@contextlib.contextmanager
def lost_rank_errors() -> Iterator[None]:
    """The same around code that can fail for other reasons too."""
    try:
        yield
    except RuntimeError as error:
        if not LOST_RANK.search(str(error)):
            raise
        with communication_errors():
            raise


def make_buckets(parameters: Sequence[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Parameters that are reduced together: of one dtype and a limited number of bytes."""
    buckets: list[list[nn.Parameter]] = []
    size = 0
    for each in parameters:
        if not buckets or buckets[-1][0].dtype != each.dtype or size + each.nbytes > BUCKET:
            buckets.append([])
            size = 0
        buckets[-1].append(each)
        size += each.nbytes
    return buckets


def leave_process_group() -> None:
    """End the threads of the process group, which may abort the process if they still run when it exits."""
    if dist.is_initialized():
        dist.destroy_process_group()


def join_process_group(timeout: float, device: torch.device) -> ProcessGroup:
    """Join the processes that torchrun started; a group of one without torchrun.

    If a rank dies or is silent for `timeout` seconds, each call above raises in all others, which ends the job.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return ProcessGroup(device=device)
    if not dist.is_initialized():
        on_gpu = device.type == "cuda"
        if on_gpu:
            torch.cuda.set_device(device)
        try:
            dist.init_process_group("nccl" if on_gpu else "gloo", timeout=timedelta(seconds=timeout))
        except (RuntimeError, ValueError) as error:
            raise TrainingError(f"the {size} ranks did not meet within {timeout:.0f} s: {error}") from error
        atexit.register(leave_process_group)
    return ProcessGroup(dist.get_rank(), dist.get_world_size(), device)
