"""Weights from a file into a model: all of them, of the right shape and finite, or one error that lists them all."""

from __future__ import annotations

import fnmatch
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..errors import ArgumentError, WeightsError
from .formats import one_line
from .key_prefixes import hint_at_prefix, wrapper_prefix_notes
from .keymap import KeyMap, Source
from .pretrained_config import PretrainedConfig
from .weights import Weights

log = logging.getLogger("glassformer")

SCALES = (".weight_scale", ".input_scale")  # of quantized weights, which stay float32
CLASSIFIERS = ("classifier.weight", "classifier.out_proj.weight", "score.weight")  # one row for each label


@dataclass
class LoadReport:
    """The report of a load, kept as `model.load_report`."""

    initialised: list[str] = field(default_factory=list)  # parts that the checkpoint lacks: they are random,
    replaced: list[str] = field(default_factory=list)  # and these of them, which it has in another shape
    unused: list[str] = field(default_factory=list)  # weights of the file that the model has no place for
    tolerated: list[str] = field(default_factory=list)  # weights that the caller allowed to be wrong
    leftovers: list[str] = field(default_factory=list)  # buffers of old files that are not needed
    notes: list[str] = field(default_factory=list)  # contradictions that change no computation

    def as_loading_info(self) -> dict[str, list[str]]:
        """The report as a dictionary, under the names that transformers uses too."""
        known = {"missing_keys": self.initialised, "unexpected_keys": self.unused, "mismatched_keys": self.tolerated}
        return {**vars(self), **known, "error_msgs": []}


class SkipInitialisation(TorchFunctionMode):
    """Build modules without initialising weights that a load replaces anyway; at most `limit` of them, if given."""

    INITIALISERS = frozenset({"normal_", "uniform_", "kaiming_uniform_", "xavier_uniform_", "trunc_normal_"})

    def __init__(self, limit: int | None = None) -> None:
        super().__init__()
        self.limit, self.made = limit, 0

    def __torch_function__(
        self, function: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name in self.INITIALISERS:
            return args[0] if args else kwargs["tensor"]
        if name == "arange" and len(args) == 1:  # of a buffer that is computed again, for which torch imports sympy
            return torch.empty(args[0], dtype=kwargs.get("dtype", torch.long), device="meta")
        self.made += name == "empty"  # with which torch's modules make every weight
        if self.limit is not None and self.made > self.limit:
            raise WeightsError(f"the config describes more than {self.limit:,} weights")
        return function(*args, **kwargs)


def is_finite(tensor: Tensor) -> bool:
    """Whether every value is finite; a sum is much cheaper than a look at each value and decides nearly all cases."""
    if not tensor.is_floating_point() or math.isfinite(tensor.sum().item()):
        return True
    return bool(tensor.isfinite().all())


@dataclass
class Plan:
    """Where each weight of a model comes from, and the faults that the files' headers already show."""

    sources: dict[str, Source]  # our name -> its place in the files
    wanted: dict[str, Tensor]  # the model's own weights, without second names
    absent_parts: dict[str, list[str]]  # optional parts that the files lack completely -> their weights
    faults: dict[str, str]
    unused: list[str]
    leftovers: list[str]
    copies: dict[str, str]  # tensors of the files that repeat one of our weights -> its name


def plan_load(model: nn.Module, weights: Weights, keymap: KeyMap, *, prefixed: bool, tied: dict[str, str]) -> Plan:
    """Compare what the files have with what the model needs, without reading a value.

    `tied` maps names that are another parameter under a second name to the first one.
    """
    sources, twice = keymap.read(weights.names(), prefixed)
    for alias, name in tied.items():
        if alias in sources:
            sources.setdefault(name, sources[alias])  # a file may hold either name
    wanted = {name: tensor for name, tensor in model.state_dict(keep_vars=True).items() if name not in tied}
    shapes = {name: tuple(tensor.shape) for name, tensor in wanted.items()}
    sources = {name: source.resolve(shapes, getattr(model, "config", None)) for name, source in sources.items()}
    needed = sources.keys() & (wanted.keys() | tied.keys())
    copies = keymap.copies(weights.names(), sources, prefixed)
    read = {each for name in needed for each in sources[name].file_names}
    read |= {copy for copy, name in copies.items() if name in needed}
    leftovers = [name for name in weights.names() if keymap.to_ours(name, prefixed) is None]
    unused = sorted({each for source in sources.values() for each in source.file_names if each in weights} - read)
    plan = Plan(sources, wanted, {}, {}, unused, leftovers, copies)
    for name in twice:
        plan.faults[name] = "stands in the file twice under different names"
    present = {keymap.part(name) for name in sources}
    for name, parameter in wanted.items():
        part = keymap.part(name)
        if name not in sources and part is not None and part not in present:
            plan.absent_parts.setdefault(part, []).append(name)
            continue
        fault = fault_of(name, parameter, weights, sources)
        if fault is not None:
            plan.faults[name] = fault
    return plan


def is_learned(tensor: Tensor) -> bool:
    return isinstance(tensor, nn.Parameter)


def fault_of(name: str, parameter: Tensor, weights: Weights, sources: dict[str, Source]) -> str | None:
    if name not in sources:
        return "missing"
    absent = [each for each in sources[name].file_names if each not in weights]
    if absent:
        return f"missing, as the file lacks {', '.join(absent)}"
    infos = [weights.info(each) for each in sources[name].file_names]
    if sources[name].shape(*(info.shape for info in infos)) != tuple(parameter.shape):
        shown = " and ".join(str(list(info.shape)) for info in infos)
        return f"shape {shown} in the file, {list(parameter.shape)} in the model"
    for info in infos:
        if info.dtype.is_floating_point != parameter.dtype.is_floating_point:
            return f"type {info.dtype} in the file, {parameter.dtype} in the model"
    return None


def weights_limit(weights: Weights) -> int:
    """How many weights a model can have that is to be filled from these files, which may fuse three and lack parts."""
    return 3 * len(weights) + 200


def refused_faults(
    plan: Plan, keymap: KeyMap, *, ignore_mismatched_sizes: bool, tolerate: Sequence[str]
) -> dict[str, str]:
    """The faults that are not forgiven: a head of another shape may be, and whatever `tolerate` names."""
    return {
        name: fault
        for name, fault in plan.faults.items()
        if not (ignore_mismatched_sizes and keymap.part(name) is not None and name in plan.sources)
        and not any(fnmatch.fnmatchcase(name, pattern) for pattern in tolerate)
    }


def refuse_plan(plan: Plan, weights: Weights, keymap: KeyMap, faults: dict[str, str]) -> None:
    """Raise one error for the faults that the headers of the files show."""
    hint = hint_at_prefix(weights, keymap) if faults else ""
    if all(keymap.part(name) is not None and name in plan.sources for name in plan.faults):
        hint = hint or "; ignore_mismatched_sizes=True initialises them anew"
    refuse([f"{name}: {fault}" for name, fault in faults.items()], weights, hint)


def refuse_large_buffers(model: nn.Module, weights: Weights) -> None:
    """Raise if the tables that are computed, and in no file, are out of proportion to the weights."""
    positions = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    for name, buffer in model.named_buffers():
        if buffer.is_meta and buffer.nbytes > max(2**26, 16 * weights.total_bytes):
            size = " x ".join(map(str, buffer.shape))
            raise WeightsError(
                f"the config describes a table {name} of {size} values, and the weights have only "
                f"{weights.total_bytes:,} bytes: max_position_embeddings {positions}"
            )


def read_sources(weights: Weights, sources: dict[str, Source]) -> Iterator[tuple[str, Tensor]]:
    """Our weights by name; a tensor of the files that holds several of them is read once."""
    kept: dict[str, Tensor] = {}
    for name, source in sorted(sources.items(), key=lambda item: item[1].file_names):
        kept = {each: kept[each] if each in kept else weights.read(each) for each in source.file_names}
        yield name, source.take(*kept.values())


def read_source(weights: Weights, source: Source) -> Tensor:
    return source.take(*map(weights.read, source.file_names))


def load_weights(
    model: nn.Module,
    weights: Weights,
    keymap: KeyMap,
    *,
    prefixed: bool,
    tied: dict[str, str],
    dtype: torch.dtype | None = None,
    ignore_mismatched_sizes: bool = False,
    tolerate: Sequence[str] = (),
) -> LoadReport:
    """Assign the weights of a checkpoint to `model`, whose parameters are on the meta device.

    `tolerate` holds patterns of weights that may be wrong: missing or misshapen ones are left for the caller to
    initialise, as are the parts that the files lack, and values that are not finite are kept.
    Values are converted to `dtype`; None keeps what the file has.
    """

    def is_tolerated(name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in tolerate)

    plan = plan_load(model, weights, keymap, prefixed=prefixed, tied=tied)
    drawn = [part for part, names in plan.absent_parts.items() if not any(is_learned(plan.wanted[n]) for n in names)]
    report = LoadReport(
        [part for part in plan.absent_parts if part not in drawn],
        unused=plan.unused,
        leftovers=plan.leftovers,
        notes=wrapper_prefix_notes(weights),
    )
    if drawn:
        report.notes.append(f"the files have no {drawn[0]}, nor others of its kind: what is random there is drawn anew")
    forgiven = {"ignore_mismatched_sizes": ignore_mismatched_sizes, "tolerate": tolerate}
    refuse_plan(plan, weights, keymap, refused_faults(plan, keymap, **forgiven))  # type: ignore[arg-type]
    left = {name for names in plan.absent_parts.values() for name in names} | plan.faults.keys()
    for name, fault in plan.faults.items():
        part = keymap.part(name)
        if part is not None and ignore_mismatched_sizes and name in plan.sources:
            if part not in report.replaced:
                report.replaced.append(part)
                report.initialised.append(part)
            report.notes.append(f"{name}: {fault}; it is initialised anew")
        else:
            report.tolerated.append(name)
    faults = []

    ready = {}
    for name, tensor in read_sources(weights, {name: plan.sources[name] for name in plan.wanted.keys() - left}):
        if not is_finite(tensor):
            if is_tolerated(name):
                report.tolerated.append(name)
            else:
                faults.append(f"{name}: holds NaN or infinite values")
        is_converted = dtype is not None and tensor.is_floating_point() and not name.endswith(SCALES)
        ready[name] = tensor.to(dtype) if is_converted else tensor
    for alias, name in tied.items():
        if alias in keymap.overruled:
            continue
        if alias in plan.sources and name in ready and plan.sources[alias] != plan.sources[name]:
            copy = read_source(weights, plan.sources[alias])
            if copy.shape != ready[name].shape or not torch.equal(copy.to(ready[name].dtype), ready[name]):
                faults.append(
                    f"{alias}: differs from {name}, which it should be (tie_word_embeddings=False keeps both apart)"
                )
    for file_name, name in plan.copies.items():
        if name in ready:
            copy = plan.sources[name]._replace(name=file_name).take(weights.read(file_name))
            if copy.shape != ready[name].shape or not torch.equal(copy.to(ready[name].dtype), ready[name]):
                faults.append(f"{file_name}: differs from {plan.sources[name].name}, which it repeats")
    refuse(sorted(faults), weights)

    modules = dict(model.named_modules(remove_duplicate=False))
    for name, tensor in ready.items():
        owner, _, leaf = name.rpartition(".")
        module = modules[owner]
        old = getattr(module, leaf)
        is_parameter = isinstance(old, nn.Parameter)
        setattr(module, leaf, nn.Parameter(tensor, requires_grad=old.requires_grad) if is_parameter else tensor)
    return report


def refuse(faults: list[str], weights: Weights, hint: str = "") -> None:
    """Raise one error that names every fault, with a hint at what they may have in common."""
    if faults:
        shown = "\n  ".join(faults[:50]) + (f"\n  ... and {len(faults) - 50} more" if len(faults) > 50 else "")
        where = ", ".join(sorted(path.name for path in weights.files))
        raise WeightsError(f"{len(faults)} weights in {where} do not fit the model{hint}:\n  {shown}")


def resolve_dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    """The type to load into; None means the file's own."""
    if dtype == "auto":
        return None
    if isinstance(dtype, str):
        resolved = getattr(torch, dtype.removeprefix("torch."), None)
        if not isinstance(resolved, torch.dtype):
            raise ArgumentError(f"dtype must be a torch type or 'auto', got {dtype!r}")
        return resolved
    return dtype or torch.get_default_dtype()


def resolve_device(device_map: Any) -> torch.device | None:
    """The one device that a model goes to, tried before anything is loaded; None leaves it where it is.

    "auto" is the accelerator if there is one. A map is accepted if it puts the complete model on one device: {"": 0}.
    """
    device = device_map[""] if isinstance(device_map, Mapping) and set(device_map) == {""} else device_map
    if device is None:
        return None
    if isinstance(device, Mapping) or device in ("balanced", "balanced_low_0", "sequential"):
        raise ArgumentError(f"a model is never split over devices; device_map must name one, got {device_map!r}")
    if device == "auto":
        current = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return current or torch.device("cpu")
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        reason = one_line(error)
        raise ArgumentError(
            f"device_map must be 'auto' or a device of this machine, got {device!r}: {reason}"
        ) from None


def resolve_labels(config: PretrainedConfig, weights: Weights) -> None:
    """Where a config contradicts itself about the labels, the classifier's own shape decides."""
    stated = config.extra.pop("num_labels_in_file", None)
    listed = config.extra.pop("id2label_in_file", None)
    names = [name for name in CLASSIFIERS if name in weights]
    rows = weights.info(names[0]).shape[0] if names and weights.info(names[0]).shape else None
    if listed is not None:
        numbers = {int(number): str(label) for number, label in listed.items()}
        if rows is not None and rows > max(numbers):
            config.id2label = {row: numbers.get(row, f"LABEL_{row}") for row in range(rows)}
        log.warning(
            "id2label in config.json numbers its labels %s; they are taken to mean %s",
            ", ".join(map(str, sorted(numbers))),
            ", ".join(f"{number} {label}" for number, label in config.id2label.items()),
        )
    if stated is None or rows is None:
        return
    if rows != config.num_labels:
        config.num_labels = rows
    log.warning(
        "config.json names another number of labels than its num_labels %s; the classifier's %d rows decide",
        stated,
        rows,
    )


def token_notes(config: PretrainedConfig) -> list[str]:
    """Notes on special token ids that the vocabulary does not have; no computation reads them."""
    notes = []
    words = getattr(config, "vocab_size", None)  # which models of pictures and sound lack
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        value = getattr(config, name)
        if words is not None and isinstance(value, int) and value >= words:
            notes.append(f"{name} {value} is beyond the vocabulary of {words} and is not used")
    return notes
