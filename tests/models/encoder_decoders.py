"""Every encoder-decoder, with all that the contract asks about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import glassformer
from glassformer import PreTrainedModel
from glassformer.checkpoints.pretrained_config import PretrainedConfig

from .architectures import tiny_bert, tiny_gpt2, tiny_relative


@dataclass(frozen=True)
class EncoderDecoder:
    """One architecture's answers to the contract."""

    model_type: str
    model: type[PreTrainedModel]
    tiny: Callable[..., PretrainedConfig]  # a small config; takes fields
    variants: dict[str, dict[str, Any]]  # name -> fields that change the computation
    published: tuple[PretrainedConfig, int]  # a published size and its number of parameters


def tiny_transformer(**fields: Any) -> glassformer.TransformerConfig:
    shape = {
        "vocab_size": 60,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_decoder_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 40,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return glassformer.TransformerConfig(**{**shape, **fields})


TRANSFORMER = EncoderDecoder(
    model_type="transformer",
    model=glassformer.TransformerForSeq2SeqLM,
    tiny=tiny_transformer,
    variants={
        "post-norm": {},
        "pre-norm": {"norm_first": True},
        "learned positions": {"position_embedding_type": "learned"},
        "separate": {"share_embeddings": False, "source_vocab_size": 70, "tie_word_embeddings": False},
        "separate, tied": {"share_embeddings": False, "output_bias": True},
    },
    published=(  # the base model of the paper, 65M in its table
        glassformer.TransformerConfig(vocab_size=37000, tie_word_embeddings=True),
        63_082_496,
    ),
)


def tiny_rnn(**fields: Any) -> glassformer.RNNConfig:
    shape = {
        "vocab_size": 60,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "max_position_embeddings": 40,
        "initializer_range": 1.0,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return glassformer.RNNConfig(**{**shape, **fields})


RNN = EncoderDecoder(
    model_type="rnn",
    model=glassformer.RNNForSeq2SeqLM,
    tiny=tiny_rnn,
    variants={
        "bahdanau": {},
        "no attention": {"attention": "without"},
        "lstm, dot": {"cell": "lstm", "attention": "luong_dot"},
        "general": {"attention": "luong_general", "share_embeddings": False, "source_vocab_size": 70},
        "concat": {"attention": "luong_concat", "tie_word_embeddings": False},
        "convolutional": {"encoder_type": "convolutional", "cell": "lstm"},
    },
    published=(glassformer.RNNConfig(), 4_402_177),  # counted by hand: none was published
)


def tiny_of_two(encoder: dict[str, Any], decoder: PretrainedConfig, **fields: Any) -> glassformer.EncoderDecoderConfig:
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    return glassformer.EncoderDecoderConfig.from_encoder_decoder_configs(
        tiny_bert(num_hidden_layers=2, **encoder), decoder, **{**tokens, **fields}
    )


BERT2BERT: dict[str, Any] = {"encoder": {}, "decoder": tiny_bert(num_hidden_layers=2)}
OF_TWO = EncoderDecoder(
    model_type="encoder-decoder",
    model=glassformer.EncoderDecoderModel,
    tiny=lambda **fields: tiny_of_two(**{**BERT2BERT, **fields}),
    variants={
        "BERT2BERT": BERT2BERT,
        "tied": {**BERT2BERT, "tie_encoder_decoder": True},
        "BERT2GPT, projected": {"encoder": {}, "decoder": tiny_gpt2(hidden_size=32, num_hidden_layers=2)},
        "BERT2RoBERTa": {
            "encoder": {"vocab_size": 70},
            "decoder": tiny_relative("Roberta", num_hidden_layers=2, pad_token_id=0),
        },
    },
    # counted by hand: BERT, then BERT without its pooler, 12 cross-attentions and the head of masked words
    published=(
        glassformer.EncoderDecoderConfig.from_encoder_decoder_configs(
            glassformer.BertConfig(), glassformer.BertConfig()
        ),
        109_482_240 + 108_891_648 + 12 * 2_363_904 + 622_650,
    ),
)


def tiny_t5(**fields: Any) -> glassformer.T5Config:
    shape = {
        "vocab_size": 60,
        "hidden_size": 32,
        "head_width": 6,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 10,
        "initializer_factor": 1.5,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return glassformer.T5Config(**{**shape, **fields})


T5 = EncoderDecoder(
    model_type="t5",
    model=glassformer.T5ForConditionalGeneration,
    tiny=tiny_t5,
    variants={
        "first": {},
        "gated, untied": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        "longer decoder": {"num_decoder_layers": 3},
    },
    published=(glassformer.T5Config(), 60_506_624),  # t5-small
)

ENCODER_DECODERS = [TRANSFORMER, RNN, OF_TWO, T5]


def tiny_whisper(**fields: Any) -> glassformer.WhisperConfig:
    """Words from 10 to 79, the end, tasks and languages up to 89, times behind it."""
    shape = {
        "vocab_size": 120,
        "num_mel_bins": 8,
        "hidden_size": 16,
        "num_attention_heads": 4,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_decoder_layers": 3,
        "max_source_positions": 12,
        "max_position_embeddings": 40,
        "initializer_range": 0.3,
        "pad_token_id": 80,
        "bos_token_id": 80,
        "eos_token_id": 80,
        "decoder_start_token_id": 81,
    }
    return glassformer.WhisperConfig(**{**shape, **fields})


WHISPER = EncoderDecoder(
    model_type="whisper",
    model=glassformer.WhisperForConditionalGeneration,
    tiny=tiny_whisper,
    variants={
        "first": {},
        "untied, other sizes": {
            "tie_word_embeddings": False,
            "decoder_attention_heads": 2,
            "decoder_intermediate_size": 20,
        },
    },
    published=(glassformer.WhisperConfig(), 37_760_640),  # tiny
)

OF_SOUND = [WHISPER]  # their source is a spectrogram: see test_whisper.py
