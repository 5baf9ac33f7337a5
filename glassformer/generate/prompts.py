"""Prompts to ids, with a prefix or the control token of a label that the model was trained with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InputError, nearest

if TYPE_CHECKING:
    from ..text.tokenizer import PreTrainedTokenizer

CONTROL_TOKEN_FORMATS = ("<{}>", "<|{}|>", "[{}]", "{}")


def encode_prompt(
    tokenizer: PreTrainedTokenizer,
    prompt: str,
    prefix: str | None = None,
    label: str | None = None,
    *,
    split_special_tokens: bool = False,
) -> list[int]:
    """The ids that a model continues: the label's token, the prefix and the prompt, concatenated.

    The tokenizer's own special tokens around texts are left out, since the last one says that nothing follows. With
    `split_special_tokens` those inside the prompt are plain text; the prefix may still contain some.

    >>> tokenizer = glassformer.GPT2Tokenizer(vocab={"a": 0, "b": 1, "<joy>": 2}, merges=[], unk_token=None,
    ...     bos_token=None, eos_token=None, additional_special_tokens=["<joy>"])
    >>> encode_prompt(tokenizer, "ab", prefix="b", label="joy")
    [2, 1, 0, 1]
    """
    for name, text in (("prompt", prompt), ("prefix", prefix), ("label", label)):
        if not isinstance(text, str) and (text is not None or name == "prompt"):
            raise InputError(f"{name} must be a string, got {text!r:.60}")
    ids = [] if label is None else [control_token_id(tokenizer, label)]
    text = (prefix or "") + prompt
    if split_special_tokens:
        end = end_of_last_added_token(tokenizer, prefix or "")
        if end:
            ids += tokenizer.encode(text[:end], add_special_tokens=False, verbose=False)
            text = text[end:]
    options = {"add_special_tokens": False, "split_special_tokens": split_special_tokens}
    return ids + tokenizer.encode(text, **options, verbose=False)  # generation checks the length


def control_token_id(tokenizer: PreTrainedTokenizer, label: str) -> int:
    """The id of a label's token."""
    tokens = {str(token): index for index, token in tokenizer.added_tokens_decoder.items()}
    for form in CONTROL_TOKEN_FORMATS:
        if form.format(label) in tokens:
            return tokens[form.format(label)]
    special = {token for name, token in tokenizer.special_tokens_map.items() if name != "additional_special_tokens"}
    control = [token for token in tokens if token not in special]
    available = f"its control tokens are {', '.join(control)}" if control else "it has no control tokens"
    raise InputError(f"the tokenizer has no token for the label {label!r}{nearest(label, control)}; {available}")


def end_of_last_added_token(tokenizer: PreTrainedTokenizer, text: str) -> int:
    """Where the last special or added token in a text ends; 0 if there is none."""
    tokens = map(str, tokenizer.added_tokens_decoder.values())
    return max((text.rfind(token) + len(token) for token in tokens if token in text), default=0)
