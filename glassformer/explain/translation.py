"""The attention of an encoder-decoder: of its encoder, of its decoder, and of the decoder to what the encoder read."""

from __future__ import annotations

import torch

from ..errors import InputError
from ..tasks.text_to_text import TextToText
from ..text.tokenizer import PreTrainedTokenizer
from .pages import Attention
from .places import crossing_layers


@torch.no_grad()
def attention_of_translation(task: TextToText, source: str, target: str | None = None) -> dict[str, Attention]:
    """What the views show of a source and a target; without a target, of the one that the model writes itself.

    A row of the decoder's attention belongs to the token that the decoder has just read.
    """
    model = task.model
    if not crossing_layers(model):
        raise InputError("this model has no attention layers to look into")
    ids = task.collate(task.encode(task.read({"source": source}))).inputs["input_ids"]  # 1 S
    if target is None:
        words = model.generate(ids, do_sample=False, num_beams=1, max_new_tokens=64)[0].tolist()
        words = words[1:] if words[:1] == [model.start_token()] else words
    else:
        words = task.words_of(target)
    read = torch.tensor([[model.start_token(), *words[:-1]]], device=ids.device)  # 1 T
    with model.capture(True, cross=True) as seen:
        model(ids, decoder_input_ids=read)
    first = len(model.encoder.layer)
    left, right = tokens_of(task.tokenizer, ids[0]), tokens_of(task.target_tokenizer, read[0])
    special = [
        [i in set(tokenizer.all_special_ids) for i in row.tolist()]
        for tokenizer, row in ((task.tokenizer, ids[0]), (task.target_tokenizer, read[0]))
    ]
    own = {(i, head): w for i, layer in seen.attention.items() if i < first for head, w in enumerate(layer[0])}
    written = {
        (i - first, head): w for i, layer in seen.attention.items() if i >= first for head, w in enumerate(layer[0])
    }
    crossed = {(i - first, head): w for i, layer in seen.cross.items() for head, w in enumerate(layer[0])}
    return {
        "encoder": Attention(left, left, own, special[0], special[0]),
        "decoder": Attention(right, right, written, special[1], special[1]),
        "cross": Attention(right, left, crossed, special[1], special[0]),
    }


def tokens_of(tokenizer: PreTrainedTokenizer, ids: torch.Tensor) -> list[str]:
    return tokenizer.convert_ids_to_tokens(ids.tolist())
