"""question-answering: the stretch of a context that answers a question; long contexts are read in windows."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError, spelt
from ..nn.loss import summed_span_loss
from ..text.base.encoding_options import check_whole_number
from ..text.base.text_inputs import describe
from ..text.encoding import EncodedRow as Encoded
from .batch import Batch, Example, truncation_note
from .inputs import Columns, Row
from .metrics import answer_scores
from .objectives import LOSS
from .task_options import TextOptions, some, switch
from .text_task import TextTask

log = logging.getLogger("glassformer")

LONGEST = 384  # tokens in a window, unless the model takes less
OVERLAP = 128
SLIPS = (0, -1, 1, -2, 2)  # characters by which published files miscount the place of an answer
HIDDEN = -10_000.0  # the logit of a token that cannot be part of an answer


@dataclass(frozen=True, kw_only=True)
class QuestionAnsweringOptions(TextOptions):
    top_k: int = 1
    doc_stride: int | None = None  # tokens that two windows share
    max_seq_len: int | None = None  # tokens in a window, with the question
    max_question_len: int | None = None  # None: the whole question; else it is cut, and the answer tells
    max_answer_len: int = 15  # tokens
    handle_impossible_answer: bool = False  # "" is an answer too
    align_to_words: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        some("top_k", self.top_k)
        some("max_answer_len", self.max_answer_len)
        check_whole_number("doc_stride", self.doc_stride, 0)
        check_whole_number("max_seq_len", self.max_seq_len, 1)
        check_whole_number("max_question_len", self.max_question_len, 1)
        switch("handle_impossible_answer", self.handle_impossible_answer)
        switch("align_to_words", self.align_to_words)


class QuestionAnswering(TextTask):
    """Where in a text does the answer stand?

    >>> pipe = pipeline("question-answering", model="./squad/")                     # doctest: +SKIP
    >>> pipe(question="Where does John live?", context="John lives in London.")     # doctest: +SKIP
    {'score': 0.97, 'start': 14, 'end': 20, 'answer': 'London'}
    """

    name = "question-answering"
    head = "question-answering"
    columns = Columns(("question", "context"), (), ("answers", "is_impossible"))
    predicts_from_encoding = True
    Options = QuestionAnsweringOptions
    unwraps_one = True
    chooses_labels = True

    # --- rows to tensors ---------------------------------------------------------------------------------------

    def check_row(self, row: Row, given: Mapping[str, Any]) -> None:
        super().check_row(row, given)
        for name in self.columns.needed:
            if not row[name]:
                raise InputError(f"{name} is empty")
        answers, impossible = row.get("answers"), row.get("is_impossible")
        if answers is not None and not are_answers(answers):
            told = 'must be {"text": [...], "answer_start": [...]}, with a text and a number for each'
            raise InputError(f"answers {told}, got {describe(answers)}")
        if impossible not in (None, True, False):
            raise InputError(f"is_impossible must be true or false, got {describe(impossible)}")

    def encode(self, row: Row) -> list[Example]:
        limit = min(self.limit, self.options.max_seq_len or LONGEST)
        question, cut = self.question(row["question"])
        length = len(self.question_offsets(question))
        room = limit - length - self.tokenizer.num_special_tokens_to_add(pair=True)
        if room < 1:
            raise InputError(
                f"the question has {length} tokens, and a window of {limit} leaves no room for the context; "
                f"pass {spelt('option', 'max_question_len', limit // 4)} to cut it, which is then told"
            )
        stride = self.options.doc_stride
        if stride is None:
            stride = min(limit // 2, OVERLAP)
            stride = stride if stride < room else room // 2
        if stride >= room:
            raise InputError(f"doc_stride must be less than the {room} tokens of a window's context, got {stride}")
        windows = self.windows(question, row["context"], limit=limit, stride=stride, cut="only_second")
        if len(windows[0].texts[1]) == 0:
            raise InputError(f"the context {describe(row['context'])} has no tokens to read")
        span = self.span(row)
        examples = []
        for i, encoded in enumerate(windows):
            labels = {} if span is None else dict(zip(POSITIONS, positions(encoded, *span), strict=True))
            encoded.truncated = cut
            examples.append(Example(encoded, labels, window=i))
        return examples

    def question(self, text: str) -> tuple[str, bool]:
        """The question, and whether it had to be cut."""
        most = self.options.max_question_len
        if most is None:
            return text, False
        offsets = self.question_offsets(text)
        return (text, False) if len(offsets) <= most else (text[: offsets[most - 1][1]], True)

    def question_offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each token of the question stands in it."""
        return self.tokenizer(
            text,
            add_special_tokens=False,
            return_offsets_mapping=True,
            split_special_tokens=self.options.split_special_tokens,
            verbose=False,
        )["offset_mapping"]

    def span(self, row: Row) -> tuple[int, int] | None:
        """Where the first right answer stands in the context; (0, 0) if there is none, None if nobody says."""
        answers = row.get("answers")
        if row.get("is_impossible") or (answers is not None and not answers.get("text")):
            return 0, 0
        if answers is None:
            return None
        text, start = answers["text"][0], answers["answer_start"][0]
        if start < 0:  # what CMRC writes for an answer that is not quoted word for word
            start = row["context"].find(text)
        for slipped in SLIPS:
            place = start + slipped
            if place >= 0 and row["context"].startswith(text, place):
                return place, place + len(text)
        raise InputError(f"the answer {text!r} does not stand at {answers['answer_start'][0]} of its context")

    def count_targets(self, batch: Batch) -> dict[str, int]:
        return {LOSS: len(batch.examples)}

    # --- tensors to answers ------------------------------------------------------------------------------------

    def outputs(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """The scores of starts and of ends, B T each; those of padding are the lowest, so that no answer is there."""
        out = self.call(model, batch.inputs)
        return out.start_logits, out.end_logits

    def split(self, outputs: tuple[Tensor, Tensor], batch: Batch) -> list[Tensor]:
        logits = torch.stack(outputs, 1).float().cpu()  # B 2 T
        return [row[:, :length] for row, length in zip(logits, batch.lengths, strict=True)]

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> Any:
        found: list[dict[str, Any]] = []
        nothing = 1.0  # that there is no answer is as likely as in the window that thinks so least
        for example, logits in zip(examples, outputs, strict=True):
            starts, ends = self.probabilities(example.encoded, logits)
            nothing = min(nothing, float(starts[0] * ends[0]))
            found += [
                {"score": score, **self.quoted(row["context"], example.encoded, first, last)}
                for score, first, last in self.spans(example.encoded, starts, ends)
            ]
        if self.options.handle_impossible_answer:
            found.append({"score": nothing, "start": 0, "end": 0, "answer": ""})
        found.sort(key=lambda each: -each["score"])
        told = {**({"windows": len(examples)} if len(examples) > 1 else {}), **truncation_note(examples)}
        best = [{**each, **told} for each in found[: self.options.top_k]]
        return best[0] if len(best) == 1 else best

    def probabilities(self, encoded: Encoded, logits: Tensor) -> Tensor:
        """2 T: how likely an answer starts and ends at each token of the context, or at [CLS] if there is none."""
        cls_id = None if self.tokenizer.cls_token is None else self.tokenizer.cls_token_id
        kinds = zip(encoded.sequences(), encoded.ids(), strict=True)
        hidden = torch.tensor([sequence != 1 and token != cls_id for sequence, token in kinds])
        return logits.masked_fill(hidden, HIDDEN).softmax(-1)

    def spans(self, encoded: Encoded, starts: Tensor, ends: Tensor) -> list[tuple[float, int, int]]:
        """The best stretches of the context: score, first and last token."""
        context = torch.tensor([sequence == 1 for sequence in encoded.sequences()])
        scores = torch.outer(starts, ends)  # T T
        allowed = torch.outer(context, context).triu().tril(self.options.max_answer_len - 1)
        scores = scores.masked_fill(~allowed, -1.0).flatten()
        values, places = scores.topk(min(self.options.top_k, int(allowed.sum())))
        length = len(starts)
        return [(v, p // length, p % length) for v, p in zip(values.tolist(), places.tolist(), strict=True)]

    def quoted(self, context: str, encoded: Encoded, first: int, last: int) -> dict[str, Any]:
        """A stretch of tokens as text, widened to whole words if that is asked for."""
        offsets = encoded.offsets()
        start, end = offsets[first][0], offsets[last][1]
        if self.options.align_to_words:
            words = list(zip(encoded.sequences(), encoded.words(), offsets, strict=True))
            start = min(a for sequence, word, (a, _) in words if sequence == 1 and word == words[first][1])
            end = max(b for sequence, word, (_, b) in words if sequence == 1 and word == words[last][1])
        return {"start": start, "end": end, "answer": context[start:end]}

    # --- training and evaluation -------------------------------------------------------------------------------

    def target_logits(self, outputs: tuple[Tensor, Tensor], batch: Batch) -> Tensor:
        return torch.cat(outputs)  # 2B T

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        places = torch.cat([batch.labels[name] for name in POSITIONS])
        return summed_span_loss(logits, places)

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("f1", "exact_match")

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> str:
        best = self.answer(row, examples, outputs)
        return (best[0] if isinstance(best, list) else best)["answer"]

    def reference(self, row: Row) -> list[str]:
        right = [] if row.get("is_impossible") else list(row["answers"]["text"])
        if not right and not self.options.handle_impossible_answer and "impossible" not in self.kept:
            self.kept["impossible"] = True
            asked = spelt("option", "handle_impossible_answer", True)
            log.warning('a question has no answer, and "" is never given: all such are judged wrong; pass %s', asked)
        return right

    def metric(self, predictions: Sequence[str], references: Sequence[list[str]]) -> dict[str, float]:
        return answer_scores(predictions, references)


POSITIONS = ("start_positions", "end_positions")


def are_answers(value: Any) -> bool:
    """Whether this is what SQuAD has for the answers to a question, or none of them."""
    if not isinstance(value, Mapping) or "text" not in value:
        return False
    texts, starts = value["text"], value.get("answer_start", [])
    if not isinstance(texts, list | tuple) or not isinstance(starts, list | tuple) or len(texts) != len(starts):
        return False
    return all(isinstance(text, str) for text in texts) and all(isinstance(start, int) for start in starts)


def positions(encoded: Encoded, start: int, end: int) -> tuple[int, int]:
    """The first and last token of an answer given by its characters; (0, 0), [CLS], where a window does not hold it."""
    context = [
        (place, offsets)
        for place, (sequence, offsets) in enumerate(zip(encoded.sequences(), encoded.offsets(), strict=True))
        if sequence == 1
    ]
    if start == end or start < context[0][1][0] or end > context[-1][1][1]:
        return 0, 0
    inside = [place for place, (a, b) in context if a < end and b > start]
    return (inside[0], inside[-1]) if inside else (0, 0)
