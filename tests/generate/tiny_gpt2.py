"""A tiny checkpoint: a GPT-2 with random weights and a byte-level vocabulary of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from glassformer import GPT2Config, GPT2LMHeadModel, GPT2Tokenizer, train_vocabulary

TEXTS = (
    "Once upon a time there was a glass house, and everyone could see through it.",
    "It didn't hide anything: the walls said what they were, and nobody wasn't pleased.",
    "从前有一座玻璃房子，里面的一切都看得见。北京，上海，天气很好。",
    "She said: don't close the door! Why? Because it isn't a door, it's a window. 🙂🚀",
)


def write_tiny_gpt2(folder: Path, labels: tuple[str, ...] = (), **fields: Any) -> Path:
    """Write the folder; `labels` become control tokens, `fields` are those of the config."""
    train_vocabulary(iter(TEXTS * 3), "bpe", vocab_size=400).save(folder)
    tokenizer = GPT2Tokenizer.from_pretrained(folder)
    if labels:
        tokenizer.add_special_tokens({"additional_special_tokens": list(labels)})
    tokenizer.save_pretrained(folder)
    end = tokenizer.eos_token_id
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 96}
    tokens = {"vocab_size": len(tokenizer), "bos_token_id": end, "eos_token_id": end, "pad_token_id": end}
    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config(**{**shape, **tokens, "initializer_range": 0.3, **fields})).save_pretrained(folder)
    return folder
