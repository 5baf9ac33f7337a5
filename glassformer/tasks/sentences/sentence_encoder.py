"""Sentence-BERT: one vector for each text, and the comparison and search of vectors."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...checkpoints.files import make_folder
from ...checkpoints.folder_save import saved_together
from ...errors import ConfigError, InputError, nearest, refuse_unknown, suggests
from ...models.auto import AutoModel
from ...models.base.pretrained_model import PreTrainedModel
from ...text.auto_tokenizer import AutoTokenizer
from ...text.base.encoding_options import check_whole_number
from ...text.base.text_inputs import describe
from ...text.tokenizer import PreTrainedTokenizer
from ..inference import answers
from ..progress import show_progress
from ..truncation import max_positions, smallest
from .pooling import Dense, Pooling
from .semantic_search import search
from .sentence_embedding import EmbeddedText, EmbeddingTask
from .sentence_files import (
    SETTINGS,
    Route,
    read_sentence_files,
    write_json,
    write_modules,
    write_router,
    write_sentence_files,
    write_step,
)
from .similarity_measures import pairwise_similarity, similarity_matrix, similarity_name

log = logging.getLogger("glassformer")

ENCODE_ARGUMENTS = (
    *("prompt_name", "prompt", "batch_size", "show_progress_bar", "convert_to_numpy", "convert_to_tensor"),
    *("normalize_embeddings", "truncate_dim", "truncation"),
)
QUERY, DOCUMENT = (
    ("query",),
    ("document", "passage", "corpus", "doc"),
)  # names of prompts and routes, the first that is there


class SentenceEncoder(nn.Module):
    """A model, its tokenizer, and the steps from token vectors to one vector: pooling and what follows it.

    >>> encoder = SentenceEncoder.from_pretrained("./all-MiniLM-L6-v2/")                # doctest: +SKIP
    >>> vectors = encoder.encode(["A cat sleeps.", "The kitten naps."])                 # doctest: +SKIP
    >>> encoder.similarity(vectors, vectors)                                            # doctest: +SKIP
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizer,
        steps: Sequence[nn.Module] = (),
        *,
        max_seq_length: int | None = None,
        do_lower_case: bool = False,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
        similarity_fn_name: str | None = None,
        routes: Mapping[str, SentenceEncoder] | None = None,
    ) -> None:
        """`routes` are encoders for kinds of texts, such as "query" and "document"; this one is their default."""
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.steps = nn.ModuleList(steps or [Pooling("mean")])
        if not isinstance(self.steps[0], Pooling):
            raise InputError(f"the first step must be a Pooling, got {type(self.steps[0]).__name__}")
        check_widths(self.used_steps, model.config.hidden_size)
        check_whole_number("max_seq_length", max_seq_length, 1)
        self.max_seq_length = max_seq_length or smallest(max_positions(model), tokenizer.model_max_length)
        self.do_lower_case = do_lower_case
        self.prompts = dict(prompts or {})
        self.default_prompt_name = default_prompt_name
        self.similarity_fn_name = similarity_name(similarity_fn_name or "cosine")
        self.routes = nn.ModuleDict(routes or {})

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | PathLike[str],
        tokenizer: PreTrainedTokenizer | str | PathLike[str] | None = None,
        *,
        hub: Mapping[str, Any] | None = None,
        **model_arguments: Any,
    ) -> SentenceEncoder:
        """Load a Sentence-BERT folder or hub name, or any checkpoint, whose tokens are then pooled by their mean.

        `hub` says where files come from (`revision`, `cache_dir`, `token`, `local_files_only`, `endpoint`); further
        keywords are those of the model's `from_pretrained`.
        """
        files = read_sentence_files(name_or_path, hub or {})
        if files.is_plain:
            log.warning("%s does not say how vectors are pooled; the mean over tokens is taken", name_or_path)
        tokenizers: dict[Path, PreTrainedTokenizer] = {}
        models: dict[Path, PreTrainedModel] = {}

        def encoder_of(route: Route, routes: Mapping[str, SentenceEncoder] | None = None) -> SentenceEncoder:
            folder = route.transformer
            if folder not in models:
                given = isinstance(tokenizer, PreTrainedTokenizer)
                source = folder if tokenizer is None else tokenizer
                tokenizers[folder] = tokenizer if given else AutoTokenizer.from_pretrained(source)
                models[folder] = AutoModel.from_pretrained(folder, **model_arguments)
                models[folder].config.name_or_path = str(name_or_path)
            encoder = cls(
                models[folder],
                tokenizers[folder],
                route.steps,
                max_seq_length=route.max_seq_length,
                do_lower_case=route.do_lower_case,
                prompts=files.general.get("prompts"),
                default_prompt_name=files.general.get("default_prompt_name"),
                similarity_fn_name=files.general.get("similarity_fn_name"),
                routes=routes,
            )
            encoder.steps.to(models[folder].stream_dtype)
            return encoder.eval()

        return encoder_of(files.default, {name: encoder_of(route) for name, route in files.routes.items()})

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Write a Sentence-BERT folder that this and the original library read."""
        general = {
            "prompts": self.prompts,
            "default_prompt_name": self.default_prompt_name,
            "similarity_fn_name": self.similarity_fn_name,
        }
        with saved_together(folder) as staged:
            if self.routes:
                self.save_routes(staged, general)
                return
            self.save_transformer(staged)
            write_sentence_files(staged, list(self.steps), self.model.config.hidden_size, self.settings, general)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the model's part of the folder."""
        return {"max_seq_length": self.max_seq_length, "do_lower_case": self.do_lower_case}

    def save_transformer(self, folder: str | PathLike[str]) -> None:
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def save_routes(self, root: Path, general: Mapping[str, Any]) -> None:
        """Write a folder that is one router: every module once, and which of them make up each route."""
        names: dict[nn.Module, str] = {}
        kinds: dict[str, str] = {}
        routes: dict[str, list[str]] = {}
        for route, encoder in self.routes.items():
            for number, module in enumerate((encoder.model, *encoder.steps)):
                if module in names:
                    pass
                elif number == 0:
                    kind, name = "Transformer", f"{route}_0_Transformer"
                    encoder.save_transformer(make_folder(root / name))
                    write_json(root / name / SETTINGS, encoder.settings)
                    names[module], kinds[name] = name, kind
                else:
                    kind, name = write_step(module, root, f"{route}_{number}", encoder.model.config.hidden_size)
                    names[module], kinds[name] = name, kind
                routes.setdefault(route, []).append(names[module])
        default = next((name for name, encoder in self.routes.items() if list(encoder.steps) == list(self.steps)), "")
        write_router(root, routes, kinds, default or next(iter(routes)))
        write_modules(root, [("Router", "")], general)

    @property
    def device(self) -> torch.device:
        return self.model.device

    def get_sentence_embedding_dimension(self) -> int:
        """The number of components of a vector."""
        pooling, *further = self.used_steps
        width = self.model.config.hidden_size * len(pooling.modes)
        for step in further:
            width = step.linear.out_features if isinstance(step, Dense) else width
        return width

    @property
    def used_steps(self) -> list[nn.Module]:
        """The last pooling and what follows it: each pooling reads the token vectors and replaces what came before."""
        last = max(place for place, step in enumerate(self.steps) if isinstance(step, Pooling))
        return list(self.steps)[last:]

    get_embedding_dimension = get_sentence_embedding_dimension

    def forward(self, prompt_length: int = 0, **inputs: Tensor) -> Tensor:
        """A tokenizer's padded batch -> B C."""
        states = self.model.base_model(**inputs, return_dict=True).last_hidden_state  # B T C
        mask = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"]))
        pooling, *further = self.used_steps
        vectors = pooling(states, mask, prompt_length)
        for step in further:
            vectors = step(vectors)
        return vectors

    # --- encoding ----------------------------------------------------------------------------------------------

    def encode(
        self,
        sentences: str | Sequence[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        **options: Any,
    ) -> numpy.ndarray | Tensor | list[Tensor]:
        """The vectors of texts, N C, or of one text, C: an array, a tensor, or a list of tensors if it is neither.

        A text longer than `max_seq_length` tokens is truncated, as in training, with a warning. Further options are
        those of `stream`, which also reports for each text whether it was truncated: `normalize_embeddings`,
        `truncate_dim`, and `truncation=False`, with which long texts raise.
        """
        refuse_unknown(options, ENCODE_ARGUMENTS, "SentenceEncoder.encode")
        single = isinstance(sentences, str)
        if not single and (isinstance(sentences, Mapping | bytes) or not isinstance(sentences, Iterable)):
            raise InputError(f"sentences must be a text or a list of texts, got {describe(sentences)}")
        texts = [sentences] if single else list(sentences)
        embedded = list(self.stream(texts, prompt_name, prompt, batch_size, show_progress_bar, **options))
        truncated = [number for number, each in enumerate(embedded) if each.truncated]
        self.warn_truncated(truncated, len(texts))
        width = self.get_sentence_embedding_dimension()
        width = min(width, options.get("truncate_dim") or width)
        vectors = torch.stack([each.vector for each in embedded]) if embedded else torch.zeros(0, width)
        if convert_to_numpy and not convert_to_tensor:
            vectors = vectors.numpy()
        if single:
            return vectors[0]
        return vectors if convert_to_numpy or convert_to_tensor else list(vectors)

    def warn_truncated(self, truncated: Sequence[int], count: int) -> None:
        """Warn if some of `count` texts, given by number, were truncated."""
        if truncated:
            message = "%d of %d texts are longer than %d tokens and were truncated; the first is number %d"
            log.warning(message, len(truncated), count, self.max_seq_length, truncated[0])

    @suggests
    def stream(
        self,
        texts: Iterable[Any],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        truncation: bool = True,
    ) -> Iterator[EmbeddedText]:
        """The vector of each text and whether the text was truncated, one by one, for any number of texts."""
        check_whole_number("batch_size", batch_size, 1)
        check_whole_number("truncate_dim", truncate_dim, 1)
        task = EmbeddingTask(self, truncation=truncation, prompt=self.prompt(prompt_name, prompt))
        total = len(texts) if hasattr(texts, "__len__") else None
        for each in show_progress(answers(task, texts, batch_size=batch_size), total, show_progress_bar, "encode"):
            vector = each.vector[:truncate_dim]
            yield EmbeddedText(F.normalize(vector, dim=-1) if normalize_embeddings else vector.clone(), each.truncated)

    def prompt(self, name: str | None, text: str | None) -> str:
        """The prompt to prepend to every text."""
        if text is not None:
            return text
        name = name or self.default_prompt_name
        if name is None:
            return ""
        if name not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise InputError(f"there is no prompt {name!r}, there are {known}{nearest(str(name), self.prompts)}")
        return self.prompts[name]

    def encode_query(self, sentences: str | Sequence[str], **arguments: Any) -> Any:
        """`encode` with the prompt for queries, if the model has one."""
        return self.routed(QUERY).encode(sentences, **self.prompt_for(QUERY, arguments))

    def encode_document(self, sentences: str | Sequence[str], **arguments: Any) -> Any:
        """`encode` with the prompt for documents, if the model has one."""
        return self.routed(DOCUMENT).encode(sentences, **self.prompt_for(DOCUMENT, arguments))

    def stream_documents(self, texts: Iterable[Any], **arguments: Any) -> Iterator[EmbeddedText]:
        """`stream` with the prompt for documents, if the model has one."""
        return self.routed(DOCUMENT).stream(texts, **self.prompt_for(DOCUMENT, arguments))

    def routed(self, names: Sequence[str]) -> SentenceEncoder:
        """The encoder for a kind of texts: that of the first of these routes, or this one, which has no such route."""
        return next((self.routes[name] for name in names if name in self.routes), self)

    def prompt_for(self, names: Sequence[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
        name = next((name for name in names if name in self.prompts), None)
        is_given = arguments.get("prompt") is not None or arguments.get("prompt_name") is not None
        return dict(arguments) if is_given or name is None else {**arguments, "prompt_name": name}

    # --- comparing and searching -------------------------------------------------------------------------------

    def similarity(self, a: Any, b: Any) -> Tensor:
        """The similarity of every vector of `a` to every vector of `b`, N M, by the model's own measure."""
        return similarity_matrix(a, b, self.similarity_fn_name)

    def similarity_pairwise(self, a: Any, b: Any) -> Tensor:
        """The similarity of each vector of `a` to the one with the same index in `b`, N."""
        return pairwise_similarity(a, b, self.similarity_fn_name)

    def search(self, queries: Any, corpus: Any, top_k: int = 10, **arguments: Any) -> list:
        """The texts of a corpus that are most similar to each query; see `semantic_search.search`."""
        return search(self, queries, corpus, top_k, **arguments)


def check_widths(steps: Iterable[nn.Module], width: int) -> None:
    """Raise if a layer does not take the vectors of the steps before it."""
    for step in steps:
        if isinstance(step, Pooling):
            width *= len(step.modes)
        elif isinstance(step, Dense):
            if step.linear.in_features != width:
                raise ConfigError(
                    f"the vectors before a Dense have {width} values, and it takes {step.linear.in_features}"
                )
            width = step.linear.out_features
