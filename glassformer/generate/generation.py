"""`model.generate`: from prompts and settings to sequences."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..errors import InputError
from ..models.base.evaluation_mode import evaluation_mode
from ..nn.tensor_inputs import FLOATING, WHOLE, check_mask, check_tensor
from .beam_search import beam_search
from .config import GenerationConfig
from .constrained_beam_search import constrained_beam_search
from .contrastive_search import contrastive_search
from .greedy_and_sampling import greedy_or_sample
from .model_runner import CachedRunner, RecurrentRunner, Runner, UncachedRunner, pad_right
from .output import GenerateOutput, make_output
from .plan import BEAM_SAMPLING, BEAMS, CONSTRAINED, CONTRASTIVE, DIVERSE, GREEDY, SAMPLING
from .processors import make_processors
from .request import GenerationRequest, Search, SearchResult
from .sampling import make_generators
from .settings_resolution import merge, resolve
from .stop_strings import stop_string_check

log = logging.getLogger("glassformer")

SEARCHES = {
    GREEDY: greedy_or_sample,
    SAMPLING: greedy_or_sample,
    CONTRASTIVE: contrastive_search,
    BEAMS: beam_search,
    BEAM_SAMPLING: beam_search,
    DIVERSE: beam_search,
    CONSTRAINED: constrained_beam_search,
}
Step = TypeVar("Step")
Result = TypeVar("Result")


def require_decoder(model: Any) -> None:
    """Refuse a model that is not causal."""
    if not model.decoding_body.is_decoder:
        raise InputError(f"{type(model).__name__} sees the words it should predict: load it with is_decoder=True")


class Generation:
    """One call of `generate`: its arguments are resolved first, `steps` runs the search."""

    searches: Mapping[str, Callable] = SEARCHES

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
        require_decoder(model)
        if token_type_ids is not None:
            check_tensor(token_type_ids, "token_type_ids", WHOLE, device=model.device)
        if token_type_ids is not None and bool(token_type_ids.any()):
            raise InputError("generation reads one text: token_type_ids other than 0 are not used")
        self.model = model
        given = {"encoder_hidden_states": encoder_hidden_states, "encoder_attention_mask": encoder_attention_mask}
        source = {name: value for name, value in given.items() if value is not None}
        if inputs is not None and getattr(inputs, "is_meta", False):
            check_tensor(inputs, "input_ids", device=model.device)
        prompts = unpad_prompts(inputs, attention_mask, find_pad_token_id(model, generation_config, settings))
        check_source(model, encoder_hidden_states, encoder_attention_mask, None if inputs is None else len(prompts))
        if model.config.is_encoder_decoder:
            source = source or encode_source(model, prompts)
            merged, _ = merge(model, generation_config, settings)
            inputs = initial_decoder_ids(model, decoder_input_ids, len(next(iter(source.values()))), merged)
            prompts = inputs.tolist()
        elif decoder_input_ids is not None:
            raise InputError(f"{type(model).__name__} has no decoder of its own: its prompt is input_ids")
        self.source = source
        self.plan = plan = resolve(
            model,
            generation_config,
            settings,
            [max(len(prompt), 1) for prompt in prompts],
            has_tokenizer=tokenizer is not None,
            has_generator=generator is not None,
        )
        plan.log_warnings()
        prompts = [prompt or empty_prompt(plan.settings) for prompt in prompts]
        copies = 1 if plan.settings.num_beams > 1 else plan.settings.num_return_sequences
        is_empty = inputs is None or not inputs.shape[1]
        self.inputs = torch.tensor(prompts, device=model.device) if is_empty else inputs.to(model.device)
        self.request = GenerationRequest(
            prompts=prompts,
            max_lengths=plan.max_lengths,
            settings=plan.settings,
            eos=plan.eos,
            processors=make_processors(plan.settings, plan.eos),
            generators=make_generators(generator, len(prompts) * copies, model.device),
            ends_with_stop_string=stop_string_check(plan.settings.stop_strings, tokenizer),
            context_length=plan.context_length,
            vocab_size=model.config.vocab_size,
        )

    def make_runner(self, max_steps: int) -> Runner:
        body = self.model.decoding_body
        reads_again = getattr(body, "reads_again", False)  # a further token changes all others
        keeps_memory = getattr(body, "keeps_memory", False)  # what a token sees depends on the parts that are read
        if reads_again or not (self.request.settings.use_cache or keeps_memory):
            return UncachedRunner(self.model, max_steps, dict(self.source))
        is_recurrent = getattr(body, "keeps_state", False)
        return (RecurrentRunner if is_recurrent else CachedRunner)(self.model, max_steps, dict(self.source))

    def steps(self) -> Search:
        """The steps of the search, with the model in evaluation mode."""
        search = self.searches[self.plan.strategy](self.request, self.make_runner)
        while True:
            with torch.no_grad(), evaluation_mode(self.model):  # not while the caller handles a step
                try:
                    pairs = next(search)
                except StopIteration as end:
                    return end.value
            yield pairs

    def output(self, result: SearchResult) -> Tensor | GenerateOutput:
        return make_output(self.inputs, result, self.request.settings, self.plan.pad)


def generate(model, inputs: Tensor | None = None, *arguments: Any, streamer: Any = None, **settings: Any):
    """Continue prompts (B T, padded on either side); see `GenerationConfig` for the settings.

    Returns B T, or a `GenerateOutput` with `return_dict_in_generate=True`.
    """
    generation = Generation(model, inputs, *arguments, **settings)
    if streamer is None:
        return generation.output(exhaust(generation.steps()))
    if len(generation.inputs) > 1 or generation.request.settings.num_return_sequences > 1:
        raise InputError("a streamer takes one sequence at a time")
    if generation.request.settings.num_beams > 1:
        raise InputError("a beam search has no text before its end: a streamer needs num_beams=1")
    streamer.put(generation.inputs.cpu())
    result = exhaust(generation.steps(), lambda pairs: streamer.put(torch.tensor([token for _, token in pairs])))
    streamer.end()
    return generation.output(result)


def exhaust(steps: Generator[Step, None, Result], callback: Callable[[Step], Any] | None = None) -> Result:
    """Run a generator to its end, with a callback for each step; what it returns."""
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return end.value
        if callback is not None:
            callback(step)


def find_pad_token_id(model, generation_config: GenerationConfig | None, settings: dict) -> int | None:
    """The padding token of the prompts, from the call, the config or the model."""
    for pad in (settings.get("pad_token_id"), getattr(generation_config, "pad_token_id", None)):
        if pad is not None:
            return pad
    return model.generation_config.pad_token_id


def unpad_prompts(inputs: Tensor | None, attention_mask: Tensor | None, pad: int | None) -> list[list[int]]:
    """The prompts without padding. Without a mask, padding tokens at either end are taken for padding."""
    if inputs is None:
        return [[]]
    if hasattr(inputs, "keys"):
        raise InputError("an encoding is passed with two stars: model.generate(**batch)")
    check_tensor(inputs, "input_ids", WHOLE, "B T")
    if not len(inputs):
        raise InputError(f"the batch is empty: input_ids has the shape {list(inputs.shape)}")
    if attention_mask is None:
        rows = inputs.tolist()
        is_padded = pad is not None and any(row and (row[0] == pad or row[-1] == pad) for row in rows)
        if not is_padded:
            return rows
        log.warning("no attention_mask: token %d at the ends of the prompts is taken for padding", pad)
        attention_mask = fill_gaps(inputs != pad)
    check_mask(attention_mask, *inputs.shape, device=inputs.device)
    if attention_mask.dim() != 2:
        raise InputError(f"attention_mask must have the shape B T, got {list(attention_mask.shape)}")
    mask = attention_mask.bool().cpu()
    has_gaps = (fill_gaps(mask) != mask).any(1)
    if bool(has_gaps.any()):
        row = has_gaps.nonzero()[0].item()
        raise InputError(f"attention_mask has holes in prompt {row}: only the ends of a prompt can be padding")
    return [ids[real].tolist() for ids, real in zip(inputs.cpu(), mask, strict=True)]


def fill_gaps(mask: Tensor) -> Tensor:
    """All positions between the first and the last true one of each row."""
    mask = mask.int()
    return (mask.cumsum(1) > 0) & (mask.flip(1).cumsum(1).flip(1) > 0)


def check_source(model, states: Tensor | None, mask: Tensor | None, batch: int | None) -> None:
    """Refuse the source of a decoder, and its mask, if they do not fit the model or the prompts."""
    if states is None and mask is not None:
        raise InputError("encoder_attention_mask is the mask of encoder_hidden_states, which are missing")
    if states is not None:
        check_tensor(states, "encoder_hidden_states", FLOATING, "B S C")
        model.decoding_body.source_layout(states, mask, len(states) if batch is None else batch, keep_padding=False)


def encode_source(model, texts: list[list[int]]) -> dict[str, Tensor]:
    """What the decoder reads of the encoded source texts."""
    empty = next((row for row, text in enumerate(texts) if not text), None)
    if empty is not None:
        raise InputError(f"source {empty} is empty: the encoder has nothing to read")
    ids, real = pad_right(texts, model.device)
    with torch.no_grad(), evaluation_mode(model):
        return model.source_for(ids, real.long())


def initial_decoder_ids(model, given: Tensor | None, batch: int, settings: GenerationConfig) -> Tensor:
    """How each target begins (B T): as given, else with the start token."""
    if given is None:
        start = settings.decoder_start_token_id
        begin = [model.start_token() if start is None else start, *forced_tokens(settings, model.config.vocab_size)]
        return torch.tensor([begin] * batch, device=model.device)
    device = model.device if getattr(given, "is_meta", False) else None
    check_tensor(given, "decoder_input_ids", WHOLE, "B T", device)
    if len(given) != batch or not given.shape[1]:
        raise InputError(f"decoder_input_ids must have the shape [{batch}, length], got {list(given.shape)}")
    return given.to(model.device)


def forced_tokens(settings: GenerationConfig, vocab_size: int) -> list[int]:
    """The tokens behind the start token that `forced_decoder_ids` names."""
    tokens = [token for _, token in settings.forced_decoder_ids or ()]
    wrong = next((token for token in tokens if token is None or token >= vocab_size), 0)
    if wrong != 0:
        raise InputError(f"forced_decoder_ids must name tokens of the {vocab_size} in the vocabulary, got {wrong}")
    return tokens


def empty_prompt(settings: GenerationConfig) -> list[int]:
    """The tokens that take the place of an empty prompt."""
    if settings.bos_token_id is None:
        raise InputError("an empty prompt needs a bos_token_id to begin with, and the model has none")
    return [settings.bos_token_id]
