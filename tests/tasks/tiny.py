"""A tiny BERT whose weights are a formula, so that two libraries can make it without a file between them."""

from __future__ import annotations

import zlib

import torch

VOCAB = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog sat on mat in park is was good bad not so very today film it "
    "this example sports music politics who where what did john smith lives london works for acme un ##aff ##able "
    "play ##ing ##ed ##s new york . , ! ? ' - 北 京 我 爱 天 安 门 小 明 在 e f g h i j k"
).split()
SHAPE = {
    "vocab_size": len(VOCAB),
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 72,
    "max_position_embeddings": 40,
}


def fill(model: torch.nn.Module) -> torch.nn.Module:
    """Give every weight a value that only its name and place decide."""
    for name, parameter in model.named_parameters():
        places = torch.arange(parameter.numel(), dtype=torch.float64)
        values = torch.sin(places + zlib.crc32(name.encode()) % 1000) * 43758.5453
        values = values - values.floor() - 0.5  # like random numbers, but the same on every machine
        values += 1.0 if name.endswith("LayerNorm.weight") else 0.0
        parameter.data = values.reshape(parameter.shape).to(parameter.dtype)
    return model.eval()
