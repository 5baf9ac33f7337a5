"""Which of two is faster: both are timed in turns, because the speed of a machine varies while they run."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

ROUNDS = 9
MIN_SECONDS = 0.1  # that each takes in a round; what is quicker is repeated
NOISE = 0.05  # how probable it may be that equals differ so clearly


@dataclass(frozen=True)
class SpeedComparison:
    """How many times as fast the second is, round by round."""

    rates: tuple[tuple[float, float], ...]  # of both, in each round

    @property
    def ratios(self) -> list[float]:
        return sorted(second / first for first, second in self.rates)

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios."""
        return statistics.median(self.ratios)

    @property
    def is_noise(self) -> bool:
        """Whether two that are equally fast would differ in as many rounds by chance (a two-sided sign test)."""
        count = len(self.rates)
        faster = sum(ratio > 1 for ratio in self.ratios)
        larger = max(faster, sum(ratio < 1 for ratio in self.ratios))
        return 2 * sum(math.comb(count, k) for k in range(larger, count + 1)) / 2**count > NOISE

    def median_rates(self) -> tuple[float, float]:
        first, second = (statistics.median(rates) for rates in zip(*self.rates, strict=True))
        return first, second

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "is_noise": self.is_noise}

    def __str__(self) -> str:
        """The comparison as a sentence.

        >>> print(SpeedComparison(((10.0, 12.0),) * 9))
        1.20 times as fast (the median of 9 alternating rounds, from 1.20 to 1.20)
        >>> print(SpeedComparison(((10.0, 10.2),) * 5 + ((10.0, 9.0),) * 4))
        no difference in speed beyond the noise: 1.02 times as fast (the median of 9 alternating rounds, from ...)
        """
        found = f"{self.ratio:.2f} times as fast"
        spread = (
            f"(the median of {len(self.rates)} alternating rounds, from {self.ratios[0]:.2f} to {self.ratios[-1]:.2f})"
        )
        return f"{'no difference in speed beyond the noise: ' if self.is_noise else ''}{found} {spread}"


def compare_speed(
    first: Callable[[], Any],
    second: Callable[[], Any],
    work: float,
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> SpeedComparison:
    """Time two functions in alternating rounds; each call does so much `work`. Every other round, the second begins."""
    repeats = dict.fromkeys((first, second), 1)
    for function in repeats:
        function()  # the first call prepares weights and is not counted
        seconds = time_calls(function, 1, clock)
        repeats[function] = max(1, math.ceil(MIN_SECONDS / max(seconds, 1e-9)))
    rates = []
    for number in range(rounds):
        order = (first, second) if number % 2 == 0 else (second, first)
        found = {
            function: repeats[function] * work / time_calls(function, repeats[function], clock) for function in order
        }
        rates.append((found[first], found[second]))
    return SpeedComparison(tuple(rates))


def time_calls(function: Callable[[], Any], count: int, clock: Callable[[], float]) -> float:
    """The seconds that so many calls take."""
    started = clock()
    for _ in range(count):
        function()
    return clock() - started
