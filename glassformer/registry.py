"""Every architecture in one table: its configuration, the class for each head, its tokenizer.

The Auto classes, the tasks, adapters, the explorer and the command line read this table, and nothing follows from how a
class is called. It holds names only: a module is imported when one of its classes is used.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

BODY = "body"
# What a model can have on top of its body. A class that serves several heads is known by the first of them.
HEADS = (
    "sequence-classification",
    "token-classification",
    "question-answering",
    "multiple-choice",
    "next-sentence",
    "masked-lm",
    "replaced-tokens",  # the discriminator's
    "seq2seq-lm",
    "pre-training",
    "causal-lm",
    "double-heads",  # the next word, and one of several texts
    "speech-seq2seq",  # from sound to text
    "audio-classification",
    "encoder",  # that of an encoder-decoder, alone
    "image-classification",
    "masked-image-modeling",
    BODY,
)


@dataclass(frozen=True)
class Architecture:
    """One architecture; classes are given as `module.Class`, the module being one of `glassformer.models`."""

    model_type: str  # as config.json names it
    config: str
    classes: Mapping[str, str]  # head -> class
    tokenizer: str | None = None  # a key of TOKENIZERS: the one that its checkpoints have if they name no other
    image_processor: str | None = None  # the same for pictures: a class of `glassformer.images.image_processor`
    variant_of: str | None = None  # an architecture under whose name it is known too, for heads that that one lacks

    def __post_init__(self) -> None:
        unknown = self.classes.keys() - set(HEADS)
        if unknown:
            raise ValueError(f"{self.model_type}: {', '.join(sorted(unknown))} are no heads; heads are {HEADS}")


ARCHITECTURES = {
    each.model_type: each
    for each in (
        Architecture(
            "bert",
            config="bert.BertConfig",
            classes={
                BODY: "bert.BertModel",
                "pre-training": "bert_heads.BertForPreTraining",
                "masked-lm": "bert_heads.BertForMaskedLM",
                "causal-lm": "bert_heads.BertLMHeadModel",
                "next-sentence": "bert_heads.BertForNextSentencePrediction",
                "sequence-classification": "bert_heads.BertForSequenceClassification",
                "multiple-choice": "bert_heads.BertForMultipleChoice",
                "token-classification": "bert_heads.BertForTokenClassification",
                "question-answering": "bert_heads.BertForQuestionAnswering",
            },
            tokenizer="BertTokenizer",
        ),
        Architecture(
            "distilbert",
            config="distilbert.DistilBertConfig",
            classes={
                BODY: "distilbert.DistilBertModel",
                "pre-training": "distilbert_heads.DistilBertForMaskedLM",
                "masked-lm": "distilbert_heads.DistilBertForMaskedLM",
                "sequence-classification": "distilbert_heads.DistilBertForSequenceClassification",
                "multiple-choice": "distilbert_heads.DistilBertForMultipleChoice",
                "token-classification": "distilbert_heads.DistilBertForTokenClassification",
                "question-answering": "distilbert_heads.DistilBertForQuestionAnswering",
            },
            tokenizer="DistilBertTokenizer",
        ),
        Architecture(
            "performer",
            config="performer.PerformerConfig",
            classes={
                BODY: "performer.PerformerModel",
                "masked-lm": "performer_heads.PerformerForMaskedLM",
                "causal-lm": "performer_heads.PerformerForCausalLM",
                "sequence-classification": "performer_heads.PerformerForSequenceClassification",
                "token-classification": "performer_heads.PerformerForTokenClassification",
                "question-answering": "performer_heads.PerformerForQuestionAnswering",
            },
            tokenizer="BertTokenizer",
        ),
        Architecture(
            "roberta",
            config="roberta.RobertaConfig",
            classes={
                BODY: "roberta.RobertaModel",
                "pre-training": "roberta_heads.RobertaForMaskedLM",
                "masked-lm": "roberta_heads.RobertaForMaskedLM",
                "causal-lm": "roberta_heads.RobertaForCausalLM",
                "sequence-classification": "roberta_heads.RobertaForSequenceClassification",
                "multiple-choice": "roberta_heads.RobertaForMultipleChoice",
                "token-classification": "roberta_heads.RobertaForTokenClassification",
                "question-answering": "roberta_heads.RobertaForQuestionAnswering",
            },
            tokenizer="RobertaTokenizer",
        ),
        Architecture(
            "big_bird",
            config="big_bird.BigBirdConfig",
            classes={
                BODY: "big_bird.BigBirdModel",
                "pre-training": "big_bird_heads.BigBirdForPreTraining",
                "masked-lm": "big_bird_heads.BigBirdForMaskedLM",
                "causal-lm": "big_bird_heads.BigBirdForCausalLM",
                "sequence-classification": "big_bird_heads.BigBirdForSequenceClassification",
                "multiple-choice": "big_bird_heads.BigBirdForMultipleChoice",
                "token-classification": "big_bird_heads.BigBirdForTokenClassification",
                "question-answering": "big_bird_heads.BigBirdForQuestionAnswering",
            },
            tokenizer="BigBirdTokenizer",
        ),
        Architecture(
            "longformer",
            config="longformer.LongformerConfig",
            classes={
                BODY: "longformer.LongformerModel",
                "pre-training": "longformer_heads.LongformerForMaskedLM",
                "masked-lm": "longformer_heads.LongformerForMaskedLM",
                "sequence-classification": "longformer_heads.LongformerForSequenceClassification",
                "multiple-choice": "longformer_heads.LongformerForMultipleChoice",
                "token-classification": "longformer_heads.LongformerForTokenClassification",
                "question-answering": "longformer_heads.LongformerForQuestionAnswering",
            },
            tokenizer="RobertaTokenizer",
        ),
        Architecture(
            "xlm-roberta",
            config="xlm_roberta.XLMRobertaConfig",
            classes={
                BODY: "xlm_roberta.XLMRobertaModel",
                "pre-training": "xlm_roberta.XLMRobertaForMaskedLM",
                "masked-lm": "xlm_roberta.XLMRobertaForMaskedLM",
                "causal-lm": "xlm_roberta.XLMRobertaForCausalLM",
                "sequence-classification": "xlm_roberta.XLMRobertaForSequenceClassification",
                "multiple-choice": "xlm_roberta.XLMRobertaForMultipleChoice",
                "token-classification": "xlm_roberta.XLMRobertaForTokenClassification",
                "question-answering": "xlm_roberta.XLMRobertaForQuestionAnswering",
            },
            tokenizer="XLMRobertaTokenizer",
        ),
        Architecture(
            "camembert",
            config="camembert.CamembertConfig",
            classes={
                BODY: "camembert.CamembertModel",
                "pre-training": "camembert.CamembertForMaskedLM",
                "masked-lm": "camembert.CamembertForMaskedLM",
                "causal-lm": "camembert.CamembertForCausalLM",
                "sequence-classification": "camembert.CamembertForSequenceClassification",
                "multiple-choice": "camembert.CamembertForMultipleChoice",
                "token-classification": "camembert.CamembertForTokenClassification",
                "question-answering": "camembert.CamembertForQuestionAnswering",
            },
            tokenizer="CamembertTokenizer",
        ),
        Architecture(
            "albert",
            config="albert.AlbertConfig",
            classes={
                BODY: "albert.AlbertModel",
                "pre-training": "albert_heads.AlbertForPreTraining",
                "masked-lm": "albert_heads.AlbertForMaskedLM",
                "sequence-classification": "albert_heads.AlbertForSequenceClassification",
                "multiple-choice": "albert_heads.AlbertForMultipleChoice",
                "token-classification": "albert_heads.AlbertForTokenClassification",
                "question-answering": "albert_heads.AlbertForQuestionAnswering",
            },
            tokenizer="AlbertTokenizer",
        ),
        Architecture(
            "electra",
            config="electra.ElectraConfig",
            classes={
                BODY: "electra.ElectraModel",
                "replaced-tokens": "electra_heads.ElectraForPreTraining",
                "pre-training": "electra_heads.ElectraForPreTraining",
                "masked-lm": "electra_heads.ElectraForMaskedLM",
                "causal-lm": "electra_heads.ElectraForCausalLM",
                "sequence-classification": "electra_heads.ElectraForSequenceClassification",
                "multiple-choice": "electra_heads.ElectraForMultipleChoice",
                "token-classification": "electra_heads.ElectraForTokenClassification",
                "question-answering": "electra_heads.ElectraForQuestionAnswering",
            },
            tokenizer="BertTokenizer",
        ),
        Architecture(
            "ernie",
            config="ernie.ErnieConfig",
            classes={
                BODY: "ernie.ErnieModel",
                "pre-training": "ernie_heads.ErnieForPreTraining",
                "masked-lm": "ernie_heads.ErnieForMaskedLM",
                "causal-lm": "ernie_heads.ErnieForCausalLM",
                "next-sentence": "ernie_heads.ErnieForNextSentencePrediction",
                "sequence-classification": "ernie_heads.ErnieForSequenceClassification",
                "multiple-choice": "ernie_heads.ErnieForMultipleChoice",
                "token-classification": "ernie_heads.ErnieForTokenClassification",
                "question-answering": "ernie_heads.ErnieForQuestionAnswering",
            },
            tokenizer="BertTokenizer",
        ),
        Architecture(
            "deberta",
            config="deberta.DebertaConfig",
            classes={
                BODY: "deberta.DebertaModel",
                "pre-training": "deberta_heads.DebertaForMaskedLM",
                "masked-lm": "deberta_heads.DebertaForMaskedLM",
                "sequence-classification": "deberta_heads.DebertaForSequenceClassification",
                "token-classification": "deberta_heads.DebertaForTokenClassification",
                "question-answering": "deberta_heads.DebertaForQuestionAnswering",
            },
            tokenizer="DebertaTokenizer",
        ),
        Architecture(
            "deberta-v2",
            config="deberta_v2.DebertaV2Config",
            classes={
                BODY: "deberta_v2.DebertaV2Model",
                "pre-training": "deberta_heads.DebertaV2ForMaskedLM",
                "masked-lm": "deberta_heads.DebertaV2ForMaskedLM",
                "sequence-classification": "deberta_heads.DebertaV2ForSequenceClassification",
                "multiple-choice": "deberta_heads.DebertaV2ForMultipleChoice",
                "token-classification": "deberta_heads.DebertaV2ForTokenClassification",
                "question-answering": "deberta_heads.DebertaV2ForQuestionAnswering",
            },
            tokenizer="DebertaV2Tokenizer",
        ),
        Architecture(
            "xlnet",
            config="xlnet.XLNetConfig",
            classes={
                BODY: "xlnet.XLNetModel",
                "pre-training": "xlnet_heads.XLNetLMHeadModel",
                "causal-lm": "xlnet_heads.XLNetLMHeadModel",
                "sequence-classification": "xlnet_heads.XLNetForSequenceClassification",
                "multiple-choice": "xlnet_heads.XLNetForMultipleChoice",
                "token-classification": "xlnet_heads.XLNetForTokenClassification",
                "question-answering": "xlnet_heads.XLNetForQuestionAnsweringSimple",
            },
            tokenizer="XLNetTokenizer",
        ),
        Architecture(
            "transfo-xl",
            config="transfo_xl.TransfoXLConfig",
            classes={
                BODY: "transfo_xl.TransfoXLModel",
                "pre-training": "transfo_xl_heads.TransfoXLLMHeadModel",
                "causal-lm": "transfo_xl_heads.TransfoXLLMHeadModel",
                "sequence-classification": "transfo_xl_heads.TransfoXLForSequenceClassification",
            },
            tokenizer="TransfoXLTokenizer",
        ),
        Architecture(
            "gpt2",
            config="gpt2.GPT2Config",
            classes={
                BODY: "gpt2.GPT2Model",
                "causal-lm": "gpt2_heads.GPT2LMHeadModel",
                "double-heads": "gpt2_heads.GPT2DoubleHeadsModel",
                "sequence-classification": "gpt2_heads.GPT2ForSequenceClassification",
                "token-classification": "gpt2_heads.GPT2ForTokenClassification",
                "question-answering": "gpt2_heads.GPT2ForQuestionAnswering",
            },
            tokenizer="GPT2Tokenizer",
        ),
        Architecture(
            "openai-gpt",
            config="openai_gpt.OpenAIGPTConfig",
            classes={
                BODY: "openai_gpt.OpenAIGPTModel",
                "causal-lm": "openai_gpt.OpenAIGPTLMHeadModel",
                "double-heads": "openai_gpt.OpenAIGPTDoubleHeadsModel",
                "sequence-classification": "openai_gpt.OpenAIGPTForSequenceClassification",
            },
            tokenizer="OpenAIGPTTokenizer",
        ),
        Architecture(
            "vit",
            config="vit.ViTConfig",
            classes={
                BODY: "vit.ViTModel",
                "image-classification": "vit_heads.ViTForImageClassification",
                "masked-image-modeling": "vit_heads.ViTForMaskedImageModeling",
            },
            image_processor="ViTImageProcessor",
        ),
        # The body of these two includes the layer that scores the vocabulary.
        Architecture(
            "rnn",
            config="rnn.RNNConfig",
            classes={BODY: "rnn.RNNForSeq2SeqLM", "seq2seq-lm": "rnn.RNNForSeq2SeqLM"},
        ),
        Architecture(
            "transformer",
            config="transformer.TransformerConfig",
            classes={
                BODY: "transformer.TransformerForSeq2SeqLM",
                "seq2seq-lm": "transformer.TransformerForSeq2SeqLM",
            },
        ),
        Architecture(
            "t5",
            config="t5.T5Config",
            classes={
                BODY: "t5.T5Model",
                "encoder": "t5.T5EncoderModel",
                "seq2seq-lm": "t5_heads.T5ForConditionalGeneration",
                "pre-training": "t5_heads.T5ForConditionalGeneration",
                "sequence-classification": "t5_heads.T5ForSequenceClassification",
                "token-classification": "t5_heads.T5ForTokenClassification",
                "question-answering": "t5_heads.T5ForQuestionAnswering",
            },
            tokenizer="T5Tokenizer",
        ),
        Architecture(
            "whisper",
            config="whisper.WhisperConfig",
            classes={
                BODY: "whisper.WhisperModel",
                "speech-seq2seq": "whisper_heads.WhisperForConditionalGeneration",
                "audio-classification": "whisper_heads.WhisperForAudioClassification",
            },
            tokenizer="WhisperTokenizer",
        ),
        # So does that of this one, which is made of two others.
        Architecture(
            "encoder-decoder",
            config="encoder_decoder.EncoderDecoderConfig",
            classes={
                BODY: "encoder_decoder.EncoderDecoderModel",
                "seq2seq-lm": "encoder_decoder.EncoderDecoderModel",
            },
        ),
        Architecture(
            "transformer-lm",
            config="transformer_lm.TransformerLMConfig",
            classes={
                BODY: "transformer_lm.TransformerLMModel",
                "causal-lm": "transformer_lm.TransformerLMHeadModel",
            },
            tokenizer="GPT2Tokenizer",
            variant_of="transformer",
        ),
    )
}

# Tokenizers by the name that files give them, with or without "Fast"; modules are those of `glassformer.text`. Many
# models have the tokenizer of another one under a name of their own.
TOKENIZERS = {
    "AlbertTokenizer": "albert_tokenizer.AlbertTokenizer",
    "BartTokenizer": "roberta_tokenizer.RobertaTokenizer",
    "BertTokenizer": "bert_tokenizer.BertTokenizer",
    "BigBirdTokenizer": "big_bird_tokenizer.BigBirdTokenizer",
    "CamembertTokenizer": "camembert_tokenizer.CamembertTokenizer",
    "ConvBertTokenizer": "bert_tokenizer.BertTokenizer",
    "DPRContextEncoderTokenizer": "bert_tokenizer.BertTokenizer",
    "DPRQuestionEncoderTokenizer": "bert_tokenizer.BertTokenizer",
    "DebertaTokenizer": "deberta_tokenizer.DebertaTokenizer",
    "DebertaV2Tokenizer": "deberta_v2_tokenizer.DebertaV2Tokenizer",
    "DistilBertTokenizer": "distilbert_tokenizer.DistilBertTokenizer",
    "ElectraTokenizer": "bert_tokenizer.BertTokenizer",
    "ErnieTokenizer": "bert_tokenizer.BertTokenizer",
    "FunnelTokenizer": "funnel_tokenizer.FunnelTokenizer",
    "GPT2Tokenizer": "gpt2_tokenizer.GPT2Tokenizer",
    "LEDTokenizer": "roberta_tokenizer.RobertaTokenizer",
    "LayoutLMTokenizer": "bert_tokenizer.BertTokenizer",
    "LongformerTokenizer": "roberta_tokenizer.RobertaTokenizer",
    "LxmertTokenizer": "bert_tokenizer.BertTokenizer",
    "MT5Tokenizer": "t5_tokenizer.T5Tokenizer",
    "MobileBertTokenizer": "bert_tokenizer.BertTokenizer",
    "MvpTokenizer": "roberta_tokenizer.RobertaTokenizer",
    "OpenAIGPTTokenizer": "openai_gpt_tokenizer.OpenAIGPTTokenizer",
    "RetriBertTokenizer": "distilbert_tokenizer.DistilBertTokenizer",
    "RobertaTokenizer": "roberta_tokenizer.RobertaTokenizer",
    "SqueezeBertTokenizer": "bert_tokenizer.BertTokenizer",
    "T5Tokenizer": "t5_tokenizer.T5Tokenizer",
    "WhisperTokenizer": "whisper_tokenizer.WhisperTokenizer",
    "TransfoXLTokenizer": "transfo_xl_tokenizer.TransfoXLTokenizer",
    "XLMRobertaTokenizer": "xlm_roberta_tokenizer.XLMRobertaTokenizer",
    "XLNetTokenizer": "xlnet_tokenizer.XLNetTokenizer",
}


def architecture_for(model_type: str, head: str) -> str:
    """The architecture that has a head: this one, else its variant that has it, else this one all the same.

    >>> architecture_for("transformer", "causal-lm"), architecture_for("transformer", "seq2seq-lm")
    ('transformer-lm', 'transformer')
    """
    known = ARCHITECTURES.get(model_type)
    if known is None or head in known.classes:
        return model_type
    variants = (each.model_type for each in ARCHITECTURES.values() if each.variant_of == model_type)
    return next((name for name in variants if head in ARCHITECTURES[name].classes), model_type)


def import_class(path: str) -> Any:
    """The class behind `module.Class`, the module being one of this package.

    >>> import_class("models.bert.BertConfig").model_type
    'bert'
    """
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f".{module}", __package__), name)


def model_paths() -> dict[str, str]:
    """The module of every class of models and configurations in the table: {"BertModel": "models.bert", ...}."""
    paths = (path for each in ARCHITECTURES.values() for path in (each.config, *each.classes.values()))
    return {name: f"models.{module}" for module, _, name in (path.rpartition(".") for path in paths)}


@cache
def heads_by_class() -> dict[str, str]:
    """The head of every class in the table."""
    heads: dict[str, str] = {}
    for head in HEADS:
        for each in ARCHITECTURES.values():
            if head in each.classes:
                heads.setdefault(each.classes[head].rpartition(".")[2], head)
    return heads


def head_of(kind: type | str) -> str | None:
    """The head of a model class, or of the registered class that it extends; None if there is none.

    >>> head_of("BertForMaskedLM")
    'masked-lm'
    """
    names = [kind] if isinstance(kind, str) else [base.__name__ for base in kind.__mro__]
    return next((heads_by_class()[name] for name in names if name in heads_by_class()), None)


def architecture_with(class_name: str) -> Architecture | None:
    """The architecture that a class of models belongs to."""
    for each in ARCHITECTURES.values():
        if any(path.rpartition(".")[2] == class_name for path in each.classes.values()):
            return each
    return None
