"""Every architecture, with all that the contract asks about it. No field has a default: nothing can be left out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

import glassformer
from glassformer import PreTrainedModel
from glassformer.checkpoints.pretrained_config import PretrainedConfig

from . import transformer_lm_reference
from .performer_reference import PerformerPytorch
from .references import Deberta, Longformer, Plain, Precise, Reference, Transformers
from .transfo_xl_reference import PlainBody, PlainLM, PlainTexts


@dataclass(frozen=True)
class Architecture:
    """One architecture's answers to the contract."""

    model_type: str
    body: type[PreTrainedModel]
    heads: dict[type[PreTrainedModel], Callable[[int, int], dict[str, torch.Tensor]]]  # class -> labels for B, T
    tiny: Callable[..., PretrainedConfig]  # a small config; takes fields
    decoder_fields: dict[str, Any] | None  # what makes the tiny config a decoder, if there is one
    decoder: type[PreTrainedModel] | None
    published: tuple[PretrainedConfig, int]  # a published size and its number of parameters
    reference: Reference  # what computes the same numbers
    plain_scores: bool  # whether queries and keys alone determine the weights of attention
    call: dict[str, Any]  # arguments that keep a forward to what every version returns alike

    def call_of(self, kind: type[PreTrainedModel]) -> dict[str, Any]:
        """Those of them that a class takes."""
        return {name: value for name, value in self.call.items() if name in inspect.signature(kind.forward).parameters}


def tokens(batch: int, length: int, high: int = 50) -> torch.Tensor:
    return torch.randint(5, high, (batch, length))


TINY_BERT = {
    "vocab_size": 60,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 72,
    "max_position_embeddings": 40,
    "initializer_range": 0.3,
}


def tiny_bert(**fields: Any) -> glassformer.BertConfig:
    return glassformer.BertConfig(**{**TINY_BERT, **fields})


def word_labels(batch: int, length: int) -> dict[str, torch.Tensor]:
    labels = tokens(batch, length)
    labels[:, ::3] = -100
    return {"labels": labels}


BERT = Architecture(
    model_type="bert",
    body=glassformer.BertModel,
    heads={
        glassformer.BertForPreTraining: lambda b, t: {**word_labels(b, t), "next_sentence_label": torch.ones(b).long()},
        glassformer.BertForMaskedLM: word_labels,
        glassformer.BertForNextSentencePrediction: lambda b, t: {"labels": torch.ones(b).long()},
        glassformer.BertForSequenceClassification: lambda b, t: {"labels": torch.ones(b).long()},
        glassformer.BertForTokenClassification: lambda b, t: {"labels": torch.randint(0, 2, (b, t))},
        glassformer.BertForQuestionAnswering: lambda b, t: {
            "start_positions": torch.zeros(b).long(),
            "end_positions": torch.ones(b).long(),
        },
    },
    tiny=tiny_bert,
    decoder_fields={"is_decoder": True},
    decoder=glassformer.BertLMHeadModel,
    published=(glassformer.BertConfig(), 109_482_240),
    reference=Transformers({"attn_implementation": "eager"}),
    plain_scores=True,
    call={},
)


def tiny_gpt2(**fields: Any) -> glassformer.GPT2Config:
    shape = {
        "vocab_size": 60,
        "hidden_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "max_position_embeddings": 40,
        "initializer_range": 0.3,
        "bos_token_id": 1,
        "eos_token_id": 1,
        "pad_token_id": 0,
    }
    return glassformer.GPT2Config(**{**shape, **fields})


GPT2 = Architecture(
    model_type="gpt2",
    body=glassformer.GPT2Model,
    heads={
        glassformer.GPT2LMHeadModel: word_labels,
        glassformer.GPT2ForSequenceClassification: lambda b, t: {"labels": torch.ones(b).long()},
        glassformer.GPT2ForTokenClassification: lambda b, t: {"labels": torch.randint(0, 2, (b, t))},
        glassformer.GPT2ForQuestionAnswering: lambda b, t: {
            "start_positions": torch.zeros(b).long(),
            "end_positions": torch.ones(b).long(),
        },
    },
    tiny=tiny_gpt2,
    decoder_fields={},
    decoder=glassformer.GPT2LMHeadModel,
    published=(glassformer.GPT2Config(), 124_439_808),
    reference=Transformers({"attn_implementation": "eager"}),
    plain_scores=True,
    call={"use_cache": False},
)


def tiny_openai_gpt(**fields: Any) -> glassformer.OpenAIGPTConfig:
    shape = {
        "vocab_size": 60,
        "hidden_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "max_position_embeddings": 40,
        "initializer_range": 0.3,
        "pad_token_id": 0,
    }
    return glassformer.OpenAIGPTConfig(**{**shape, **fields})


OPENAI_GPT = Architecture(
    model_type="openai-gpt",
    body=glassformer.OpenAIGPTModel,
    heads={
        glassformer.OpenAIGPTLMHeadModel: word_labels,
        glassformer.OpenAIGPTForSequenceClassification: lambda b, t: {"labels": torch.ones(b).long()},
    },
    tiny=tiny_openai_gpt,
    decoder_fields={},
    decoder=glassformer.OpenAIGPTLMHeadModel,
    published=(glassformer.OpenAIGPTConfig(), 116_534_784),
    reference=Transformers(),
    plain_scores=True,
    call={},
)


def tiny_distilbert(**fields: Any) -> glassformer.DistilBertConfig:
    shape = {
        "vocab_size": 60,
        "hidden_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 72,
        "max_position_embeddings": 40,
        "initializer_range": 0.3,
    }
    return glassformer.DistilBertConfig(**{**shape, **fields})


DISTILBERT = Architecture(
    model_type="distilbert",
    body=glassformer.DistilBertModel,
    heads={
        glassformer.DistilBertForMaskedLM: word_labels,
        glassformer.DistilBertForSequenceClassification: lambda b, t: {"labels": torch.ones(b).long()},
        glassformer.DistilBertForTokenClassification: lambda b, t: {"labels": torch.randint(0, 2, (b, t))},
        glassformer.DistilBertForQuestionAnswering: lambda b, t: {
            "start_positions": torch.zeros(b).long(),
            "end_positions": torch.ones(b).long(),
        },
    },
    tiny=tiny_distilbert,
    decoder_fields=None,
    decoder=None,
    published=(glassformer.DistilBertConfig(), 66_362_880),
    reference=Transformers({"attn_implementation": "eager"}),
    plain_scores=True,
    call={},
)


def tiny_transformer_lm(**fields: Any) -> glassformer.TransformerLMConfig:
    shape = {
        "vocab_size": 60,
        "hidden_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 72,
        "max_position_embeddings": 40,
        "pad_token_id": 0,
    }
    return glassformer.TransformerLMConfig(**{**shape, **fields})


TRANSFORMER_LM = Architecture(
    model_type="transformer-lm",
    body=glassformer.TransformerLMModel,
    heads={glassformer.TransformerLMHeadModel: word_labels},
    tiny=tiny_transformer_lm,
    decoder_fields={},
    decoder=glassformer.TransformerLMHeadModel,
    # counted by hand: 33,278 word vectors of 256, and in each layer 4 x (256 x 256 + 256) + 2 x 256 x 512 + 512 + 256
    # + 4 x 256
    published=(glassformer.TransformerLMConfig(), 33_278 * 256 + 4 * 527_104),
    reference=Plain(
        {
            "TransformerLMModel": transformer_lm_reference.LanguageModelBody,
            "TransformerLMHeadModel": transformer_lm_reference.LanguageModel,
        }
    ),
    plain_scores=True,
    call={"use_cache": False},
)


ENCODER_HEADS = {
    "ForMaskedLM": word_labels,
    "ForSequenceClassification": lambda b, t: {"labels": torch.ones(b).long()},
    "ForTokenClassification": lambda b, t: {"labels": torch.randint(0, 2, (b, t))},
    "ForQuestionAnswering": lambda b, t: {
        "start_positions": torch.zeros(b).long(),
        "end_positions": torch.ones(b).long(),
    },
}


def tiny_relative(kind: str, **fields: Any) -> PretrainedConfig:
    """A small config of a relative of BERT, with the prefix of its classes."""
    return getattr(glassformer, f"{kind}Config")(**{**TINY_BERT, **fields})


def relative_of_bert(kind: str, heads: Sequence[str], published: tuple[PretrainedConfig, int]) -> Architecture:
    return Architecture(
        model_type=published[0].model_type,
        body=getattr(glassformer, f"{kind}Model"),
        heads={getattr(glassformer, kind + head): ENCODER_HEADS[head] for head in heads},
        tiny=partial(tiny_relative, kind),
        decoder_fields={"is_decoder": True},
        decoder=getattr(glassformer, f"{kind}ForCausalLM"),
        published=published,
        reference=Transformers({"attn_implementation": "eager"}),
        plain_scores=True,
        call={},
    )


BASE = {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}  # of roberta-base
ROBERTA = relative_of_bert("Roberta", list(ENCODER_HEADS), (glassformer.RobertaConfig(**BASE), 124_645_632))
XLM_ROBERTA = relative_of_bert(
    "XLMRoberta", ["ForMaskedLM"], (glassformer.XLMRobertaConfig(vocab_size=250_002, **BASE), 278_043_648)
)
CAMEMBERT = relative_of_bert(
    "Camembert", ["ForMaskedLM"], (glassformer.CamembertConfig(vocab_size=32_005, **BASE), 110_621_952)
)


def tiny_albert(**fields: Any) -> glassformer.AlbertConfig:
    """Every layer has weights of its own; see test_albert.py for layers that share them."""
    return glassformer.AlbertConfig(
        **{**TINY_BERT, "embedding_size": 20, "num_hidden_groups": 3, "initializer_range": 0.2, **fields}
    )


ALBERT = Architecture(
    model_type="albert",
    body=glassformer.AlbertModel,
    heads={
        glassformer.AlbertForPreTraining: lambda b, t: {
            **word_labels(b, t),
            "sentence_order_label": torch.ones(b).long(),
        },
        **{getattr(glassformer, f"Albert{head}"): labels for head, labels in ENCODER_HEADS.items()},
    },
    tiny=tiny_albert,
    decoder_fields=None,
    decoder=None,
    published=(
        glassformer.AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072),
        11_683_584,
    ),
    reference=Transformers({"attn_implementation": "eager"}),
    plain_scores=True,
    call={},
)


def tiny_electra(**fields: Any) -> glassformer.ElectraConfig:
    return glassformer.ElectraConfig(**{**TINY_BERT, "embedding_size": 20, "initializer_range": 0.2, **fields})


ELECTRA = Architecture(
    model_type="electra",
    body=glassformer.ElectraModel,
    heads={
        glassformer.ElectraForPreTraining: lambda b, t: {"labels": torch.randint(0, 2, (b, t))},
        **{getattr(glassformer, f"Electra{head}"): labels for head, labels in ENCODER_HEADS.items()},
    },
    tiny=tiny_electra,
    decoder_fields={"is_decoder": True},
    decoder=glassformer.ElectraForCausalLM,
    published=(glassformer.ElectraConfig(), 13_483_008),
    reference=Transformers({"attn_implementation": "eager"}),
    plain_scores=True,
    call={},
)

ERNIE = replace(
    relative_of_bert("Ernie", list(ENCODER_HEADS), (glassformer.ErnieConfig(use_task_id=True), 109_484_544)),
    tiny=partial(tiny_relative, "Ernie", use_task_id=True),
)


def tiny_deberta(kind: str, **fields: Any) -> PretrainedConfig:
    shape = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 2, **TINY_BERT}
    buckets = {"position_buckets": 4, "share_att_key": True, "norm_rel_ebd": "layer_norm", "conv_kernel_size": 3}
    return getattr(glassformer, f"{kind}Config")(**{**shape, **(buckets if kind == "DebertaV2" else {}), **fields})


def deberta(kind: str, published: tuple[PretrainedConfig, int]) -> Architecture:
    return Architecture(
        model_type=published[0].model_type,
        body=getattr(glassformer, f"{kind}Model"),
        heads={getattr(glassformer, kind + head): labels for head, labels in ENCODER_HEADS.items()},
        tiny=partial(tiny_deberta, kind),
        decoder_fields=None,
        decoder=None,
        published=published,
        reference=Deberta(),
        plain_scores=False,
        call={},
    )


DISENTANGLED = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
DEBERTA = deberta("Deberta", (glassformer.DebertaConfig(**DISENTANGLED), 138_601_728))  # deberta-base
SHARED = {**DISENTANGLED, "position_buckets": 256, "share_att_key": True, "norm_rel_ebd": "layer_norm"}
BASE_V3 = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
DEBERTA_V2 = deberta("DebertaV2", (glassformer.DebertaV2Config(**SHARED, **BASE_V3), 183_831_552))  # deberta-v3-base


def tiny_xlnet(**fields: Any) -> glassformer.XLNetConfig:
    names = {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"}
    shape = {name: value for name, value in TINY_BERT.items() if name in names}
    beams = {"start_n_top": 2, "end_n_top": 3}
    return glassformer.XLNetConfig(**{**shape, **beams, "initializer_range": 0.2, "pad_token_id": 0, **fields})


XLNET = Architecture(
    model_type="xlnet",
    body=glassformer.XLNetModel,
    heads={
        glassformer.XLNetLMHeadModel: word_labels,
        # that of texts reads the last column there, and the last token here: see test_xlnet.py
        glassformer.XLNetForTokenClassification: ENCODER_HEADS["ForTokenClassification"],
        glassformer.XLNetForQuestionAnsweringSimple: ENCODER_HEADS["ForQuestionAnswering"],
        glassformer.XLNetForQuestionAnswering: ENCODER_HEADS["ForQuestionAnswering"],
    },
    tiny=tiny_xlnet,
    decoder_fields=None,
    decoder=None,
    published=(glassformer.XLNetConfig(d_model=768, n_layer=12, n_head=12, d_inner=3072), 116_718_336),
    reference=Transformers(),
    plain_scores=False,
    call={"use_mems": False},
)


def tiny_transfo_xl(**fields: Any) -> glassformer.TransfoXLConfig:
    """Without a memory, so that attentions are square; with one: see test_transfo_xl.py."""
    names = {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"}
    shape = {name: value for name, value in TINY_BERT.items() if name in names}
    shape |= {"embedding_size": 48, "d_head": 12, "cutoffs": [20, 40], "div_val": 2, "clamp_len": 6, "mem_len": 0}
    shape |= {"same_length": False, "initializer_range": 0.2, "proj_init_std": 0.2, "pad_token_id": 0}
    return glassformer.TransfoXLConfig(**{**shape, **fields})


TRANSFO_XL = Architecture(
    model_type="transfo-xl",
    body=glassformer.TransfoXLModel,
    heads={
        glassformer.TransfoXLLMHeadModel: word_labels,
        glassformer.TransfoXLForSequenceClassification: lambda b, t: {"labels": torch.ones(b).long()},
    },
    tiny=tiny_transfo_xl,
    decoder_fields=None,
    decoder=None,
    published=(glassformer.TransfoXLConfig(), 283_885_936),
    reference=Plain(
        {
            "TransfoXLModel": PlainBody,
            "TransfoXLLMHeadModel": PlainLM,
            "TransfoXLForSequenceClassification": PlainTexts,
        }
    ),
    plain_scores=False,
    call={},
)


def tiny_big_bird(**fields: Any) -> glassformer.BigBirdConfig:
    """With full attention; for blocks, see test_big_bird.py."""
    blocks = {"block_size": 2, "num_random_blocks": 1, "attention_type": "original_full"}
    return glassformer.BigBirdConfig(**{**TINY_BERT, **blocks, "initializer_range": 0.15, **fields})


BIG_BIRD = Architecture(
    model_type="big_bird",
    body=glassformer.BigBirdModel,
    heads={
        glassformer.BigBirdForPreTraining: lambda b, t: {
            **word_labels(b, t),
            "next_sentence_label": torch.ones(b).long(),
        },
        **{getattr(glassformer, f"BigBird{head}"): labels for head, labels in ENCODER_HEADS.items()},
    },
    tiny=tiny_big_bird,
    decoder_fields={"is_decoder": True},
    decoder=glassformer.BigBirdForCausalLM,
    published=(glassformer.BigBirdConfig(), 127_468_800),
    reference=Transformers({"attn_implementation": "eager"}),
    plain_scores=True,
    call={},
)

WINDOWED = {"longformer"}  # whose outputs have the weights of a window, not B H T S: see test_longformer.py


def tiny_longformer(**fields: Any) -> glassformer.LongformerConfig:
    return glassformer.LongformerConfig(
        **{
            **TINY_BERT,
            "attention_window": [4, 8, 4],
            "pad_token_id": 0,
            "sep_token_id": 49,
            "initializer_range": 0.15,
            **fields,
        }
    )


LONGFORMER = Architecture(
    model_type="longformer",
    body=glassformer.LongformerModel,
    heads={getattr(glassformer, f"Longformer{head}"): labels for head, labels in ENCODER_HEADS.items()},
    tiny=tiny_longformer,
    decoder_fields=None,
    decoder=None,
    published=(
        glassformer.LongformerConfig(vocab_size=50265, max_position_embeddings=4098, type_vocab_size=1),
        148_659_456,
    ),
    reference=Longformer(),
    plain_scores=False,
    call={"global_attention_mask": torch.zeros(4, 9).long().index_fill(1, torch.tensor([0]), 1)},
)


def tiny_performer(**fields: Any) -> glassformer.PerformerConfig:
    """Some heads of the first and the last layer are local. The softmax kernel has tests of its own: see
    test_performer.py."""
    shape = {
        "num_tokens": 60,
        "max_seq_len": 40,
        "dim": 48,
        "depth": 3,
        "heads": 4,
        "dim_head": 12,
        "nb_features": 20,
        "local_attn_heads": [1, 0, 3],
        "local_window_size": 3,
        "generalized_attention": True,
        "ff_mult": 2,
        "shift_local_queries": True,  # as today's local-attention does
        "initializer_range": 0.3,
    }
    return glassformer.PerformerConfig(**{**shape, **fields})


PERFORMER = Architecture(
    model_type="performer",
    body=glassformer.PerformerModel,
    heads={
        glassformer.PerformerForMaskedLM: word_labels,
        glassformer.PerformerForSequenceClassification: lambda b, t: {"labels": torch.ones(b).long()},
        glassformer.PerformerForTokenClassification: lambda b, t: {"labels": torch.randint(0, 2, (b, t))},
        glassformer.PerformerForQuestionAnswering: lambda b, t: {},  # the original has no such loss
    },
    tiny=tiny_performer,
    decoder_fields={"causal": True},
    decoder=glassformer.PerformerForCausalLM,
    published=(glassformer.PerformerConfig(num_tokens=20000, max_seq_len=2048, dim=512, depth=12, heads=8), 48_045_056),
    reference=PerformerPytorch(),
    plain_scores=False,
    call={},
)

RELATIVES_OF_BERT = [
    ROBERTA,
    XLM_ROBERTA,
    CAMEMBERT,
    ALBERT,
    ELECTRA,
    ERNIE,
    DEBERTA,
    DEBERTA_V2,
    XLNET,
    LONGFORMER,
    BIG_BIRD,
]

ARCHITECTURES = [BERT, GPT2, OPENAI_GPT, DISTILBERT, TRANSFORMER_LM, TRANSFO_XL, PERFORMER, *RELATIVES_OF_BERT]


def tiny_vit(**fields: Any) -> glassformer.ViTConfig:
    names = {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"}
    shape = {name: value for name, value in TINY_BERT.items() if name in names}
    pictures = {"image_size": 16, "patch_size": 4, "encoder_stride": 4, "initializer_range": 0.2}
    return glassformer.ViTConfig(**{**shape, **pictures, **fields})


VIT = Architecture(
    model_type="vit",
    body=glassformer.ViTModel,
    heads={
        glassformer.ViTForImageClassification: lambda b, t: {"labels": torch.ones(b).long()},
        glassformer.ViTForMaskedImageModeling: lambda b, t: {"bool_masked_pos": torch.randint(0, 2, (b, t - 1)).bool()},
    },
    tiny=tiny_vit,
    decoder_fields=None,
    decoder=None,
    published=(glassformer.ViTConfig(), 86_389_248),
    reference=Precise(),
    plain_scores=True,
    call={},
)

OF_PICTURES = [VIT]  # their batches hold pixels
