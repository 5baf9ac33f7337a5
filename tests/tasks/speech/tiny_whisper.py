"""A small Whisper for tests of what is built on it."""

from __future__ import annotations

from pathlib import Path

import torch

from glassformer import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration, WhisperTokenizer
from glassformer.generate.config import GenerationConfig
from glassformer.models.whisper_openai import generation_settings
from glassformer.text.bpe.bpe import SYMBOLS


def save_tiny_whisper(where: Path) -> Path:
    """A small model of two languages that hears windows of two seconds, with random weights: its words are bytes."""
    torch.manual_seed(0)
    tokenizer = WhisperTokenizer(vocab={symbol: number for number, symbol in enumerate(SYMBOLS)}, merges=[])
    end = tokenizer.eos_token_id
    shape = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "num_hidden_layers": 1}
    tokens = {"pad_token_id": end, "bos_token_id": end, "eos_token_id": end, "decoder_start_token_id": end + 1}
    shape |= {"max_position_embeddings": 48, "max_source_positions": 100, "initializer_range": 0.3}
    config = WhisperConfig(vocab_size=len(tokenizer), num_mel_bins=8, **shape, **tokens)
    model = WhisperForConditionalGeneration(config)
    ids = tokenizer.get_vocab()
    settings = {
        **generation_settings(config, "small"),
        **tokens,
        "is_multilingual": True,
        "no_timestamps_token_id": ids["<|notimestamps|>"],
        "suppress_tokens": [*range(end + 1, ids["<|notimestamps|>"]), *range(ids["<|2.00|>"], len(tokenizer))],
        "begin_suppress_tokens": [end],
        "lang_to_id": {name: ids[name] for name in ("<|en|>", "<|de|>")},
        "task_to_id": {name: ids[f"<|{name}|>"] for name in ("transcribe", "translate")},
        "prev_sot_token_id": ids["<|startofprev|>"],
        "max_length": 48,
    }
    settings.pop("forced_decoder_ids", None)
    model.generation_config = GenerationConfig.from_dict(settings)
    model.save_pretrained(where)
    tokenizer.save_pretrained(where)
    WhisperFeatureExtractor(feature_size=8, chunk_length=2).save_pretrained(where)
    return where
