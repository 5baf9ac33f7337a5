"""One parser under coverage-guided fuzzing: `python -m tests.campaigns.fuzz_targets csv -max_total_time=60 CORPUS`.

Arguments after the name are those of libFuzzer. Bytes that end in an error that is not ours end the process, and are
written to a file in the current folder.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Parse = Callable[[bytes], object]
SEEDS: dict[str, list[bytes]] = {
    "pickle": [b"\x80\x02}q\x00.", b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01."],
    "safetensors": [b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"format":"pt"}}'],
    "csv": [b'text,label\nso good,1\n"a ""b"", c\nd",0\n'],
    "tsv": [b"text\tlabel\nso good\t1\n"],
    "json": [b'{"data": [{"text": "a", "label": 1}]}', b'[{"text": "a"}]', b'{"a": 1}\n{"a": 2}'],
    "jsonl": [b'{"text": "a"}\n\n{"text": "\\u00e9"}\n'],
    "squad": [
        b'{"data":[{"paragraphs":[{"context":"a","qas":[{"question":"b","answers":[{"text":"a","answer_start":0}]}]}]}]}'
    ],
    "conll": [b"John B-PER\nlives O\n\nhere\tO\n"],
    "numbers": [b" 1,000.5e-3 %"],
    "vocab": [b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nlow\n##er\n"],
    "merges": [b"#version: 0.2\nl o\nlo w\n"],
    "tokenizer.json": [
        b'{"model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"a":1}},"normalizer":{"type":"BertNormalizer",'
        b'"clean_text":true},"pre_tokenizer":{"type":"BertPreTokenizer"},"added_tokens":[{"id":2,"content":"[X]"}]}'
    ],
    "sentencepiece": [
        b"\x0a\x0e\x0a\x05<unk>\x15\x00\x00\x00\x00\x18\x02\x0a\x0a\x0a\x03\xe2\x96\x81\x15\x00\x00\x80\xbf\x0a\x08\x0a\x01a\x15\x00\x00\x00\xc0"
        b"\x12\x02\x18\x01\x1a\x06\x18\x01\x20\x01\x28\x01"
    ],
    "unigram.json": [
        b'{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["\xe2\x96\x81",-1],["a",-2.5]],"byte_fallback":false},'
        b'"pre_tokenizer":{"type":"Metaspace","prepend_scheme":"always"},"normalizer":{"type":"Sequence","normalizers":'
        b'[{"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "}]},'
        b'"added_tokens":[{"id":3,"content":"</s>","special":true}]}'
    ],
    "charsmap": [struct.pack("<I257I", 1028, 1 << 18 | 1, *(byte << 10 | byte for byte in range(256))) + b"a\0b\0"],
}


WITHOUT: dict[str, Any] = {"eos_token": None, "pad_token": None, "extra_ids": 0}  # special tokens of a T5Tokenizer


def targets(folder: Path) -> dict[str, Parse]:
    """The parsers by name; each reads bytes through a file in the folder."""
    from glassformer import BertTokenizer, GPT2Tokenizer, T5Tokenizer, read_rows
    from glassformer.checkpoints.safetensors_file import SafetensorsFile
    from glassformer.checkpoints.torch_file import TorchFile
    from glassformer.data.tables import can_be_name, is_number
    from glassformer.text.sentencepiece.charsmap import Charsmap

    def written(name: str, data: bytes) -> Path:
        path = folder / name
        path.write_bytes(data)
        return path

    def rows(name: str, format: str) -> Parse:
        return lambda data: list(read_rows(written(name, data), format=format, on_bad="skip"))

    def number(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        is_number(text), can_be_name(text or "x")

    def safetensors(data: bytes) -> None:
        SafetensorsFile(written("model.safetensors", struct.pack("<Q", len(data)) + data + bytes(8)))
        SafetensorsFile(written("model.safetensors", data))

    def tokenizer_json(data: bytes) -> None:
        for name in ("vocab.json", "merges.txt", "vocab.txt"):
            (folder / name).unlink(missing_ok=True)
        written("tokenizer.json", data)
        BertTokenizer.from_pretrained(folder)("low a [X]")

    def merges(data: bytes) -> None:
        (folder / "tokenizer.json").unlink(missing_ok=True)
        words = {word: number for number, word in enumerate(["l", "o", "w", "lo", "low", "<|endoftext|>"])}
        written("vocab.json", json.dumps(words).encode())
        written("merges.txt", data)
        GPT2Tokenizer.from_pretrained(folder)("low")

    def sentencepiece(data: bytes) -> None:
        (folder / "tokenizer.json").unlink(missing_ok=True)
        written("spiece.model", data)
        T5Tokenizer.from_pretrained(folder, **WITHOUT)("a a\u0308 \u3000 b")

    def unigram_json(data: bytes) -> None:
        (folder / "spiece.model").unlink(missing_ok=True)
        written("tokenizer.json", data)
        T5Tokenizer.from_pretrained(folder, **WITHOUT)("a a\u0308 \u3000 b")

    def charsmap(data: bytes) -> None:
        rules = Charsmap(data, "the map")
        for start in range(3):
            rules.rule_at("a\u0308b", start)
            rules.continuations("a\u0308b"[start])

    return {
        "pickle": lambda data: TorchFile(written("pytorch_model.bin", data)),
        "safetensors": safetensors,
        **{name: rows(f"a.{name}", name) for name in ("csv", "tsv", "json", "jsonl", "conll")},
        "squad": rows("squad.json", "squad"),
        "numbers": number,
        "vocab": lambda data: BertTokenizer(written("v.txt", data))("low lower [MASK]"),
        "merges": merges,
        "tokenizer.json": tokenizer_json,
        "sentencepiece": sentencepiece,
        "unigram.json": unigram_json,
        "charsmap": charsmap,
    }


def main() -> None:
    import atheris

    name = sys.argv[1]
    with atheris.instrument_imports(include=["glassformer", "json"]):
        import glassformer.checkpoints.torch_file
        import glassformer.data.readers
        import glassformer.text  # noqa: F401
        from glassformer.errors import GlassformerError
    import logging
    import warnings

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(dir=where))
    parse = targets(folder)[name]
    corpus = next((Path(each) for each in sys.argv[2:] if Path(each).is_dir()), None)
    if corpus is not None:
        for number, seed in enumerate(SEEDS[name]):
            (corpus / f"seed-{number}").write_bytes(seed)

    def one(data: bytes) -> None:
        try:
            parse(data)
        except GlassformerError as error:
            assert str(error).strip(), "an error without a message"

    atheris.Setup([sys.argv[0], *sys.argv[2:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
