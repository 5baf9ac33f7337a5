"""`glass transcribe`: what is said in files of sound."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from ...errors import DataError, InputError
from ..arguments import check_page_path
from ..output.terminal import print_json

if TYPE_CHECKING:
    from ...tasks.speech.transcription import Recording, Segment


def transcribe(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    files: Positional[Annotated[tuple[Path, ...], arg(metavar="FILE")]],
    /,
    *,
    format: Literal["txt", "srt", "vtt", "json"] | None = None,
    output: Annotated[Path | None, arg(metavar="FOLDER", aliases=["-o"])] = None,
    language: Annotated[str | None, arg(metavar="NAME")] = None,
    task: Literal["transcribe", "translate"] = "transcribe",
    words: bool = False,
    beam_size: Annotated[int | None, arg(metavar="N")] = None,
    best_of: Annotated[int | None, arg(metavar="N")] = None,
    temperature: Annotated[tuple[float, ...], arg(metavar="T")] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    initial_prompt: Annotated[str | None, arg(metavar="TEXT")] = None,
    condition_on_previous_text: bool = True,
    compression_ratio_threshold: Annotated[float | None, arg(metavar="X")] = 2.4,
    logprob_threshold: Annotated[float | None, arg(metavar="X")] = -1.0,
    no_speech_threshold: Annotated[float | None, arg(metavar="P")] = 0.6,
    tokenizer: Annotated[str | None, arg(metavar="PATH")] = None,
    int8: bool = False,
    page: Annotated[Path | None, arg(metavar="FILE.html")] = None,
) -> int:
    """Write down what is said in files of sound, as text or as subtitles.

    Files are flac, wav, mp3 or what else soundfile reads, of any length and sampling rate. Text appears while the
    model listens: in a terminal with its times, else as plain lines. The model is a folder, a name on the hub, or one
    of OpenAI's .pt files with its vocabulary beside it or in --tokenizer.

    examples:
      glass transcribe ./whisper-tiny talk.mp3
      glass transcribe ./whisper-tiny talk.mp3 --format srt > talk.srt
      glass transcribe ./whisper-small *.flac --language de --task translate --format vtt -o subtitles
      glass transcribe ./tiny.en.pt talk.wav --tokenizer ./gpt2 --words --format json
      glass transcribe ./whisper-tiny talk.wav --page look.html

    Args:
        model: A folder, a name on the hub, or a .pt file.
        files: Files of sound.
        format: txt, srt, vtt or json; without it, text, with times if it is shown in a terminal.
        output: Write one file for each file of sound into this folder, instead of printing.
        language: What is spoken, such as de or German; without it the model finds out.
        task: Write what is said, or translate it into English.
        words: Find out when each word is said; json holds the times.
        beam_size: How many continuations to follow at once; without it one.
        best_of: Above temperature 0, of how many samples to take the best.
        temperature: Temperatures that are tried in turn until the text passes the thresholds.
        initial_prompt: Text that stands before the first window: names, spelling.
        condition_on_previous_text: What was said stands before each window.
        compression_ratio_threshold: Text that can be compressed further than this repeats itself; None: any.
        logprob_threshold: A mean log-probability below this is too unsure; None: any.
        no_speech_threshold: Above this probability, and if unsure, nothing is said; None: never.
        tokenizer: The vocabulary, if it is not beside the model: a folder or a .tiktoken file.
        int8: Quantize the model to 8 bits first: smaller and faster, and not quite as exact.
        page: Write a page that shows the sound of the first file, and what the model attends to for each word.
    """
    from ...tasks.speech.loading import load_transcriber
    from ...tasks.speech.subtitles import as_json
    from ...tasks.speech.transcription import TranscriptionSettings

    check_files(files, output, format)
    if page is not None:
        check_page_path("--page", page)
    settings = TranscriptionSettings(
        language=language,
        task=task,
        temperature=temperature,
        beam_size=beam_size,
        best_of=best_of,
        compression_ratio_threshold=compression_ratio_threshold,
        logprob_threshold=logprob_threshold,
        no_speech_threshold=no_speech_threshold,
        condition_on_previous_text=condition_on_previous_text,
        initial_prompt=initial_prompt,
        word_timestamps=words or page is not None,
    )
    transcriber = load_transcriber(model, tokenizer)
    if int8:
        from ...nn.quantize import quantize

        quantize(transcriber.model)
    found: list[dict[str, Any]] = []
    failed = 0
    for file in files:
        began = time.perf_counter()
        try:
            recording = transcriber.open(file, settings)
            write_recording(recording, file, format, output, several=len(files) > 1)
        except DataError as error:
            if len(files) == 1:
                raise
            failed += 1
            print(f"glass: {error}", file=sys.stderr)
            continue
        if format == "json":
            found.append(as_json(recording.transcription, str(file)))
        if page is not None and file == files[0]:
            from ...explain.pages.speech_page import write_speech_page

            write_speech_page(transcriber, recording, page, str(file))
            note(f"the page is {page}")
        report(recording, file, time.perf_counter() - began)
    if format == "json":
        write_json(found, files, output)
    return 1 if failed else 0


def check_files(files: tuple[Path, ...], output: Path | None, format: str | None) -> None:
    """Refuse what could not be read or written before a model is loaded."""
    if not files:
        raise InputError("give one file of sound or more")
    for file in files:
        if not file.expanduser().is_file():
            raise DataError(f"{file}: {'a folder, not a file of sound' if file.is_dir() else 'there is no such file'}")
    if output is not None:
        if output.exists() and not output.is_dir():
            raise InputError(f"--output {output} is a file; a folder is needed")
        names = [file.stem for file in files]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"two files are called {twice}, and would become one {twice}.{format or 'txt'}")


def write_recording(recording: Recording, file: Path, format: str | None, output: Path | None, several: bool) -> None:
    """Transcribe a recording, and print or write each segment as soon as it is there."""
    from ...tasks.speech.subtitles import FORMATS, timed_lines

    segments = with_progress(recording, file)
    if format == "json":
        for _ in segments:
            pass
        return
    live = format is None and output is None and sys.stdout.isatty()
    lines = (timed_lines if live else FORMATS[format or "txt"])(segments)
    if output is not None:
        from ...checkpoints.files import make_folder, write_atomically

        text = "".join(f"{line}\n" for line in lines)
        write_atomically(make_folder(output) / f"{file.stem}.{format or 'txt'}", text)
        return
    if several:
        print(f"==> {file} <==", flush=True)
    for line in lines:
        print(line, flush=True)


def with_progress(recording: Recording, file: Path) -> Iterator[Segment]:
    """The segments of a recording; where only notes go to a terminal, they say how far it has come."""
    shown = sys.stderr.isatty() and not sys.stdout.isatty()
    for segment in recording:
        yield segment
        if shown:
            done = min(recording.seek, recording.columns) / recording.columns_per_second
            print(f"\rglass: {file.name}: {done:.0f} of {recording.duration:.0f} s", end="", file=sys.stderr)
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr)


def report(recording: Recording, file: Path, seconds: float) -> None:
    """Say what was found out, and how long it took."""
    if not sys.stderr.isatty():
        return
    found = recording.transcription
    language = "" if found.language_probability is None else f", {found.language} ({found.language_probability:.0%})"
    speed = found.duration / seconds if seconds else 0
    note(f"{file.name}: {found.duration:.1f} s of sound in {seconds:.1f} s, {speed:.1f}x real time{language}")


def note(message: str) -> None:
    print(f"glass: {message}", file=sys.stderr)


def write_json(found: list[dict[str, Any]], files: tuple[Path, ...], output: Path | None) -> None:
    """Print the transcriptions, one alone as an object; or write a file for each."""
    if output is None:
        print_json(found[0] if len(files) == 1 else found)
        return
    from ...checkpoints.files import make_folder, write_atomically
    from ...json_fields import json_text

    for each in found:
        write_atomically(make_folder(output) / f"{Path(each['file']).stem}.json", json_text(each))
