"""Pieces back to text, as SentencePiece does it."""

from __future__ import annotations

from collections.abc import Sequence

from .model_file import BYTE, CONTROL, UNKNOWN, SentencePieceModel
from .normalizer import SPACE


class PieceDecoder:
    """Puts pieces together to text.

    A piece of the vocabulary is text with `▁` for spaces, the space before the text is left out; a control piece is
    nothing; pieces of bytes are the characters that they make; any other string is text as it stands.
    """

    def __init__(self, model: SentencePieceModel) -> None:
        self.kinds = {piece.text: piece.kind for piece in model.pieces}
        self.unknown_surface = model.unknown_surface
        normalization = model.normalization
        self.strips_first = normalization.add_dummy_prefix or normalization.remove_extra_whitespaces
        self.strips_all = normalization.remove_extra_whitespaces

    def __call__(self, pieces: Sequence[str]) -> str:
        text = ""
        raw = bytearray()
        is_stripped = False
        for piece in pieces:
            kind = self.kinds.get(piece)
            if kind == BYTE:
                raw.append(int(piece[3:5], 16))
                continue
            if raw:
                text += decode_bytes(bytes(raw))
                raw.clear()
            if kind == CONTROL:
                continue
            if kind is None:
                text += piece
                continue
            if kind == UNKNOWN:
                text += self.unknown_surface
                continue
            if self.strips_first and not text and not is_stripped and piece.startswith(SPACE):
                piece = piece[1:]
                is_stripped = not self.strips_all
            text += piece.replace(SPACE, " ")
        return text + decode_bytes(bytes(raw))


def decode_bytes(raw: bytes) -> str:
    """The characters of bytes, and a replacement character for each byte that belongs to none."""
    text = ""
    while raw:
        try:
            return text + raw.decode("utf-8")
        except UnicodeDecodeError as error:
            text += raw[: error.start].decode("utf-8") + "\ufffd"
            raw = raw[error.start + 1 :]
    return text
