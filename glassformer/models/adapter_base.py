"""The model under an adapter: its digest, and whether it is still the one in its files.

An adapter's file holds the adapter alone. What else changed in memory would be lost, and on another base of the same
shape the adapter would compute something that nobody trained.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..checkpoints.key_prefixes import without_wrapper_prefix
from ..checkpoints.load import plan_load, read_source
from ..checkpoints.weights import Weights, open_weights
from ..errors import CheckpointError, WeightsError
from ..nn.lora import LoraLinear

if TYPE_CHECKING:
    from .base.pretrained_model import PreTrainedModel

log = logging.getLogger("glassformer")

BASE_DIGEST = "base_digest"  # key in the metadata of an adapter's file


def frozen_weights(model: PreTrainedModel, trained: Sequence[str]) -> Iterator[tuple[str, Tensor]]:
    """The weights that an adapter's file leaves out: all but its own, and those of the modules trained in full."""
    tied = model.tied_names()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owner, _, leaf = name.rpartition(".")
        if leaf in ("lora_A", "lora_B") or name in tied or any(f"{name}.".startswith(f"{part}.") for part in trained):
            continue
        module = model.get_submodule(owner)
        is_merged = isinstance(module, LoraLinear) and leaf == "weight" and module.unmerged is not None
        yield name, module.unmerged if is_merged else parameter.detach()  # type: ignore[misc]


def base_digest(model: PreTrainedModel, trained: Sequence[str]) -> str:
    """The type of the body's frozen weights and their digest, the same under every head."""
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    weights = {name: value for name, value in frozen_weights(model, trained) if model.keymap.part(name) is None}

    def digest(name: str) -> bytes:
        value = weights[name].cpu().contiguous()
        about = f"{name.removeprefix(prefix)} {list(value.shape)} ".encode()
        return hashlib.sha256(about + value.flatten().view(torch.uint8).numpy().tobytes()).digest()

    with ThreadPoolExecutor(max(1, torch.get_num_threads())) as pool:
        combined = hashlib.sha256(b"".join(pool.map(digest, sorted(weights)))).hexdigest()
    return f"{str(model.dtype).removeprefix('torch.')} {combined}"


def check_base(model: PreTrainedModel, trained: Sequence[str]) -> str:
    """The digest of a model under an adapter that is to be saved; raises if more than the adapter would be lost."""
    digest = base_digest(model, trained)
    if model.checked_base in (None, digest):
        differing = [] if model.checked_base else differing_weights(model, trained)
    else:
        differing = ["some of the body, which changed after an earlier save"]
    if differing:
        shown = ", ".join(differing[:8]) + (", ..." if len(differing) > 8 else "")
        raise WeightsError(
            f"an adapter does not hold {shown}: not as in {model.source}. merge_lora(model), then save the whole "
            f"model; or save and load it before add_lora, or name these parts in modules_to_save"
        )
    model.checked_base = digest
    return digest


def differing_weights(model: PreTrainedModel, trained: Sequence[str]) -> list[str]:
    """The frozen weights that are not those in the model's files."""
    if model.source is None:
        log.warning(
            "the model under the adapter was neither loaded nor saved: an adapter is of no use without it, so save it "
            "with save_pretrained before add_lora"
        )
        return []
    try:
        weights = without_wrapper_prefix(open_weights(model.source))
    except CheckpointError as error:
        log.warning("whether the model under the adapter is that of %s was not checked: %s", model.source, error)
        return []
    tied, is_headed = model.tied_names(), model.base_model is not model
    plan = plan_load(model, weights, model.keymap, prefixed=is_headed, tied=tied)
    differing = []
    for name, value in frozen_weights(model, trained):
        is_there = name in plan.sources and name not in plan.faults
        if not is_there or not torch.equal(read_source(weights, plan.sources[name]).to(value.dtype), value.cpu()):
            differing.append(name)
    return differing


def refuse_other_base(model: PreTrainedModel, trained: Sequence[str], weights: Weights, folder: object) -> None:
    """Raise if an adapter was trained on another model; one of the peft library does not say on which."""
    stated = weights.metadata.get(BASE_DIGEST)
    if stated is None:
        return
    own = base_digest(model, trained)
    if stated.partition(" ")[0] != own.partition(" ")[0]:
        log.info("%s was trained on a base in %s, which cannot be compared with this one", folder, stated.split()[0])
    elif stated != own:
        raise WeightsError(
            f"the adapter in {folder} was trained on another model than {model.config.name_or_path or 'this one'}: "
            f"the shapes are the same and the weights differ; check_base=False in load_lora loads it all the same"
        )
