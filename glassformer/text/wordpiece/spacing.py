"""Where spaces go when word pieces become text again: between words, but not inside Chinese."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .wordpiece import is_chinese

QUOTES = "“”‘’…—·"  # used by both; Chinese only beside Chinese


def join_word_pieces(tokens: Sequence[str], special: Collection[str]) -> str:
    """Join `##` pieces to their words, and words with a space where there was likely one.

    >>> join_word_pieces(["我", "爱", "北", "京", "，", "in", "20", "##24", "年"], ())
    '我爱北京，in 2024年'
    """
    parts: list[str] = []
    before = ""
    for token in tokens:
        if parts and token.startswith("##"):
            parts.append(token[2:])
            before = token if len(token) > 2 else before
            continue
        if parts and (before in special or token in special or not stand_together(before[-1:], token[:1])):
            parts.append(" ")
        parts.append(token)
        before = token
    return "".join(parts).strip()


def stand_together(left: str, right: str) -> bool:
    """Whether no space stands between these two characters."""
    if not left or not right or (left.isascii() and right.isascii()):
        return False
    if is_wide_punctuation(left) or is_wide_punctuation(right):
        return True
    if is_chinese(left):
        return is_chinese(right) or is_kana(right) or right.isdecimal() or right in QUOTES
    if is_chinese(right):
        return is_kana(left) or left.isdecimal() or left in QUOTES
    return False


def is_wide_punctuation(char: str) -> bool:
    """Full-width punctuation, which brings its own space: ，。！？（）「」《》"""
    return "\u3001" <= char <= "\u3003" or "\u3008" <= char <= "\u301f" or (char >= "\uff01" and char in WIDE)


def is_kana(char: str) -> bool:
    return "\u3040" <= char <= "\u30ff"


WIDE = "！＂＃＄％＆＇（）＊＋，－．／：；＜＝＞？＠［＼］＾＿｀｛｜｝～｟｠｡｢｣､･"
