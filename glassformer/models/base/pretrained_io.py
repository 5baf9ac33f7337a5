"""`from_pretrained` and `save_pretrained`: loading, reporting and saving the weights of a model."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from ...checkpoints.files import ENTRIES, make_folder
from ...checkpoints.folder_save import saved_together
from ...checkpoints.hub import MODEL_FILES, WEIGHT_FILES, find_folder, without_pickles
from ...checkpoints.ignored_arguments import IGNORED_BY_MODELS, resolve_ignored_arguments
from ...checkpoints.key_prefixes import without_wrapper_prefix
from ...checkpoints.load import (
    LoadReport,
    SkipInitialisation,
    is_finite,
    load_weights,
    plan_load,
    refuse_large_buffers,
    refuse_plan,
    refused_faults,
    resolve_device,
    resolve_dtype,
    resolve_labels,
    token_notes,
    weights_limit,
)
from ...checkpoints.pretrained_config import PretrainedConfig, resolve_config
from ...checkpoints.weights import Weights, open_weights, write_weights
from ...errors import CheckpointError, WeightsError, refuse_unknown
from ...nn.linear import reduce_products
from .pruning import KINDS, pruned_in
from .quantized import expect_quantized, own_scales, quantization_of, quantize_loaded
from .untrained import UNTRAINED, has_other_head, initial_among, sample_new_model, sample_parts, still_untrained

if TYPE_CHECKING:
    from .pretrained_model import PreTrainedModel

log = logging.getLogger("glassformer")

ROUNDED = {"int8": "int8", "torch.int8": "int8", torch.int8: "int8", "int4": "int4"}
BFLOAT16 = ("bfloat16", "torch.bfloat16", torch.bfloat16)

Model = TypeVar("Model", bound="PreTrainedModel")

# What a load is for: "use", "training", or "adapter", which may bring the parts that the model's own files lack.
_purpose: ContextVar[str] = ContextVar("purpose", default="use")
_bodies_on_meta: ContextVar[bool] = ContextVar("bodies on meta", default=False)


def is_rebuilding() -> bool:
    """Whether a model is built a second time, for a head that its checkpoint lacks: its warnings are logged already."""
    return _bodies_on_meta.get()


@contextmanager
def loading_for(purpose: str) -> Iterator[None]:
    """Models are loaded for "training", or for an "adapter", after which `log_load_report` is called again."""
    before = _purpose.set(purpose)
    try:
        yield
    finally:
        _purpose.reset(before)


class ModelMeta(type):
    """Builds models, whose config is fixed then. While a checkpoint without some head is loaded, only the head gets
    memory.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if not (getattr(cls, "is_body", False) and _bodies_on_meta.get()):
            model = super().__call__(*args, **kwargs)
        else:
            with torch.device("meta"), SkipInitialisation():
                model = super().__call__(*args, **kwargs)
        model.fix_config()
        return model


class PretrainedIO(nn.Module, metaclass=ModelMeta):
    """A model that is read from a Hugging Face checkpoint folder and written into one."""

    is_body: ClassVar[bool]  # `Body` says so, whichever of the two classes is named first

    def __init__(self) -> None:
        super().__init__()
        self.load_report = LoadReport()
        self.source: Path | None = None  # the folder that holds these weights, as they were loaded or saved last
        self.checked_base: str | None = None  # under an adapter that was saved: the digest of the model
        # Initial values for `untrained`: of parts that the files lacked, or of all parts of a new model.
        self._initialised: dict[str, dict[str, Tensor]] = {}
        self._constructed: dict[str, dict[str, Tensor]] = {}

    @classmethod
    def from_pretrained(
        cls: type[Model],
        name_or_path: str | Path,
        *,
        config: PretrainedConfig | str | Path | None = None,
        cache_dir: str | Path | None = None,
        revision: str | None = None,
        token: str | bool | None = None,
        local_files_only: bool = False,
        endpoint: str | list[str] | None = None,
        dtype: torch.dtype | str | None = None,
        torch_dtype: torch.dtype | str | None = None,
        device_map: Any = None,
        use_safetensors: bool | None = None,
        ignore_mismatched_sizes: bool = False,
        tolerate: Sequence[str] = (),
        output_loading_info: bool = False,
        **fields: Any,
    ) -> Model:
        """Load a folder, a hub snapshot or a hub name; further keywords are config fields to set.

        Every weight of the body must be there, of the right shape and finite: one WeightsError lists what is not.
        `tolerate` takes patterns of weights that may be wrong all the same. A head that the checkpoint lacks is
        initialised, logged and recorded in `model.load_report`. Weights are float32 unless `dtype` says otherwise
        ("auto" keeps the file's), and go to the one device that `device_map` names ("auto": the accelerator, if any).
        With dtype "bfloat16" the weights of linear layers are, and the rest, with all sums, norms and softmax, stays
        float32 (`model.bfloat16()` converts everything); with "int8" or "int4" they are quantized, as by `quantize`.

        >>> BertModel.from_pretrained("./bert-base-uncased/", output_hidden_states=True)  # doctest: +SKIP
        """
        owner, device = f"{cls.__name__}.from_pretrained", resolve_device(device_map)
        rounded, is_reduced = ROUNDED.get(dtype or torch_dtype), (dtype or torch_dtype) in BFLOAT16
        hub: dict[str, Any] = {"cache_dir": cache_dir, "revision": revision, "endpoint": endpoint}
        hub["token"] = resolve_ignored_arguments(fields, owner, token, IGNORED_BY_MODELS)
        hub["local_files_only"] = local_files_only
        model_arguments = {
            name: fields.pop(name) for name in inspect.signature(cls.__init__).parameters if name in fields
        }
        known = [*inspect.signature(cls.from_pretrained).parameters, *cls.config_class.field_names()]
        refuse_unknown(fields, [*known, *cls.config_class.FILE_NAMES, *IGNORED_BY_MODELS], owner)
        folder, config, weights = cls.open_checkpoint(name_or_path, config, hub, fields, bool(use_safetensors))
        resolve_labels(config, weights)

        limit = None if tolerate else weights_limit(weights)
        model = cls.without_weights(config, limit, **model_arguments)
        expect_quantized(model, weights)
        refuse_large_buffers(model, weights)
        forgiven: dict[str, Any] = {"ignore_mismatched_sizes": ignore_mismatched_sizes, "tolerate": tolerate}
        if model.base_model is not model and model.needs_initialising(weights, **forgiven):
            before = _bodies_on_meta.set(True)
            try:
                model = cls(config, **model_arguments)
            finally:
                _bodies_on_meta.reset(before)
            expect_quantized(model, weights)
        model.load_report = load_weights(
            model,
            weights,
            model.keymap,
            prefixed=model.base_model is not model,
            tied=model.tied_names(),
            dtype=resolve_dtype(None if rounded or is_reduced else dtype or torch_dtype),
            **forgiven,
        )
        model.load_report.notes += token_notes(config)
        model.initialise_missing_weights()
        model.record_untrained(weights.metadata.get(UNTRAINED, ""))
        model.config.name_or_path, model.source = str(name_or_path), folder
        model.read_generation_config(folder)
        model.log_load_report(name_or_path)
        if rounded or config.quantization_config is not None:
            quantize_loaded(model, rounded or "int8")
        elif is_reduced:
            reduce_products(model, torch.bfloat16)
        if device is not None:
            model.to(device)
        model.eval()
        return (model, model.load_report.as_loading_info()) if output_loading_info else model

    @classmethod
    def open_checkpoint(
        cls,
        name_or_path: str | Path,
        config: PretrainedConfig | str | Path | None,
        hub: dict[str, Any],
        fields: Mapping[str, Any],
        use_safetensors: bool,
    ) -> tuple[Path, PretrainedConfig, Weights]:
        """The folder of a checkpoint, its configuration with `fields` set, and its weights."""
        files = MODEL_FILES if config is None else WEIGHT_FILES
        folder = find_folder(name_or_path, files=without_pickles(files) if use_safetensors else files, **hub)
        config = resolve_config(cls.config_class, config, folder, hub, fields)
        return folder, config, without_wrapper_prefix(open_weights(folder, only_safetensors=use_safetensors))

    @classmethod
    def without_weights(
        cls: type[Model], config: PretrainedConfig, limit: int | None = None, **arguments: Any
    ) -> Model:
        """The module tree on the meta device: shapes without values, and no more of them than `limit`."""
        try:
            with torch.device("meta"), SkipInitialisation(limit):
                return cls(config, **arguments)
        except WeightsError as error:
            counts = [f"{name} {getattr(config, name)}" for name in config.field_names() if name.endswith("_layers")]
            raise WeightsError(f"{error}, and the files have far fewer: {', '.join(counts)}") from None

    def needs_initialising(self, weights: Weights, **forgiven: Any) -> bool:
        """Whether the files lack something outside the body that only its own constructor can initialise.

        Raises if they do not fit the rest: nothing is allocated for a config whose sizes are not theirs.
        """
        plan = plan_load(self, weights, self.keymap, prefixed=True, tied=self.tied_names())
        refuse_plan(plan, weights, self.keymap, refused_faults(plan, self.keymap, **forgiven))
        lenient = any(forgiven.values())
        loaded = plan.sources.keys()
        own = [
            f"{prefix}.{name}".lstrip(".")
            for prefix, module in self.named_modules()
            if not hasattr(module, "fill")  # it computes its buffers again
            for name, _ in module.named_buffers(recurse=False)
        ]
        return lenient or bool(plan.absent_parts) or any(name not in loaded for name in own)

    def initialise_missing_weights(self) -> None:
        """Initialise the weights that a load left on the meta device, compute buffers, and tie weights."""
        tied, missing = self.tied_names(), {}
        for prefix, module in self.named_modules():
            if hasattr(module, "fill") and any(buffer.is_meta for buffer in module.buffers(recurse=False)):
                module.fill()
            for name, parameter in list(module.named_parameters(recurse=False)):
                if parameter.is_meta and f"{prefix}.{name}".lstrip(".") not in tied:
                    empty = torch.zeros_like(parameter, device="cpu", dtype=self.stream_dtype)
                    setattr(module, name, nn.Parameter(empty, requires_grad=parameter.requires_grad))
                    missing.setdefault(module, set()).add(name)
        self.tie_weights()
        for module, names in missing.items():
            loaded = {n: p.data.clone() for n, p in module.named_parameters(recurse=False) if n not in names}
            self._init_weights(module)
            for name, data in loaded.items():
                getattr(module, name).data.copy_(data)

    def optional_parts(self) -> list[str]:
        """Parts that a checkpoint may lack: heads, and optional parts of the body."""
        return list(dict.fromkeys(filter(None, (self.keymap.part(name) for name, _ in self.named_parameters()))))

    def record_new_weights(self) -> None:
        """Record the weights of a newly built model."""
        heads = [part for part in self.optional_parts() if not f"{part}.".startswith(self.keymap.prefix)]
        self._constructed = sample_new_model(self, [] if self.base_model is self else heads, self.base_model_prefix)

    def record_new_part(self, part: str) -> None:
        """Record the weights of a part that was just added to the model."""
        self._initialised |= sample_parts(self, [part])
        self.load_report.initialised.append(part)

    def record_untrained(self, saved: str) -> None:
        """Record which parts are randomly initialised: by this load, or before they were saved."""
        parts, prefix, before = self.load_report.initialised, self.keymap.prefix, saved.split(", ")
        parts += [p for p in self.optional_parts() if p.removeprefix(prefix) in before and p not in parts]
        self._initialised, self._constructed = sample_parts(self, parts), {}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As in torch; with `strict=False` what was loaded is counted, and a part that stays random is untrained."""
        result = super().load_state_dict(state_dict, strict, assign)
        parameters, tied = dict(self.named_parameters()), self.tied_names()
        missing = [name for name in result.missing_keys if name in parameters and name not in tied]
        if missing or result.unexpected_keys:
            self.record_partial_load(missing, result.unexpected_keys, len(parameters))
        return result

    def record_partial_load(self, missing: Sequence[str], unexpected: Sequence[str], count: int) -> None:
        """Report a load that left weights as they were; parts whose weights were random until then remain untrained."""
        random = initial_among(self, missing, self._constructed)
        if random:
            parts: dict[str, dict[str, Tensor]] = {}
            for name, values in random.items():
                parts.setdefault(self.keymap.part(name) or self.base_model_prefix, {})[name] = values
            self._constructed = parts
        message = "%s: %d of %d weights were loaded"
        message += f"; {len(missing)} kept {'their random values' if random else 'the values they had'}: %s"
        message += f"; {len(unexpected)} of the given ones have no place: %s" if unexpected else ""
        shown = [", ".join(names[:8]) + (", ..." if len(names) > 8 else "") for names in (missing, unexpected)]
        level = logging.WARNING if random or unexpected else logging.INFO
        given = (shown[0] or "none", shown[1]) if unexpected else (shown[0],)
        log.log(level, message, type(self).__name__, count - len(missing), count, *given)

    @property
    def is_loaded(self) -> bool:
        """Whether it was loaded from a checkpoint, and not built from a config alone."""
        return not self._constructed

    @property
    def untrained(self) -> list[str]:
        """Parts that were randomly initialised, when the model was loaded or built, and not trained since.

        >>> BertForSequenceClassification.from_pretrained("./bert-base-uncased/").untrained    # doctest: +SKIP
        ['classifier']
        >>> BertForSequenceClassification(BertConfig()).untrained                              # doctest: +SKIP
        ['bert', 'classifier']
        """
        return still_untrained(self, self._constructed) or self.untrained_since_load()

    def untrained_since_load(self) -> list[str]:
        """Those of them that the checkpoint lacked."""
        return [part for part in still_untrained(self, self._initialised) if part in self.load_report.initialised]

    def log_load_report(self, name_or_path: str | Path) -> None:
        """Log what a load initialised, did not use or tolerated; for an adapter, once that is loaded too."""
        if _purpose.get() == "adapter":
            return
        report, name = self.load_report, type(self).__name__
        remedy = "" if _purpose.get() == "training" else "{} must be trained before use"
        for note in report.notes:
            log.warning("%s: %s", name_or_path, note)
        lacking = [part for part in report.initialised if part not in report.replaced]
        if lacking:
            message = "%s: %s has no trained %s; it starts from random weights" + remedy.format(" and")
            log.warning(message, name, name_or_path, ", ".join(lacking))
        if report.replaced:
            message = "%s: the %s of %s has another shape and is initialised anew" + remedy.format("; it")
            log.warning(message, name, ", ".join(report.replaced), name_or_path)
        if not report.initialised and has_other_head(name, self.config):
            message = "%s is a %s: its classifier fits a %s by shape, but was trained for something else"
            log.warning(message, name_or_path, (self.config.architectures or [""])[0], name)
        if report.tolerated:
            log.warning("%s: these weights were wrong and are tolerated: %s", name, ", ".join(report.tolerated))
        body = [name for name in report.unused if self.keymap.is_of_body(name)]
        if body:
            log.warning(
                "%s: the config has no place for %d trained weights of the body: %s",
                name,
                len(body),
                ", ".join(body[:8]),
            )
        unused = report.unused + report.leftovers
        if unused:
            log.info("%s: %d weights of %s are not used: %s", name, len(unused), name_or_path, ", ".join(unused))

    def record_quantization(self) -> None:
        """Say in the config which layers are quantized."""
        self.config.record_change(quantization_config=quantization_of(self))

    def read_generation_config(self, folder: Path) -> None:
        """Read generation_config.json, in models that generate."""

    def save_pretrained(
        self, save_directory: str | Path, *, max_shard_size: int | str = "5GB", safe_serialization: bool = True
    ) -> None:
        """Write config.json and the weights, as Hugging Face names them, so that any version reads them back.

        Of a model with an adapter, only the adapter is written.
        """
        self.config.refuse_functions()
        folder = make_folder(save_directory)
        self.config.architectures = [type(self).__name__]
        self.config.record_change(**{field: pruned_in(self.distinct_layers, kind) for field, kind in KINDS.items()})
        self.config.torch_dtype = str(self.dtype).removeprefix("torch.")
        if self.adapter is not None:
            from ..lora import save_adapter

            model = next((name for name in ENTRIES if (folder / name).exists()), None)
            if model is not None:
                raise CheckpointError(f"{folder} holds a model, {model}, and an adapter beside it would not be found")
            with saved_together(folder) as staged:
                save_adapter(self, staged)
                self.config.save_pretrained(staged)
            return
        tied = self.tied_names()
        weights = self.state_dict()
        tied_scales = own_scales(self)
        own = {name: tensor for name, tensor in weights.items() if name not in tied and name not in tied_scales}
        own |= {name: weights[name].clone() for name in tied if name in self.keymap.overruled}  # older programs need it
        wrong = [name for name, tensor in own.items() if not is_finite(tensor)]
        if wrong:
            log.warning("saved with NaN or infinite values, which a load will refuse: %s", ", ".join(wrong[:8]))
        tensors = self.keymap.to_file(own, prefixed=self.base_model is not self, config=self.config)
        untrained = [part.removeprefix(self.keymap.prefix) for part in self.untrained_since_load()]
        metadata = {UNTRAINED: ", ".join(untrained)} if untrained else {}
        options = {"max_shard_size": max_shard_size, "safe_serialization": safe_serialization, "metadata": metadata}
        with saved_together(folder) as staged:
            write_weights(staged, tensors, **options)  # type: ignore[arg-type]
            self.config.save_pretrained(staged)
        self.source = folder
