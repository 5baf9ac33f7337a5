"""`--ray`: the rows of a verb answered by several processes, of this machine or of a Ray cluster."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from ...errors import InputError

if TYPE_CHECKING:
    from ...data.readers import Rows
    from ...scale.predictor import Predictor

log = logging.getLogger("glassformer")


@dataclass(frozen=True)
class RayOptions:
    """Where the work is done.

    Attributes:
        ray: Answer the rows of --input in processes of Ray, and write parquet parts into the folder --output: "local"
            for this machine, which is also what --ray alone means, auto for the cluster that it belongs to, or a
            cluster's address. The same command resumes a run that was stopped, whatever the number of workers.
        workers: How many processes.
        worker_cpus: How many cores each of them uses.
        rows_per_part: How many rows a part has.
        keep: Columns of the input that are written beside the answers, separated by commas.
    """

    ray: Annotated[str, arg(metavar="ADDRESS")] = ""
    workers: Annotated[int, arg(metavar="N")] = 1
    worker_cpus: Annotated[int, arg(metavar="N")] = 1
    rows_per_part: Annotated[int, arg(metavar="N")] = 10_000
    keep: Annotated[str, arg(metavar="NAMES")] = ""

    def check(self, has_input: bool, output: str) -> None:
        """Refuse what does not go with --ray, or not without it."""
        if not self.ray:
            changed = [name for name in vars(self) if getattr(self, name) != getattr(RayOptions(), name)]
            if changed:
                raise InputError(f"--{changed[0].replace('_', '-')} is for --ray")
            return
        for name in ("workers", "worker_cpus", "rows_per_part"):
            if getattr(self, name) < 1:
                raise InputError(f"--{name.replace('_', '-')} must be 1 or more, got {getattr(self, name)}")
        if not has_input or output in ("", "-"):
            raise InputError("--ray needs --input with rows and --output with a folder for the parts")
        if Path(output).is_file():
            raise InputError(f"--ray writes parts into a folder, and {output} is a file")

    @property
    def kept(self) -> list[str]:
        return [name.strip() for name in self.keep.split(",") if name.strip()]

    def predictor(self, task: str, model: str, dtype: str, device: str | None, options: dict[str, Any]) -> Predictor:
        """What answers the rows in every process."""
        from ...scale.predictor import Predictor

        return Predictor(task, model, dtype=dtype, device=device, keep=self.kept, threads=self.worker_cpus, **options)

    def run(
        self, predictor: Predictor, rows: Rows, output: str, about: Mapping[str, Any], restart: bool
    ) -> dict[str, Any]:
        """Answer all rows that no part holds yet; `about` says how they are read."""
        from ...scale.parts import PartWriter, start_or_resume
        from ...scale.ray_data import write_parts
        from .resumable_run import fingerprint_of_model, fingerprint_of_rows

        if any(source.path is None for source in rows.sources):
            raise InputError("--ray reads files, which every worker opens itself; standard input is none")
        files = {"rows": fingerprint_of_rows(rows), "weights": fingerprint_of_model(predictor.model)}
        parts = {"rows_per_part": self.rows_per_part, "keep": self.kept}
        start_or_resume(Path(output), {**predictor.settings(), **about, **files, **parts}, restart)
        writer = PartWriter(predictor, rows, Path(output).absolute(), self.rows_per_part)
        summary = {**write_parts(writer, self.workers, self.worker_cpus, self.ray), "output": output}
        if summary["truncated"]:
            log.warning("%d of %d rows were cut to fit the model", summary["truncated"], summary["rows"])
        return summary


def with_address(arguments: Sequence[str]) -> list[str]:
    """--ray alone is --ray local."""
    found = list(arguments)
    for place, each in enumerate(found):
        if each == "--ray" and (place + 1 == len(found) or found[place + 1].startswith("-")):
            found[place] = "--ray=local"
    return found
