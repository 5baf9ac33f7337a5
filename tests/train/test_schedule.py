"""Schedules: the recorded rates to the last bit, and the two that were recorded nowhere against transformers."""

from __future__ import annotations

import json

import pytest
import torch

import glassformer
from glassformer import SchedulerType, get_scheduler
from glassformer.errors import ArgumentError, InputError
from glassformer.train.schedule import SCHEDULES


def optimizer(lr: float = 0.01) -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)


def rates(schedule, steps: int) -> list[float]:
    """The rate used at each step, and last the one after the final step."""
    found = [schedule.get_last_lr()[0]]
    for _ in range(steps):
        schedule.optimizer.step()
        schedule.step()
        found.append(schedule.get_last_lr()[0])
    return found


@pytest.fixture(scope="module")
def recorded(shared) -> dict:
    return json.loads((shared / "golden" / "schedules.json").read_text())


@pytest.mark.parametrize("kind", list(SchedulerType)[:6], ids=lambda kind: kind.value)
@pytest.mark.parametrize("by_name", [True, False])
def test_recorded_rates(recorded, kind, by_name):
    name = kind.value if by_name else kind
    schedule = get_scheduler(
        name, optimizer(recorded["lr"]), recorded["num_warmup_steps"], recorded["num_training_steps"]
    )
    assert rates(schedule, recorded["num_training_steps"]) == recorded["get_scheduler"][kind.value]


def test_recorded_rates_of_the_functions(recorded):
    assert len(recorded["functions"]) >= 6
    for record in recorded["functions"]:
        schedule = getattr(glassformer, record["function"])(optimizer(recorded["lr"]), **record["kwargs"])
        assert rates(schedule, len(record["rates"]) - 1) == record["rates"], record["function"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("get_inverse_sqrt_schedule", {"num_warmup_steps": 5}),
        ("get_inverse_sqrt_schedule", {"num_warmup_steps": 5, "timescale": 3}),
        ("get_inverse_sqrt_schedule", {"num_warmup_steps": 0}),
        ("get_wsd_schedule", {"num_warmup_steps": 4, "num_decay_steps": 6, "num_training_steps": 20}),
        ("get_wsd_schedule", {"num_warmup_steps": 4, "num_decay_steps": 6, "num_stable_steps": 3, "min_lr_ratio": 0.1}),
        (
            "get_wsd_schedule",
            {
                "num_warmup_steps": 4,
                "num_decay_steps": 9,
                "num_stable_steps": 0,
                "warmup_type": "1-sqrt",
                "decay_type": "1-sqrt",
            },
        ),
        (
            "get_wsd_schedule",
            {
                "num_warmup_steps": 4,
                "num_decay_steps": 9,
                "num_stable_steps": 2,
                "warmup_type": "cosine",
                "decay_type": "linear",
            },
        ),
    ],
)
def test_rates_of_transformers(name, arguments):
    library = pytest.importorskip("transformers.optimization")
    theirs = rates(getattr(library, name)(optimizer(), **arguments), 24)
    assert rates(getattr(glassformer, name)(optimizer(), **arguments), 24) == theirs


def test_every_name_has_a_schedule():
    assert list(SCHEDULES) == [kind.value for kind in SchedulerType]


def test_errors_are_reported():
    with pytest.raises(InputError, match="did you mean 'linear'"):
        get_scheduler("liner", optimizer(), 1, 2)
    with pytest.raises(InputError, match="needs num_training_steps"):
        get_scheduler("cosine", optimizer(), 1)
    with pytest.raises(InputError, match="needs num_decay_steps"):
        get_scheduler("warmup_stable_decay", optimizer(), 1, 10)
    with pytest.raises(ArgumentError, match="did you mean 'num_cycles'"):
        get_scheduler("cosine", optimizer(), 1, 10, {"num_cylces": 2})
    with pytest.raises(InputError, match="lr_end must be below"):
        get_scheduler("polynomial", optimizer(1e-8), 1, 10)
    with pytest.raises(InputError, match="num_warmup_steps must be a number of steps, at least 0, got -1"):
        get_scheduler("linear", optimizer(), -1, 10)
    with pytest.raises(InputError, match="fewer than"):
        get_scheduler("warmup_stable_decay", optimizer(), 8, 10, {"num_decay_steps": 5})


def test_schedules_by_their_type():
    functions = glassformer.TYPE_TO_SCHEDULER_FUNCTION
    assert functions[SchedulerType.LINEAR] is glassformer.get_linear_schedule_with_warmup
    assert functions[SchedulerType.CONSTANT] is glassformer.get_constant_schedule
    assert set(functions) == set(SchedulerType)


def test_a_schedule_resumes():
    schedule = get_scheduler("cosine", optimizer(), 3, 20)
    whole = rates(schedule, 15)
    first = get_scheduler("cosine", optimizer(), 3, 20)
    rates(first, 7)
    second = get_scheduler("cosine", optimizer(), 3, 20)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert rates(second, 8) == whole[7:]
