"""Two functions are timed in turns, and a difference that may be noise is called so."""

from __future__ import annotations

import pytest

from glassformer.cli.output.speed_comparison import SpeedComparison, compare_speed


class Machine:
    """A clock that only the work moves on; the machine is slower in some rounds."""

    def __init__(self, costs: dict[str, float], slowdowns: list[float]) -> None:
        self.now, self.costs, self.slowdowns = 0.0, costs, slowdowns
        self.calls: list[str] = []

    def work(self, name: str) -> None:
        self.calls.append(name)
        number = max(0, len(self.calls) - 5) // 2  # four calls come before the rounds
        self.now += self.costs[name] * self.slowdowns[min(number, len(self.slowdowns) - 1)]


def measure(machine: Machine, rounds: int) -> SpeedComparison:
    first, second = (lambda: machine.work("a")), (lambda: machine.work("b"))
    return compare_speed(first, second, work=100, rounds=rounds, clock=lambda: machine.now)


def test_a_machine_that_slows_down_changes_no_ratio():
    machine = Machine({"a": 2.0, "b": 1.6}, [1, 1, 5, 1, 9, 1, 1, 2, 3])
    found = measure(machine, 9)
    assert found.ratios == pytest.approx([1.25] * 9)
    assert not found.is_noise and "noise" not in str(found)
    assert found.median_rates() == pytest.approx((50.0, 62.5))
    assert "".join(machine.calls) == "aabb" + "abba" * 4 + "ab"  # warm-up, then in turns


def test_what_is_quick_is_repeated(monkeypatch):
    monkeypatch.setattr("glassformer.cli.output.speed_comparison.MIN_SECONDS", 0.1)
    machine = Machine({"a": 0.02, "b": 0.05}, [1])
    found = measure(machine, 3)
    assert len(machine.calls) == 4 + 3 * (5 + 2)
    assert found.ratio == pytest.approx(0.4)


@pytest.mark.parametrize(("faster", "is_noise"), [(9, False), (8, False), (7, True), (5, True), (2, True), (1, False)])
def test_a_difference_is_noise_unless_nearly_all_rounds_agree(faster, is_noise):
    """Equal speeds differ in the same direction in 8 or 9 of 9 rounds with a probability of 20 in 512."""
    found = SpeedComparison(((10.0, 11.0),) * faster + ((10.0, 9.0),) * (9 - faster))
    assert found.is_noise is is_noise
    assert ("beyond the noise" in str(found)) is is_noise


def test_equal_rates_are_noise():
    assert SpeedComparison(((10.0, 10.0),) * 9).is_noise
