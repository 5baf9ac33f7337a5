"""What translation and summarization share: a text is read, another is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ...errors import InputError, spelt
from ...generate.config import GenerationConfig
from ...nn.loss import IGNORED, summed_label_loss
from ...text.auto_tokenizer import AutoTokenizer
from ...text.base.text_inputs import describe
from ...text.bert_tokenizer import BertTokenizer
from ...text.tokenizer import PreTrainedTokenizer
from ..batch import Batch, Example, truncation_note
from ..inputs import Columns, Row
from ..objectives import LOSS, Objective
from ..task_options import switch
from .generation_task import GenerationTask, GenerationTaskOptions

TARGET_FOLDER = "target_tokenizer"  # where a model's folder keeps the vocabulary of the target, if it is another one
REMEMBERED = 200_000  # pairs whose tokens are kept in memory
LONGEST = 256  # tokens that are written when nobody says how many


@dataclass(frozen=True, kw_only=True)
class TextToTextOptions(GenerationTaskOptions):
    """What is done with sources that are too long, and with texts."""

    truncation: bool = False  # cut what is longer than the model reads, and tell so; it is refused otherwise
    return_tensors: bool = False  # the tokens in place of the text
    by_length: Sequence[int] = ()  # metrics are told also for targets of up to so many tokens, and for longer ones

    def __post_init__(self) -> None:
        super().__post_init__()
        edges = list(self.by_length) if isinstance(self.by_length, list | tuple) else [None]
        if not all(isinstance(edge, int) and edge > 0 for edge in edges) or edges != sorted({*edges}):
            raise InputError(f"by_length takes rising numbers of tokens, such as [5, 10], got {self.by_length!r:.60}")
        switch("truncation", self.truncation)
        switch("return_tensors", self.return_tensors)


class Pair(Example):
    """A source, and the words to write for it where they are known; both count."""

    def __len__(self) -> int:
        return len(self.encoded) + len(self.labels.get("labels", ()))


class TextToText(GenerationTask):
    """A text is read, another is written."""

    head = "seq2seq-lm"
    columns = Columns(("source",), targets=("target",))
    written_columns = ("target",)
    Options = TextToTextOptions
    answer_key: str  # what the text is called in an answer

    def __init__(
        self,
        model,
        tokenizer: PreTrainedTokenizer,
        target_tokenizer: PreTrainedTokenizer | None = None,
        **options: Any,
    ) -> None:
        sizes = (getattr(model.config, "source_vocab_size", None) or model.config.vocab_size, model.config.vocab_size)
        if target_tokenizer is None and sizes[0] != sizes[1]:
            raise InputError(
                f"the model reads {sizes[0]} words and writes {sizes[1]} others: give both tokenizers, or its folder"
            )
        self.target_tokenizer = tokenizer if target_tokenizer is None else target_tokenizer
        super().__init__(model, tokenizer, **options)

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | PathLike[str],
        tokenizer: PreTrainedTokenizer | str | PathLike[str] | None = None,
        *,
        hub: Mapping[str, Any] | None = None,
        model_arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ):
        """The task from a folder, which may hold a second tokenizer for the texts that are written."""
        beside = Path(name_or_path) / TARGET_FOLDER
        if "target_tokenizer" not in options and beside.is_dir():
            options["target_tokenizer"] = AutoTokenizer.from_pretrained(beside)
        return super().from_pretrained(name_or_path, tokenizer, hub=hub, model_arguments=model_arguments, **options)

    @classmethod
    def new_config(  # type: ignore[override]
        cls, tokenizer: PreTrainedTokenizer, target_tokenizer: PreTrainedTokenizer | None = None
    ) -> dict[str, Any]:
        """A new model begins and ends what it writes with the tokens that its tokenizer begins and ends texts with."""
        writes = target_tokenizer or tokenizer
        end = first_known(writes.eos_token_id, writes.sep_token_id)
        told = {
            **super().new_config(writes),
            "eos_token_id": end,
            "decoder_start_token_id": first_known(writes.bos_token_id, writes.cls_token_id, end),
        }
        if target_tokenizer is not None:
            told |= {"source_vocab_size": len(tokenizer), "share_embeddings": False}
        return told

    def save_processor(self, folder: str | PathLike[str]) -> None:
        super().save_processor(folder)
        if self.target_tokenizer is not self.tokenizer:
            self.target_tokenizer.save_pretrained(Path(folder) / TARGET_FOLDER)

    # --- rows to tensors ---------------------------------------------------------------------------------------

    @property
    def marks_texts(self) -> bool:
        """A tokenizer of plain words has no marks to put around texts."""
        return not isinstance(self.tokenizer, BertTokenizer) or self.tokenizer.cls_token is not None

    @property
    def prefix(self) -> str:
        """What stands before every source: what was asked for, else what the model's files say."""
        said = (self.model.config.task_specific_params or {}).get(self.name) or {}
        return said.get("prefix", "") if self.options.prefix is None else self.options.prefix

    @property
    def end(self) -> int:
        """The token that ends what is written."""
        ends = self.model.generation_config.eos_token_id
        if ends is None:
            raise InputError("the model's config names no eos_token_id, so it cannot tell where a text ends")
        return ends if isinstance(ends, int) else ends[0]

    def check_column(self, name: str, value: Any) -> None:
        super().check_column(name, value)
        if name == "source" and isinstance(value, str) and not value.strip():
            raise InputError("the source is empty: there is nothing to read")

    def encode(self, row: Row) -> list[Example]:
        source, target = self.prefix + row["source"], row.get("target")
        if target is None:
            return [Pair(self.fit(source, cut=self.options.truncation))]
        return [Pair(self.fit(source, cut=self.options.truncation), {"labels": self.words_of(target)})]

    def words_of(self, target: Any) -> list[int]:
        """A target as it is to be written, with its end."""
        if not isinstance(target, str):
            raise InputError(f"target must be a text, got {describe(target)}")
        special = {"add_special_tokens": False, "split_special_tokens": self.options.split_special_tokens}
        words = [*self.target_tokenizer.encode(target, **special), self.end]
        most = self.model.config.max_position_embeddings
        if len(words) <= most:
            return words
        if not self.options.truncation:
            cut = spelt("option", "truncation", True)
            raise InputError(f"a target has {len(words)} tokens and the model writes {most}; pass {cut} to cut it")
        self.report_truncation("target", most)
        return [*words[: most - 1], self.end]

    def collate_inputs(self, examples: Sequence[Example], labels: Mapping[str, Tensor]) -> dict[str, Tensor]:
        inputs = super().collate_inputs(examples, labels)
        if labels:
            words, counted = self.model.shift_right(labels["labels"])
            inputs |= {"decoder_input_ids": words, "decoder_attention_mask": counted.long()}
        return inputs

    # --- tensors to answers ------------------------------------------------------------------------------------

    @property
    def own_settings(self) -> GenerationConfig | None:
        """What the model's files say, with room for a whole text where they say nothing of its length."""
        said = super().own_settings or GenerationConfig()
        lengths = ("max_length", "max_new_tokens")
        is_asked = not self.options.settings.keys().isdisjoint(lengths)
        known = (getattr(config, name) for config in (said, self.model.generation_config) for name in lengths)
        if not is_asked and not any(known):
            said.max_new_tokens = min(LONGEST, self.model.config.max_position_embeddings - 1)
        if said.pad_token_id is None and self.model.generation_config.pad_token_id is None:
            said.pad_token_id = self.end  # what fills a batch is in no answer
        return said

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Any]) -> Any:
        cut = truncation_note(examples)
        found = [{**self.tell(tokens, reason), **cut} for tokens, reason in outputs[0]]
        return found[0] if len(found) == 1 else found

    def tell(self, tokens: list[int], reason: str) -> dict[str, Any]:
        unfinished = {"unfinished": True} if reason == "length" else {}  # it ran out of room
        if self.options.return_tensors:
            return {self.answer_key.replace("_text", "_token_ids"): tokens, **unfinished}
        return {self.answer_key: self.spell(tokens), **unfinished}

    def spell(self, tokens: Sequence[int]) -> str:
        cleaning = {"clean_up_tokenization_spaces": self.options.clean_up_tokenization_spaces}
        return self.target_tokenizer.decode(list(tokens), skip_special_tokens=True, **cleaning).strip()

    def wrap(self, answer: Any, given: Any, asked: Iterable[str]) -> Any:
        return answer if isinstance(answer, list) else [answer]

    # --- training and evaluation -------------------------------------------------------------------------------

    def outputs(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """Scores where there is a word to be written, and only there: targets V, and these words."""
        body = model.read_pair(**batch.inputs)
        labels = body.layout.pack(batch.labels["labels"])  # N
        learnt = labels != IGNORED
        return model.word_logits(body.rows[learnt]), labels[learnt]

    def objectives_of(self, outputs: tuple[Tensor, Tensor], batch: Batch) -> dict[str, Objective]:
        total = summed_label_loss(*outputs, label_smoothing=self.label_smoothing)
        return {LOSS: Objective(total, batch.targets_count)}

    def judge(self, predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        """What `metric` tells of all texts together."""
        raise NotImplementedError(f"{type(self).__name__} is not evaluated")

    def metric(self, predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        found = self.judge(predictions, references)
        edges = list(self.options.by_length)
        if not edges:
            return found
        lengths = [len(self.target_tokenizer.encode(text, add_special_tokens=False)) for text in references]
        for low, high in zip([0, *edges], [*edges, None], strict=True):
            chosen = [i for i, length in enumerate(lengths) if length > low and (high is None or length <= high)]
            if chosen:
                part = self.judge([predictions[i] for i in chosen], [references[i] for i in chosen])
                reach = f"{low + 1}-{high}" if high else f"over {low}"
                found |= {f"{name} {reach}": value for name, value in part.items()}
        return found

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Any]) -> str:
        return self.spell(outputs[0][0][0])

    def reference(self, row: Row) -> str:
        if row.get("target") is None:
            raise InputError(f"{self.name} is judged by rows with a target")
        return row["target"]


def first_known(*ids: int | None) -> int:
    """The first of several tokens that a tokenizer has."""
    known = next((one for one in ids if one is not None), None)
    if known is None:
        raise InputError("the tokenizer has no token that ends a text: neither eos_token nor sep_token")
    return known
