"""Learning rate schedules: each is a factor that depends on the step, for PyTorch's `LambdaLR`.

All but `constant` begin with `num_warmup_steps` in which the rate rises from zero.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from ..errors import InputError, nearest, refuse_unknown, suggests
from ..text.base.encoding_options import check_choice

SHAPES = ("linear", "cosine", "1-sqrt")


class SchedulerType(str, Enum):
    """The names of the schedules."""

    LINEAR = "linear"
    COSINE = "cosine"
    COSINE_WITH_RESTARTS = "cosine_with_restarts"
    POLYNOMIAL = "polynomial"
    CONSTANT = "constant"
    CONSTANT_WITH_WARMUP = "constant_with_warmup"
    INVERSE_SQRT = "inverse_sqrt"
    WARMUP_STABLE_DECAY = "warmup_stable_decay"


@suggests
def get_constant_schedule(optimizer: Optimizer, last_epoch: int = -1) -> LambdaLR:
    """A constant rate."""
    return LambdaLR(optimizer, lambda step: 1.0, last_epoch)


@suggests
def get_constant_schedule_with_warmup(optimizer: Optimizer, num_warmup_steps: int, last_epoch: int = -1) -> LambdaLR:
    """A warm-up, then a constant rate."""
    return with_warmup(optimizer, num_warmup_steps, lambda step: 1.0, last_epoch)


@suggests
def get_linear_schedule_with_warmup(
    optimizer: Optimizer, num_warmup_steps: int, num_training_steps: int, last_epoch: int = -1
) -> LambdaLR:
    """A warm-up, then a linear decay to zero."""
    check_step_count("num_training_steps", num_training_steps)

    def factor(step: int) -> float:
        return max(0.0, (num_training_steps - step) / max(1, num_training_steps - num_warmup_steps))

    return with_warmup(optimizer, num_warmup_steps, factor, last_epoch)


@suggests
def get_cosine_schedule_with_warmup(
    optimizer: Optimizer,
    num_warmup_steps: int,
    num_training_steps: int,
    num_cycles: float = 0.5,
    last_epoch: int = -1,
) -> LambdaLR:
    """A warm-up, then `num_cycles` periods of a cosine; half a period decays to zero."""
    check_step_count("num_training_steps", num_training_steps)

    def factor(step: int) -> float:
        done = progress(step, num_warmup_steps, num_training_steps)
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * num_cycles * 2.0 * done)))

    return with_warmup(optimizer, num_warmup_steps, factor, last_epoch)


@suggests
def get_cosine_with_hard_restarts_schedule_with_warmup(
    optimizer: Optimizer, num_warmup_steps: int, num_training_steps: int, num_cycles: int = 1, last_epoch: int = -1
) -> LambdaLR:
    """A warm-up, then `num_cycles` cosine decays to zero, each from the full rate."""
    check_step_count("num_training_steps", num_training_steps)

    def factor(step: int) -> float:
        done = progress(step, num_warmup_steps, num_training_steps)
        return 0.0 if done >= 1.0 else max(0.0, 0.5 * (1.0 + math.cos(math.pi * ((num_cycles * done) % 1.0))))

    return with_warmup(optimizer, num_warmup_steps, factor, last_epoch)


@suggests
def get_polynomial_decay_schedule_with_warmup(
    optimizer: Optimizer,
    num_warmup_steps: int,
    num_training_steps: int,
    lr_end: float = 1e-7,
    power: float = 1.0,
    last_epoch: int = -1,
) -> LambdaLR:
    """A warm-up, then a polynomial decay to `lr_end`."""
    check_step_count("num_training_steps", num_training_steps)
    full = float(optimizer.defaults["lr"])
    if not full > lr_end:
        raise InputError(f"lr_end must be below the optimizer's learning rate {full}, got {lr_end}")

    def factor(step: int) -> float:
        if step > num_training_steps:
            return lr_end / full
        left = 1 - (step - num_warmup_steps) / max(1, num_training_steps - num_warmup_steps)
        return ((full - lr_end) * left**power + lr_end) / full

    return with_warmup(optimizer, num_warmup_steps, factor, last_epoch)


@suggests
def get_inverse_sqrt_schedule(
    optimizer: Optimizer, num_warmup_steps: int, timescale: int | None = None, last_epoch: int = -1
) -> LambdaLR:
    """A warm-up, then the inverse square root of the step in units of `timescale` (by default the warm-up)."""
    check_step_count("num_warmup_steps", num_warmup_steps)
    unit = timescale if timescale is not None else num_warmup_steps or 10_000

    def factor(step: int) -> float:
        return 1.0 / math.sqrt((step + unit - num_warmup_steps) / unit)

    return with_warmup(optimizer, num_warmup_steps, factor, last_epoch)


@suggests
def get_wsd_schedule(
    optimizer: Optimizer,
    num_warmup_steps: int,
    num_decay_steps: int,
    num_training_steps: int | None = None,
    num_stable_steps: int | None = None,
    warmup_type: str = "linear",
    decay_type: str = "cosine",
    min_lr_ratio: float = 0.0,
    num_cycles: float = 0.5,
    last_epoch: int = -1,
) -> LambdaLR:
    """Warm-up, stable, decay: a plateau after the warm-up, and a decay to `min_lr_ratio` of the rate in the last steps.

    The plateau has `num_stable_steps`, or the rest of `num_training_steps`.
    """
    check_step_count("num_warmup_steps", num_warmup_steps)
    check_step_count("num_decay_steps", num_decay_steps)
    check_choice("warmup_type", warmup_type, SHAPES)
    check_choice("decay_type", decay_type, SHAPES)
    if (num_training_steps is None) == (num_stable_steps is None):
        raise InputError("give either num_training_steps or num_stable_steps")
    plateau = (
        num_stable_steps if num_training_steps is None else num_training_steps - num_warmup_steps - num_decay_steps
    )
    if plateau is None or plateau < 0:
        raise InputError(
            f"{num_training_steps} steps are fewer than {num_warmup_steps} to warm up and {num_decay_steps} to decay"
        )
    decay_start = num_warmup_steps + plateau

    def scaled(factor: float) -> float:
        return max(0.0, factor * (1.0 - min_lr_ratio) + min_lr_ratio)

    def factor(step: int) -> float:
        if step < num_warmup_steps:
            return scaled(rise(step / num_warmup_steps, warmup_type))
        if step < decay_start:
            return 1.0
        if step < decay_start + num_decay_steps:
            return scaled(decay((step - decay_start) / num_decay_steps, decay_type, num_cycles))
        return min_lr_ratio

    return LambdaLR(optimizer, factor, last_epoch)


def rise(done: float, shape: str) -> float:
    """From 0 to 1."""
    if shape == "linear":
        return done
    return 0.5 * (1.0 - math.cos(math.pi * done)) if shape == "cosine" else 1.0 - math.sqrt(1.0 - done)


def decay(done: float, shape: str, num_cycles: float) -> float:
    """From 1 to 0."""
    if shape == "linear":
        return 1.0 - done
    return 0.5 * (1.0 + math.cos(math.pi * num_cycles * 2.0 * done)) if shape == "cosine" else 1.0 - math.sqrt(done)


def with_warmup(optimizer: Optimizer, warmup: int, factor: Callable[[int], float], last_epoch: int) -> LambdaLR:
    """A schedule with a linear warm-up, followed by `factor`."""
    check_step_count("num_warmup_steps", warmup)
    return LambdaLR(optimizer, lambda step: step / warmup if step < warmup else factor(step), last_epoch)


def progress(step: int, warmup: int, total: int) -> float:
    """The fraction of the steps after the warm-up that is done."""
    return (step - warmup) / max(1, total - warmup)


def check_step_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InputError(f"{name} must be a number of steps, at least 0, got {value!r}")


SCHEDULES: dict[str, Callable[..., LambdaLR]] = {
    "linear": get_linear_schedule_with_warmup,
    "cosine": get_cosine_schedule_with_warmup,
    "cosine_with_restarts": get_cosine_with_hard_restarts_schedule_with_warmup,
    "polynomial": get_polynomial_decay_schedule_with_warmup,
    "constant": get_constant_schedule,
    "constant_with_warmup": get_constant_schedule_with_warmup,
    "inverse_sqrt": get_inverse_sqrt_schedule,
    "warmup_stable_decay": get_wsd_schedule,
}
TYPE_TO_SCHEDULER_FUNCTION = {SchedulerType(name): function for name, function in SCHEDULES.items()}


@suggests
def get_scheduler(
    name: str | SchedulerType,
    optimizer: Optimizer,
    num_warmup_steps: int | None = None,
    num_training_steps: int | None = None,
    scheduler_specific_kwargs: Mapping[str, Any] | None = None,
) -> LambdaLR:
    """A schedule by name; arguments that only some schedules take (`num_cycles`, `power`) are passed in the last one.

    >>> from torch import nn; from glassformer import AdamW
    >>> optimizer = AdamW(nn.Linear(3, 2).parameters(), lr=1.0)
    >>> schedule = get_scheduler("linear", optimizer, num_warmup_steps=2, num_training_steps=6)
    >>> for _ in range(3): optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.75]
    """
    requested = name.value if isinstance(name, SchedulerType) else name
    if requested not in SCHEDULES:
        raise InputError(
            f"there is no schedule {name!r}{nearest(str(name), SCHEDULES)}; there are {', '.join(SCHEDULES)}"
        )
    function = SCHEDULES[requested]
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "optimizer"]
    given = {"num_warmup_steps": num_warmup_steps, "num_training_steps": num_training_steps}
    extra = dict(scheduler_specific_kwargs or {})
    valid = [each.name for each in parameters if each.name not in given]
    refuse_unknown(extra, valid, f"the schedule {requested!r}")
    arguments = {each.name: given[each.name] for each in parameters if given.get(each.name) is not None} | extra
    for each in parameters:
        if each.default is each.empty and each.name not in arguments:
            raise InputError(f"the schedule {requested!r} needs {each.name}")
    return function(optimizer, **arguments)
