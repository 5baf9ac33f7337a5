"""Whether a vocabulary seems complete: a line that is missing in its file shifts the ids of all tokens behind it."""

from __future__ import annotations

import warnings
from typing import Any

MAX_UNUSED_ROWS = 256  # that an embedding may have beyond the tokenizer's tokens: sizes are often rounded up
ROUNDED_TO = (8, 100)
NOT_ROUNDED = (21128, 30000)  # published vocabularies that are as large as that
USUAL_IDS = {"unk_token": 100, "cls_token": 101, "sep_token": 102, "mask_token": 103}  # of BERT's vocabularies
MAX_LOST_LINES = 8


def warn_if_shifted(tokenizer: Any, rows: int) -> None:
    """Warn if lines seem to be missing in a vocabulary, by the rows of the model's embedding and by the usual ids."""
    tokens = len(tokenizer)
    is_rounded = any(rows % each == 0 for each in ROUNDED_TO) and rows not in NOT_ROUNDED
    found = ""
    if 0 < rows - tokens < MAX_UNUSED_ROWS and not is_rounded:
        found = f"the tokenizer has {tokens} tokens and the model {rows}"
    ids = {name: getattr(tokenizer, f"{name}_id") for name in USUAL_IDS if getattr(tokenizer, name) is not None}
    lost = [usual - ids[name] for name, usual in USUAL_IDS.items() if name in ids]
    if len(lost) == len(USUAL_IDS) and 0 < max(lost) <= MAX_LOST_LINES and min(lost) >= 0:
        shown = ", ".join(f"{tokenizer.special_tokens_map[name]} {number}" for name, number in ids.items())
        found += f"{' and ' if found else ''}the ids {shown} are below the usual 100, 101, 102, 103"
    if found:
        warnings.warn(f"{found}: if lines of the vocabulary are missing, all ids behind them are wrong", stacklevel=1)
