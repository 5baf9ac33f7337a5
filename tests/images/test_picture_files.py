"""Pictures are read upright and in colour; hostile and damaged files end in one error that names them."""

from __future__ import annotations

import base64
import io
import random
import struct
import zlib

import numpy as np
import pytest

from glassformer import DataError, InputError
from glassformer.images import picture_files
from glassformer.images.picture_files import read_picture

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

GRADIENT = (np.arange(40 * 30 * 3) % 251).reshape(40, 30, 3).astype(np.uint8)


def encoded(format: str, image=None, **options) -> bytes:
    file = io.BytesIO()
    (image or Image.fromarray(GRADIENT)).save(file, format, **options)
    return file.getvalue()


def png_of(width: int, height: int, data: bytes = b"") -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_formats(format, tmp_path):
    file = tmp_path / "picture"  # the contents decide, not the name
    file.write_bytes(encoded(format))
    picture = read_picture(file)
    assert picture.mode == "RGB" and picture.size == (30, 40)
    if format not in ("JPEG", "GIF", "WEBP"):
        assert np.array_equal(np.array(picture), GRADIENT)
    address = f"data:image/{format.lower()};base64," + base64.b64encode(file.read_bytes()).decode()
    assert np.array_equal(np.array(read_picture(address)), np.array(picture))


def test_pictures_are_turned_upright_and_grey_ones_have_three_channels():
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held sideways
    assert read_picture(encoded("JPEG", exif=exif)).size == (40, 30)
    grey = read_picture(encoded("PNG", Image.fromarray(GRADIENT[..., 0])))
    assert grey.mode == "RGB" and np.array_equal(np.array(grey)[..., 1], GRADIENT[..., 0])


def test_what_no_file_holds(tmp_path):
    with pytest.raises(DataError, match=r"nowhere.png: there is no such file"):
        read_picture(tmp_path / "nowhere.png")
    with pytest.raises(DataError, match="a folder, not a picture"):
        read_picture(tmp_path)
    with pytest.raises(DataError, match="there is no such file"):
        read_picture("a\0b.png")
    with pytest.raises(DataError, match=r"cannot be read|no such file"):
        read_picture("x" * 5000)
    (tmp_path / "empty.png").touch()
    with pytest.raises(DataError, match=r"empty.png: the file is empty"):
        read_picture(tmp_path / "empty.png")
    with pytest.raises(InputError, match="is an address: fetch it first"):
        read_picture("https://host/cat.png")
    for address in ("data:image/png,abc", "data:image/png;base64,****"):
        with pytest.raises(InputError, match="base64"):
            read_picture(address)


def test_large_pictures_are_refused_before_memory_is_taken(tmp_path, monkeypatch):
    for side in (2**14, 2**20, 2**31 - 1):
        with pytest.raises(DataError, match="a picture has at most 134,217,728 pixels"):
            read_picture(png_of(side, side))
    monkeypatch.setattr(picture_files, "MAX_BYTES", 100)
    (tmp_path / "long.png").write_bytes(encoded("PNG"))
    with pytest.raises(DataError, match="at most 100 bytes"):
        read_picture(tmp_path / "long.png")


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_truncated_and_changed_files_end_in_one_error(format):
    whole = encoded(format)
    for end in range(0, len(whole), max(1, len(whole) // 60)):
        try:
            assert read_picture(whole[:end]).mode == "RGB"
        except DataError as error:
            assert "\n" not in str(error)
    change = random.Random(0)
    for _ in range(200):
        broken = bytearray(whole)
        for _ in range(change.randint(1, 8)):
            broken[change.randrange(len(broken))] = change.randrange(256)
        try:
            read_picture(bytes(broken))
        except DataError as error:
            assert "\n" not in str(error)


def test_formats_that_start_other_programs_are_not_read():
    for data in (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", b"<svg></svg>", b"MZ" + bytes(99)):
        with pytest.raises(DataError, match="damaged, or no picture; these formats are read"):
            read_picture(data)
