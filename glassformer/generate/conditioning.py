"""What stands before a prompt: a prefix, or the control token of a label that the model was trained with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InputError, nearest

if TYPE_CHECKING:
    from ..text.tokenizer import PreTrainedTokenizer

SPELLINGS = ("<{}>", "<|{}|>", "[{}]", "{}")  # how models write the token of a label


def condition(
    tokenizer: PreTrainedTokenizer,
    prompt: str,
    prefix: str | None = None,
    label: str | None = None,
    *,
    split_special_tokens: bool = False,
) -> list[int]:
    """The ids that a model continues: the label's token, the prefix, the prompt, each directly behind the other.

    The tokenizer's own special tokens around texts are left out, since the one at the end says that nothing follows.
    With `split_special_tokens` those that stand inside the prompt are plain text; the prefix may still hold some.

    >>> tokenizer = glassformer.GPT2Tokenizer(vocab={"a": 0, "b": 1, "<joy>": 2}, merges=[], unk_token=None,
    ...     bos_token=None, eos_token=None, additional_special_tokens=["<joy>"])
    >>> condition(tokenizer, "ab", prefix="b", label="joy")
    [2, 1, 0, 1]
    """
    for name, text in (("prompt", prompt), ("prefix", prefix), ("label", label)):
        if not isinstance(text, str) and (text is not None or name == "prompt"):
            raise InputError(f"{name} must be a string, got {text!r:.60}")
    ids = [] if label is None else [control_token(tokenizer, label)]
    text = (prefix or "") + prompt
    if split_special_tokens:
        plain = end_of_last_token(tokenizer, prefix or "")
        if plain:
            ids += tokenizer.encode(text[:plain], add_special_tokens=False, verbose=False)
            text = text[plain:]
    plainly = {"add_special_tokens": False, "split_special_tokens": split_special_tokens}
    return ids + tokenizer.encode(text, **plainly, verbose=False)  # what is too long is for generation to tell


def control_token(tokenizer: PreTrainedTokenizer, label: str) -> int:
    """The id of a label's token."""
    tokens = {str(token): index for index, token in tokenizer.added_tokens_decoder.items()}
    found = next((spelt for spelt in (form.format(label) for form in SPELLINGS) if spelt in tokens), None)
    if found is not None:
        return tokens[found]
    parts = {token for name, token in tokenizer.special_tokens_map.items() if name != "additional_special_tokens"}
    control = [token for token in tokens if token not in parts]
    there = f"its control tokens are {', '.join(control)}" if control else "it has no control tokens"
    raise InputError(f"the tokenizer has no token for the label {label!r}{nearest(label, control)}; {there}")


def end_of_last_token(tokenizer: PreTrainedTokenizer, text: str) -> int:
    """Where the last special or added token in a text ends; 0 if it holds none."""
    tokens = map(str, tokenizer.added_tokens_decoder.values())
    return max((text.rfind(token) + len(token) for token in tokens if token in text), default=0)
