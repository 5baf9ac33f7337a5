"""The attention of a translator: the weights of all its attentions for one text."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...errors import InputError, nearest
from ...models.base.evaluation_mode import evaluation_mode
from ...models.base.seq2seq import Seq2SeqModel
from ...tasks.generation.text_to_text import TextToText
from ..reading import readable_tokens

KINDS = {
    "cross": "Cross-attention: from each word that is written to the source",
    "encoder": "Self-attention of the encoder: from source word to source word",
    "decoder": "Self-attention of the decoder: from each word that is written to those before it",
}


@dataclass(frozen=True)
class Alignment:
    """A text, what was written for it, and the weights of every layer and head; rows sum to 1.

    A recurrent translator attends to the source only; it has no self-attention layers.
    """

    text: str
    written: str
    source: list[str]  # tokens that were read
    read_back: list[str]  # tokens that the decoder read: the start token, then all generated ones but the last
    target: list[str]  # tokens that were generated, with their end
    cross: Tensor  # layers H T S
    encoder: Tensor  # layers H S S
    decoder: Tensor  # layers H T T

    @property
    def mean(self) -> Tensor:
        """The cross-attention of the last layer, averaged over its heads: T S."""
        return self.cross[-1].mean(0)

    def labels(self, kind: str) -> tuple[list[str], list[str]]:
        """What the rows and the columns of one kind of weights are."""
        return {
            "cross": (self.target, self.source),
            "encoder": (self.source, self.source),
            "decoder": (self.target, self.read_back),
        }[check_kind(kind)]

    def weights(self, kind: str) -> Tensor:
        """Those of one kind: layers H and what `labels` names."""
        return getattr(self, check_kind(kind))


def check_kind(kind: str) -> str:
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}{nearest(str(kind), KINDS)}")
    return kind


def align(task: TextToText, text: str) -> Alignment:
    """Let a task generate for a text, and record all its attentions.

    >>> align(Translation.from_pretrained("./de-en/"), "Ein Hund.").mean.shape          # doctest: +SKIP
    torch.Size([4, 5])
    """
    model, (example,) = task.model, task.encode(task.read(text))
    batch = task.collate([example]).to(model.device)
    with evaluation_mode(model), torch.inference_mode():
        tokens, _ = task.forward(batch)[0][0]
        decoder_input = [model.start_token(), *tokens[:-1]]
        output = Seq2SeqModel.forward(
            model,
            batch.inputs["input_ids"],
            batch.inputs["attention_mask"],
            torch.tensor([decoder_input], device=model.device),
            output_attentions=True,
            return_dict=True,
        )
    if not output.cross_attentions:
        raise InputError(f"this {type(model).__name__} never looks at the source: it has no attention")
    kinds = (output.cross_attentions, output.encoder_attentions, output.decoder_attentions)
    return Alignment(
        text,
        task.decode_target(tokens),
        readable_tokens(task.tokenizer, example.encoded.ids()),
        readable_tokens(task.target_tokenizer, decoder_input),
        readable_tokens(task.target_tokenizer, tokens),
        *(torch.cat(layers).float().cpu() if layers else torch.empty(0, 0, 0, 0) for layers in kinds),
    )
