"""A model sharded over ranks (FSDP2): each rank holds a part of every weight, and gathers a layer when it runs.

Every layer is an FSDP unit; all else (embeddings, heads, pooling) belongs to the root. Tasks call parts of a model
directly, so the root is a module around it whose `forward` runs the task's entire computation: the weights outside the
layers are gathered, whichever part is called.
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
from .distributed import ProcessGroup, lost_rank_errors


class RootModule(nn.Module):
    """The root FSDP unit: a module that runs any function of the model it holds."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)


class Sharded:
    """A task's model, sharded over ranks."""

    def __init__(self, task: Task, process_group: ProcessGroup) -> None:
        if process_group.size == 1:
            raise InputError("fully_shard splits a model over several processes: start them with torchrun")
        if task.model.adapter is not None:
            raise InputError("an adapter is small and its model frozen: train it without fully_shard")
        self.task = task
        self.full_copy = meta_copy(task)
        mesh = init_device_mesh(process_group.device.type, (process_group.size,))
        for layer in task.model.distinct_layers:
            fully_shard(layer, mesh=mesh)
        self.root = RootModule(task.trainable)
        fully_shard(self.root, mesh=mesh)

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function with the model's weights gathered."""
        needs_grad = torch.is_grad_enabled()  # weights that are gathered in inference mode could not be trained later
        with torch.inference_mode(False), torch.set_grad_enabled(needs_grad), lost_rank_errors():
            return self.root(function, *arguments)

    def wrap_task(self, task: Any) -> Any:
        """A copy of a task, or of the object that training uses instead, whose computations go through the root."""
        wrapped = copy.copy(task)
        wrapped.objectives = lambda model, batch: self.run(task.objectives, model, batch)
        if isinstance(task, Task):
            wrapped.outputs = lambda model, batch: self.run(task.outputs, model, batch)
            wrapped.forward = lambda batch: self.run(task.forward, batch)
        return wrapped

    def gather_model(self) -> nn.Module:
        """The full model, for saving; all ranks must call this."""
        tensors = {name: full_tensor(tensor).cpu() for name, tensor in self.task.trainable.state_dict().items()}
        self.full_copy.load_state_dict(tensors, assign=True)
        return self.full_copy


def meta_copy(task: Task) -> nn.Module:
    """A copy of the model's modules on the meta device."""
    model = task.trainable
    shared = [task.processor, *vars(task.processor).values()]  # the copy needs no tokenizer of its own
    memo: dict[int, Any] = {id(each): each for each in shared}
    for each in model.parameters():
        memo[id(each)] = nn.Parameter(each.detach().to("meta"), requires_grad=each.requires_grad)
    return copy.deepcopy(model, memo)


def full_tensor(tensor: Tensor) -> Tensor:
    """A tensor gathered from all ranks."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def match_sharding(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A full tensor distributed like a parameter: all of it, or this rank's shard."""
    tensor = tensor.to(parameter.device)
    if not isinstance(parameter, DTensor):
        return tensor
    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements, src_data_rank=None)


@torch.no_grad()
def copy_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy full tensors into a model, sharded or not."""
    weights = model.state_dict()
    if weights.keys() != tensors.keys():
        raise InputError(
            f"the checkpoint holds other weights than the model: {sorted(weights.keys() ^ tensors.keys())[:8]}"
        )
    wrong = [name for name, tensor in weights.items() if tensor.shape != tensors[name].shape]
    if wrong:
        shapes = f"{list(tensors[wrong[0]].shape)} in the checkpoint and {list(weights[wrong[0]].shape)} in the model"
        raise InputError(f"{len(wrong)} weights have other shapes than the model's, such as {wrong[0]}: {shapes}")
    for name, tensor in weights.items():
        tensor.copy_(match_sharding(tensors[name], tensor))
