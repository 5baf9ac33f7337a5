"""Seeded campaigns of faults: `python -m tests.campaigns --minutes 10 [--only NAME] [--seed 0]`.

Campaigns take turns by the time they have used. One that is through its cases begins again with the next seed. Every
failure is printed with the line that repeats it: `python -m tests.campaigns --only NAME --seed 3 --case 17`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import logging
import os
import pkgutil
import random
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
import unittest
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any

from .case import Case

LINES = 8  # of a traceback


class Campaign:
    """The cases of one module, one after the other, and what became of them."""

    def __init__(self, module: Any, seed: int, folder: Path) -> None:
        self.name: str = module.NAME
        self.tried = self.failed = 0
        self.seconds = 0.0
        self._module, self._seed, self._folder = module, seed, folder
        self._numbered = self._all_cases()

    def _all_cases(self) -> Generator[tuple[int, int, Case], None, None]:
        for seed in itertools.count(self._seed):
            with tempfile.TemporaryDirectory(dir=self._folder) as folder:
                try:
                    for number, case in enumerate(self._module.cases(random.Random(seed), Path(folder))):
                        yield seed, number, case
                except unittest.SkipTest as reason:
                    print(f"{self.name} is skipped: {reason}")
                    return

    def try_next(self) -> bool:
        """Try one more case; False if there is none."""
        begin = time.monotonic()
        found = next(self._numbered, None)
        if found is not None:
            seed, number, case = found
            self.tried += 1
            failure = failure_of(case)
            if failure:
                self.failed += 1
                print(f"FAILED {self.name}, seed {seed}, case {number}: {case.description}")
                print("  " + failure.replace("\n", "\n  "))
                print(f"  repeat: python -m tests.campaigns --only {self.name} --seed {seed} --case {number}")
        self.seconds += time.monotonic() - begin
        return found is not None

    def close(self) -> None:
        """End what the campaign has started, such as a server."""
        self._numbered.close()

    def case(self, number: int) -> Case:
        """One case of the seed, without running those before it."""
        found = next(itertools.islice(self._numbered, number, None), None)
        if found is None or found[0] != self._seed:
            sys.exit(f"{self.name} has no case {number} with the seed {self._seed}")
        return found[2]


def failure_of(case: Case) -> str:
    """Why a case fails; empty if it passes."""
    return in_child(case) if case.forked else outcome(case)


def outcome(case: Case) -> str:
    ignored: list[
        str
    ] = []  # exceptions that Python only prints, such as those of a generator that is not read to its end
    usual, sys.unraisablehook = sys.unraisablehook, lambda each: ignored.append(f"{each.err_msg}: {each.exc_value!r}")
    try:
        return reason_of_failure(case) or "\n".join(ignored)
    finally:
        sys.unraisablehook = usual


def reason_of_failure(case: Case) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case.run()
    except case.accepted as error:
        text = str(error)
        return "" if text.strip() else f"{type(error).__name__} without a message"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        lines = traceback.format_exc().splitlines()
        return "\n".join(lines if len(lines) <= LINES else ["...", *lines[-LINES:]])
    return ""


def in_child(case: Case) -> str:
    """The outcome of a case that runs in a process of its own, which may die of it."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            os.close(reader)
            if case.megabytes is not None:
                limit = memory_of_this_process() + case.megabytes * 2**20
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            os.write(writer, outcome(case).encode("utf-8", "replace")[:60_000])
            status = 0
        os._exit(status)
    os.close(writer)
    text, in_time = read_for(reader, case.seconds)
    os.close(reader)
    if not in_time:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not in_time:
        return f"not done after {case.seconds:g} s"
    if os.WIFSIGNALED(status):
        return f"the process died of {signal.Signals(os.WTERMSIG(status)).name}"
    return text if os.WEXITSTATUS(status) == 0 else f"the process exited with {os.WEXITSTATUS(status)}"


def read_for(reader: int, seconds: float) -> tuple[str, bool]:
    """All that a process writes, and whether it was done in time; while this process is held no time passes."""
    parts = []
    while seconds > 0:
        begin = time.monotonic()
        if select.select([reader], [], [], min(seconds, 1))[0]:
            part = os.read(reader, 65536)
            if not part:
                return b"".join(parts).decode("utf-8", "replace"), True
            parts.append(part)
        seconds -= min(time.monotonic() - begin, 2)
    return "", False


def memory_of_this_process() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def modules() -> list[Any]:
    names = [each.name for each in pkgutil.iter_modules([str(Path(__file__).parent)])]
    found = [importlib.import_module(f"{__package__}.{name}") for name in names if not name.startswith("__")]
    return [module for module in found if hasattr(module, "NAME")]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--only", action="append", help="the NAME of a campaign; may be given several times")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="try only this case, and do so in this process")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        campaigns = [Campaign(module, given.seed, Path(folder)) for module in modules()]
        unknown = set(given.only or ()) - {each.name for each in campaigns}
        if unknown:
            parser.error(
                f"there is no campaign {', '.join(sorted(unknown))}; there are "
                f"{', '.join(each.name for each in campaigns)}"
            )
        campaigns = [each for each in campaigns if not given.only or each.name in given.only]
        if given.case is not None:
            for campaign in campaigns:
                case = campaign.case(given.case)
                print(f"{campaign.name}, case {given.case}: {case.description}\n{outcome(case) or 'passed'}")
                campaign.close()
            return 0
        deadline, active = time.monotonic() + given.minutes * 60, list(campaigns)
        while active and time.monotonic() < deadline:
            campaign = min(active, key=lambda each: each.seconds)
            if not campaign.try_next():
                active.remove(campaign)
        for campaign in campaigns:
            campaign.close()
            print(f"{campaign.name}: {campaign.tried:,} tried, {campaign.failed:,} failed in {campaign.seconds:.0f} s")
        tried, failed = (sum(getattr(each, name) for each in campaigns) for name in ("tried", "failed"))
        print(f"all: {tried:,} tried, {failed:,} failed")
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
