"""`glass see`: the attention of a model on a text or a picture, as one page that opens anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from ...errors import InputError
from ..arguments import check_page_path
from ..output.terminal import counted, print_json, size


def see(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    text: Positional[Annotated[str, arg(metavar="TEXT|PICTURE|SOUND")]],
    /,
    *,
    pair: Annotated[str, arg(metavar="TEXT")] = "",
    output: Annotated[Path, arg(metavar="PAGE", aliases=["-o"])] = Path("attention.html"),
    layer: Annotated[int | None, arg(metavar="N")] = None,
    head: Annotated[int | None, arg(metavar="N")] = None,
    language: Literal["en", "zh"] = "en",
    json: bool = False,
) -> int:
    """Write a page that shows the attention of every head of a model on a text or a picture.

    One file without a network: all heads, lines between tokens, a heat-map with values, and for short texts the queries
    and keys behind them. A picture is shown bright where the model looks: one head, the mean of a layer, or all layers
    up to it (rollout). Of speech, the spectrogram is shown with the words, and what the model attends to for each.
    `glass explore` shows more of texts and pictures.

    examples:
      glass see ./bert-base-uncased "The cat sat on the mat."
      glass see ./bert-base-uncased "The cat sat." --pair "It was tired." -o page.html
      glass see ./vit cat.png -o cat.html
      glass see ./whisper-tiny talk.wav -o talk.html
      glass see ./gpt2 "Once upon a time" --layer 5 --head 1 --json

    Args:
        model: A checkpoint folder or a name on the hub.
        text: The text to read; for a model of pictures or of speech, a file.
        pair: A second text, for models that read pairs; for an encoder-decoder the target, generated if not given.
        output: The page to write.
        layer: The layer that is shown first.
        head: The head that is shown first.
        language: The language of the page.
        json: Print JSON.
    """
    check_page_path("--output", output)
    from ...explain.picture_reading import reads_pictures

    if reads_sound(model):
        return see_sound(model, text, pair, output, json)
    if reads_pictures(model):
        return see_picture(model, text, pair, output, layer, head, language, json)
    from ...explain.pages.bertviz_views import page_of_reading
    from ...explain.subject import Subject

    subject = Subject.load(model)
    reading = subject.read(text, pair)
    page = page_of_reading(reading, layer=layer, heads=None if head is None else [head], language=language)
    path = page.save(output)
    heads: dict[int, list[int]] = {}
    for part in reading.parts.values():
        heads = subject.heads_of_part(part) | heads
    summary = {
        "page": str(path),
        "bytes": path.stat().st_size,
        "tokens": reading.tokens,
        "layers": len(heads),
        "heads": [len(each) for _, each in sorted(heads.items())],
    }
    if json:
        print_json(summary)
    else:
        print(f"{path}: {counted(len(heads), 'layer')}, {counted(len(reading), 'token')}, {size(summary['bytes'])}")
    return 0


def see_picture(
    model: str, file: str, pair: str, output: Path, layer: int | None, head: int | None, language: str, json: bool
) -> int:
    """The page of a model that reads pictures."""
    if pair:
        raise InputError("--pair is for models of texts; a model of pictures sees one picture")
    from ...explain.pages.picture_page import picture_page
    from ...explain.picture_reading import load_image_task, read_attention

    reading = read_attention(load_image_task(model), file)
    path = picture_page(reading, layer=layer, head=head, language=language).save(output)
    layers = len(reading.rollout)
    heads = [sum(each == layer for each, _ in reading.weights) for layer in range(layers)]
    rows, columns = reading.grid
    summary = {
        "page": str(path),
        "bytes": path.stat().st_size,
        "grid": [rows, columns],
        "layers": layers,
        "heads": heads,
        "answers": reading.answers,
    }
    if json:
        print_json(summary)
    else:
        print(f"{path}: {counted(layers, 'layer')}, {rows} x {columns} patches, {size(summary['bytes'])}")
    return 0


def reads_sound(model: str) -> bool:
    """Whether a checkpoint writes what is said."""
    from ...models.auto import AutoConfig
    from ...models.whisper_openai import openai_file
    from ...registry import ARCHITECTURES

    if openai_file(model) is not None:
        return True
    return "speech-seq2seq" in ARCHITECTURES[AutoConfig.from_pretrained(model).model_type].classes


def see_sound(model: str, file: str, pair: str, output: Path, json: bool) -> int:
    """The page of a model of speech."""
    if pair:
        raise InputError("--pair is for models of texts; a model of speech hears one recording")
    from ...explain.pages.speech_page import write_speech_page
    from ...tasks.speech.loading import load_transcriber

    transcriber = load_transcriber(model)
    recording = transcriber.open(file, word_timestamps=True)
    for _ in recording:
        pass
    path = write_speech_page(transcriber, recording, output, file)
    said = recording.transcription
    summary = {"page": str(path), "bytes": path.stat().st_size, "text": said.text, "duration": said.duration}
    if json:
        print_json(summary)
    else:
        print(f"{path}: {said.duration:.1f} s, {counted(len(said.segments), 'segment')}, {size(summary['bytes'])}")
    return 0
