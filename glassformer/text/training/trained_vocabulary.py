"""A newly trained vocabulary, usable at once and ready to be saved."""

from __future__ import annotations

import json
import logging
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from typing_extensions import Self

log = logging.getLogger("glassformer")


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the text that a vocabulary was trained on has tokens of its own."""

    unit: str  # what was counted: "characters" (white space is none) or "words"
    total: int  # in the text
    covered: int  # of these
    kinds: int  # different ones in the text
    left_out: int  # of these, without a token
    are_spelt: bool = False  # what has no token is spelt in bytes, so that nothing is lost

    @classmethod
    def of(
        cls, counts: Mapping[str, int], known: Container[str], unit: str = "characters", spelt: bool = False
    ) -> Self:
        """The coverage of what was counted by what is known."""
        covered = [count for each, count in counts.items() if each in known]
        return cls(unit, sum(counts.values()), sum(covered), len(counts), len(counts) - len(covered), spelt)

    @property
    def share(self) -> float:
        return self.covered / self.total if self.total else 1.0

    def __str__(self) -> str:
        if not self.left_out:
            return f"all {self.kinds:,} different {self.unit} of the text"
        share = f"{min(self.share, 0.9999):.2%}"  # not all, whatever it is rounded to
        fate = "spelt in bytes" if self.are_spelt else "left out"
        return f"{share} of the {self.unit} of the text; {self.left_out:,} of {self.kinds:,} different ones are {fate}"

    def warn(self) -> None:
        """Log what is lost, if anything is."""
        if self.left_out and not self.are_spelt:
            log.warning("the vocabulary covers %s", self)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A trained vocabulary with the engine that uses it."""

    kind: str
    engine: Tokenizer
    coverage: Coverage
    lowercase: bool = False

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
        """Write tokenizer.json and vocab.txt (WordPiece), vocab.json and merges.txt (BPE) or spiece.model (Unigram)."""
        from ...checkpoints.files import write_atomically
        from ...checkpoints.folder_save import saved_together

        if self.kind == "unigram":
            from .new_tokenizer import unigram_tokenizer

            return unigram_tokenizer(self).save_pretrained(folder)
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
        with saved_together(folder) as staged:
            for name, text in files.items():
                write_atomically(staged / name, text)
        return tuple(str(folder / name) for name in files)
