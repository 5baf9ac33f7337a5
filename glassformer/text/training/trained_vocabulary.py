"""A newly trained vocabulary, usable at once and ready to be saved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A trained vocabulary with the engine that uses it."""

    kind: str
    engine: Tokenizer

    @property
    def tokens(self) -> list[str]:
        """The tokens in the order of their ids."""
        return sorted(self.engine.get_vocab(), key=self.engine.get_vocab().__getitem__)

    @property
    def vocab(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return self.engine.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without special tokens around it."""
        return self.engine.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        return self.engine.decode(list(ids))

    def save(self, folder: str | PathLike[str]) -> tuple[str, ...]:
        """Write tokenizer.json, and vocab.txt (WordPiece) or vocab.json and merges.txt (BPE)."""
        from ...checkpoints.files import write_atomically

        whole_text = self.engine.to_str(pretty=True)
        files = {"tokenizer.json": whole_text}
        if self.kind == "wordpiece":
            files["vocab.txt"] = "\n".join(self.tokens) + "\n"
        elif self.kind == "bpe":
            model = json.loads(whole_text)["model"]
            pairs = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
            files["vocab.json"] = json.dumps(self.vocab, ensure_ascii=False)
            files["merges.txt"] = "\n".join(["#version: 0.2", *pairs]) + "\n"
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_atomically(folder / name, text)
        return tuple(str(folder / name) for name in files)
