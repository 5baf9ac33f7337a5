"""All tasks by name, and the task that a checkpoint was made for. Modules are imported when they are used."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING

from ..errors import InputError, nearest
from ..registry import architecture_with, head_of

if TYPE_CHECKING:
    from .task import Task

TASKS = {
    "text-classification": "text_classification.TextClassification",
    "token-classification": "token_classification.TokenClassification",
    "question-answering": "question_answering.QuestionAnswering",
    "multiple-choice": "multiple_choice.MultipleChoice",
    "next-sentence": "next_sentence.NextSentence",
    "fill-mask": "language_modeling.fill_mask.FillMask",
    "masked-language-modeling": "language_modeling.masked_language_modeling.MaskedLanguageModeling",
    "pre-training": "language_modeling.pre_training.PreTraining",
    "permutation-language-modeling": ("language_modeling.permutation_language_modeling.PermutationLanguageModeling"),
    "span-corruption": "language_modeling.span_corruption.SpanCorruption",
    "replaced-token-detection": "language_modeling.replaced_token_detection.ReplacedTokenDetection",
    "text-generation": "generation.text_generation.TextGeneration",
    "translation": "generation.translation.Translation",
    "summarization": "generation.summarization.Summarization",
    "text2text-generation": "generation.text2text_generation.Text2TextGeneration",
    "sentence-similarity": "sentences.sentence_similarity.SentenceSimilarity",
    "feature-extraction": "feature_extraction.FeatureExtraction",
    "zero-shot-classification": "zero_shot_classification.ZeroShotClassification",
    "image-classification": "images.image_classification.ImageClassification",
    "image-feature-extraction": "images.image_feature_extraction.ImageFeatureExtraction",
    "audio-classification": "speech.audio_classification.AudioClassification",
    "automatic-speech-recognition": "speech.speech_recognition.SpeechRecognition",
}
ALIASES = {
    "sentiment-analysis": "text-classification",
    "ner": "token-classification",
    "next-sentence-prediction": "next-sentence",
}
TRANSLATION = re.compile(r"translation_[a-z]+_to_[a-z]+")  # with the languages, whose prefix the model's files name
TASK_OF_HEAD = {  # the default task of models with this head
    "sequence-classification": "text-classification",
    "token-classification": "token-classification",
    "question-answering": "question-answering",
    "multiple-choice": "multiple-choice",
    "next-sentence": "next-sentence",
    "masked-lm": "fill-mask",
    "replaced-tokens": "replaced-token-detection",
    "pre-training": "fill-mask",
    "causal-lm": "text-generation",
    "seq2seq-lm": "translation",
    "image-classification": "image-classification",
    "speech-seq2seq": "automatic-speech-recognition",
    "audio-classification": "audio-classification",
    "body": "feature-extraction",
}
TASK_OF_PICTURES = "image-feature-extraction"  # that of other models which read pictures
# Without an Auto class, or with a use that is wider than that of others with the same head.
OTHER_CLASSES = {
    "Transformer": "translation",
    "SentenceEncoder": "sentence-similarity",
    "T5ForConditionalGeneration": "text2text-generation",
}


def task_names() -> list[str]:
    """Every name and alias of a task."""
    return [*TASKS, *ALIASES]


def full_name(name: str) -> str:
    """A task's name from its name or alias; raises if there is none.

    >>> full_name("ner"), full_name("translation_en_to_de")
    ('token-classification', 'translation')
    """
    if not isinstance(name, str):
        raise InputError(f"a task is named by a text such as 'text-classification', got {name!r}")
    if name not in task_names() and not TRANSLATION.fullmatch(name):
        raise InputError(f"there is no task {name!r}{nearest(name, task_names())}; there are {', '.join(task_names())}")
    return "translation" if TRANSLATION.fullmatch(name) else ALIASES.get(name, name)


def reads_pictures(name: str) -> bool:
    """Whether the rows of a task hold pictures."""
    return TASKS[full_name(name)].startswith("images.")


def reads_sound(name: str) -> bool:
    """Whether the rows of a task hold sound."""
    return TASKS[full_name(name)].startswith("speech.")


def task_class(name: str) -> type[Task]:
    """The class of a task, by name or alias."""
    module, _, kind = TASKS[full_name(name)].rpartition(".")
    if TRANSLATION.fullmatch(name):
        kind = name
    return getattr(importlib.import_module(f".{module}", __package__), kind)


def task_of(class_name: str | None, where: str) -> str:
    """The name of the default task of a model class."""
    if class_name in OTHER_CLASSES:
        return OTHER_CLASSES[class_name]
    head = None if class_name is None else head_of(class_name)
    known = None if class_name is None else architecture_with(class_name)
    if known is not None and known.image_processor and head != "image-classification":
        return TASK_OF_PICTURES
    if head is not None:
        return TASK_OF_HEAD[head]
    reason = "does not name its class" if class_name is None else f"is a {class_name}"
    raise InputError(f"{where} {reason}, which implies no task; name one: pipeline(task, model=...)")
