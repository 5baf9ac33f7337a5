"""Where special tokens stand: methods that follow from a tokenizer's `template`, on plain lists of ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import InputError, TokenizerError, suggests
from ..encoding import Slot
from .encoding_options import TRUNCATION, check_choice
from .special_tokens import SpecialTokens
from .windows import lengths_that_fit, special_count

if TYPE_CHECKING:
    from tokenizers.processors import TemplateProcessing

    from ..tokenizer import PreTrainedTokenizer


def template_with_segments(tokenizer: SpecialTokens, pair: bool) -> tuple[Slot, ...]:
    """`[CLS] A [SEP]`, or `[CLS] A [SEP] B [SEP]` with segment 1 from B on."""
    cls, sep = cls_and_sep(tokenizer)
    single = (Slot(cls, 0, 0), Slot(None, 0, 0), Slot(sep, 0, 0))
    return (*single, Slot(None, 1, 1), Slot(sep, 1, 1)) if pair else single


def template_with_two_separators(tokenizer: SpecialTokens, pair: bool) -> tuple[Slot, ...]:
    """`<s> A </s>`, or `<s> A </s></s> B </s>`; there are no segments."""
    cls, sep = cls_and_sep(tokenizer)
    single = (Slot(cls, 0, 0), Slot(None, 0, 0), Slot(sep, 0, 0))
    return (*single, Slot(sep, 1, 0), Slot(None, 1, 0), Slot(sep, 1, 0)) if pair else single


def cls_and_sep(tokenizer: SpecialTokens) -> tuple[int, int]:
    """The ids of the two special tokens that a template needs."""
    if tokenizer.cls_token is None or tokenizer.sep_token is None:
        raise TokenizerError("special tokens were requested, but cls_token or sep_token is None")
    return tokenizer.cls_token_id, tokenizer.sep_token_id


def template_processing(tokenizer: PreTrainedTokenizer) -> TemplateProcessing:
    """The same template for the Rust engine."""
    from tokenizers.processors import TemplateProcessing

    def slots(pair: bool) -> list[str]:
        return [
            f"{'$' + 'AB'[slot.sequence] if slot.token_id is None else tokenizer.ids_to_tokens[slot.token_id]}:"
            f"{slot.type_id}"
            for slot in tokenizer.template(pair)
        ]

    special = sorted({slot.token_id for slot in tokenizer.template(True) if slot.token_id is not None})
    return TemplateProcessing(
        single=slots(False), pair=slots(True), special_tokens=[(tokenizer.ids_to_tokens[i], i) for i in special]
    )


class Template(SpecialTokens):
    """The part of a tokenizer that puts special tokens around ids."""

    def template(self, pair: bool) -> tuple[Slot, ...]:
        """Where the special tokens stand around one text or two."""
        raise NotImplementedError

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """How many special tokens one text gets, or two."""
        return special_count(self.template(pair))

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """Ids of one text or two, with the special tokens around them: `[CLS] A [SEP] B [SEP]` for BERT."""
        texts = (token_ids_0, token_ids_1 or [])
        built: list[int] = []
        for slot in self.template(token_ids_1 is not None):
            built += texts[slot.sequence] if slot.token_id is None else [slot.token_id]
        return built

    def create_token_type_ids_from_sequences(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """For each position of the built input the number of its segment."""
        texts = (token_ids_0, token_ids_1 or [])
        types: list[int] = []
        for slot in self.template(token_ids_1 is not None):
            types += [slot.type_id] * (len(texts[slot.sequence]) if slot.token_id is None else 1)
        return types

    @suggests
    def get_special_tokens_mask(
        self,
        token_ids_0: list[int],
        token_ids_1: list[int] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        """1 where the built input has a special token, 0 where it has text."""
        if already_has_special_tokens:
            if token_ids_1 is not None:
                raise InputError("ids that have their special tokens already are one list, got two")
            special = set(self.all_special_ids)
            return [int(i in special) for i in token_ids_0]
        texts = (token_ids_0, token_ids_1 or [])
        mask: list[int] = []
        for slot in self.template(token_ids_1 is not None):
            mask += [0] * len(texts[slot.sequence]) if slot.token_id is None else [1]
        return mask

    @suggests
    def truncate_sequences(
        self,
        ids: list[int],
        pair_ids: list[int] | None = None,
        num_tokens_to_remove: int = 0,
        truncation_strategy: str = "longest_first",
        stride: int = 0,
    ) -> tuple[list[int], list[int] | None, list[int]]:
        """Take tokens off one text or two; gives both and what was taken, with `stride` tokens before it."""
        check_choice("truncation_strategy", truncation_strategy, TRUNCATION)
        texts = [ids] if pair_ids is None else [ids, pair_ids]
        if num_tokens_to_remove <= 0 or truncation_strategy == "do_not_truncate":
            return ids, pair_ids, []
        lengths = [len(text) for text in texts]
        if num_tokens_to_remove > sum(lengths):
            raise InputError(f"cannot take {num_tokens_to_remove} tokens off texts that have {sum(lengths)}")
        kept = lengths_that_fit(lengths, sum(lengths) - num_tokens_to_remove, truncation_strategy)
        left = self.truncation_side == "left"
        cut = [text[len(text) - n :] if left else text[:n] for text, n in zip(texts, kept, strict=True)]
        overflow: list[int] = []
        if len(texts) == 1 or truncation_strategy != "longest_first":
            which = int(truncation_strategy == "only_second")
            size = min(lengths[which], stride + num_tokens_to_remove)
            overflow = texts[which][:size] if left else texts[which][lengths[which] - size :]
        return cut[0], cut[1] if pair_ids is not None else None, overflow
