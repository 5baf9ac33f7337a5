"""One object that distributed engines call with batches: columns in, columns out.

It is small and can be pickled; the model is loaded in the process that calls it first. Ray Data, Spark, Dask and
`multiprocessing` all take such an object.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InputError, refuse_unknown
from ..tasks.task_registry import task_class
from ..text.base.encoding_options import check_whole_number

if TYPE_CHECKING:
    from ..tasks.task import Task

EMBED = "embed"  # the task of `glass embed`: the vector of each text
VECTOR, ANSWER = "vector", "answer"


class Predictor:
    """The answers of a task to batches of columns.

    >>> predictor = Predictor("text-classification", "./sst2", columns={"text": "review"}, keep=["id"])
    >>> predictor({"id": [7, 8], "review": ["so good", "so bad"]})                          # doctest: +SKIP
    {'id': [7, 8], 'label': ['positive', 'negative'], 'score': [0.99, 0.98]}
    """

    def __init__(
        self,
        task: str,
        model: str | os.PathLike[str],
        *,
        columns: Mapping[str, str] | None = None,
        keep: Sequence[str] = (),
        threads: int | None = None,
        dtype: str = "float32",
        device: str | None = None,
        **options: Any,
    ) -> None:
        """`task` is a task of pipelines, or "embed". `columns` says which of the batch's columns the task reads as
        what, where they are called otherwise; `keep` names those that are returned beside the answers. `threads` is the
        number of cores of each process, by default that of OMP_NUM_THREADS, which engines set. Further `options` are
        those of the task."""
        check_whole_number("threads", threads, 1)
        self.task, self.model, self.dtype, self.device = task, os.fspath(model), dtype, device
        self.options, self.threads, self.keep = options, threads, tuple(keep)
        known = ["text"] if task == EMBED else task_class(task).columns.inputs
        refuse_unknown(columns or {}, known, task)
        self.columns = {name: (columns or {}).get(name, name) for name in known}
        if task == EMBED:
            refuse_unknown(options, ("prompt_name", "normalize"), task)
        else:
            refuse_unknown(options, task_class(task).option_names(), task)
        self._loaded: Task | None = None

    def settings(self) -> dict[str, Any]:
        """What its answers depend on."""
        return {"task": self.task, "model": self.model, "dtype": self.dtype, "options": self.options}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}

    @property
    def loaded(self) -> Task:
        """The task on its model, in this process."""
        if self._loaded is None:
            self._loaded = self.load()
        return self._loaded

    def load(self) -> Task:
        import torch

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        settings = {"device": self.device, "dtype": self.dtype}
        if self.task == EMBED:
            from ..tasks.pipeline import read_device
            from ..tasks.sentences.sentence_embedding import EmbeddingTask
            from ..tasks.sentences.sentence_encoder import SentenceEncoder

            encoder = SentenceEncoder.from_pretrained(self.model, dtype=self.dtype)
            encoder = encoder if self.device is None else encoder.to(read_device(self.device))
            return EmbeddingTask(encoder, prompt=encoder.prompt(self.options.get("prompt_name"), None))
        from ..tasks.pipeline import pipeline

        worker = pipeline(self.task, model=self.model, **settings, **self.options).worker
        if "split_special_tokens" not in self.options:  # rows may come from anyone
            worker = worker.with_options(split_special_tokens=not worker.needs_special_tokens)
        return worker

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The kept columns and the answers, one for each row of the batch."""
        from ..tasks.inference import answers

        kept = {name: batch[name] for name in self.check(batch, self.keep)}
        read = [name for name, column in self.columns.items() if column in batch]
        needed = ("text",) if self.task == EMBED else self.loaded.columns.needed
        self.check(batch, [self.columns[name] for name in needed])
        values = [as_list(batch[self.columns[name]]) for name in read]
        rows = [dict(zip(read, row, strict=True)) for row in zip(*values, strict=True)]
        found = list(answers(self.loaded, rows))
        columns = self.vectors(found) if self.task == EMBED else answer_columns(found)
        twice = kept.keys() & columns.keys()
        if twice:
            raise InputError(f"{', '.join(sorted(twice))} is kept, and is a column of the answers, too: rename it")
        return {**kept, **columns}

    def check(self, batch: Mapping[str, Any], names: Sequence[str]) -> Sequence[str]:
        """The names, if the batch has all of them."""
        missing = [name for name in names if name not in batch]
        if missing:
            raise InputError(f"the batch has no column {', '.join(missing)}; it has {', '.join(batch)}")
        return names

    def vectors(self, found: Sequence[Any]) -> dict[str, Any]:
        import numpy as np
        import torch.nn.functional as F

        normalize = self.options.get("normalize")
        rows = [(F.normalize(each.vector, dim=-1) if normalize else each.vector).numpy() for each in found]
        width = self.loaded.encoder.get_sentence_embedding_dimension()  # type: ignore[attr-defined]
        vectors = np.stack(rows) if rows else np.zeros((0, width), np.float32)
        return {VECTOR: vectors, "truncated": [each.truncated for each in found]}


def as_list(values: Any) -> list[Any]:
    """A column as Python's own values, whatever kind of array an engine passes."""
    return values.tolist() if hasattr(values, "tolist") else list(values)


def answer_columns(found: Sequence[Any]) -> dict[str, list[Any]]:
    """Answers as columns: numbers and texts as they are, and what is nested as JSON.

    >>> answer_columns([{"label": "good", "score": 0.9}, {"label": "bad", "score": 0.8, "truncated": True}])
    {'label': ['good', 'bad'], 'score': [0.9, 0.8], 'truncated': [None, True]}
    >>> answer_columns([[{"word": "Ada"}]])
    {'answer': ['[{"word": "Ada"}]']}
    """
    if not all(isinstance(each, Mapping) for each in found):
        return {ANSWER: [flat(each) for each in found]}
    names = dict.fromkeys(name for each in found for name in each)
    return {name: [flat(each.get(name)) for each in found] for name in names}


def flat(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    return json.dumps(value, ensure_ascii=False, default=lambda one: one.tolist())
