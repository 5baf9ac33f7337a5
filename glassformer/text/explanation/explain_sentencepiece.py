"""How a SentencePiece model makes ids of a text: the lattice of pieces with their scores, or each joined pair.

Computed by the readable algorithm, and compared with the ids that the tokenizer itself gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..sentencepiece.scored_bpe import Merge, ScoredBpe
from ..sentencepiece.unigram import Step, Unigram, best_path
from .explain_wordpiece import (
    Explanation,
    Stretch,
    build_explanation,
    printable,
    quote,
    refuse_other_than_text,
    shorten_list,
    wrap_lines,
)

if TYPE_CHECKING:
    from ..sentencepiece.sentencepiece_tokenizer import SentencePieceTokenizer

MAX_SHOWN = 60  # places or merges of a report


@dataclass(frozen=True, slots=True)
class ModelSteps:
    """What a model did with one stretch of text: every piece that it considered, and the best path through them."""

    source: str  # as the text has it
    normalized: tuple[str, ...]  # as the model reads it, part by part
    lattice: tuple[tuple[Step, ...], ...]  # Unigram: of each part, the pieces that can stand somewhere in it
    path: tuple[tuple[Step, ...], ...]  # of each part, the best segmentation
    merges: tuple[tuple[Merge, ...], ...]  # BPE: of each part, the pairs in the order in which they were joined
    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]
    note: str = ""

    def lines(self) -> list[str]:
        """The stretch in lines of a report."""
        found = wrap_lines("part     ", quote(self.source))
        for number, text in enumerate(self.normalized):
            found += wrap_lines("    reads  ", quote(text))
            if self.lattice:
                found += lattice_lines(self.lattice[number])
                steps = self.path[number]
                best = " + ".join(shorten_list([f"{printable(s.piece)} {s.score:.3f}" for s in steps], MAX_SHOWN))
                found += wrap_lines("    best   ", f"{best} = {steps[-1].total:.3f}")
            if self.merges:
                merged = [f"{printable(m.left)} + {printable(m.right)} ({m.score:g})" for m in self.merges[number]]
                found += wrap_lines("    merge  ", " · ".join(shorten_list(merged, MAX_SHOWN)) or "(none)")
        if self.note:
            found += wrap_lines("           ", self.note)
        pairs = zip(self.tokens, self.ids, self.offsets, strict=True)
        given = [f"{printable(token)} {index} [{a}:{b}]" for token, index, (a, b) in pairs]
        return found + wrap_lines("    gives  ", "  ".join(shorten_list(given, MAX_SHOWN)) or "(none)")


def lattice_lines(steps: tuple[Step, ...]) -> list[str]:
    """For each place of a text the pieces that end there, with the score of the best way to each; `*` is the best."""
    ending: dict[int, list[Step]] = {}
    for step in steps:
        ending.setdefault(step.end, []).append(step)
    lines: list[str] = []
    for number, place in enumerate(sorted(ending)):
        if number == MAX_SHOWN:
            return [*lines, f"           ... {len(ending) - number} more places ..."]
        shown = [
            f"{printable(step.piece)} {step.score:.3f} from {step.start}: {step.total:.3f}" + " *" * step.is_best
            for step in ending[place]
        ]
        lines += wrap_lines(f"    at {place:<4}", " · ".join(shown))
    return lines


def explain_sentencepiece(tokenizer: SentencePieceTokenizer, text: str) -> Explanation:
    """Explain the tokenization of a text by a tokenizer with a SentencePiece model."""
    refuse_other_than_text(text)
    stretches: list[Stretch] = []
    for start, end, token in tokenizer._split_at_special_tokens(text):
        if token is not None:
            stretches.append(Stretch(text[start:end], start, end, tokenizer.convert_tokens_to_ids(token)))
        else:
            steps = explain_stretch(tokenizer, text, start, end)
            stretches.append(Stretch(text[start:end], start, end, None, (steps,)))
    return build_explanation(tokenizer, text, stretches)


def explain_stretch(tokenizer: SentencePieceTokenizer, text: str, start: int, end: int) -> ModelSteps:
    """The steps of a stretch without special tokens."""
    lattice: list[tuple[Step, ...]] = []
    path: list[tuple[Step, ...]] = []
    merges: list[tuple[Merge, ...]] = []
    segmenter = tokenizer._segmenter

    def by_lattice(model: Unigram, normalized: str) -> list[int]:
        lattice.append(tuple(model.steps(normalized)))
        path.append(tuple(best_path(lattice[-1])))
        return [step.token_id for step in path[-1]]

    def by_merges(model: ScoredBpe, normalized: str) -> list[int]:
        joined_pairs: list[Merge] = []
        pieces = model.merge(normalized, joined_pairs)
        merges.append(tuple(joined_pairs))
        return [model.ids.get(piece, model.unknown) for piece in pieces]

    segment = partial(by_lattice, segmenter) if isinstance(segmenter, Unigram) else partial(by_merges, segmenter)
    readings = [
        each for each in tokenizer._readings(text[start:end], tokenizer._gets_prefix(start), segment) if each.normalized
    ]
    before, places = tokenizer._joined_readings(readings)
    cut, spans = tokenizer._adjusted(before, places)
    tokens = tokenizer._tokens_of(cut)
    notes = []
    unknown = [token for token, index in zip(tokens, cut.ids, strict=True) if index == tokenizer._unknown_piece]
    if unknown:
        notes.append(f"not in the vocabulary: {' '.join(map(printable, unknown))}")
    if len(cut.ids) != len(before.ids):
        notes.append("pieces that end with a digit and a comma are cut again without the comma")
    return ModelSteps(
        text[start:end],
        tuple(each.normalized for each in readings),
        tuple(each for each in lattice if each),
        tuple(each for each in path if each),
        tuple(merges[: len(readings)]) if merges else (),
        tuple(tokens),
        tuple(cut.ids),
        tuple((a + start, b + start) for a, b in spans or ()),
        "; ".join(notes),
    )
