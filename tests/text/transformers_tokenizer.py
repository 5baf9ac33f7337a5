"""Run by tests in a process of its own: what the tokenizers of an installed transformers make of texts."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path


def main(requests: str, answers: str) -> None:
    warnings.filterwarnings("ignore")
    import transformers

    transformers.logging.set_verbosity_error()
    made = []
    for request in json.loads(Path(requests).read_text(encoding="utf-8")):
        tokenizer = getattr(transformers, request["class"]).from_pretrained(request["folder"], **request["init"])
        texts, pairs = request["texts"], request["pairs"]
        singles = [tokenizer(text) for text in texts]
        made.append(
            {
                "version": transformers.__version__,
                "ids": [each["input_ids"] for each in singles],
                "types": [each.get("token_type_ids") for each in singles],
                "tokens": [tokenizer.tokenize(text) for text in texts],
                "decoded": [tokenizer.decode(each["input_ids"]) for each in singles],
                "plain": [tokenizer.decode(each["input_ids"], skip_special_tokens=True) for each in singles],
                "pairs": [dict(tokenizer(*pair)) for pair in pairs],
                "batch": dict(tokenizer(texts[:5], padding=True, truncation=True, max_length=9)),
                "offsets": [tokenizer(text, return_offsets_mapping=True)["offset_mapping"] for text in texts]
                if tokenizer.is_fast
                else None,
                "words": [each.word_ids() for each in singles] if tokenizer.is_fast else None,
                "length": len(tokenizer),
            }
        )
        if "saved" in request:
            tokenizer.save_pretrained(request["saved"])
    Path(answers).write_text(json.dumps(made), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
