"""The wire format of protocol buffers, as far as model files need it: fields in, fields out.

A message is a sequence of fields; each begins with a number that holds the field's number and its wire type.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ...errors import TokenizerError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
WIRE_TYPES = {VARINT: "a number", FIXED64: "eight bytes", BYTES: "bytes", FIXED32: "four bytes"}
LONGEST_VARINT = 10  # bytes
FLOAT = struct.Struct("<f")


class Field(NamedTuple):
    """One field of a message: its number, its wire type, and its value as the wire has it."""

    number: int
    wire_type: int
    value: int | bytes


def read_varint(data: bytes, start: int, where: str) -> tuple[int, int]:
    """A number of seven bits per byte, and where the next value begins.

    >>> read_varint(bytes([0xAC, 0x02]), 0, "example")
    (300, 2)
    """
    value = 0
    for count in range(LONGEST_VARINT):
        if start + count >= len(data):
            raise damaged(where, start, "it ends within a number")
        byte = data[start + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, start + count + 1
    raise damaged(where, start, f"a number has more than {LONGEST_VARINT} bytes")


def read_message(data: bytes, where: str) -> Iterator[Field]:
    """The fields of a message, in their order."""
    place = 0
    end = len(data)
    while place < end:
        start = place
        key = data[place]
        if key < 0x80:
            place += 1
        else:
            key, place = read_varint(data, place, where)
        number, wire_type = key >> 3, key & 7
        if wire_type == BYTES:
            length = data[place] if place < end else 0x80
            if length < 0x80:
                place += 1
            else:
                length, place = read_varint(data, place, where)
            if place + length > end:
                raise damaged(where, start, f"field {number} has {length} bytes, {end - place} are left")
            yield Field(number, wire_type, data[place : place + length])
            place += length
        elif wire_type == VARINT:
            value, place = read_varint(data, place, where)
            yield Field(number, wire_type, value)
        elif wire_type in (FIXED32, FIXED64):
            length = 4 if wire_type == FIXED32 else 8
            if place + length > end:
                raise damaged(where, start, f"it ends within field {number}")
            yield Field(number, wire_type, data[place : place + length])
            place += length
        else:
            raise damaged(where, start, f"field {number} has wire type {wire_type}, which does not exist")


def damaged(where: str, place: int, what: str) -> TokenizerError:
    return TokenizerError(f"{where} is not a SentencePiece model or is damaged: at byte {place}, {what}")


def expect(field: Field, wire_type: int, where: str, name: str) -> int | bytes:
    """The value of a field, which must have the wire type that its definition gives it."""
    if field.wire_type != wire_type:
        raise TokenizerError(
            f"{where} is not a SentencePiece model or is damaged: {name} is {WIRE_TYPES[field.wire_type]} on the wire, "
            f"it must be {WIRE_TYPES[wire_type]}"
        )
    return field.value


def read_text(field: Field, where: str, name: str) -> str:
    value = expect(field, BYTES, where, name)
    assert isinstance(value, bytes)
    return decode(value, where, name)


def decode(value: bytes, where: str, name: str) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{where} is damaged: {name} is not UTF-8 ({error.reason})") from None


def read_float(field: Field, where: str, name: str) -> float:
    value = expect(field, FIXED32, where, name)
    assert isinstance(value, bytes)
    return FLOAT.unpack(value)[0]


def read_number(field: Field, where: str, name: str) -> int:
    """A signed number of 32 bits; a negative one is written as its complement in 64 bits."""
    value = expect(field, VARINT, where, name)
    assert isinstance(value, int)
    value = value & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def write_varint(value: int) -> bytes:
    value &= 2**64 - 1
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def write_field(number: int, value: int | float | str | bytes) -> bytes:
    """One field: text and bytes with their length, a float in four bytes, a whole number or a truth value as varint.

    >>> write_field(1, "a")
    b'\\n\\x01a'
    """
    if isinstance(value, float):
        return write_varint(number << 3 | FIXED32) + FLOAT.pack(value)
    if isinstance(value, int):
        return write_varint(number << 3 | VARINT) + write_varint(value)
    raw = value.encode("utf-8") if isinstance(value, str) else value
    return write_varint(number << 3 | BYTES) + write_varint(len(raw)) + raw
