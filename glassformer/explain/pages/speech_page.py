"""What a model of speech attends to while it writes, under the spectrogram: one page without network or script."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from ...checkpoints.files import write_atomically
from ...models.base.evaluation_mode import evaluation_mode
from ...tasks.speech.transcription import Recording, Segment, Transcriber
from ...tasks.speech.word_times import attend_to_sound
from .html_page import escape_text, html_page
from .png_image import colour_png, grey_png

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5c636b; --paper: #fff; --card: #f5f6f8; --mark: #c2410c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --soft: #a2a9b1; --paper: #15171a; --card: #1f2226; --mark: #ff9d5c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 110rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, "Noto Sans CJK SC", sans-serif; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin: 0 0 .5rem; }
p, summary { color: var(--soft); }
section { background: var(--card); border-radius: .5rem; padding: 1rem 1.25rem; margin: 1.25rem 0; }
.wide { overflow-x: auto; } svg { display: block; font-size: 12px; fill: var(--ink); }
svg image { image-rendering: pixelated; } .axis { fill: var(--soft); font-size: 10px; }
.tick { stroke: var(--soft); stroke-width: 1; } .word rect { fill: var(--mark); opacity: 0; }
.word line { stroke: var(--mark); stroke-width: 1; opacity: .55; } .word text { fill: var(--ink); }
.word:hover rect { opacity: .35; } .word:hover text { fill: var(--mark); font-weight: 600; }
details { margin-top: .75rem; } summary { cursor: pointer; }
"""
MAX_WINDOWS = 20
SECOND, BAND, ROW, LEFT, TICKS = 84, 2, 15, 110, 16  # pixels: of a second, of a band, of a token, of labels, of times
LINES = 3  # of words under the spectrogram, so that short ones do not overlap
MAX_LABEL = 16  # characters of a token


def write_speech_page(transcriber: Transcriber, recording: Recording, path: str | PathLike[str], name: str) -> Path:
    """The page of a recording that was transcribed with `word_timestamps`."""
    write_atomically(Path(path), speech_page(transcriber, recording, name))
    return Path(path)


def speech_page(transcriber: Transcriber, recording: Recording, name: str) -> str:
    windows: dict[int, list[Segment]] = {}
    for segment in recording.segments:
        windows.setdefault(segment.seek, []).append(segment)
    shown = [each for each in windows.items() if any(segment.tokens for segment in each[1])][:MAX_WINDOWS]
    note = (
        "Above, the spectrogram: energy in 10 ms steps, low frequencies at the bottom. Below it the words where they "
        "are said, and a row for each token that was written: the darker, the more the alignment heads attended to "
        "that moment (mean of the heads, each row scaled to its maximum)."
    )
    parts = [f"<h1>{escape_text(name)}</h1>", f"<p>{note}</p>"]
    if not shown:
        parts.append("<p>Nothing is said.</p>")
    for number, (seek, segments) in enumerate(shown):
        parts.append(window_section(transcriber, recording, seek, segments, number))
    if len(windows) > MAX_WINDOWS:
        parts.append(f"<p>{len(windows) - MAX_WINDOWS} further windows are not shown.</p>")
    return html_page(escape_text(name), STYLE, "\n".join(parts), images="data:")


def window_section(
    transcriber: Transcriber, recording: Recording, seek: int, segments: Sequence[Segment], number: int
) -> str:
    """One window: the picture of the mean, and those of every head."""
    columns = min(recording.window, recording.columns - seek)
    tokenizer, heads = transcriber.tokenizer, alignment_names(transcriber)
    text = [token for segment in segments for token in segment.tokens if token < tokenizer.eos_token_id]
    before = [*recording.instructions, tokenizer.timestamp_begin - 1]
    with evaluation_mode(transcriber.model):
        weights, _ = attend_to_sound(transcriber.model, [*before, *text], recording.memory(seek, columns))
    weights = weights[:, len(before) - 1 : -1, : -(-columns // 2)]  # the row that wrote each token: heads T S
    labels = [label_of(tokenizer.decode([token], clean_up_tokenization_spaces=False)) for token in text]
    offset, seconds = seek / recording.columns_per_second, columns / recording.columns_per_second
    width = LEFT + round(SECOND * seconds)
    sound = recording.spectrogram[:, seek : seek + columns].flip(0)
    parts = [spectrogram_picture(sound, width), time_axis(offset, seconds, sound.shape[0] * BAND)]
    top = sound.shape[0] * BAND + TICKS
    parts.append(words_at_their_times(segments, offset, seconds, sound.shape[0] * BAND, top))
    top += LINES * ROW + 6
    parts.append(rows_of_tokens(weights.mean(0), labels, width, top))
    title = " ".join(segment.text.strip() for segment in segments)
    main = svg("".join(parts), width, top + ROW * len(labels), f"attention of window {number}")
    each = "".join(
        f"<p>layer {layer}, head {head}</p>"
        + svg(rows_of_tokens(weights[i], labels, width, 0), width, ROW * len(labels), f"layer {layer}, head {head}")
        for i, (layer, head) in enumerate(heads)
    )
    details = f'<details><summary>each of the {len(heads)} heads</summary><div class="wide">{each}</div></details>'
    return f'<section><h2>{escape_text(title)}</h2><div class="wide">{main}</div>{details}</section>'


def alignment_names(transcriber: Transcriber) -> list[tuple[int, int]]:
    """(layer, head) of the alignment heads, in the order of their weights: layer by layer."""
    from ...tasks.speech.word_times import all_upper_heads

    model = transcriber.model
    given = model.generation_config.extra.get("alignment_heads") or all_upper_heads(model)
    layers = list(dict.fromkeys(layer for layer, _ in given))
    return [(layer, head) for layer in layers for other, head in given if other == layer]


def svg(inside: str, width: int, height: int, label: str) -> str:
    return f'<svg width="{width}" height="{height}" role="img" aria-label="{label}">{inside}</svg>'


def image(data: bytes, x: float, y: float, width: float, height: float) -> str:
    encoded = base64.b64encode(data).decode()
    return (
        f'<image x="{x}" y="{y}" width="{width}" height="{height}" preserveAspectRatio="none" '
        f'href="data:image/png;base64,{encoded}"/>'
    )


def spectrogram_picture(sound: Tensor, width: int) -> str:
    """A spectrogram (bands columns, the highest band first) from its lowest to its highest value."""
    low, high = sound.min(), sound.max()
    values = (sound - low) / (high - low).clamp(min=1e-6)
    return image(colour_png(values), LEFT, 0, width - LEFT, sound.shape[0] * BAND)


def time_axis(offset: float, seconds: float, top: float) -> str:
    """A tick for every second."""
    parts = []
    for second in range(int(offset) + (offset % 1 > 0), int(offset + seconds) + 1):
        x = LEFT + SECOND * (second - offset)
        parts.append(f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + 4}"/>')
        parts.append(f'<text class="axis" x="{x + 2:.1f}" y="{top + 12}">{second // 60}:{second % 60:02}</text>')
    return "".join(parts)


def words_at_their_times(segments: Sequence[Segment], offset: float, seconds: float, height: float, top: float) -> str:
    """The words under the spectrogram; pointing at one marks its time there."""
    parts = []
    words = [word for segment in segments for word in segment.words or ()]
    for place, word in enumerate(words):
        start, end = max(0.0, word.start - offset), min(seconds, word.end - offset)
        x, y = LEFT + SECOND * start, top + ROW * (place % LINES) + 12
        told = f"{word.word.strip()}: {word.start:.2f} to {word.end:.2f} s, probability {word.probability:.2f}"
        parts.append(
            f'<g class="word"><title>{escape_text(told)}</title>'
            f'<rect x="{x:.1f}" y="0" width="{SECOND * max(0.0, end - start):.1f}" height="{height}"/>'
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{y}"/>'
            f'<text x="{x + 3:.1f}" y="{y}">{escape_text(word.word.strip())}</text></g>'
        )
    return "".join(parts)


def rows_of_tokens(weights: Tensor, labels: Sequence[str], width: int, top: float) -> str:
    """A row for each token, scaled to its maximum: T S"""
    scaled = weights / weights.amax(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    words = "".join(
        f'<text x="{LEFT - 6}" y="{top + ROW * row + 11}" text-anchor="end">{escape_text(label)}</text>'
        for row, label in enumerate(labels)
    )
    return words + image(grey_png(scaled.float()), LEFT, top, width - LEFT, ROW * len(labels))


def label_of(token: str) -> str:
    """A token that fits beside its row; a space before it is shown."""
    text = token.replace(" ", "␣", 1) if token.startswith(" ") else token
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"
