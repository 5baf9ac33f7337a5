"""Files to parquet parts on the workers of a Ray cluster, or of this machine."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import sys
from typing import Any

from ..errors import GlassformerError, InputError
from .parts import PartWriter, shares

log = logging.getLogger("glassformer")

LOCAL = "local"


def write_parts(writer: PartWriter, workers: int, cpus: int = 1, address: str = LOCAL) -> dict[str, Any]:
    """Run a writer over the whole input in so many processes of `cpus` cores each; what was written in this run.

    `address` is that of a running Ray cluster, "auto" for the one that this machine belongs to, or "local" for
    processes on this machine alone.
    """
    if importlib.util.find_spec("ray") is None:
        raise InputError("--ray needs Ray: pip install 'glassformer[ray]'")
    import ray

    started = not ray.is_initialized()
    if started:
        start(address, workers * cpus)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # where Ray reports workers that died
            found = list(run(writer, workers, cpus))
    except ray.exceptions.RayError as error:
        raise cause_of(error) from None
    finally:
        if started:
            ray.shutdown()
    return {
        "output": str(writer.output),
        "rows": sum(each["rows"] for each in found),
        "truncated": sum(each["truncated"] for each in found),
    }


def start(address: str, cpus: int) -> None:
    import ray

    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what its processes print to the terminal
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        if address == LOCAL:  # one more than the workers use, for the engine's own tasks, which wait for a free one
            ray.init(address=LOCAL, num_cpus=cpus + 1, include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"--ray {address}: no cluster answers there: {str(error).splitlines()[0]}") from None


def run(writer: PartWriter, workers: int, cpus: int) -> Any:
    import ray.data

    for name in ("ray.data", "ray"):  # which set their levels when they are imported
        logging.getLogger(name).setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.verbose_stats_logs = False
    context.raise_original_map_exception = True
    work = shares(len(writer.rows.sources), workers)
    items = [{"file": each.file, "first": each.first, "of": each.of} for each in work]
    data = ray.data.from_items(items, override_num_blocks=len(items))  # a block is what a worker takes at a time

    class RayWriter:
        """The writer in a process of Ray, where it loads its model once; Ray wants a class for that."""

        def __call__(self, share: dict[str, int]) -> dict[str, Any]:
            return writer(share)

    done = data.map(
        RayWriter,
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=cpus,
    )
    return done.iter_rows()  # Ray starts a worker that died again, and gives it the share that it had


def cause_of(error: BaseException) -> GlassformerError:
    """Our own error that a worker raised, or an account of how it ended."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, GlassformerError):
            return cause
        cause = getattr(cause, "cause", None) or cause.__cause__
    return InputError(f"Ray gave up: {str(error).strip().splitlines()[-1]}")
