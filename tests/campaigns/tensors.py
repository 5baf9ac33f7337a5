"""Every model of every architecture, called with arguments that do not fit: a result, or an error of ours."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from glassformer import PreTrainedModel
from glassformer.errors import GlassformerError
from glassformer.nn.cache import Cache
from glassformer.registry import ARCHITECTURES as REGISTERED
from glassformer.registry import import_class

from ..models.architectures import ARCHITECTURES, OF_PICTURES, Architecture, tokens
from ..models.encoder_decoders import ENCODER_DECODERS, OF_SOUND, EncoderDecoder
from .case import Case
from .hostile_tensors import hostile

NAME = "tensors"
BATCH, LENGTH = 2, 6
FEATURES = {"pixel_values": torch.rand(BATCH, 3, 16, 16), "input_features": torch.rand(BATCH, 8, 24)}
Call = tuple[str, Callable[..., Any], dict[str, Any]]


def cases(rng: random.Random, folder: Path) -> Iterator[Case]:
    torch.manual_seed(rng.randrange(2**31))
    calls = all_calls()
    while True:
        name, function, arguments = rng.choice(calls)
        arguments = dict(arguments)
        with torch.no_grad():
            done = change(rng, arguments)
        yield Case(
            f"{name}: {done}", lambda function=function, given=arguments: run(function, given), (GlassformerError,)
        )


def all_calls() -> list[Call]:
    calls = [call for each in (*ARCHITECTURES, *OF_PICTURES) for call in calls_of(each)]
    return calls + [call for each in (*ENCODER_DECODERS, *OF_SOUND) for call in calls_of_encoder_decoder(each)]


def run(function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    with torch.no_grad():
        function(**arguments)


def change(rng: random.Random, arguments: dict[str, Any]) -> str:
    """Change one argument or two; what was done."""
    done = []
    for name in rng.sample(sorted(arguments), rng.choice((1, 1, 1, 2))):
        if name == "past_key_values" and isinstance(arguments[name], tuple) and rng.random() < 0.8:
            arguments[name], what = other_past(rng, arguments[name])
        elif rng.random() < 0.1:
            arguments[name], what = None, "None"
        else:
            arguments[name], what = hostile(rng, arguments[name])
        done.append(f"{name} = {what}")
    return "; ".join(done)


def calls_of(architecture: Architecture) -> Iterator[Call]:
    """Calls that work: of all models of an architecture, of their parts, and of generation."""
    config = architecture.tiny()
    registered = [import_class(f"models.{path}") for path in REGISTERED[architecture.model_type].classes.values()]
    for kind in dict.fromkeys((architecture.body, *architecture.heads, *registered)):
        model = made(kind, config)
        given = usual_arguments(model)
        if kind in architecture.heads:
            given |= architecture.heads[kind](BATCH, 17 if architecture in OF_PICTURES else LENGTH)
        if kind.__name__.endswith(("ForMultipleChoice", "DoubleHeadsModel")):  # two choices
            given |= {name: torch.stack((value, value), 1) for name, value in given.items() if torch.is_tensor(value)}
        model(**{name: value for name, value in given.items() if value is not None})
        yield f"{kind.__name__}", model, given
        if kind is architecture.body and "input_ids" in given:
            yield from calls_of_parts(model)
    if architecture.decoder is not None:
        decoder = made(architecture.decoder, architecture.tiny(**architecture.decoder_fields))
        yield from decoder_calls(decoder)


def made(kind: type[PreTrainedModel], config: Any) -> PreTrainedModel:
    return kind(config).eval()


def usual_arguments(model: PreTrainedModel) -> dict[str, Any]:
    """The arguments of a forward, with values that fit or None."""
    mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
    mask[1, 4:] = 0
    ids = tokens(BATCH, LENGTH)
    for column, name in ((3, "eos_token_id"), (1, "sep_token_id"), (2, "sep_token_id")):  # which some heads look for
        named = getattr(model.config, name, None)
        ids[:, column] = named if isinstance(named, int) and 0 < named < 50 else 5
    known = {
        "input_ids": ids,
        "attention_mask": mask,
        "output_attentions": True,
        **FEATURES,
    }
    if "decoder_input_ids" in accepted_by(model):
        known |= {"decoder_input_ids": tokens(BATCH, LENGTH), "decoder_attention_mask": torch.ones_like(mask)}
    if FEATURES.keys() & accepted_by(model):
        del known["attention_mask"]
    given = {name: known.get(name) for name in accepted_by(model)}
    if "src" in given:
        given |= {"src": tokens(BATCH, LENGTH), "tgt": tokens(BATCH, 4)}
    return given


def accepted_by(model: PreTrainedModel) -> frozenset[str]:
    return (model._accepted or frozenset()) - {"self"}


def calls_of_parts(model: PreTrainedModel) -> Iterator[Call]:
    """The parts that the tutorials call directly."""
    x, name = torch.randn(BATCH, LENGTH, model.config.hidden_size), type(model).__name__
    masks = {"attention_mask": torch.zeros(BATCH, 1, 1, LENGTH), "head_mask": None, "output_attentions": True}
    yield f"{name}.encoder", model.encoder, {"hidden_states": x, **masks, "output_hidden_states": False}
    yield f"{name}.encoder.layer[0]", model.encoder.layer[0], {"hidden_states": x, **masks}
    yield f"{name}.encoder.layer[0].attention", model.encoder.layer[0].attention, {"hidden_states": x, **masks}
    given = {"input_ids": tokens(BATCH, LENGTH), "token_type_ids": None, "position_ids": None, "inputs_embeds": None}
    yield f"{name}.embeddings", model.embeddings, given


def decoder_calls(model: PreTrainedModel) -> Iterator[Call]:
    """Calls with a cache, and generation."""
    name, ids = type(model).__name__, tokens(BATCH, LENGTH)
    if "past_key_values" in accepted_by(model):
        with torch.no_grad():
            past = model(input_ids=ids, use_cache=True).past_key_values
        given = {"input_ids": tokens(BATCH, 1), "past_key_values": past, "use_cache": True, "position_ids": None}
        yield f"{name} with a cache", model, {**given, "attention_mask": torch.ones(BATCH, LENGTH + 1).long()}

        def with_cache(batch: Any, layers: Any, **arguments: Any) -> None:
            cache = Cache(layers if type(layers) is int and layers in (2, 4) else 3, 10)
            model(input_ids=ids if not isinstance(batch, torch.Tensor) else batch, past_key_values=cache)
            model(**arguments, past_key_values=cache)

        yield f"{name} with a Cache", with_cache, {"input_ids": tokens(BATCH, 1), "batch": ids, "layers": 3}
    yield from generation_calls(model)


def generation_calls(model: PreTrainedModel) -> Iterator[Call]:
    ids = tokens(BATCH, LENGTH)
    given = {"inputs": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": None, "decoder_input_ids": None}
    if "input_features" in accepted_by(model):
        given |= {"inputs": FEATURES["input_features"], "attention_mask": None}
    given |= {"encoder_hidden_states": None, "encoder_attention_mask": None, "generator": None}
    name = f"{type(model).__name__}.generate"
    for how in ({}, {"do_sample": True}, {"num_beams": 2}):
        yield f"{name}{how or ''}", partial(generate, model, **how), given


def generate(model: PreTrainedModel, **arguments: Any) -> None:
    model.generate(**arguments, max_new_tokens=2)


def calls_of_encoder_decoder(each: EncoderDecoder) -> Iterator[Call]:
    """The same of an encoder-decoder, also with what its encoder returned before."""
    for path in dict.fromkeys(REGISTERED[each.model_type].classes.values()):
        model = made(import_class(f"models.{path}"), each.tiny())
        name, given = type(model).__name__, usual_arguments(model)
        with torch.no_grad():
            model(**{name: value for name, value in given.items() if value is not None})
        yield name, model, given
        if "encoder_outputs" in given:
            sources = {name: None for name in ("input_ids", "inputs_embeds", "input_features") if name in given}
            width = model.config.hidden_size  # of the encoder
            states = {"states": torch.rand(BATCH, LENGTH, width), "encoder_outputs": ()}
            yield f"{name} with encoder_outputs", partial(call_with_states, model), {**given, **sources, **states}
        if hasattr(model, "generate"):
            yield from generation_calls(model)


def call_with_states(model: PreTrainedModel, states: Any, encoder_outputs: Any, **arguments: Any) -> None:
    """A call with what an encoder returned: `states`, or the hostile value in place of all of it."""
    is_usual = isinstance(encoder_outputs, tuple) and not encoder_outputs
    model(**arguments, encoder_outputs=(states,) if is_usual else encoder_outputs)


def other_past(rng: random.Random, past: tuple) -> tuple[Any, str]:
    """Keys and values of an earlier call, changed."""
    layer, part = rng.randrange(len(past)), rng.randrange(2)
    tensor = past[layer][part]

    def with_part(value: Any) -> tuple:
        changed = [list(each) for each in past]
        changed[layer][part] = value
        return tuple(map(tuple, changed))

    value, what = hostile(rng, tensor)
    kinds: list[tuple[Any, str]] = [
        (with_part(value), f"with {what} in layer {layer}"),
        (past[:-1], "without a layer"),
        (past + past, "twice"),
        (tuple(each[:1] for each in past), "without values"),
        (tuple((each[0][:, :1], each[1][:, :1]) for each in past), "of one head"),
        (tuple((each[0][..., :3], each[1][..., :3]) for each in past), "of narrow heads"),
        (tuple((each[0][:, :, :2], each[1]) for each in past), "with fewer keys than values"),
        (tuple((each[0].double(), each[1].double()) for each in past), "in float64"),
        (tuple(each + each for each in past), "with a source"),
        ([list(each) for each in past], "as lists"),
        (past[0], "one layer"),
        (past[0][0], "a tensor"),
    ]
    return rng.choice(kinds)
