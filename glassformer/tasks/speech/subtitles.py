"""Transcriptions as text, as subtitles (SubRip, WebVTT) and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from .transcription import Segment, Transcription


def clock(seconds: float, hours: bool = True, mark: str = ".") -> str:
    """A time as hours, minutes, seconds and thousandths; `hours` always, or only where there are some.

    >>> clock(3661.5, mark=","), clock(7.74, hours=False)
    ('01:01:01,500', '00:07.740')
    """
    thousandths = round(seconds * 1000)
    minutes, rest = divmod(thousandths, 60_000)
    hour, minute = divmod(minutes, 60)
    short = f"{minute:02}:{rest // 1000:02}{mark}{rest % 1000:03}"
    return f"{hour:02}:{short}" if hours or hour else short


def caption(segment: Segment) -> str:
    """The text of a segment, as one line that no reader of subtitles takes for a time."""
    return " ".join(segment.text.split()).replace("-->", "->")


def txt_lines(segments: Iterator[Segment]) -> Iterator[str]:
    """The text of each segment on a line of its own."""
    return (segment.text.strip() for segment in segments if segment.text)


def timed_lines(segments: Iterator[Segment]) -> Iterator[str]:
    """Text with the times of each segment, as a terminal shows it."""
    for segment in segments:
        if segment.text:
            times = f"{clock(segment.start, hours=False)} --> {clock(segment.end, hours=False)}"
            yield f"[{times}] {segment.text.strip()}"


def srt_lines(segments: Iterator[Segment]) -> Iterator[str]:
    """SubRip."""
    spoken = (segment for segment in segments if segment.text)
    for number, segment in enumerate(spoken, start=1):
        times = f"{clock(segment.start, mark=',')} --> {clock(segment.end, mark=',')}"
        yield f"{number}\n{times}\n{caption(segment)}\n"


def vtt_lines(segments: Iterator[Segment]) -> Iterator[str]:
    """WebVTT."""
    yield "WEBVTT\n"
    for segment in segments:
        if segment.text:
            times = f"{clock(segment.start, hours=False)} --> {clock(segment.end, hours=False)}"
            yield f"{times}\n{caption(segment)}\n"


FORMATS: dict[str, Callable[[Iterator[Segment]], Iterator[str]]] = {
    "txt": txt_lines,
    "srt": srt_lines,
    "vtt": vtt_lines,
}


def as_json(transcription: Transcription, file: str | None = None) -> dict[str, Any]:
    """All that is known of a transcription."""
    named = {} if file is None else {"file": file}
    segments = [
        {name: value for name, value in asdict(segment).items() if value is not None}
        for segment in transcription.segments
    ]
    known = {
        "text": transcription.text,
        "language": transcription.language,
        "language_probability": transcription.language_probability,
        "duration": transcription.duration,
        "segments": segments,
    }
    return {**named, **{name: value for name, value in known.items() if value is not None}}
