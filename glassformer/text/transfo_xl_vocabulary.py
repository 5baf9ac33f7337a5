"""Transformer-XL's vocabulary files: a list of words, or the pickle that its own code wrote.

A pickle is a program. This one is followed by an interpreter that builds strings, numbers, lists and tables; whatever
else it names is never imported, called or built, and stands in the result as `None`.
"""

from __future__ import annotations

import pickletools
from pathlib import Path
from typing import Any

from ..errors import TokenizerError
from .base.settings import read_vocabulary
from .base.tokenizer_files import VocabularyFile

PICKLE, TEXT, TORCH = "vocab.pkl", "vocab.txt", "vocab.bin"
LARGEST_FILE = 256 * 2**20
STACK_LIMIT, MARK_LIMIT = 20_000, 100
STEP_LIMIT = 20_000_000  # instructions and copied items; 800,000 words take half of them
LARGEST_NUMBER = 2**128  # the original saves its limit of 10 ** 30 words, too
TABLES = ("collections OrderedDict", "collections Counter", "builtins dict", "__builtin__ dict")
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
VALUES = frozenset(
    """INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE
    BINUNICODE8 SHORT_BINUNICODE BINBYTES BINBYTES8 SHORT_BINBYTES""".split()
)


def read_words(path: Path) -> VocabularyFile:
    """The vocabulary of a file: the first word of each line, or the words of a pickle."""
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise TokenizerError(f"{path} has {size:,} bytes; a vocabulary has at most {LARGEST_FILE:,}")
        data = path.read_bytes()
    except OSError as error:
        raise TokenizerError(f"{path} cannot be read: {error.strerror}") from None
    if path.name.endswith(".txt"):
        return VocabularyFile(words_of_lines(data, path), path.name)
    return VocabularyFile(words_of_pickle(data, path), path.name)


def words_of_lines(data: bytes, path: Path) -> dict[str, int]:
    try:
        lines = data.decode().replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path} is not UTF-8: {error}") from None
    words = dict.fromkeys(line.split()[0] for line in lines if line.strip())
    return read_vocabulary({word: number for number, word in enumerate(words)}, path)


def words_of_pickle(data: bytes, path: Path) -> dict[str, int]:
    try:
        value = Interpreter().read(data)
    except Exception as error:  # whatever damaged bytes lead to
        raise TokenizerError(f"{path} is truncated or damaged: {error}") from None
    words = value.get("idx2sym") if isinstance(value, dict) else None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise TokenizerError(f"{path} holds no list of words under idx2sym, as vocabularies of Transformer-XL do")
    if len(set(words)) < len(words):
        raise TokenizerError(f"{path} gives two ids to the same word")
    return read_vocabulary({word: number for number, word in enumerate(words)}, path)


class Named:
    """A class or function that a pickle names."""

    def __init__(self, name: str) -> None:
        self.name = name


class Interpreter:
    """Follows a pickle whose tables and lists are wanted, and nothing else."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memory: dict[int, Any] = {}
        self.steps = 0

    def read(self, data: bytes) -> Any:
        for operation, argument, _ in pickletools.genops(data):
            self.follow(operation.name, argument)
            self.steps += 1
            if self.steps > STEP_LIMIT:
                raise ValueError(f"it takes more than {STEP_LIMIT:,} steps to read")
            if len(self.stack) > STACK_LIMIT or len(self.below) > MARK_LIMIT:
                raise ValueError("it is nested in a way that no vocabulary is")
        return self.stack.pop()

    def follow(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in VALUES:
            if isinstance(argument, int) and abs(argument) > LARGEST_NUMBER:
                raise ValueError("a number in it is larger than any that vocabularies hold")
            stack.append(argument.decode("latin-1") if isinstance(argument, bytes) else argument)
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memory[int(argument)] = stack[-1]
        elif name == "MEMOIZE":
            self.memory[len(self.memory)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self.memory[int(argument)])
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name == "MARK":
            self.below.append(stack)
            self.stack = []
        elif name in ("APPENDS", "APPEND"):
            items = self.pop_mark() if name == "APPENDS" else [stack.pop()]
            if isinstance(self.stack[-1], list):
                self.stack[-1] += items
        elif name in ("SETITEMS", "SETITEM"):
            items = self.pop_mark() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            self.fill(items)
        elif name not in ("PROTO", "FRAME", "STOP"):
            self.make(name, argument)

    def make(self, name: str, argument: Any) -> None:
        """The instructions that make a list, a table, a tuple, or something that is not wanted."""
        stack = self.stack
        empty = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple, "EMPTY_SET": list}
        if name in empty:
            stack.append(empty[name]())
        elif name in ("LIST", "TUPLE", "FROZENSET", "ADDITEMS"):
            items = self.pop_mark()
            if name != "ADDITEMS":
                self.stack.append(items if name == "LIST" else tuple(items))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(name[-1])
            last = tuple(stack[-count:])
            stack[-count:] = [last]
        elif name == "DICT":
            items = self.pop_mark()
            self.stack.append({})
            self.fill(items)
        elif name in ("POP", "BUILD"):
            stack.pop()  # of BUILD: the state of something, which stays as it is
        elif name == "POP_MARK":
            self.pop_mark()
        elif name == "DUP":
            stack.append(stack[-1])
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            if name == "STACK_GLOBAL":
                function, module = stack.pop(), stack.pop()
                if not isinstance(function, str) or not isinstance(module, str):
                    raise ValueError("a function is named by something that is no string")
                argument = f"{module} {function}"
            stack.append(Named(str(argument)))
        elif name in ("REDUCE", "NEWOBJ", "NEWOBJ_EX"):
            if name == "NEWOBJ_EX":
                stack.pop()
            given, called = stack.pop(), stack.pop()
            stack.append(self.table_of(called, given))
        elif name in ("INST", "OBJ"):
            self.pop_mark()
            self.stack.append(None)
        else:
            raise ValueError(f"no vocabulary needs the instruction {name}")

    def table_of(self, called: Any, given: Any) -> dict | None:
        """The table that a call would make; None of anything else."""
        if not isinstance(called, Named) or called.name not in TABLES or not isinstance(given, tuple):
            return None
        first = given[0] if given else {}
        if not isinstance(first, list | dict):
            return {}
        self.steps += len(first)
        if isinstance(first, list):  # pairs
            pairs = [each for each in first if isinstance(each, list | tuple) and len(each) == 2]
            return {key: value for key, value in pairs if isinstance(key, str | int)}
        return dict(first)

    def pop_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.below.pop()
        return items

    def fill(self, items: list[Any]) -> None:
        """Put keys and values, one after the other, into the table on the stack."""
        table = self.stack[-1]
        if isinstance(table, dict):
            pairs = zip(items[::2], items[1::2], strict=True)
            table.update((key, value) for key, value in pairs if isinstance(key, str | int))
