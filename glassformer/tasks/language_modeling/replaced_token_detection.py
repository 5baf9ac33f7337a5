"""replaced-token-detection: which tokens of a text do not belong there, and ELECTRA's training to tell."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...data.document_corpus import Piece
from ...errors import InputError
from ...models.base.pretrained_model import PreTrainedModel
from ...models.electra import ElectraConfig
from ...models.electra_heads import ElectraForMaskedLM, ElectraForPreTraining
from ...nn.finite import check_scores
from ...nn.loss import IGNORED, summed_label_loss, summed_replaced_loss
from ...text.base.encoding_options import check_range
from ...text.tokenizer import PreTrainedTokenizer
from ..batch import Batch, Example, truncation_note, vectors_at
from ..inputs import Row
from ..metrics import perplexity
from ..objectives import Objective
from .masked_language_modeling import MaskedLanguageModeling, MaskedLanguageModelingOptions, masked_accuracy

log = logging.getLogger("glassformer")

GENERATOR = "generator"  # the folder of the generator, inside that of the discriminator
MASKED_LM, REPLACED_TOKENS = "masked_lm", "replaced_tokens"  # the two objectives
SHARED = ("word_embeddings", "position_embeddings", "token_type_embeddings", "LayerNorm")


@dataclass(frozen=True, kw_only=True)
class ReplacedTokenDetectionOptions(MaskedLanguageModelingOptions):
    """Options for the two models, beside those of masking.

    Attributes:
        discriminator_weight: The factor of the discriminator's loss, which is added to the generator's.
        generator_size: The width of a new generator, as a share of the discriminator's.
    """

    discriminator_weight: float = 50.0
    generator_size: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("discriminator_weight", self.discriminator_weight, 1e-6, 1e6)
        check_range("generator_size", self.generator_size, 1e-3, 1.0)


class ReplacedTokenModels(nn.Module):
    """A discriminator and the generator whose words it judges. They share their embeddings.

    A folder holds the discriminator, and the generator in a folder inside; each of the two loads by itself.
    """

    def __init__(self, discriminator: ElectraForPreTraining, generator: ElectraForMaskedLM) -> None:
        super().__init__()
        self.discriminator, self.generator = discriminator, generator
        ours, theirs = discriminator.electra.embeddings, generator.electra.embeddings
        for name in SHARED:
            mine, other = getattr(ours, name), getattr(theirs, name)
            if mine.weight.shape != other.weight.shape:
                raise InputError(
                    f"the generator's {name} have the shape {list(other.weight.shape)} and the discriminator's "
                    f"{list(mine.weight.shape)}: both share them, so vocab_size, embedding_size, "
                    "max_position_embeddings and type_vocab_size must be the same"
                )
            setattr(theirs, name, mine)
        generator.tie_weights()

    @classmethod
    def from_pretrained(cls, folder: str | PathLike[str], **arguments: Any) -> ReplacedTokenModels:
        """The two models of a folder that was written here."""
        discriminator = ElectraForPreTraining.from_pretrained(folder, **arguments)
        return cls(discriminator, ElectraForMaskedLM.from_pretrained(Path(folder) / GENERATOR, **arguments))

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        self.discriminator.save_pretrained(folder)
        self.generator.save_pretrained(Path(folder) / GENERATOR)


class Scores(NamedTuple):
    """What both models make of a batch of masked texts: M masked tokens, N tokens in all."""

    words: Tensor  # M V, the generator's
    targets: Tensor  # M
    replaced: Tensor  # N, the discriminator's
    is_replaced: Tensor  # N


class ReplacedTokenDetection(MaskedLanguageModeling):
    """Train a discriminator on plain text, with a generator that is trained beside it; it then judges texts.

    15 % of the tokens are masked, and the generator's guesses stand in their places: a guess that is right counts as
    original. The loss is the generator's, plus `discriminator_weight` times the discriminator's over all tokens.

    >>> task = ReplacedTokenDetection(ElectraForPreTraining(ElectraConfig()), tokenizer)            # doctest: +SKIP
    >>> Trainer(task, read_rows("text.txt"), None, TrainSettings(output_dir="run")).train()         # doctest: +SKIP
    >>> pipeline("replaced-token-detection", "run")("the chef ate the meal")                        # doctest: +SKIP
    [{'token': 'the', 'score': 0.01, 'start': 0, 'end': 3}, ..., {'token': 'ate', 'score': 0.93, ...}, ...]

    The score is the probability that the token was replaced.
    """

    name = "replaced-token-detection"
    head = "pre-training"
    objective_names = (MASKED_LM, REPLACED_TOKENS)
    supports_label_smoothing = supports_distillation = False
    masked_share, random_share = 0.85, 0.0
    Options = ReplacedTokenDetectionOptions

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizer,
        generator: ElectraForMaskedLM | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(model, ElectraForPreTraining):
            raise InputError(f"{self.name} takes a discriminator, ElectraForPreTraining, not {type(model).__name__}")
        super().__init__(model, tokenizer, **options)
        self.generator = generator
        self.models: ReplacedTokenModels | None = None

    @classmethod
    def load_parts(cls, name_or_path: Any, tokenizer: Any, hub: dict, model_arguments: dict) -> dict[str, Any]:
        parts = super().load_parts(name_or_path, tokenizer, hub, model_arguments)
        folder = Path(name_or_path) / GENERATOR
        if folder.is_dir():
            parts["generator"] = ElectraForMaskedLM.from_pretrained(folder)
        return parts

    @property
    def trainable(self) -> ReplacedTokenModels:
        """Both models. A generator that was not given is made now, with random weights."""
        if self.models is None:
            generator, model = self.generator, self.model
            if generator is None:
                if model.is_loaded:
                    log.warning("%s has no generator; a new one starts from random weights", model.config.name_or_path)
                generator = ElectraForMaskedLM(generator_config(model.config, self.options.generator_size))
            self.models = ReplacedTokenModels(model, generator.to(model.device, model.stream_dtype))
        return self.models

    @property
    def trained_models(self) -> Sequence[PreTrainedModel]:
        models = self.trainable
        return [models.discriminator, models.generator]

    def save_processor(self, folder: str | PathLike[str]) -> None:
        for each in (Path(folder), Path(folder) / GENERATOR):
            super().save_processor(each)

    # --- text to examples --------------------------------------------------------------------------------------

    def encode(self, row: Row) -> list[Example]:
        return [Example(self.encode_text(row["text"], truncation=self.options.truncation_strategy))]

    def training_examples(self, row: Piece, seed: Sequence[int]) -> list[Example]:
        (example,) = super().training_examples(row, seed)
        example.labels["seed"] = int(np.random.default_rng([*seed, 1]).integers(2**31))  # of the generator's guesses
        return [example]

    # --- tensors to answers ------------------------------------------------------------------------------------

    def forward(self, batch: Batch) -> list[Tensor]:
        """The logits of every token of each text."""
        task = self.unprepared or self
        logits = self.judge(self.model, batch)
        check_scores(logits, task.model, lambda: self.judge(task.model, batch))
        return batch.unpad(logits.float())

    def judge(self, model: nn.Module, batch: Batch) -> Tensor:
        return self.call(model, batch.inputs).logits  # B T

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> list[dict[str, Any]]:
        encoded, scores = examples[0].encoded, outputs[0].sigmoid().tolist()
        tokens = self.tokenizer.convert_ids_to_tokens(encoded.ids())
        note = truncation_note(examples)
        places = zip(tokens, scores, encoded.offsets(), encoded.sequences(), strict=True)
        return [
            {"token": token, "score": score, "start": start, "end": end, **note}
            for token, score, (start, end), sequence in places
            if sequence is not None
        ]

    # --- training and evaluation -------------------------------------------------------------------------------

    def count_targets(self, batch: Batch) -> dict[str, int]:
        return {MASKED_LM: int((batch.labels["labels"] != IGNORED).sum()), REPLACED_TOKENS: sum(batch.lengths)}

    def outputs(self, model: nn.Module, batch: Batch) -> Scores:
        """The generator fills the masks of a batch, and the discriminator judges the result."""
        labels = batch.labels["labels"]
        states, places = vectors_at(model.generator.base_model.encode(**batch.inputs), labels != IGNORED)
        words, targets = model.generator.word_logits(states), labels.flatten()[places]
        guesses = sample_words(words.detach(), chances(batch).to(words.device))
        ids, is_replaced = batch.inputs["input_ids"].flatten().clone(), torch.zeros_like(labels).flatten()
        ids[places], is_replaced[places] = guesses, (guesses != targets).to(is_replaced)
        body = model.discriminator.base_model.encode(**{**batch.inputs, "input_ids": ids.view_as(labels)})
        logits = model.discriminator.replaced_logits(body.rows)
        return Scores(words, targets, logits, body.layout.pack(is_replaced.view_as(labels)))

    def objectives_of(self, outputs: Any, batch: Batch) -> dict[str, Objective]:
        words = summed_label_loss(outputs.words, outputs.targets)
        replaced = summed_replaced_loss(outputs.replaced, outputs.is_replaced) * self.options.discriminator_weight
        return {
            MASKED_LM: Objective(words, batch.counts[MASKED_LM]),
            REPLACED_TOKENS: Objective(replaced, batch.counts[REPLACED_TOKENS]),
        }

    def metric_sums(self, outputs: Any, batch: Batch) -> dict[str, tuple[float, int]]:
        is_found, is_replaced = outputs.replaced > 0, outputs.is_replaced.bool()
        hits = int((is_found & is_replaced).sum())
        return {
            **masked_accuracy(outputs.words, outputs.targets),
            "replaced_accuracy": (int((is_found == is_replaced).sum()), len(is_found)),
            "replaced_precision": (hits, int(is_found.sum())),
            "replaced_recall": (hits, int(is_replaced.sum())),
        }

    @property
    def mean_metric_names(self) -> tuple[str, ...]:
        return ("masked_accuracy", "perplexity", "replaced_accuracy", "replaced_precision", "replaced_recall")

    def mean_metrics(self, means: Mapping[str, float]) -> dict[str, float]:
        found = {name: means[name] for name in self.mean_metric_names if name != "perplexity"}
        return {**found, "perplexity": perplexity(means[MASKED_LM])}


def generator_config(config: ElectraConfig, size: float) -> ElectraConfig:
    """The shape of a generator for a discriminator: as many layers, with that share of its heads and of its width."""
    heads = max(1, round(config.num_attention_heads * size))
    smaller = copy.deepcopy(config)
    smaller.update(
        {
            "num_attention_heads": heads,
            "hidden_size": config.hidden_size // config.num_attention_heads * heads,
            "intermediate_size": max(1, config.intermediate_size * heads // config.num_attention_heads),
            "pruned_heads": {},
            "name_or_path": "",
        }
    )
    return smaller


def chances(batch: Batch) -> Tensor:
    """A number between 0 and 1 for every masked token of a batch (M), which depends on its own row alone."""
    counts = (batch.labels["labels"] != IGNORED).sum(1).tolist()
    seeds = batch.labels["seed"].tolist()
    drawn = [
        torch.rand(count, generator=torch.Generator().manual_seed(seed))
        for count, seed in zip(counts, seeds, strict=True)
    ]
    return torch.cat(drawn)


def sample_words(logits: Tensor, chances: Tensor) -> Tensor:
    """A word for each row of logits (M V), by its probability: where the cumulative one passes the row's number (M)."""
    cumulative = logits.float().softmax(-1).cumsum(-1)
    return (
        torch.searchsorted(cumulative, chances[:, None] * cumulative[:, -1:])
        .squeeze(-1)
        .clamp(max=logits.shape[-1] - 1)
    )
