"""The first line of a run: the task, the model and its size, the rows, the steps, the device, and how much is saved."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...data.document_corpus import Pieces
from ...models.base.parameters import count_parameters
from ...models.lora import adapter_tensors
from ..recipes.model_sizes import size_of
from ..recipes.recipe import Recipe, is_new
from ..streamed_batches import StreamedBatches

if TYPE_CHECKING:
    from ..trainer import Trainer

UNITS = ("bytes", "kB", "MB", "GB", "TB")


def describe_run(trainer: Trainer, recipe: Recipe) -> str:
    """One line, before the first step."""
    config = trainer.task.model.config
    parameters = count_parameters(trainer.model)
    trained = count_parameters(trainer.model, trainable=True)
    size = size_of(config) if is_new(recipe.model) else None
    shape = f"{'' if size is None else size + ', '}{config.num_hidden_layers} layers x {config.hidden_size}"
    of_these = "" if trained == parameters else f", {trained:,} of them trained"
    epochs = "" if trainer.settings.max_steps else f" ({trainer.settings.num_train_epochs} epochs)"
    ranks = f", {trainer.process_group.size} ranks" if trainer.process_group.size > 1 else ""
    model = f"{recipe.model} ({shape}, {parameters:,} parameters{of_these})"
    steps = f"{trainer.total:,} steps{epochs}, {trainer.device}{ranks}"
    saved = size_text(checkpoint_bytes(trainer))
    return f"{trainer.task.name}: {model}, {describe_rows(trainer)}, {steps}, {saved} a checkpoint"


def describe_rows(trainer: Trainer) -> str:
    batches = trainer.batches
    if isinstance(batches, StreamedBatches):
        return "streamed rows"
    return f"{len(batches.rows):,} {'blocks of text' if isinstance(batches.rows, Pieces) else 'rows'}"


def checkpoint_bytes(trainer: Trainer) -> int:
    """The size of a checkpoint's tensors: the weights that are saved, and two values for each one that is trained."""
    if trainer.task.model.adapter is not None:
        weights = adapter_tensors(trainer.task.model).values()
    else:
        weights = {tensor.data_ptr(): tensor for tensor in trainer.model.state_dict().values()}.values()
    trained = [parameter for parameter in trainer.model.parameters() if parameter.requires_grad]
    return sum(each.nbytes for each in weights) + 2 * sum(each.nbytes for each in trained)


def size_text(count: float) -> str:
    """A number of bytes in readable units.

    >>> size_text(812), size_text(5_400_000), size_text(1.25e9)
    ('812 bytes', '5.4 MB', '1.2 GB')
    """
    power = min(int(math.log10(max(count, 1)) // 3), len(UNITS) - 1)
    scaled = count / 1000**power
    return f"{scaled:.{0 if power == 0 or scaled >= 100 else 1}f} {UNITS[power]}"
