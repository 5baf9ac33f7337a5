"""The explorer's answers: what its page asks about a model and a text.

A text that was read is kept, with the queries and keys of its layers; the weights of a head are computed when the page
asks for that head, and sent as plain numbers.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from ..explain.analysis import attribution
from ..explain.analysis import head_measures as measures
from ..explain.analysis import interventions as whatif
from ..explain.analysis import logit_lens as lens
from ..explain.analysis.layer_similarity import cka_table
from ..explain.analysis.model_anatomy import anatomy
from ..explain.pages.attention_page import FOLDER as VIEWS
from ..explain.pages.bertviz_views import page_of_reading, score_bias_of
from ..explain.reading import Part, Reading
from ..explain.subject import Subject
from ..generate.streaming import TextStream
from . import requests as ask
from .local_server import Answer, LocalServer, files_of
from .responses import Overview, describe, overview, step_of, tokens_of

PAGE = Path(__file__).parent / "page"
KEPT = 6  # readings
MOST_POSITIONS = 64  # that the lens looks at in one go
MOST_NEW = 200  # tokens that are written in one go

Asked = Mapping[str, Any]


class Kept(NamedTuple):
    """A text that was read, with what its page is told of all heads."""

    reading: Reading
    overview: Overview


class Explorer:
    """A model, or two to compare, and the texts that they have read."""

    def __init__(self, subjects: list[Subject], text: str = "", pair: str = "") -> None:
        self.subjects, self.text, self.pair = subjects, text, pair
        self.kept: OrderedDict[int, Kept] = OrderedDict()
        self.count = 0
        self.lock = threading.Lock()
        self.first = self.keep(subjects[0].read(text, pair or None)) if text else None

    def serve(self, port: int = 0) -> LocalServer:
        names = ("model", "tokens", "read", "thumbs", "head", "flow", "neuron", "predict", "lens", "change")
        names += ("attribute", "compare", "generate", "anatomy", "page")
        questions = {f"/api/{name}": self.one_at_a_time(getattr(self, name)) for name in names}
        return LocalServer(files_of(VIEWS, PAGE), questions, port)

    def one_at_a_time(self, question: Any) -> Any:
        def answer(asked: Asked) -> Any:
            with self.lock:
                return question(asked)

        return answer

    # --- the model and its texts -------------------------------------------------------------------------------

    def model(self, asked: Asked) -> dict[str, Any]:
        return {
            "models": [describe(subject) for subject in self.subjects],
            "measures": list(measures.MEASURES),
            "methods": attribution.METHODS,
            "text": self.text,
            "pair": self.pair,
        }

    def tokens(self, asked: Asked) -> dict[str, Any]:
        return tokens_of(self.subject(asked).encode(ask.text(asked, "text"), ask.text(asked, "pair", "")))

    def read(self, asked: Asked) -> dict[str, Any]:
        """Let a model read a text, with the token at `mask` hidden if that is asked for."""
        subject, text, pair = self.subject(asked), ask.text(asked, "text"), ask.text(asked, "pair", "")
        known = self.first in self.kept and (text, pair) == (self.text, self.pair) and subject is self.subjects[0]
        if known and asked.get("mask") is None:
            number = self.first
        else:
            reading = subject.encode(text, pair)
            if asked.get("mask") is not None:
                if subject.kind == "next" or subject.tokenizer.mask_token_id is None:
                    raise InputError("this model knows no mask")
                reading.ids[reading.index(ask.whole(asked, "mask"))] = subject.tokenizer.mask_token_id
                reading = subject.reading_of(reading.ids, reading.segments, text, pair or None)
            number = self.keep(subject.run(reading))
        reading, seen = self.kept[number]
        return {"reading": number, **tokens_of(reading), "parts": {name: about for name, (about, _) in seen.items()}}

    def thumbs(self, asked: Asked) -> Answer:
        reading, seen = self.found(asked)
        _, pictures = seen[self.part_name(asked, reading)]
        return Answer(pictures)

    def head(self, asked: Asked) -> Answer:
        reading, layer, head = self.reading(asked), ask.whole(asked, "layer"), ask.whole(asked, "head")
        return as_bytes(reading.weights(layer, [head], self.part(asked, reading).kind)[0])

    def flow(self, asked: Asked) -> Answer:
        """The mean of a layer's heads, or rollout up to it."""
        reading, layer = self.reading(asked), ask.whole(asked, "layer")
        name = self.part_name(asked, reading)
        if ask.text(asked, "what") == "rollout":
            return as_bytes(measures.rollout(reading, layer, name))
        return as_bytes(measures.mean_of_heads(reading, layer, reading.parts[name]))

    def part_name(self, asked: Asked, reading: Reading) -> str:
        """The kind of attention that is asked about; the first if none is named."""
        name = ask.text(asked, "part", next(iter(reading.parts)))
        if name not in reading.parts:
            raise InputError(f"there is no attention {name!r}; there are {', '.join(reading.parts)}")
        return name

    def part(self, asked: Asked, reading: Reading) -> Part:
        return reading.parts[self.part_name(asked, reading)]

    def neuron(self, asked: Asked) -> Answer:
        """The query at `row`, all keys, what is added to its scores (zeros if nothing), its weights."""
        reading, layer, head = self.reading(asked), ask.whole(asked, "layer"), ask.whole(asked, "head")
        part = self.part(asked, reading)
        if not part.has_vectors:
            raise InputError("the weights of this attention do not come from queries and keys")
        row = ask.whole(asked, "row", low=0, high=len(part.left.ids) - 1)
        queries, keys = reading.vectors(layer, head, part.kind)
        bias = score_bias_of(reading.attention_inputs(layer, part.kind))
        slot = reading.subject.heads_of_part(part)[layer].index(head)
        added = torch.zeros(len(keys)) if bias is None else bias[slot, row].float()
        weights = reading.weights(layer, [head], part.kind)[0, row]
        return as_bytes(torch.cat((queries[row].float(), keys.float().reshape(-1), added, weights.float())))

    # --- what it says ------------------------------------------------------------------------------------------

    def predict(self, asked: Asked) -> dict[str, Any]:
        guesses = lens.predict(
            self.reading(asked),
            ask.whole(asked, "position", -1),
            count=ask.whole(asked, "count", 10, 1, 50),
            temperature=ask.number(asked, "temperature", 1.0, 0.01, 100.0),
            top_k=ask.whole(asked, "top_k", 0, 0),
            top_p=ask.number(asked, "top_p", 1.0, 0.0, 1.0) or 1e-9,
        )
        return {"guesses": [asdict(guess) for guess in guesses]}

    def lens(self, asked: Asked) -> dict[str, Any]:
        reading = self.reading(asked)
        positions = ask.numbers(asked, "positions", MOST_POSITIONS)
        table = lens.lens(reading, positions, ask.whole(asked, "count", 3, 1, 10))
        return {"layers": [[[asdict(guess) for guess in cell] for cell in row] for row in table]}

    def change(self, asked: Asked) -> dict[str, Any]:
        """Switch heads and layers off, scale them, or patch in vectors of another text."""
        reading, source, places = self.reading(asked), None, None
        if asked.get("source"):
            source = reading.subject.read(ask.text(asked, "source"))
            given = [asked.get(name) is not None for name in ("here", "there")]
            if any(given):
                if not all(given):
                    raise InputError("name both tokens of a patch: from which one, and to which one")
                places = {ask.whole(asked, "here"): ask.whole(asked, "there")}
        change = whatif.Change(
            ask.factors(asked, "heads"),
            ask.factors(asked, "cross_heads"),
            ask.numbers(asked, "skip"),
            source,
            None if source is None else ask.whole(asked, "layer"),
            places,
        )
        effect = whatif.try_change(reading, change, ask.whole(asked, "position", -1))
        return {
            "before": [asdict(guess) for guess in effect.before],
            "after": [asdict(guess) for guess in effect.after],
            "divergence": effect.divergence,
            "moved": effect.moved,
        }

    def attribute(self, asked: Asked) -> dict[str, Any]:
        target = asked.get("target")
        found = attribution.attribute(
            self.reading(asked),
            ask.text(asked, "method"),
            ask.whole(asked, "position", -1),
            None if target is None else ask.whole(asked, "target", low=0),
        )
        return asdict(found)

    def compare(self, asked: Asked) -> dict[str, Any]:
        """Two readings side by side: of one text by two models, or of two texts by one."""
        both = [self.found({"reading": asked.get(name)}) for name in ("first", "second")]
        (first, _), (second, _) = both
        table = None
        if len(first) == len(second):
            table = cka_table([s.float() for s in first.hidden], [s.float() for s in second.hidden])
        heads = [{name: about["heads"] for name, (about, _) in seen.items()} for _, seen in both]
        return {"cka": table, "first": heads[0], "second": heads[1], "tokens": [first.tokens, second.tokens]}

    def generate(self, asked: Asked) -> dict[str, Any]:
        """Continue the text, and tell at each step which words stood to choose from."""
        subject = self.subject(asked)
        if subject.kind != "next":
            raise InputError("this model does not write: it has no head for the next word")
        settings: dict[str, Any] = {"max_new_tokens": ask.whole(asked, "steps", 20, 1, MOST_NEW)}
        if asked.get("sample"):
            settings |= {
                "do_sample": True,
                "temperature": ask.number(asked, "temperature", 1.0, 0.01, 100.0),
                "top_k": ask.whole(asked, "top_k", 0, 0),
                "top_p": ask.number(asked, "top_p", 1.0, 0.0, 1.0) or 1e-9,
                "generator": ask.whole(asked, "seed", 0, 0),
            }
        else:
            settings["do_sample"] = False
        written, start = subject.continue_text(ask.text(asked, "text"), settings)
        whole = subject.run(written)
        steps = [{**step_of(whole, place), "chosen": whole.tokens[place]} for place in range(start, len(whole))]
        stream = TextStream(subject.target_tokenizer)
        starts = int(whole.source is not None)  # what every target begins with is no word
        pieces = [""] * starts + [stream.put([i]) for i in whole.ids[starts:]]
        pieces[-1] += stream.end()
        return {"tokens": whole.tokens, "pieces": pieces, "start": start, "steps": steps}

    def anatomy(self, asked: Asked) -> dict[str, Any]:
        return anatomy(self.subject(asked).model)

    def page(self, asked: Asked) -> Answer:
        """The page that stands alone, for a file."""
        reading = self.reading(asked)
        page = page_of_reading(
            reading,
            self.part_name(asked, reading),
            ask.whole(asked, "layer"),
            ask.numbers(asked, "heads"),
            ask.text(asked, "language", "en"),
        )
        return Answer(page.html.encode())

    # --- what is kept ------------------------------------------------------------------------------------------

    def subject(self, asked: Asked) -> Subject:
        return self.subjects[ask.whole(asked, "model", 0, 0, len(self.subjects) - 1)]

    def keep(self, reading: Reading) -> int:
        self.count += 1
        self.kept[self.count] = Kept(reading, overview(reading))
        while len(self.kept) > KEPT:
            self.kept.popitem(last=False)
        return self.count

    def found(self, asked: Asked) -> Kept:
        number = ask.whole(asked, "reading")
        if number not in self.kept:
            raise InputError("this text has been put away meanwhile: read it again")
        self.kept.move_to_end(number)
        return self.kept[number]

    def reading(self, asked: Asked) -> Reading:
        return self.found(asked).reading


def as_bytes(values: Tensor) -> Answer:
    """Numbers as the page reads them: single precision, the smallest byte first."""
    return Answer(values.detach().float().cpu().contiguous().numpy().astype("<f4").tobytes())
