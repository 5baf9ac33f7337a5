"""`glass tokenize`: text to tokens, ids and offsets, with every step if requested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from ...errors import DataError, InputError
from ..output.terminal import print_json, print_table

if TYPE_CHECKING:
    from ...text.tokenizer import PreTrainedTokenizer


def tokenize(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    texts: Positional[Annotated[tuple[str, ...], arg(metavar="TEXT [PAIR]")]] = (),
    /,
    *,
    input: Annotated[str, arg(metavar="FILE")] = "",
    encoding: Annotated[str | None, arg(metavar="NAME")] = None,
    explain: bool = False,
    json: bool = False,
) -> int:
    """Show how a text, or a pair of texts, becomes tokens and ids.

    examples:
      glass tokenize ./bert-base-uncased "I like natural language processing!"
      glass tokenize vocab.txt "unaffable" --explain
      glass tokenize ./bert-base-chinese "今天天气很好" "我们去公园吧"
      cat lines.txt | glass tokenize vocab.txt --input - --json

    Args:
        model: A checkpoint folder, a vocab.txt or tokenizer.json, or a name on the hub.
        texts: One text, or two that belong together. Put -- before a text that starts with a dash.
        input: A file with one text in each line, instead of TEXT; - reads standard input. The tokens of each line are
            printed, with --json their ids too.
        encoding: What the file is written in, such as gbk or utf-16; UTF-8 if not given.
        explain: Show every step: cleaning, words, the longest match for each piece, ids, and what the model reads.
        json: Print JSON; with --input, one object in each line.
    """
    if bool(texts) == bool(input):
        raise InputError("give a text, or --input with a file of texts" + (", not both" if texts else ""))
    if len(texts) > 2:
        raise InputError(f"one text or a pair of texts is taken, got {len(texts)}; --input takes many")
    tokenizer = load(model)
    if input:
        for line in lines_of(input, encoding):
            if explain:
                print_explanation(tokenizer, (line,), json, indent=None)
            elif json:
                print_json(encoded(tokenizer, (line,)), indent=None)
            else:
                print(*tokenizer.tokenize(line))
        return 0
    if explain:
        print_explanation(tokenizer, texts, json)
        return 0
    values = encoded(tokenizer, texts)
    if json:
        print_json(values)
    else:
        print_tokens(values, texts)
    return 0


def load(model: str) -> PreTrainedTokenizer:
    from ... import AutoTokenizer

    return AutoTokenizer.from_pretrained(model)


def lines_of(path: str, encoding: str | None = None) -> Iterator[str]:
    """The lines of a file, or of standard input for `-`."""
    from ...data.lines import read_lines
    from ...data.sources import find_sources

    for source in find_sources(path, "txt", encoding):
        for _, line in read_lines(source):
            if isinstance(line, DataError):
                raise line
            yield line


def encoded(tokenizer: PreTrainedTokenizer, texts: tuple[str, ...]) -> dict[str, Any]:
    encoding = tokenizer(*texts, return_offsets_mapping=True, return_token_type_ids=True)
    return {
        "text": texts[0],
        **({"pair": texts[1]} if len(texts) == 2 else {}),
        "tokens": encoding.tokens(),
        "ids": encoding["input_ids"],
        "token_type_ids": encoding["token_type_ids"],
        "offsets": [list(place) for place in encoding["offset_mapping"]],
        "sequences": encoding.sequence_ids(),
    }


def print_tokens(values: dict[str, Any], texts: tuple[str, ...]) -> None:
    rows = []
    for i, token in enumerate(values["tokens"]):
        number, (start, end) = values["sequences"][i], values["offsets"][i]
        place = "" if number is None else f"{start}-{end}"
        piece = "" if number is None else texts[number][start:end]
        rows.append((i, token, values["ids"][i], values["token_type_ids"][i], place, piece))
    print_table(("#", "token", "id", "segment", "place", "in the text"), rows, right=(0, 2, 3))


def print_explanation(
    tokenizer: PreTrainedTokenizer, texts: tuple[str, ...], as_json: bool, indent: int | None = 2
) -> None:
    """The steps of each text, then what the model reads: their tokens between the special ones."""
    from ...text.explanation.explain_wordpiece import printable, wrap_lines

    explanations, values = [tokenizer.explain(text) for text in texts], encoded(tokenizer, texts)
    read = {name: values[name] for name in ("tokens", "ids", "token_type_ids")}
    if as_json:
        steps = (
            explanations[0].to_dict()
            if len(explanations) == 1
            else {"texts": [each.to_dict() for each in explanations]}
        )
        print_json({**steps, "input": read}, indent)
        return
    lines = [*map(str, explanations), *wrap_lines("input    ", " ".join(map(printable, read["tokens"])) or "(none)")]
    lines += wrap_lines("ids      ", " ".join(map(str, read["ids"])) or "(none)")
    if len(texts) == 2:
        lines += wrap_lines("segments ", " ".join(map(str, read["token_type_ids"])))
    print(*lines, sep="\n")
