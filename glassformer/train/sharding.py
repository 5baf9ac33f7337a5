"""A model split over ranks (FSDP2): each rank holds a part of every weight, and fetches a layer when it runs.

Every layer is a unit of its own; all else (embeddings, heads, pooling) belongs to the root. Tasks reach into a model in
ways of their own, so the root is a shell around it whose `forward` is the task's whole computation: whatever that
calls, the weights outside the layers are there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from ..errors import InputError
from ..tasks.task import Task
from .distributed import Ranks, heard_among


class Shell(nn.Module):
    """The root: a module that runs any function of the model it holds."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)


class Sharded:
    """A task's model, split over ranks."""

    def __init__(self, task: Task, ranks: Ranks) -> None:
        if ranks.size == 1:
            raise InputError("fully_shard splits a model over several processes: start them with torchrun")
        if task.model.adapter is not None:
            raise InputError("an adapter is small and its model frozen: train it without fully_shard")
        self.task = task
        self.hollow = hollow_copy(task)
        mesh = init_device_mesh(ranks.device.type, (ranks.size,))
        for layer in task.model.layers:
            fully_shard(layer, mesh=mesh)
        self.shell = Shell(task.trainable)
        fully_shard(self.shell, mesh=mesh)

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A computation with the model's weights."""
        learning = torch.is_grad_enabled()  # weights that are fetched in inference mode could not be learnt later
        with torch.inference_mode(False), torch.set_grad_enabled(learning), heard_among():
            return self.shell(function, *arguments)

    def wrapped(self, task: Any) -> Any:
        """The same task, or what learns in its place, with computations that go through the root."""
        wrapped = copy.copy(task)
        wrapped.objectives = lambda model, batch: self.run(task.objectives, model, batch)
        if isinstance(task, Task):
            wrapped.outputs = lambda model, batch: self.run(task.outputs, model, batch)
            wrapped.forward = lambda batch: self.run(task.forward, batch)
        return wrapped

    def gathered(self) -> nn.Module:
        """The whole model, for writing; on all ranks, each of which must call this."""
        tensors = {name: whole(tensor).cpu() for name, tensor in self.task.trainable.state_dict().items()}
        self.hollow.load_state_dict(tensors, assign=True)
        return self.hollow


def hollow_copy(task: Task) -> nn.Module:
    """The same modules without values."""
    model = task.trainable
    shared = [task.processor, *vars(task.processor).values()]  # the copy needs no tokenizer of its own
    known: dict[int, Any] = {id(each): each for each in shared}
    for each in model.parameters():
        known[id(each)] = nn.Parameter(each.detach().to("meta"), requires_grad=each.requires_grad)
    return copy.deepcopy(model, known)


def whole(tensor: Tensor) -> Tensor:
    """A tensor with the parts of all ranks."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor in the shape in which this rank holds a parameter: all of it, or its own part."""
    tensor = tensor.to(parameter.device)
    if not isinstance(parameter, DTensor):
        return tensor
    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements, src_data_rank=None)


@torch.no_grad()
def fill(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Give a model, split or not, the values of whole tensors."""
    live = model.state_dict()
    if live.keys() != tensors.keys():
        raise InputError(
            f"the checkpoint holds other weights than the model: {sorted(live.keys() ^ tensors.keys())[:8]}"
        )
    other = [name for name, tensor in live.items() if tensor.shape != tensors[name].shape]
    if other:
        shapes = f"{list(tensors[other[0]].shape)} in the checkpoint and {list(live[other[0]].shape)} in the model"
        raise InputError(f"{len(other)} weights have other shapes than the model's, such as {other[0]}: {shapes}")
    for name, tensor in live.items():
        tensor.copy_(like(tensors[name], tensor))
