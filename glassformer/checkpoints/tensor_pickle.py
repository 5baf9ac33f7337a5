"""The pickles of a pytorch_model.bin, read by an interpreter that can build tables of tensors and nothing else.

A pickle is a program for a machine with a stack. This machine knows the instructions that build numbers, strings,
tuples, lists and tables, and of functions only the names that torch writes; it calls none of them, and records what
they would make as a `TensorRef`. Nothing here recurses, and instructions, stack and nesting are bounded, so that a
hostile pickle costs as much as a large real one and no more.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import DamagedFileError, UnsafeFileError
from .files import clip
from .formats import one_line
from .tensor_refs import Name, OrderedTable, check_key, is_known, kind_of, made_by, storage_ref

INSTRUCTION_LIMIT = 50 * 15_000  # a tensor takes about 35 of them
STACK_LIMIT = 20_000  # tables are written in batches of a thousand items
MARK_LIMIT = 100


def read_pickle(stream: BinaryIO, path: Path, limit: float = math.inf) -> Any:
    """The value of one pickle; no number in it may exceed `limit`, the bytes of the file."""
    machine = Machine(path)
    try:
        for count, (operation, argument, _) in enumerate(pickletools.genops(stream)):
            if count > INSTRUCTION_LIMIT:
                raise DamagedFileError(f"{path} has a table of more than {INSTRUCTION_LIMIT:,} instructions")
            if isinstance(argument, int) and argument > limit:
                raise DamagedFileError(f"{path} declares a size of {argument:,}, the file has {limit:,} bytes")
            machine.follow(operation.name, argument)
        return machine.pop()
    except (DamagedFileError, UnsafeFileError):
        raise
    except Exception as error:  # whatever damaged bytes lead to: a stack that is empty, an argument of another type
        raise DamagedFileError(f"{path} is truncated or damaged: {one_line(error)}") from error


class Machine:
    """The state of a pickle that is being read: its stack, the stacks below its marks, and its memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memory: dict[int, Any] = {}

    def follow(self, name: str, argument: Any) -> None:
        """Follow one instruction."""
        if name not in FOLLOW:
            raise ValueError(f"no table of tensors needs the instruction {name}")
        FOLLOW[name](self, argument)
        if len(self.stack) > STACK_LIMIT or len(self.below) > MARK_LIMIT:
            raise DamagedFileError(f"{self.path} is nested in a way that no table of tensors is")

    # --- the stack and the memory ---

    def pop(self, _: Any = None) -> Any:
        return self.stack.pop()

    def mark(self, _: Any) -> None:
        self.below.append(self.stack)
        self.stack = []

    def pop_mark(self, _: Any = None) -> list[Any]:
        items, self.stack = self.stack, self.below.pop()
        return items

    def duplicate(self, _: Any) -> None:
        self.stack.append(self.stack[-1])

    def put(self, place: int) -> None:
        self.memory[int(place)] = self.stack[-1]

    def memoize(self, _: Any) -> None:
        self.memory[len(self.memory)] = self.stack[-1]

    def get(self, place: int) -> None:
        self.stack.append(self.memory[int(place)])

    # --- tuples, lists, tables ---

    def make_tuple(self, _: Any) -> None:
        items = self.pop_mark()
        self.stack.append(tuple(items))

    def make_list(self, _: Any) -> None:
        items = self.pop_mark()
        self.stack.append(items)

    def append(self, _: Any) -> None:
        item = self.pop()
        self.extend([item])

    def appends(self, _: Any) -> None:
        items = self.pop_mark()
        self.extend(items)

    def extend(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise ValueError("items are put into something that is no list")
        self.stack[-1].extend(items)

    def make_table(self, _: Any) -> None:
        items = self.pop_mark()
        self.stack.append({})
        self.fill(items)

    def set_item(self, _: Any) -> None:
        value, key = self.pop(), self.pop()
        self.fill([key, value])

    def set_items(self, _: Any) -> None:
        items = self.pop_mark()
        self.fill(items)

    def fill(self, items: list[Any]) -> None:
        """Put keys and values, one after the other, into the table on the stack."""
        table = self.stack[-1]
        if type(table) not in (dict, OrderedTable) or len(items) % 2:
            raise ValueError("named items are put into something that is no table")
        for key, value in zip(items[::2], items[1::2], strict=True):
            check_key(key)
            table[key] = value

    def build(self, _: Any) -> None:
        state = self.pop()
        if type(self.stack[-1]) is not OrderedTable or type(state) not in (dict, OrderedTable):
            raise ValueError(f"a {kind_of(self.stack[-1])} has a state of the type {kind_of(state)}")
        self.stack[-1].attributes = state

    # --- what torch names ---

    def name(self, named: str) -> None:
        if not is_known(named):
            self.refuse_code(named)
        self.stack.append(Name(named))

    def name_from_stack(self, _: Any) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise ValueError("a function is named by something that is no string")
        self.name(f"{module} {name}")

    def refuse_code(self, called: str) -> None:
        called = clip(called.replace(" ", "."))[1:-1]
        raise UnsafeFileError(f"{self.path} would run {called} if it were loaded; only tensors are read")

    def refuse_objects(self, _: Any) -> None:
        raise UnsafeFileError(f"{self.path} would build Python objects if it were loaded; only tensors are read")

    def call(self, _: Any) -> None:
        arguments, called = self.pop(), self.pop()
        if not isinstance(called, Name) or type(arguments) is not tuple:
            raise ValueError(f"a {kind_of(called)} is called")
        self.stack.append(made_by(called, arguments))

    def refer(self, _: Any) -> None:
        self.stack.append(storage_ref(self.pop()))


VALUES = """INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING UNICODE
    BINUNICODE BINUNICODE8 SHORT_BINUNICODE BINBYTES BINBYTES8 SHORT_BINBYTES""".split()
FOLLOW: dict[str, Callable[[Machine, Any], Any]] = {
    **dict.fromkeys(VALUES, lambda machine, argument: machine.stack.append(argument)),
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda machine, argument: None),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), Machine.put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Machine.get),
    **dict.fromkeys(("OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"), Machine.refuse_objects),
    "NONE": lambda machine, argument: machine.stack.append(None),
    "NEWTRUE": lambda machine, argument: machine.stack.append(True),
    "NEWFALSE": lambda machine, argument: machine.stack.append(False),
    "EMPTY_TUPLE": lambda machine, argument: machine.stack.append(()),
    "EMPTY_LIST": lambda machine, argument: machine.stack.append([]),
    "EMPTY_DICT": lambda machine, argument: machine.stack.append({}),
    "TUPLE1": lambda machine, argument: machine.stack.append((machine.pop(),)),
    "TUPLE2": lambda machine, argument: machine.stack.append((machine.pop(), machine.pop())[::-1]),
    "TUPLE3": lambda machine, argument: machine.stack.append((machine.pop(), machine.pop(), machine.pop())[::-1]),
    "TUPLE": Machine.make_tuple,
    "LIST": Machine.make_list,
    "DICT": Machine.make_table,
    "APPEND": Machine.append,
    "APPENDS": Machine.appends,
    "SETITEM": Machine.set_item,
    "SETITEMS": Machine.set_items,
    "BUILD": Machine.build,
    "MARK": Machine.mark,
    "POP": Machine.pop,
    "POP_MARK": Machine.pop_mark,
    "DUP": Machine.duplicate,
    "MEMOIZE": Machine.memoize,
    "GLOBAL": Machine.name,
    "STACK_GLOBAL": Machine.name_from_stack,
    "INST": Machine.refuse_code,
    "REDUCE": Machine.call,
    "BINPERSID": Machine.refer,
}
