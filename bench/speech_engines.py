"""The engines of bench/transcribe.py: from samples at 16 kHz to a text, greedy or with beams."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np

# Samples, and how many beams (1 is greedy) -> what is said.
Transcribe = Callable[[np.ndarray, int], str]

OURS, ORIGINAL, FASTER, HUGGING_FACE = "glassformer", "openai-whisper", "faster-whisper", "transformers"
INT8 = " int8"
NAMES = (OURS, HUGGING_FACE, FASTER, ORIGINAL, OURS + INT8, FASTER + INT8)
RATE = 16000


def load(name: str, checkpoint: Path, folder: Path, threads: int) -> Transcribe:
    """An engine. `checkpoint` is OpenAI's file, `folder` the same model as transformers and ctranslate2 read it."""
    import torch

    torch.set_num_threads(threads)
    loaders = {OURS: load_ours, HUGGING_FACE: load_transformers, FASTER: load_faster_whisper, ORIGINAL: load_original}
    return loaders[name.removesuffix(INT8)](checkpoint, folder, threads, name.endswith(INT8))


def load_ours(checkpoint: Path, folder: Path, threads: int, int8: bool) -> Transcribe:
    import glassformer
    from glassformer.tasks.speech.loading import load_transcriber

    transcriber = load_transcriber(folder)
    if int8:
        glassformer.quantize(transcriber.model)

    def transcribe(samples: np.ndarray, beams: int) -> str:
        return transcriber.transcribe(samples, temperature=0.0, beam_size=beams if beams > 1 else None).text

    return transcribe


def load_transformers(checkpoint: Path, folder: Path, threads: int, int8: bool) -> Transcribe:
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder).eval()
    processor = transformers.WhisperProcessor.from_pretrained(folder)

    @torch.no_grad()
    def transcribe(samples: np.ndarray, beams: int) -> str:
        options = {"return_timestamps": True, "num_beams": beams}
        kind = "longest" if len(samples) > 30 * RATE else "max_length"
        inputs = processor(
            samples, sampling_rate=RATE, return_tensors="pt", truncation=False, padding=kind, return_attention_mask=True
        )
        return processor.batch_decode(model.generate(**inputs, **options), skip_special_tokens=True)[0]

    return transcribe


def load_original(checkpoint: Path, folder: Path, threads: int, int8: bool) -> Transcribe:
    import whisper

    model = whisper.load_model(str(checkpoint), device="cpu").float()

    def transcribe(samples: np.ndarray, beams: int) -> str:
        return model.transcribe(samples, fp16=False, temperature=0.0, beam_size=beams if beams > 1 else None)["text"]

    return transcribe


def load_faster_whisper(checkpoint: Path, folder: Path, threads: int, int8: bool) -> Transcribe:
    from faster_whisper import WhisperModel

    kind = "int8" if int8 else "float32"
    model = WhisperModel(str(folder / "ctranslate2"), device="cpu", compute_type=kind, cpu_threads=threads)

    def transcribe(samples: np.ndarray, beams: int) -> str:
        segments, _ = model.transcribe(samples, beam_size=beams, temperature=0.0, language="en")
        return "".join(segment.text for segment in segments)

    return transcribe


def convert(checkpoint: Path, vocabulary: Path, folder: Path) -> None:
    """Write OpenAI's file as a folder for transformers, and inside of it one for ctranslate2."""
    from ctranslate2.converters import TransformersConverter

    from glassformer.tasks.speech.loading import load_transcriber

    transcriber = load_transcriber(checkpoint, vocabulary)
    transcriber.model.save_pretrained(folder)
    transcriber.tokenizer.save_pretrained(folder)
    transcriber.extractor.save_pretrained(folder)
    files = ["tokenizer.json", "preprocessor_config.json"]
    with contextlib.redirect_stderr(io.StringIO()):
        TransformersConverter(str(folder), copy_files=files).convert(str(folder / "ctranslate2"), force=True)
