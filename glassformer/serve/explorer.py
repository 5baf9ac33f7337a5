"""The explorer: the endpoints of its page, about a model and a text.

A text is kept with the queries and keys of its layers; the weights of a head are computed when the page requests them,
and sent as plain numbers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from ..explain.analysis import attribution, interventions
from ..explain.analysis import head_measures as measures
from ..explain.analysis import logit_lens as lens
from ..explain.analysis.layer_similarity import cka_table
from ..explain.analysis.model_anatomy import anatomy
from ..explain.analysis.relation_probe import probe_relations, read_relation_sentences
from ..explain.pages.attention_page import ASSETS
from ..explain.pages.bertviz_views import page_of_reading, score_bias_of
from ..explain.reading import Part, Reading
from ..explain.subject import Subject
from ..generate.streaming import TextStream
from . import requests as fields
from .local_server import LocalServer, Response, files_of
from .responses import Overview, describe_model, generation_step, overview, tokens_of

PAGE = Path(__file__).parent / "page"
MAX_READINGS = 6
MAX_POSITIONS = 64  # of one lens request
MAX_NEW_TOKENS = 200  # of one generation request

Request = Mapping[str, Any]


class ReadText(NamedTuple):
    """A text with the overview of all heads that the page receives."""

    reading: Reading
    overview: Overview


class Explorer:
    """A model, or two to compare, and the texts that they have read."""

    def __init__(self, subjects: list[Subject], text: str = "", pair: str = "") -> None:
        self.subjects, self.text, self.pair = subjects, text, pair
        self.kept: OrderedDict[int, ReadText] = OrderedDict()
        self.probes: dict[tuple[int, str], dict[str, Any]] = {}  # by model and language
        self.count = 0
        self.first = self.keep(subjects[0].read(text, pair or None)) if text else None

    def endpoints(self) -> dict[str, Any]:
        """What the page requests, by path. They are called one at a time."""
        names = ("model", "tokens", "read", "thumbs", "head", "flow", "neuron", "predict", "lens", "change")
        names += ("attribute", "compare", "generate", "anatomy", "relations", "page")
        return {f"/api/{name}": getattr(self, name) for name in names}

    @staticmethod
    def files() -> dict[str, Response]:
        """The page and its modules, by path."""
        return files_of(ASSETS, PAGE)

    def serve(self, port: int = 0) -> LocalServer:
        return LocalServer(self.files(), self.endpoints(), port)

    # --- the model and its texts -------------------------------------------------------------------------------

    def model(self, request: Request) -> dict[str, Any]:
        return {
            "models": [describe_model(subject) for subject in self.subjects],
            "measures": list(measures.MEASURES),
            "methods": attribution.METHODS,
            "text": self.text,
            "pair": self.pair,
        }

    def tokens(self, request: Request) -> dict[str, Any]:
        return tokens_of(self.subject(request).encode(fields.text(request, "text"), fields.text(request, "pair", "")))

    def read(self, request: Request) -> dict[str, Any]:
        """Let a model read a text, with the token at `mask` masked if given."""
        subject, text, pair = self.subject(request), fields.text(request, "text"), fields.text(request, "pair", "")
        known = self.first in self.kept and (text, pair) == (self.text, self.pair) and subject is self.subjects[0]
        if known and request.get("mask") is None:
            number = self.first
        else:
            reading = subject.encode(text, pair)
            if request.get("mask") is not None:
                if subject.kind == "next" or subject.tokenizer.mask_token_id is None:
                    raise InputError("this model has no mask token")
                reading.ids[reading.index(fields.integer(request, "mask"))] = subject.tokenizer.mask_token_id
                reading = subject.reading_of(reading.ids, reading.segments, text, pair or None)
            number = self.keep(subject.run(reading))
        reading, heads = self.kept[number]
        return {"reading": number, **tokens_of(reading), "parts": {name: about for name, (about, _) in heads.items()}}

    def thumbs(self, request: Request) -> Response:
        reading, heads = self.kept_reading(request)
        _, pictures = heads[self.part_name(request, reading)]
        return Response(pictures)

    def head(self, request: Request) -> Response:
        reading, layer, head = self.reading(request), fields.integer(request, "layer"), fields.integer(request, "head")
        return as_bytes(reading.weights(layer, [head], self.part(request, reading).kind)[0])

    def flow(self, request: Request) -> Response:
        """The mean of a layer's heads, or rollout up to it."""
        reading, layer = self.reading(request), fields.integer(request, "layer")
        name = self.part_name(request, reading)
        if fields.text(request, "what") == "rollout":
            return as_bytes(measures.rollout(reading, layer, name))
        return as_bytes(measures.mean_of_heads(reading, layer, reading.parts[name]))

    def part_name(self, request: Request, reading: Reading) -> str:
        """The requested kind of attention; the first if none is named."""
        name = fields.text(request, "part", next(iter(reading.parts)))
        if name not in reading.parts:
            raise InputError(f"there is no attention {name!r}; there are {', '.join(reading.parts)}")
        return name

    def part(self, request: Request, reading: Reading) -> Part:
        return reading.parts[self.part_name(request, reading)]

    def neuron(self, request: Request) -> Response:
        """The query at `row`, all keys, the bias added to its scores (zeros if none), its weights."""
        reading, layer, head = self.reading(request), fields.integer(request, "layer"), fields.integer(request, "head")
        part = self.part(request, reading)
        if not part.has_vectors:
            raise InputError("the weights of this attention do not come from queries and keys")
        row = fields.integer(request, "row", low=0, high=len(part.left.ids) - 1)
        queries, keys = reading.vectors(layer, head, part.kind)
        bias = score_bias_of(reading.attention_inputs(layer, part.kind))
        slot = reading.subject.heads_of_part(part)[layer].index(head)
        added = torch.zeros(len(keys)) if bias is None else bias[slot, row].float()
        weights = reading.weights(layer, [head], part.kind, range(row, row + 1))[0, 0]
        return as_bytes(torch.cat((queries[row].float(), keys.float().reshape(-1), added, weights.float())))

    # --- predictions -------------------------------------------------------------------------------------------

    def predict(self, request: Request) -> dict[str, Any]:
        guesses = lens.predict(
            self.reading(request),
            fields.integer(request, "position", -1),
            count=fields.integer(request, "count", 10, 1, 50),
            **fields.sampling(request),
        )
        return {"guesses": [asdict(guess) for guess in guesses]}

    def lens(self, request: Request) -> dict[str, Any]:
        reading = self.reading(request)
        positions = fields.integers(request, "positions", MAX_POSITIONS)
        table = lens.lens(reading, positions, fields.integer(request, "count", 3, 1, 10))
        return {"layers": [[[asdict(guess) for guess in cell] for cell in row] for row in table]}

    def change(self, request: Request) -> dict[str, Any]:
        """Switch heads and layers off, scale them, or patch in vectors of another text."""
        reading, source, places = self.reading(request), None, None
        if request.get("source"):
            source = reading.subject.read(fields.text(request, "source"))
            named = [request.get(name) is not None for name in ("here", "there")]
            if any(named):
                if not all(named):
                    raise InputError("name both tokens of a patch: from which one, and to which one")
                places = {fields.integer(request, "here"): fields.integer(request, "there")}
        intervention = interventions.Intervention(
            fields.factors(request, "heads"),
            fields.factors(request, "cross_heads"),
            fields.integers(request, "skip"),
            source,
            None if source is None else fields.integer(request, "layer"),
            places,
        )
        effect = interventions.intervene(reading, intervention, fields.integer(request, "position", -1))
        return {
            "before": [asdict(guess) for guess in effect.before],
            "after": [asdict(guess) for guess in effect.after],
            "divergence": effect.divergence,
            "moved": effect.moved,
        }

    def attribute(self, request: Request) -> dict[str, Any]:
        target = request.get("target")
        result = attribution.attribute(
            self.reading(request),
            fields.text(request, "method"),
            fields.integer(request, "position", -1),
            None if target is None else fields.integer(request, "target", low=0),
        )
        return asdict(result)

    def compare(self, request: Request) -> dict[str, Any]:
        """Two readings side by side: of one text by two models, or of two texts by one."""
        both = [self.kept_reading({"reading": request.get(name)}) for name in ("first", "second")]
        (first, _), (second, _) = both
        table = None
        if len(first) == len(second):
            table = cka_table([s.float() for s in first.hidden], [s.float() for s in second.hidden])
        heads = [{name: about["heads"] for name, (about, _) in parts.items()} for _, parts in both]
        return {"cka": table, "first": heads[0], "second": heads[1], "tokens": [first.tokens, second.tokens]}

    def generate(self, request: Request) -> dict[str, Any]:
        """Continue the text, with the likeliest words of each step."""
        subject = self.subject(request)
        if subject.kind != "next":
            raise InputError("this model cannot generate text: it has no language-modelling head")
        settings: dict[str, Any] = {"max_new_tokens": fields.integer(request, "steps", 20, 1, MAX_NEW_TOKENS)}
        settings["do_sample"] = bool(request.get("sample"))
        if settings["do_sample"]:
            settings |= {
                **fields.sampling(request),
                "generator": fields.integer(request, "seed", 0, 0, fields.MAX_SEED),
            }
        generated, start = subject.continue_text(fields.text(request, "text"), settings)
        generated = subject.run(generated)
        steps = [
            {**generation_step(generated, place), "chosen": generated.tokens[place]}
            for place in range(start, len(generated))
        ]
        stream = TextStream(subject.target_tokenizer)
        starts = int(generated.source is not None)  # every target begins with the start token, which is not a word
        pieces = [""] * starts + [stream.put([i]) for i in generated.ids[starts:]]
        pieces[-1] += stream.end()
        return {"tokens": generated.tokens, "pieces": pieces, "start": start, "steps": steps}

    def anatomy(self, request: Request) -> dict[str, Any]:
        return anatomy(self.subject(request).model)

    def relations(self, request: Request) -> dict[str, Any]:
        """Which heads link related words, in the built-in sentences of one language."""
        subject, language = self.subject(request), fields.text(request, "language", "en")
        key = (self.subjects.index(subject), language)
        sentences = read_relation_sentences(language=language)
        if key not in self.probes:
            try:
                self.probes[key] = probe_relations(subject, sentences, progress=False).to_dict()
            except InputError as error:  # such as a tokenizer that knows none of the words: the page shows the reason
                self.probes[key] = {"sentences": 0, "relations": [], "left_out": [], "problem": str(error)}
        return self.probes[key]

    def page(self, request: Request) -> Response:
        """The standalone page, for a file."""
        reading = self.reading(request)
        page = page_of_reading(
            reading,
            self.part_name(request, reading),
            fields.integer(request, "layer"),
            fields.integers(request, "heads"),
            fields.text(request, "language", "en"),
        )
        return Response(page.html.encode())

    # --- kept readings ------------------------------------------------------------------------------------------

    def subject(self, request: Request) -> Subject:
        return self.subjects[fields.integer(request, "model", 0, 0, len(self.subjects) - 1)]

    def keep(self, reading: Reading) -> int:
        self.count += 1
        self.kept[self.count] = ReadText(reading, overview(reading))
        while len(self.kept) > MAX_READINGS:
            self.kept.popitem(last=False)
        return self.count

    def kept_reading(self, request: Request) -> ReadText:
        number = fields.integer(request, "reading")
        if number not in self.kept:
            raise InputError("this reading has been discarded: read it again")
        self.kept.move_to_end(number)
        return self.kept[number]

    def reading(self, request: Request) -> Reading:
        return self.kept_reading(request).reading


def as_bytes(values: Tensor) -> Response:
    """Numbers as the page reads them: single precision, little-endian."""
    return Response(values.detach().float().cpu().contiguous().numpy().astype("<f4").tobytes())
