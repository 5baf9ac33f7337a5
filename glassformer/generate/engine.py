"""`model.generate`: from prompts and settings to sequences."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..errors import InputError
from ..nn.mask import check_mask, check_tensor
from .beams import beam_search
from .config import GenerationConfig
from .constraints import constrained_beam_search
from .contrastive import contrast
from .job import Found, GenerateOutput, Job, assemble
from .processors import rules_for
from .reader import Reader, Rereader, StateReader
from .sampling import make_generators
from .search import one_by_one
from .settings import merge, resolve
from .stopping import stop_strings

log = logging.getLogger("glassformer")


def refuse_to_peek(model: Any) -> None:
    """Raise if a model sees the words that it should predict."""
    if not model.decoding_body.is_decoder:
        raise InputError(f"{type(model).__name__} sees the words it should predict: load it with is_decoder=True")


class Generation:
    """One call of `generate`, from its arguments to its result; iterate over `steps` to see it happen."""

    def __init__(
        self,
        model,
        inputs: Tensor | None = None,
        generation_config: GenerationConfig | None = None,
        *,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        generator: Any = None,
        tokenizer: Any = None,
        decoder_input_ids: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        **settings: Any,
    ):
        refuse_to_peek(model)
        if token_type_ids is not None and bool(token_type_ids.any()):
            raise InputError("generation reads one text: token_type_ids other than 0 are not used")
        self.model = model
        given = {"encoder_hidden_states": encoder_hidden_states, "encoder_attention_mask": encoder_attention_mask}
        source = {name: value for name, value in given.items() if value is not None}
        texts = real_tokens(inputs, attention_mask, pad_in(model, generation_config, settings))
        if model.config.is_encoder_decoder:
            source = source or read_source(model, texts)
            merged, _ = merge(model, generation_config, settings)
            inputs = begin_of_target(model, decoder_input_ids, len(next(iter(source.values()))), merged)
            texts = inputs.tolist()
        elif decoder_input_ids is not None:
            raise InputError(f"{type(model).__name__} has no decoder of its own: its prompt is input_ids")
        self.source, prompts = source, texts
        plan = resolve(
            model,
            generation_config,
            settings,
            [max(len(prompt), 1) for prompt in prompts],
            has_tokenizer=tokenizer is not None,
            has_generator=generator is not None,
        )
        self.plan = plan
        prompts = [prompt or begin_of_text(plan.settings) for prompt in prompts]
        limits = [len(prompt) + new for prompt, new in zip(prompts, plan.new_tokens, strict=True)]
        copies = 1 if plan.settings.num_beams > 1 else plan.settings.num_return_sequences
        self.given = as_given(inputs, prompts, model.device)
        self.job = Job(
            prompts=prompts,
            limits=limits,
            settings=plan.settings,
            eos=plan.eos,
            rules=rules_for(plan.settings, plan.eos),
            generators=make_generators(generator, len(prompts) * copies, model.device),
            says_stop=stop_strings(plan.settings.stop_strings, tokenizer),
            context=plan.context,
            words=model.config.vocab_size,
        )

    def make_reader(self, room: int) -> Reader | Rereader | StateReader:
        if not self.job.settings.use_cache:
            return Rereader(self.model, room, dict(self.source))
        by_state = getattr(self.model.decoding_body, "keeps_state", False)
        return (StateReader if by_state else Reader)(self.model, room, dict(self.source))

    def steps(self) -> Iterator[list[tuple[int, int]]]:
        """The (sequence, token) pairs of every step; returns what was found."""
        settings = self.job.settings
        if settings.force_words_ids:
            search = constrained_beam_search(self.job, self.make_reader)
        elif settings.num_beams > 1:
            search = beam_search(self.job, self.make_reader)
        elif settings.penalty_alpha and settings.top_k > 1 and not settings.do_sample:
            search = contrast(self.job, self.make_reader)
        else:
            search = one_by_one(self.job, self.make_reader)
        while True:
            with torch.no_grad(), evaluating(self.model):  # never while the caller looks at a step
                try:
                    said = next(search)
                except StopIteration as end:
                    return end.value
            yield said

    def result(self, found: Found) -> Tensor | GenerateOutput:
        return assemble(self.given, found, self.job.settings, self.plan.pad)


def generate(model, inputs: Tensor | None = None, *arguments: Any, streamer: Any = None, **settings: Any):
    """Continue prompts (B T, padded on either side) as the settings say; see `GenerationConfig` for them.

    Returns B T, or a `GenerateOutput` with `return_dict_in_generate=True`.
    """
    generation = Generation(model, inputs, *arguments, **settings)
    if streamer is not None:
        if len(generation.given) > 1 or generation.job.settings.num_return_sequences > 1:
            raise InputError("a streamer takes one sequence at a time")
        if generation.job.settings.num_beams > 1:
            raise InputError("a beam search knows its text only at the end: a streamer needs num_beams=1")
        streamer.put(generation.given.cpu())
        found = exhaust(generation.steps(), lambda said: streamer.put(torch.tensor([token for _, token in said])))
        streamer.end()
    else:
        found = exhaust(generation.steps())
    return generation.result(found)


def exhaust(steps: Iterator[list[tuple[int, int]]], tell: Callable | None = None) -> Found:
    """Go through all steps, telling of each; what was found in the end."""
    while True:
        try:
            said = next(steps)
        except StopIteration as end:
            return end.value
        if tell is not None:
            tell(said)


@contextmanager
def evaluating(model) -> Iterator[None]:
    """Without dropout, whatever the model was doing before."""
    if not model.training:
        yield
        return
    model.eval()
    try:
        yield
    finally:
        model.train()


def pad_in(model, generation_config: GenerationConfig | None, settings: dict) -> int | None:
    """The token that pads the prompts, as far as the call and the model know it."""
    for known in (settings.get("pad_token_id"), getattr(generation_config, "pad_token_id", None)):
        if known is not None:
            return known
    return model.generation_config.pad_token_id


def real_tokens(inputs: Tensor | None, attention_mask: Tensor | None, pad: int | None) -> list[list[int]]:
    """Each prompt's own tokens. Without a mask, runs of the padding token at either end are taken for padding."""
    if inputs is None:
        return [[]]
    if hasattr(inputs, "keys"):
        raise InputError("an encoding is passed with two stars: model.generate(**batch)")
    check_tensor(inputs, "input_ids")
    if inputs.dim() != 2 or not len(inputs):
        raise InputError(f"input_ids must have the shape B T, got {list(inputs.shape)}")
    if attention_mask is None:
        rows = inputs.tolist()
        padded = pad is not None and any(row and (row[0] == pad or row[-1] == pad) for row in rows)
        if not padded:
            return rows
        log.warning("no attention_mask: token %d at the ends of the prompts is taken for padding", pad)
        attention_mask = inside(inputs != pad)
    check_mask(attention_mask, *inputs.shape)
    if attention_mask.dim() != 2:
        raise InputError(f"attention_mask must have the shape B T, got {list(attention_mask.shape)}")
    seen = attention_mask.bool().cpu()
    if bool((inside(seen) != seen).any()):
        row = (inside(seen) != seen).any(1).nonzero()[0].item()
        raise InputError(f"attention_mask has holes in prompt {row}: only the ends of a prompt can be padding")
    return [ids[mask].tolist() for ids, mask in zip(inputs.cpu(), seen, strict=True)]


def read_source(model, texts: list[list[int]]) -> dict[str, Tensor]:
    """What a decoder needs to know of the sources that its encoder reads; padding stands on the right here."""
    empty = next((row for row, text in enumerate(texts) if not text), None)
    if empty is not None:
        raise InputError(f"source {empty} is empty: the encoder has nothing to read")
    ids = pad_sequence([torch.tensor(text, device=model.device) for text in texts], batch_first=True)
    lengths = torch.tensor([len(text) for text in texts], device=model.device)
    real = torch.arange(ids.shape[1], device=model.device) < lengths[:, None]
    with torch.no_grad(), evaluating(model):
        return model.source_for(ids, real.long())


def begin_of_target(model, given: Tensor | None, batch: int, settings: GenerationConfig) -> Tensor:
    """What is written first beside each source (B T): what the caller gives, else the token that begins a target."""
    if given is None:
        chosen = settings.decoder_start_token_id
        return torch.full((batch, 1), model.start_token() if chosen is None else chosen, device=model.device)
    check_tensor(given, "decoder_input_ids")
    if given.dim() != 2 or len(given) != batch or not given.shape[1]:
        raise InputError(f"decoder_input_ids must have the shape [{batch}, length], got {list(given.shape)}")
    return given.to(model.device)


def inside(marked: Tensor) -> Tensor:
    """All places between the first and the last marked one of each row."""
    marked = marked.int()
    return (marked.cumsum(1) > 0) & (marked.flip(1).cumsum(1).flip(1) > 0)


def begin_of_text(settings: GenerationConfig) -> list[int]:
    """What an empty prompt is."""
    if settings.bos_token_id is None:
        raise InputError("an empty prompt needs a bos_token_id to begin with; the model names none")
    return [settings.bos_token_id]


def as_given(inputs: Tensor | None, prompts: list[list[int]], device: torch.device) -> Tensor:
    """The prompts as they stand in the result."""
    if inputs is None or not inputs.shape[1]:
        return torch.tensor(prompts, device=device)
    return inputs.to(device)
