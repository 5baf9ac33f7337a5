"""Pictures from files, checked before they are decoded: whoever made the file may mean harm.

Only formats that Pillow decodes itself are read, so that no other program is started; the size that a file states is
checked before memory is taken for it; and whatever a decoder raises becomes one error that names the file.
"""

from __future__ import annotations

import base64
import binascii
import io
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, InputError, shown

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "PPM", "AVIF")
MAX_PIXELS = 2**27  # of one picture: 11,585 x 11,585, which decoded take 400 MB
MAX_BYTES = 2**29  # of one file


def pillow() -> Any:
    """The module PIL.Image, which is an extra."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError:
        raise InputError("pictures need Pillow; install the extra: pip install 'glassformer[images]'") from None
    return PIL.Image


def is_picture(value: object) -> bool:
    """Whether a value is a picture of Pillow's."""
    return type(value).__module__.startswith("PIL.") and hasattr(value, "getbands")


def read_picture(source: str | PathLike[str] | bytes, mode: str = "RGB") -> Image:
    """The picture in a file, in the bytes of one, or in a data: address; upright, in colours ("RGB") or grey ("L").

    >>> read_picture("cat.png").mode                                                    # doctest: +SKIP
    'RGB'
    """
    data, name = read_bytes(source)
    picture = open_picture(data, name)
    try:
        return upright(picture, mode)
    except MemoryError:
        raise DataError(f"{name}: not enough memory for its {picture.width} x {picture.height} pixels") from None
    except Exception as error:
        raise damaged(name, error) from None


def upright(picture: Image, mode: str = "RGB") -> Image:
    """A picture as the camera was held, in colours or grey."""
    import PIL.ImageOps

    return PIL.ImageOps.exif_transpose(picture).convert(mode)


def read_bytes(source: str | PathLike[str] | bytes) -> tuple[bytes, str]:
    """The bytes of a picture's file, and its name in errors."""
    if isinstance(source, bytes):
        return source, "the picture"
    name = fspath(source)
    if isinstance(source, str) and name.startswith("data:"):
        return decode_address(name), "the picture in a data: address"
    if isinstance(source, str) and "://" in name:
        raise InputError(f"pictures are read from files, and {shown(name)} is an address: fetch it first")
    path = Path(name).expanduser()
    name = name if name.isprintable() else shown(name)
    try:
        if not path.is_file():
            what = "a folder, not a picture" if path.is_dir() else "there is no such file"
            raise DataError(f"{name}: {what}")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise DataError(f"{name}: a picture's file has at most {MAX_BYTES:,} bytes, this one has {size:,}")
        return path.read_bytes(), name
    except (OSError, ValueError) as error:  # no permission; a name with a NUL, or too long a one
        if isinstance(error, DataError):
            raise
        raise DataError(f"{name}: it cannot be read: {getattr(error, 'strerror', None) or error}") from None


def decode_address(address: str) -> bytes:
    """The bytes in an address such as data:image/png;base64,..."""
    head, comma, body = address.partition(",")
    if not comma or not head.endswith(";base64"):
        raise InputError(f"a data: address of a picture begins as data:image/png;base64, got {shown(address, 40)}")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"{shown(address, 40)} holds no base64: {error}") from None


def open_picture(data: bytes, name: str) -> Image:
    """The picture in a file's bytes, of which only the header is decoded yet."""
    image = pillow()
    image.init()
    if not data:
        raise DataError(f"{name}: the file is empty")
    try:
        picture = image.open(io.BytesIO(data), formats=[each for each in FORMATS if each in image.OPEN])
    except image.DecompressionBombError:
        raise DataError(f"{name}: {too_large('states a size')}") from None
    except image.UnidentifiedImageError:
        kinds = ", ".join(each for each in FORMATS if each in image.OPEN)
        raise DataError(f"{name}: damaged, or no picture; these formats are read: {kinds}") from None
    except Exception as error:
        raise damaged(name, error) from None
    width, height = picture.size
    if width * height > MAX_PIXELS:
        raise DataError(f"{name}: {too_large(f'is {width:,} x {height:,} pixels')}")
    if not width or not height:
        raise DataError(f"{name}: a picture of {width} x {height} pixels holds none")
    return picture


def too_large(what: str) -> str:
    return f"it {what}, and a picture has at most {MAX_PIXELS:,} pixels"


def damaged(name: str, error: Exception) -> DataError:
    """The error for whatever a decoder raised: OSError, SyntaxError, struct.error, IndexError and others."""
    reason = str(error).split("\n")[0].strip(" .") or type(error).__name__
    return DataError(f"{name}: damaged, or no picture ({shown(reason)[1:-1]})")
