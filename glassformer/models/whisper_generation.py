"""What Whisper's `generate` adds: the tokens that say what to write, and finding out the language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..errors import InputError, shown
from ..nn.tensor_inputs import WHOLE, check_tensor
from ..text.whisper_languages import language_code
from .base.evaluation_mode import evaluation_mode
from .base.generation_mixin import GenerationMixin
from .base.outputs import BaseModelOutput
from .base.seq2seq import last_hidden_state_of

if TYPE_CHECKING:
    from ..generate.config import GenerationConfig
    from ..generate.output import GenerateOutput

Languages = str | Sequence[str] | None


class WhisperGenerationMixin(GenerationMixin):
    """A model that writes what is said in a window, from `input_features` or what its encoder made of them."""

    def generate(  # type: ignore[override]
        self,
        input_features: Tensor | None = None,
        generation_config: GenerationConfig | None = None,
        *,
        inputs: Tensor | None = None,
        attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        decoder_input_ids: Tensor | None = None,
        language: Languages = None,
        task: str | None = None,
        return_timestamps: bool | None = None,
        prompt_ids: Any = None,
        generator: Any = None,
        tokenizer: Any = None,
        streamer: Any = None,
        **settings: Any,
    ) -> Tensor | GenerateOutput:
        """Write what is said in windows (B bands columns); the ids begin with the tokens that say what to write.

        A model of many languages finds out the `language` (one, or one for each window) unless it is given; `task` is
        "transcribe" or "translate" into English. `return_timestamps` writes times too. `prompt_ids` of
        `WhisperTokenizer.get_prompt_ids` are text that came before. `attention_mask` is read by nothing: silence is
        sound. Other settings are those of `GenerationConfig`. Longer sound than a window: see `transcribe`.
        """
        from ..generate.generation import generate
        from ..generate.settings_resolution import merge

        for name in ("encoder_hidden_states", "encoder_attention_mask"):
            if settings.pop(name, None) is not None:
                raise InputError(f"{name} is not taken here: pass encoder_outputs=(last_hidden_state,)")
        given = input_features if inputs is None else inputs
        memory = self.encoded(given, encoder_outputs)
        timed = {} if return_timestamps is None else {"return_timestamps": return_timestamps}
        if decoder_input_ids is None:
            merged, _ = merge(self, generation_config, {**settings, **timed})
            decoder_input_ids = self.decoder_prompt(memory, merged, language, task, prompt_ids)
        elif language is not None or task is not None or prompt_ids is not None:
            raise InputError("decoder_input_ids say what to write: leave language, task and prompt_ids out")
        source = {"encoder_hidden_states": memory, "decoder_input_ids": decoder_input_ids}
        helpers = {"generator": generator, "tokenizer": tokenizer, "streamer": streamer}
        return generate(self, None, generation_config, **source, **helpers, **settings, **timed)

    def encoded(self, features: Tensor | None, outputs: BaseModelOutput | tuple | None) -> Tensor:
        """What the encoder makes of windows: B T C."""
        if (features is None) == (outputs is None):
            raise InputError("give either input_features or encoder_outputs")
        if outputs is not None:
            return last_hidden_state_of(outputs)
        with torch.no_grad(), evaluation_mode(self):
            return self.encoder.encode(input_features=features).last_hidden_state

    # --- the tokens before the text ----------------------------------------------------------------------------

    def decoder_prompt(
        self,
        memory: Tensor,
        settings: GenerationConfig,
        language: Languages = None,
        task: str | None = None,
        prompt_ids: Any = None,
    ) -> Tensor:
        """The ids that every text begins with: B T."""
        own = self.generation_config
        start = self.first_token(settings)
        languages, tasks = own.extra.get("lang_to_id"), own.extra.get("task_to_id")
        language = own.extra.get("language") if language is None else language
        task = own.extra.get("task") if task is None else task
        forced = [token for _, token in settings.forced_decoder_ids or ()] if language is None and task is None else []
        if own.extra.get("is_multilingual") is False and (language is not None or task is not None):
            raise InputError("a model of English alone has no languages and no other task: leave language and task out")
        rows = [list(forced) for _ in range(len(memory))]
        if languages and (language is not None or not forced or forced[0] is None):
            for row, code in zip(rows, self.language_ids(memory, languages, language), strict=True):
                row[:1] = [code]
        elif language is not None:
            raise InputError(f"the model has no lang_to_id, so language {shown(language)} has no token")
        no_times = settings.no_timestamps_token_id
        for row in rows:
            if tasks and not any(token in tasks.values() for token in row) and (task or language):
                row.append(tasks[check_task(task or "transcribe", tasks)])
            row[:] = [token for token in row if token is not None and token != no_times]
            row += [no_times] if no_times is not None and not settings.return_timestamps else []
        before = [] if prompt_ids is None else as_ids(prompt_ids)
        return torch.tensor([[*before, start, *row] for row in rows], device=self.device)

    def first_token(self, settings: GenerationConfig) -> int:
        start = settings.decoder_start_token_id
        return self.start_token() if start is None else start

    def language_ids(self, memory: Tensor, known: dict[str, int], language: Languages) -> list[int]:
        """The tokens of the languages of windows."""
        if language is None:
            return self.detect_language(encoder_outputs=(memory,)).tolist()
        each = [language] * len(memory) if isinstance(language, str) else list(language)
        if len(each) != len(memory):
            raise InputError(f"{len(memory)} windows need one language or as many, got {len(each)}")
        tokens = [f"<|{language_code(one)}|>" for one in each]
        missing = next((token for token in tokens if token not in known), None)
        if missing is not None:
            raise InputError(f"the model has no token {missing}; it knows {' '.join(known)}")
        return [known[token] for token in tokens]

    def language_scores(self, memory: Tensor) -> Tensor:
        """The logits of the languages of the model, in the order of `lang_to_id`: B languages."""
        known = self.generation_config.extra.get("lang_to_id")
        if not known:
            raise InputError("the model has no lang_to_id: it knows one language")
        start = torch.full((len(memory), 1), self.first_token(self.generation_config), device=self.device)
        with torch.no_grad(), evaluation_mode(self):
            body = self.decoding_body.encode(start, encoder_hidden_states=memory)
            return self.word_logits(body.rows)[:, list(known.values())]

    def detect_language(
        self, input_features: Tensor | None = None, encoder_outputs: BaseModelOutput | tuple | None = None
    ) -> Tensor:
        """The token of the likeliest language of each window: B."""
        scores = self.language_scores(self.encoded(input_features, encoder_outputs))
        known = torch.tensor(list(self.generation_config.extra["lang_to_id"].values()), device=scores.device)
        return known[scores.argmax(-1)]


def check_task(task: str, known: dict[str, int]) -> str:
    if task not in known:
        raise InputError(f"task must be {' or '.join(map(repr, known))}, got {shown(task)}")
    return task


def as_ids(ids: Any) -> list[int]:
    """Ids of a prompt, as a list."""
    if isinstance(ids, Tensor):
        check_tensor(ids, "prompt_ids", WHOLE)
    listed = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    if not all(type(token) is int for token in listed):
        raise InputError(f"prompt_ids must be one row of token ids, got {shown(ids)}")
    return listed
