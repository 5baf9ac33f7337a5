"""LoRA adapters of a model, in the format of the peft library: adapter_config.json, adapter_model.safetensors.

The architecture's table of weights translates the names, so that peft reads files written here and vice versa. Where a
file keeps several of our layers in one tensor (queries, keys and values in GPT-2), these share their A.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..checkpoints.files import ENTRIES, make_folder, read_json, write_atomically
from ..checkpoints.folder_save import finish_save
from ..checkpoints.keymap import Source
from ..checkpoints.safetensors_file import write_safetensors
from ..checkpoints.weights import open_weights
from ..errors import ConfigError, InputError, WeightsError, nearest, suggests
from ..nn.lora import LoraLinear
from ..nn.quantize import refuse_quantized
from ..registry import head_of
from ..text.base.encoding_options import check_choice, check_whole_number
from .adapter_base import BASE_DIGEST, check_base, refuse_other_base
from .base.parameters import freeze

if TYPE_CHECKING:
    from .base.pretrained_model import PreTrainedModel

log = logging.getLogger("glassformer")

CONFIG_FILE, WEIGHTS_FILE = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."  # before every name in an adapter's file
ALL_LINEAR = "all-linear"  # every linear layer of the body
TASK_TYPES = {  # our heads -> peft's names
    "sequence-classification": "SEQ_CLS",
    "token-classification": "TOKEN_CLS",
    "question-answering": "QUESTION_ANS",
    "causal-lm": "CAUSAL_LM",
    "seq2seq-lm": "SEQ_2_SEQ_LM",
}
SUPPORTED_INITS = (True, False, None, "gaussian", "eva", "orthogonal")  # that leave the model's weights alone
# Keys of peft that have no effect once the adapter has its weights.
IGNORED_KEYS = """alora_invocation_tokens_string arrow_config auto_mapping corda_config ensure_weight_tying eva_config
    fan_in_fan_out inference_mode init_lora_weights loftq_config lora_ga_config megatron_core peft_type peft_version
    qalora_group_size revision runtime_config task_type""".split()


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """The shape of an adapter, by the names of the peft library.

    >>> LoraConfig(r=8, target_modules=["query", "value"]).lora_alpha
    8

    Attributes:
        r: The rank of the update of each weight.
        lora_alpha: The update is scaled by lora_alpha / r.
        lora_dropout: The dropout before the update.
        target_modules: The layers that get an update: ends of their names, ours or those of the files, or
            "all-linear".
        modules_to_save: Parts that are trained and saved in full; None: an untrained head.
        use_rslora: Scale by lora_alpha / sqrt(r) instead.
        base_model_name_or_path: The model that the adapter is for, as its files name it; filled in when it is
            saved.
    """

    r: int = 8
    lora_alpha: float = 8
    lora_dropout: float = 0.0
    target_modules: str | tuple[str, ...] = ("query", "value")
    modules_to_save: tuple[str, ...] | None = None
    use_rslora: bool = False
    base_model_name_or_path: str | None = None

    def __post_init__(self) -> None:
        for name in ("target_modules", "modules_to_save"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.r is None:
            raise InputError("r must be a whole number of at least 1, got None")
        check_whole_number("r", self.r, 1)
        check_choice("use_rslora", self.use_rslora, (True, False))
        if not isinstance(self.lora_dropout, int | float) or not 0 <= self.lora_dropout < 1:
            raise InputError(f"lora_dropout must be a number from 0 to 1, got {self.lora_dropout!r}")
        if not isinstance(self.lora_alpha, int | float) or isinstance(self.lora_alpha, bool) or self.lora_alpha <= 0:
            raise InputError(f"lora_alpha must be a number above 0, got {self.lora_alpha!r}")
        for name in ("target_modules", "modules_to_save"):
            value = getattr(self, name)
            listed = isinstance(value, tuple) and all(isinstance(each, str) for each in value)
            if not (
                listed or (name == "target_modules" and isinstance(value, str)) or (value is None and "save" in name)
            ):
                raise InputError(f"{name} must be a list of names, got {value!r}")

    @classmethod
    def from_dict(cls, values: dict[str, Any], where: str) -> LoraConfig:
        """The settings of an adapter_config.json; one that would compute something else is refused."""
        if values.get("peft_type") != "LORA":
            raise ConfigError(f"{where}: peft_type must be 'LORA', got {values.get('peft_type')!r}")
        own = {spec.name for spec in fields(cls)}
        for name, value in values.items():
            if name not in own and name not in IGNORED_KEYS and value and (name, value) != ("bias", "none"):
                raise ConfigError(f"{where}: {name} {value!r} is not supported")
        init = values.get("init_lora_weights")
        if (init.lower() if isinstance(init, str) else init) not in SUPPORTED_INITS:
            raise ConfigError(f"{where}: init_lora_weights {init!r} changed the model's own weights, not supported")
        return cls(**{name: value for name, value in values.items() if name in own})

    def matches(self, name: str) -> bool:
        """Whether a layer is adapted, by peft's rule: a pattern for its full name, or names that it ends with."""
        targets = self.target_modules
        if isinstance(targets, str):
            return re.fullmatch(targets, name) is not None
        return any(ends_in(name, target) for target in targets)


# --- on a model --------------------------------------------------------------------------------------------------


@suggests
def add_lora(model: PreTrainedModel, config: LoraConfig | None = None) -> LoraConfig:
    """Add adapters to a model, in place, and freeze all else but `modules_to_save`. Returns the settings.

    >>> model = BertForSequenceClassification.from_pretrained("./bert-base-chinese/")       # doctest: +SKIP
    >>> add_lora(model, LoraConfig(r=8, target_modules=["query", "value"]))                 # doctest: +SKIP
    >>> model.save_pretrained("./adapter/")                                                 # doctest: +SKIP
    """
    config = config or LoraConfig()
    refuse_quantized(model, "given an adapter")
    if model.adapter is not None:
        raise InputError("the model has an adapter already; merge_lora(model) merges it into the weights")
    sources = linear_sources(model)
    trained = saved_modules(model, config.modules_to_save)
    targets = [
        name
        for name in sources
        if is_target(model, config, name, sources[name].name) and not any(is_inside(name, part) for part in trained)
    ]
    check_targets(config, sources, targets)
    for name in targets:
        check_adaptable(name, sources[name])
    if config.modules_to_save is None:
        config = replace(
            config, modules_to_save=tuple(part for part in model.load_report.initialised if part not in targets)
        )
    if config.base_model_name_or_path is None:
        config = replace(config, base_model_name_or_path=model.config.name_or_path or None)
    trained = saved_modules(model, config.modules_to_save)
    freeze(model)
    model.checked_base = None
    shared: dict[str, Tensor] = {}
    for name in targets:
        owner, _, leaf = name.rpartition(".")
        layer = LoraLinear(
            model.get_submodule(name),
            config.r,
            config.lora_alpha,
            config.lora_dropout,
            use_rslora=config.use_rslora,
            shared=shared.get(sources[name].name),
        )
        shared[sources[name].name] = layer.lora_A
        setattr(model.get_submodule(owner), leaf, layer)
    for part in trained:
        freeze(model, part, frozen=False)
    model.adapter = config
    return config


def ends_in(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")


def check_targets(config: LoraConfig, sources: Mapping[str, Source], chosen: Sequence[str]) -> None:
    """Raise if no layer is adapted, and warn of targets without a layer."""
    targets, known = config.target_modules, sorted({name.rpartition(".")[2] for name in sources})
    ends = f"the names of linear layers end in {', '.join(known)}"
    if isinstance(targets, str):
        if not chosen:
            message = f"target_modules {targets!r} is a pattern that matches no layer's full name"
            raise InputError(f"{message}; in a list it would be a name: {ends}")
        return
    names = [*sources, *(source.name for source in sources.values())]
    unused = [target for target in targets if not any(ends_in(name, target) for name in names)]
    messages = [f"no linear layer is named {target!r}{nearest(target, known)}" for target in unused]
    if not chosen:
        raise InputError(f"{'; '.join(messages) or 'no layer is left to adapt'}; {ends}")
    for message in messages:
        log.warning("%s; %s", message, ends)


def file_source(model: PreTrainedModel, name: str) -> Source:
    """Where the file keeps a layer: `Source.name` is the name of the module there."""
    source = model.keymap.place(f"{name}.weight", prefixed=model.base_model is not model)
    shapes = {sibling: tuple(model.get_parameter(sibling).shape) for sibling in source.siblings}
    return source.resolve(shapes, model.config)._replace(name=source.name.removesuffix(".weight"))


def linear_sources(model: PreTrainedModel) -> dict[str, Source]:
    return {name: file_source(model, name) for name, each in model.named_modules() if isinstance(each, nn.Linear)}


def check_adaptable(name: str, source: Source) -> None:
    """Raise if an adapter of the layer cannot be expressed as two matrices on the file's tensor.

    Where the file keeps heads as a dimension of their own, no other library has a linear layer to adapt, and the
    matrices are those of ours.
    """
    if source.pieces or (source.siblings and (source.conversion.merge is not None or source.conversion.dim)):
        raise InputError(f"{name} cannot be adapted: the files keep its weight as {' and '.join(source.file_names)}")


def is_target(model: PreTrainedModel, config: LoraConfig, name: str, in_file: str) -> bool:
    """Whether a layer is adapted, by our name or by the file's."""
    if config.target_modules == ALL_LINEAR:
        return model.keymap.part(name) is None
    return config.matches(name) or config.matches(in_file)


def saved_modules(model: PreTrainedModel, modules_to_save: Sequence[str] | None) -> list[str]:
    """The names of the modules that are trained in full, by peft's rule: all that end in one of `modules_to_save`.

    "classifier" is DistilBERT's `pre_classifier` too. Names are ours or the file's.
    """
    matches: dict[str, list[str]] = {part: [] for part in modules_to_save or ()}
    for name, _ in model.named_modules():
        in_file = file_source(model, name).name
        for part in matches:
            if name.endswith(part) or in_file.endswith(part):
                matches[part].append(name)
    missing = next((part for part, names in matches.items() if not names), None)
    if missing is not None:
        known = [name for name, _ in model.named_children()]
        raise InputError(f"modules_to_save: the model has no part {missing!r}{nearest(missing, known)}")
    return list(dict.fromkeys(name for names in matches.values() for name in names))


def is_inside(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def lora_layers(model: nn.Module) -> Iterator[tuple[str, LoraLinear]]:
    return ((name, each) for name, each in model.named_modules() if isinstance(each, LoraLinear))


def merge_lora(model: PreTrainedModel, *, keep: bool = False) -> PreTrainedModel:
    """Merge the adapters into the weights: the model is then an ordinary one, and is saved as one.

    With `keep` the adapters stay, and `unmerge_lora` restores the original weights, bit for bit.
    """
    require_adapter(model)
    for name, _ in lora_layers(model):
        if f"{name}.weight" in model.tied_names():
            raise InputError(f"the weights of {name} are tied to the word embeddings, which would change too")
    for name, layer in list(lora_layers(model)):
        if keep:
            layer.merge()
            continue
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, layer.to_linear())
    if not keep:
        model.adapter = None
        model.tie_weights()
    return model


def unmerge_lora(model: PreTrainedModel) -> PreTrainedModel:
    """Undo `merge_lora(model, keep=True)`."""
    require_adapter(model)
    for _, layer in lora_layers(model):
        layer.unmerge()
    return model


def require_adapter(model: PreTrainedModel) -> LoraConfig:
    if model.adapter is None:
        raise InputError("the model has no adapter; add_lora(model, LoraConfig(...)) adds one")
    return model.adapter


# --- files -------------------------------------------------------------------------------------------------------


def adapter_tensors(model: PreTrainedModel) -> dict[str, Tensor]:
    """The tensors of an adapter, under the names of its file."""
    tensors: dict[str, Tensor] = {}
    b_parts: dict[str, list[Tensor]] = {}
    for name, layer in lora_layers(model):
        source = file_source(model, name)
        tensors[f"{PREFIX}{source.name}.lora_A.weight"] = layer.lora_A.detach()
        sizes = source.sizes or (layer.out_features,)
        parts = b_parts.setdefault(source.name, [layer.lora_B.detach().new_zeros(size, layer.r) for size in sizes])
        parts[source.part] = layer.lora_B.detach()
        tensors[f"{PREFIX}{source.name}.lora_B.weight"] = source.conversion.join(parts, source.heads)
    trained = saved_modules(model, require_adapter(model).modules_to_save)
    saved = {
        name: tensor
        for name, tensor in model.state_dict().items()
        if any(is_inside(name, part) for part in trained) and name not in model.tied_names()
    }
    saved = model.keymap.to_file(saved, model.base_model is not model, model.config)
    return tensors | {f"{PREFIX}{name}": tensor for name, tensor in saved.items()}


def save_adapter(model: PreTrainedModel, folder: Path) -> None:
    """Write the adapter's two files."""
    config, folder = require_adapter(model), make_folder(folder)
    sources = linear_sources(model)
    adapted = {sources[name].name for name, _ in lora_layers(model)}
    targets = config.target_modules
    if targets == ALL_LINEAR or {each.name for each in sources.values() if config.matches(each.name)} != adapted:
        targets = tuple(sorted(adapted))  # our names, which peft would not find
    task = TASK_TYPES.get(head_of(type(model)) or "")
    values = {
        **asdict(config),
        "target_modules": targets,
        "modules_to_save": list(config.modules_to_save or ()) or None,
        "peft_type": "LORA",
        "task_type": task if config.modules_to_save or task in ("CAUSAL_LM", "SEQ_2_SEQ_LM") else None,
        "bias": "none",
        "fan_in_fan_out": any(sources[name].conversion.permutation(2) == (1, 0) for name, _ in lora_layers(model)),
        "init_lora_weights": True,
        "inference_mode": True,
    }
    base = check_base(model, saved_modules(model, config.modules_to_save))
    write_safetensors(folder / WEIGHTS_FILE, adapter_tensors(model), {BASE_DIGEST: base})
    write_atomically(folder / CONFIG_FILE, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter without a model."""
    return (folder / CONFIG_FILE).is_file() and not any((folder / entry).exists() for entry in ENTRIES)


def read_adapter_config(folder: Path) -> LoraConfig:
    path = folder / CONFIG_FILE
    return LoraConfig.from_dict(read_json(path, CONFIG_FILE), str(path))


def load_lora(model: PreTrainedModel, folder: str | Path, *, check_base: bool = True) -> LoraConfig:
    """Add the adapter of a folder to a model; it may be written here or by peft.

    One that was written here knows the digest of the model it was trained on, and refuses another.
    """
    folder = Path(folder)
    finish_save(folder)
    config = read_adapter_config(folder)
    if model.adapter is None:
        config = add_lora(model, config)
    load_adapter_tensors(model, folder, check_base=check_base)
    trained = saved_modules(model, config.modules_to_save)
    report = model.load_report
    report.initialised = [part for part in report.initialised if part not in trained]
    report.replaced = [part for part in report.replaced if part not in trained]
    return config


@torch.no_grad()
def load_adapter_tensors(model: PreTrainedModel, folder: Path, *, check_base: bool = True) -> None:
    """Load the adapters, and the modules that are trained in full, from a folder's file."""
    weights = open_weights(folder / WEIGHTS_FILE)
    expected = adapter_tensors(model)
    faults = [f"{name}: missing" for name in expected if name not in weights]
    faults += [f"{name}: the model has no place for it" for name in weights if name not in expected]
    for name in expected.keys() & set(weights):
        if tuple(weights.info(name).shape) != tuple(expected[name].shape):
            faults.append(f"{name}: {list(weights.info(name).shape)} in the file, {list(expected[name].shape)} here")
        elif not bool(weights.read(name).isfinite().all()):
            faults.append(f"{name}: holds NaN or infinite values")
    if faults:
        listed = "\n  ".join(sorted(faults)[:50])
        raise WeightsError(f"{len(faults)} weights of the adapter in {folder} do not fit the model:\n  {listed}")
    if check_base:
        refuse_other_base(model, saved_modules(model, require_adapter(model).modules_to_save), weights, folder)
    for name, layer in lora_layers(model):
        source = file_source(model, name)
        layer.unmerge()
        layer.lora_A.copy_(weights.read(f"{PREFIX}{source.name}.lora_A.weight"))
        b = weights.read(f"{PREFIX}{source.name}.lora_B.weight")
        layer.lora_B.copy_(source.conversion.split(b, source.sizes or b.shape[:1], source.part, source.heads))
    saved = [name.removeprefix(PREFIX) for name in weights if ".lora_A." not in name and ".lora_B." not in name]
    sources, _ = model.keymap.read(saved, model.base_model is not model)
    parameters = model.state_dict(keep_vars=True)
    shapes = {name: tuple(tensor.shape) for name, tensor in parameters.items()}
    for name, source in sources.items():
        tensors = [weights.read(PREFIX + each) for each in source.file_names]
        parameters[name].copy_(source.resolve(shapes, model.config).take(*tensors))
