"""One try of a campaign: what is done, and which errors it may end in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """Passes when `run` returns, or raises one of the `accepted` errors; anything else is a failure.

    A campaign is a module of this folder with `NAME: str` and `cases(rng, folder)`, a generator of cases. It takes all
    random choices from `rng` before it yields a case, never in `run`: so case 17 of a seed is the same one whether the
    cases before it ran or not. `folder` is empty at the start and removed at the end. A campaign that cannot run on
    this machine raises unittest.SkipTest with the reason.
    """

    description: str
    run: Callable[[], None]
    accepted: tuple[type[BaseException], ...] = ()
    forked: bool = False  # in a process of its own: one that may crash the interpreter, hang, or fill the memory
    seconds: float = 60  # of a forked case
    megabytes: int | None = None  # that a forked case may use beyond what this process has; None: without a limit
