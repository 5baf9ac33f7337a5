"""`pipeline()`: a task, a model and a tokenizer in one object that is called with rows."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from ..audio.whisper_feature_extractor import WhisperFeatureExtractor
from ..checkpoints.hub import find_folder
from ..checkpoints.ignored_arguments import (
    IGNORED_BY_MODELS,
    IGNORED_BY_TOKENIZERS,
    IgnoredArgument,
    resolve_ignored_arguments,
)
from ..data.readers import Rows, read_rows
from ..data.sources import FORMAT_OF
from ..errors import InputError, refuse_unknown
from ..images.auto_image_processor import AutoImageProcessor
from ..images.image_processor import ViTImageProcessor
from ..models.auto import HUB_ARGUMENTS, AutoConfig
from ..models.base.pretrained_model import PreTrainedModel
from ..text.auto_tokenizer import AutoTokenizer
from ..text.base.encoding_options import check_whole_number
from ..text.tokenizer import PreTrainedTokenizer
from .images.image_task import ImageTask
from .inference import answers
from .progress import show_progress
from .sentences.sentence_encoder import SentenceEncoder
from .sentences.sentence_similarity import SentenceSimilarity
from .speech.audio_classification import AudioClassification
from .speech.sound_task import SoundTask
from .speech.speech_recognition import SpeechRecognition
from .task import Task
from .task_registry import task_class, task_of
from .text_task import TextTask

log = logging.getLogger("glassformer")

PROCESSORS = ("tokenizer", "image_processor", "feature_extractor")
LOADING = ("dtype", "torch_dtype", "device_map", "model_kwargs")
IGNORED_ARGUMENTS = {
    **IGNORED_BY_MODELS,
    **IGNORED_BY_TOKENIZERS,
    "framework": IgnoredArgument((None, "pt"), "all models are torch's"),
}


class Pipeline:
    """A task that can be called: a row returns its answer, a list returns a list, a stream returns a stream.

    The task's options can be set when the pipeline is made, or for one call.
    """

    def __init__(self, worker: Task, batch_size: int | None = None) -> None:
        worker.refuse_untrained()
        self.worker = worker
        self.batch_size = batch_size

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.worker.name

    @property
    def model(self) -> PreTrainedModel:
        return self.worker.model

    @property
    def tokenizer(self) -> PreTrainedTokenizer:
        """The tokenizer of a task that reads texts, or writes them."""
        if not isinstance(self.worker, TextTask | SpeechRecognition):
            raise AttributeError(f"{self.task} reads no texts, and has no tokenizer")
        return self.worker.tokenizer

    @property
    def image_processor(self) -> ViTImageProcessor:
        """The image processor of a task that reads pictures."""
        if not isinstance(self.worker, ImageTask):
            raise AttributeError(f"{self.task} reads no pictures, and has no image processor")
        return self.worker.image_processor

    @property
    def feature_extractor(self) -> ViTImageProcessor | WhisperFeatureExtractor:
        """The feature extractor of a task that reads sound; an older name of the image processor."""
        return self.worker.feature_extractor if isinstance(self.worker, SoundTask) else self.image_processor

    @property
    def device(self) -> torch.device:
        return self.model.device

    def __call__(self, *inputs: Any, batch_size: int | None = None, progress: bool | None = None, **named: Any) -> Any:
        """Answer one row or several; the columns of a row may be given by name, all other keywords are options.

        A list returns a list. A generator, or any other iterable, returns a generator: rows are read when their
        answers are consumed, some ahead so that similar lengths share a batch, and memory stays bounded however many
        there are. A `pathlib.Path` is a file of rows, read by `read_rows`. Special tokens in texts of files are plain
        characters unless `split_special_tokens=False`, for a file may come from anyone.

        `batch_size` limits the number of inputs in a batch; without it batches are limited by their number of tokens.
        `progress` shows or hides the progress of long work; by default it is shown in a terminal.
        """
        check_whole_number("batch_size", batch_size, 1)
        given, options = self.worker.parse_call(inputs, named)
        if isinstance(self.worker, TextTask):
            warn_if_file_name(given)
        if isinstance(given, Path):
            given = read_rows(given)
        if isinstance(given, Rows) and isinstance(self.worker, TextTask):
            options.setdefault("split_special_tokens", not self.worker.needs_special_tokens)
        worker = self.worker.with_options(**options)
        if worker.is_single_row(given) or isinstance(given, str | bytes):  # a text is never a list of characters
            (answer,) = answers(worker, [given], batch_size=batch_size or self.batch_size, numbered=False)
            return worker.wrap(answer, given, options)
        if not isinstance(given, Iterable):
            given = rows_by_index(given, self.task)
        stream = self.stream(worker, given, batch_size or self.batch_size, progress)
        if not isinstance(given, list | tuple):
            return stream
        answered = list(stream)
        return answered[0] if worker.unwraps_one and len(answered) == 1 else answered

    @staticmethod
    def stream(worker: Task, rows: Iterable, batch_size: int | None, progress: bool | None) -> Iterator[Any]:
        total = len(rows) if hasattr(rows, "__len__") else None
        return show_progress(answers(worker, rows, batch_size=batch_size), total, progress, worker.name)

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Write the model and its tokenizer into a folder that `pipeline(model=folder)` reads."""
        from ..checkpoints.folder_save import saved_together

        with saved_together(folder) as staged:
            self.model.save_pretrained(staged)
            self.worker.save_processor(staged)

    def __repr__(self) -> str:
        return f"Pipeline({self.task}, {type(self.model).__name__} {self.model.config.name_or_path!r})"


class SentencePipeline(Pipeline):
    """The pipeline of sentence-similarity, which also returns the vectors themselves."""

    worker: SentenceSimilarity

    @property
    def encoder(self) -> SentenceEncoder:
        return self.worker.encoder

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Write a Sentence-BERT folder."""
        self.encoder.save_pretrained(folder)

    def encode(self, sentences: str | Sequence[str], **arguments: Any) -> Any:
        """The vectors of texts; see `SentenceEncoder.encode`."""
        return self.encoder.encode(sentences, **{"batch_size": self.batch_size, **arguments})

    def similarity(self, a: Any, b: Any) -> torch.Tensor:
        """The similarity of every vector of `a` to every vector of `b`."""
        return self.encoder.similarity(a, b)

    def search(self, queries: Any, corpus: Any, top_k: int = 10, **arguments: Any) -> list:
        """The texts of a corpus that are most similar to each query; see `SentenceEncoder.search`."""
        return self.encoder.search(queries, corpus, top_k, **{"batch_size": self.batch_size, **arguments})


def pipeline(
    task: str | None = None,
    model: PreTrainedModel | str | PathLike[str] | None = None,
    tokenizer: PreTrainedTokenizer | str | PathLike[str] | None = None,
    *,
    image_processor: ViTImageProcessor | str | PathLike[str] | None = None,
    feature_extractor: ViTImageProcessor | WhisperFeatureExtractor | str | PathLike[str] | None = None,
    device: int | str | torch.device | None = None,
    dtype: torch.dtype | str | None = None,
    batch_size: int | None = None,
    model_kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> Pipeline:
    """Make a callable that answers rows: `pipeline("sentiment-analysis", model="./folder/")("so good")`.

    `model` is a folder, a hub name or a loaded model; its class determines the task if none is named. The tokenizer,
    or for pictures the `image_processor` (`feature_extractor` is its older name), comes from the same place unless
    another is given. Further keywords are options of the task, for every call;
    `torch_dtype` (the same as `dtype`) and `device_map` for loading the model; and those that say where files come
    from: `revision`, `cache_dir`, `token`, `local_files_only`, `endpoint`.

    Tasks, and some of their options (`help(pipe.worker.Options)` and docs/tasks.md list all):

    text-classification (sentiment-analysis)   top_k, function_to_apply, truncation
    token-classification (ner)                 aggregation_strategy, ignore_labels, stride
    question-answering                         top_k, handle_impossible_answer, doc_stride, max_answer_len
    fill-mask, permutation-language-modeling   top_k, targets, whole_words
    replaced-token-detection                   truncation
    text-generation                            max_new_tokens, do_sample, top_p, num_beams, return_full_text
    translation, summarization                 num_beams, max_new_tokens, truncation
    text2text-generation, span-corruption      num_beams, max_new_tokens, truncation
    zero-shot-classification                   candidate_labels, hypothesis_template, multi_label
    next-sentence, multiple-choice             truncation
    sentence-similarity                        similarity
    feature-extraction                         return_tensors, truncation
    image-classification                       top_k, function_to_apply, interpolate_pos_encoding
    image-feature-extraction                   pool, return_tensors
    automatic-speech-recognition               return_timestamps, language, translate, num_beams
    audio-classification                       top_k, function_to_apply

    translation_en_to_de and the like are translation with the prefix and the settings that the model's config has.

    >>> pipe = pipeline("text-classification", model="./sst2/", device="cpu")        # doctest: +SKIP
    """
    use_fast = options.get("use_fast")
    options["token"] = resolve_ignored_arguments(options, "pipeline", options.get("token"), IGNORED_ARGUMENTS)
    hub = {name: options.pop(name) for name in HUB_ARGUMENTS if name in options}
    torch_dtype, device_map = options.pop("torch_dtype", None), options.pop("device_map", None)
    check_sources(task, model, tokenizer)
    check_whole_number("batch_size", batch_size, 1)
    loaded = isinstance(model, PreTrainedModel | SentenceEncoder)
    if loaded:
        kind = task_class(task or task_of(type(model).__name__, "the model"))
    else:
        kind = task_class(task or task_of_folder(model, hub))
    arguments = ("task", "model", *PROCESSORS, *kind.option_names(), *HUB_ARGUMENTS, *LOADING, "device", "batch_size")
    refuse_unknown(options, [*arguments, *IGNORED_ARGUMENTS], f"pipeline({kind.name!r})")
    if issubclass(kind, SpeechRecognition) and feature_extractor is not None:  # it has both
        options["feature_extractor"], feature_extractor = feature_extractor, None
    given = given_processor(kind, tokenizer, image_processor, feature_extractor)
    if use_fast is not None and issubclass(kind, ImageTask):
        source = given or (model.config.name_or_path if loaded else model)
        given = AutoImageProcessor.from_pretrained(source, use_fast=use_fast, **hub)
    if loaded:
        if any(each is not None for each in (dtype, torch_dtype, device_map)) or model_kwargs:
            raise InputError("dtype, device_map and model_kwargs are for loading, and the model is loaded already")
        worker = kind(model, processor_for(kind, model, given, hub), **options)
    else:
        loading = {"dtype": dtype or torch_dtype, **(model_kwargs or {})}
        loading |= {} if device_map is None else {"device_map": device_map}
        worker = kind.from_pretrained(model, given, hub=hub, model_arguments=loading, **options)
    if device is not None:
        worker.trainable.to(read_device(device))
    return (SentencePipeline if isinstance(worker, SentenceSimilarity) else Pipeline)(worker, batch_size)


def check_sources(task: str | None, model: Any, tokenizer: Any) -> None:
    """Raise unless model and tokenizer are given as something that can be used or loaded."""
    if model is None:
        if task is not None:
            task_class(task)  # raises first if the task is not one, but perhaps a model's name
        raise InputError("pipeline needs a model: a folder, a hub name or a loaded model, as in pipeline(task, model=)")
    if not isinstance(model, PreTrainedModel | SentenceEncoder | str | PathLike):
        raise InputError(f"model must be a folder, a hub name or a loaded model, got {model!r:.80}")
    if tokenizer is not None and not isinstance(tokenizer, PreTrainedTokenizer | str | PathLike):
        raise InputError(f"tokenizer must be a folder, a hub name or a loaded tokenizer, got {tokenizer!r:.80}")


def warn_if_file_name(given: Any) -> None:
    """Warn if a text is also the name of a file, whose rows may have been meant."""
    if isinstance(given, str) and given.endswith(tuple(FORMAT_OF)) and os.path.isfile(given):
        log.warning("%r is read as a text; a file of rows is given as pathlib.Path(%r)", given, given)


def rows_by_index(given: Any, task: str) -> Iterator[Any]:
    """The rows of a data set that is indexed and not iterable, as those of torch may be."""
    if not (hasattr(given, "__len__") and hasattr(given, "__getitem__")):
        raise InputError(f"{task} reads a row, a list of rows or an iterable of them, got {given!r:.80}")
    return (given[index] for index in range(len(given)))


def task_of_folder(name_or_path: str | PathLike[str], hub: Mapping[str, Any]) -> str:
    """The task that a checkpoint was made for, according to its files."""
    folder = find_folder(name_or_path, files=("modules.json", ("config.json",)), **hub)
    if (folder / "modules.json").is_file():
        return "sentence-similarity"
    named = AutoConfig.from_pretrained(folder).architectures
    return task_of(named[0] if named else None, str(name_or_path))


def given_processor(kind: type[Task], tokenizer: Any, image_processor: Any, feature_extractor: Any) -> Any:
    """The tokenizer, the image processor or the feature extractor that was given for a task; another one raises."""
    values = dict(zip(PROCESSORS, (tokenizer, image_processor, feature_extractor), strict=True))
    reads_pictures = issubclass(kind, ImageTask)
    given = {name: value for name, value in values.items() if value is not None}
    accepted, needs = ("tokenizer",), "a tokenizer"
    if reads_pictures:
        accepted, needs = ("image_processor", "feature_extractor"), "an image_processor"
    elif issubclass(kind, AudioClassification):
        accepted, needs = ("feature_extractor",), "a feature_extractor"
    wrong = [name for name in given if name not in accepted]
    if wrong:
        raise InputError(f"{kind.name} takes {needs}, and no {wrong[0]}")
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} are two names of one argument: give one of them")
    return next(iter(given.values()), None)


def processor_for(kind: type[Task], model: Any, given: Any, hub: Mapping[str, Any]) -> Any:
    """The given tokenizer or image processor, or that in the folder which the model was loaded from.

    Tasks that read sound find theirs themselves.
    """
    if issubclass(kind, SoundTask):
        return given
    if not issubclass(kind, ImageTask):
        return tokenizer_for(model, given, hub)
    if isinstance(given, ViTImageProcessor):
        return given
    source = given or model.config.name_or_path
    if not source:
        raise InputError("the model was not loaded from a folder: give its image_processor, pipeline(task, model, ...)")
    return AutoImageProcessor.from_pretrained(source, **hub)


def tokenizer_for(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizer | str | PathLike[str] | None, hub: Mapping[str, Any]
) -> PreTrainedTokenizer:
    """The given tokenizer, or the one in the folder that the model was loaded from."""
    if isinstance(tokenizer, PreTrainedTokenizer):
        return tokenizer
    if isinstance(model, SentenceEncoder):
        return model.tokenizer
    source = tokenizer or model.config.name_or_path
    if not source:
        raise InputError("the model was not loaded from a folder: give its tokenizer, pipeline(task, model, tokenizer)")
    return AutoTokenizer.from_pretrained(source, **hub)


def read_device(device: int | str | torch.device) -> torch.device:
    """A device from its number, as in the tutorials (-1 is the CPU, others are GPUs), or from torch's own names."""
    if isinstance(device, bool) or not isinstance(device, int | str | torch.device):
        raise InputError(f"device must be a number, a name or a torch.device, got {device!r}")
    if isinstance(device, int):
        device = "cpu" if device < 0 else f"cuda:{device}"
    try:
        resolved = torch.device(device)
        torch.empty(0, device=resolved)  # a missing device raises now, and not at the first text
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from None
    return resolved
