"""question-answering: the span of a context that answers a question; long contexts are split into windows."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError, spelt
from ..nn.loss import summed_span_loss
from ..text.base.encoding_options import check_whole_number
from ..text.base.text_inputs import describe
from ..text.encoding import EncodedRow as Encoded
from .batch import Batch, Example, truncation_note
from .breakdown import Breakdown
from .inputs import Columns, Row
from .metrics import answer_scores
from .no_answer import SpanPrediction, no_answer_scores
from .objectives import LOSS
from .task_options import TextOptions, check_at_least, check_bool
from .text_task import TextTask

WINDOW = 384  # tokens, unless the model accepts fewer
OVERLAP = 128
OFFSET_ERRORS = (0, -1, 1, -2, 2)  # characters by which published files miscount the start of an answer
NO_ANSWER = "(no answer)"
TINY = sys.float_info.min  # in the place of a probability that is rounded to 0
MASKED = -10_000.0  # the logit of a token that cannot be part of an answer


@dataclass(frozen=True, kw_only=True)
class QuestionAnsweringOptions(TextOptions):
    """Options for windows and answers.

    Attributes:
        top_k: How many answers are returned.
        doc_stride: How many tokens two windows of a long context share; None: 128, or half of a small window.
        max_seq_len: How many tokens a window has, with the question; None: 384, or as many as the model accepts.
        max_question_len: A longer question is cut, and the answer reports it; None: no limit.
        max_answer_len: The longest answer, in tokens.
        handle_impossible_answer: Whether "" may be an answer too.
        align_to_words: Begin and end answers at the borders of words.
    """

    top_k: int = 1
    doc_stride: int | None = None
    max_seq_len: int | None = None
    max_question_len: int | None = None
    max_answer_len: int = 15
    handle_impossible_answer: bool = False
    align_to_words: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least("top_k", self.top_k)
        check_at_least("max_answer_len", self.max_answer_len)
        check_whole_number("doc_stride", self.doc_stride, 0)
        check_whole_number("max_seq_len", self.max_seq_len, 1)
        check_whole_number("max_question_len", self.max_question_len, 1)
        check_bool("handle_impossible_answer", self.handle_impossible_answer)
        check_bool("align_to_words", self.align_to_words)


class QuestionAnswering(TextTask):
    """Extract the answer to a question from a text.

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
    supports_distillation = True

    # --- rows to tensors ---------------------------------------------------------------------------------------

    def check_row(self, row: Row, given: Mapping[str, Any]) -> None:
        super().check_row(row, given)
        for name in self.columns.needed:
            if not row[name]:
                raise InputError(f"{name} is empty")
        answers, impossible = row.get("answers"), row.get("is_impossible")
        if answers is not None and not are_answers(answers):
            expected = '{"text": [...], "answer_start": [...]}, with a text and a number for each'
            raise InputError(f"answers must be {expected}, got {describe(answers)}")
        if impossible not in (None, True, False):
            raise InputError(f"is_impossible must be true or false, got {describe(impossible)}")

    def encode(self, row: Row) -> list[Example]:
        limit = min(self.limit, self.options.max_seq_len or WINDOW)
        question, length, truncated = self.question(row["question"])
        available = limit - length - self.tokenizer.num_special_tokens_to_add(pair=True)
        if available < 1:
            raise InputError(
                f"the question has {length} tokens, and a window of {limit} leaves no space for the context; "
                f"pass {spelt('option', 'max_question_len', limit // 4)} to cut it, which is then reported"
            )
        stride = self.options.doc_stride
        if stride is None:
            stride = min(limit // 2, OVERLAP)
            stride = stride if stride < available else available // 2
        if stride >= available:
            raise InputError(f"doc_stride must be less than the {available} tokens of a window's context, got {stride}")
        windows = self.windows(question, row["context"], limit=limit, stride=stride, truncation="only_second")
        if len(windows[0].texts[1]) == 0:
            raise InputError(f"the context {describe(row['context'])} has no tokens to read")
        span = self.span(row)
        examples = []
        for i, encoded in enumerate(windows):
            labels = {} if span is None else dict(zip(POSITIONS, positions(encoded, *span), strict=True))
            encoded.truncated = truncated
            examples.append(Example(encoded, labels, window=i))
        return examples

    def question(self, text: str) -> tuple[str, int, bool]:
        """The question, its number of tokens, and whether it was truncated."""
        most = self.options.max_question_len
        offsets = self.question_offsets(text)
        if most is None or len(offsets) <= most:
            return text, len(offsets), False
        text = text[: offsets[most - 1][1]]
        return text, len(self.question_offsets(text)), True

    def question_offsets(self, text: str) -> list[tuple[int, int]]:
        """The start and end of each token of the question."""
        return self.tokenizer(
            text,
            add_special_tokens=False,
            return_offsets_mapping=True,
            split_special_tokens=self.options.split_special_tokens,
            verbose=False,
        )["offset_mapping"]

    def span(self, row: Row) -> tuple[int, int] | None:
        """The start and end of the first correct answer; (0, 0) if there is none, None if the row has no label."""
        answers = row.get("answers")
        if row.get("is_impossible") or (answers is not None and not answers.get("text")):
            return 0, 0
        if answers is None:
            return None
        text, start = answers["text"][0], answers["answer_start"][0]
        if start < 0:  # CMRC's value for an answer that is not a literal quotation
            start = row["context"].find(text)
        for error in OFFSET_ERRORS:
            position = start + error
            if position >= 0 and row["context"].startswith(text, position):
                return position, position + len(text)
        raise InputError(f"the answer {text!r} is not at {answers['answer_start'][0]} of its context")

    def count_targets(self, batch: Batch) -> dict[str, int]:
        return {LOSS: len(batch.examples)}

    # --- tensors to answers ------------------------------------------------------------------------------------

    def outputs(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """The logits of starts and ends, B T each; those of padding are the lowest, so that no answer is there."""
        out = self.call(model, batch.inputs)
        return out.start_logits, out.end_logits

    def split(self, outputs: tuple[Tensor, Tensor], batch: Batch) -> list[Tensor]:
        logits = torch.stack(outputs, 1).float().cpu()  # B 2 T
        return [row[:, :length] for row, length in zip(logits, batch.lengths, strict=True)]

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> Any:
        answers, no_answer = self.spans(row, examples, outputs)
        if self.options.handle_impossible_answer:
            answers.append({"score": no_answer, "start": 0, "end": 0, "answer": ""})
        answers.sort(key=lambda each: -each["score"])
        notes = {**({"windows": len(examples)} if len(examples) > 1 else {}), **truncation_note(examples)}
        best = [{**each, **notes} for each in answers[: self.options.top_k]]
        return best[0] if len(best) == 1 else best

    def spans(
        self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]
    ) -> tuple[list[dict[str, Any]], float]:
        """The best spans of every window, and the probability that there is no answer."""
        answers: list[dict[str, Any]] = []
        no_answer = 1.0  # the probability of "no answer" is the lowest of all windows
        for example, logits in zip(examples, outputs, strict=True):
            starts, ends = self.probabilities(example.encoded, logits)
            no_answer = min(no_answer, float(starts[0] * ends[0]))
            answers += [
                {"score": score, **self.span_text(row["context"], example.encoded, first, last)}
                for score, first, last in self.best_spans(example.encoded, starts, ends)
            ]
        return answers, no_answer

    def probabilities(self, encoded: Encoded, logits: Tensor) -> Tensor:
        """2 T: the probability that an answer starts and ends at each context token; at [CLS], that there is none."""
        return logits.masked_fill(~self.answer_tokens(encoded), MASKED).softmax(-1)

    def answer_tokens(self, encoded: Encoded) -> Tensor:
        """T: the tokens that compete for the start and the end of an answer."""
        cls_id = None if self.tokenizer.cls_token is None else self.tokenizer.cls_token_id
        tokens = zip(encoded.sequences(), encoded.ids(), strict=True)
        return torch.tensor([sequence == 1 or token == cls_id for sequence, token in tokens])

    def best_spans(self, encoded: Encoded, starts: Tensor, ends: Tensor) -> list[tuple[float, int, int]]:
        """The best spans of the context: score, first and last token."""
        context = torch.tensor([sequence == 1 for sequence in encoded.sequences()])
        scores = torch.outer(starts, ends)  # T T
        allowed = torch.outer(context, context).triu().tril(self.options.max_answer_len - 1)
        scores = scores.masked_fill(~allowed, -1.0).flatten()
        values, indices = scores.topk(min(self.options.top_k, int(allowed.sum())))
        length = len(starts)
        return [(v, i // length, i % length) for v, i in zip(values.tolist(), indices.tolist(), strict=True)]

    def span_text(self, context: str, encoded: Encoded, first: int, last: int) -> dict[str, Any]:
        """A span of tokens as text, extended to complete words if `align_to_words` is set."""
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
        positions = torch.cat([batch.labels[name] for name in POSITIONS])
        return summed_span_loss(logits, positions)

    @property
    def metric_names(self) -> tuple[str, ...]:
        return ("f1", "exact_match")

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> SpanPrediction:
        spans, no_answer = self.spans(row, examples, outputs)
        best = max(spans, key=itemgetter("score"))
        odds = math.log(no_answer or TINY) - math.log(best["score"] or TINY)
        is_answered = not self.options.handle_impossible_answer or best["score"] >= no_answer
        return SpanPrediction(best["answer"] if is_answered else "", best["answer"], odds)

    def reference(self, row: Row) -> list[str]:
        correct = [] if row.get("is_impossible") else list(row["answers"]["text"])
        if not correct and not self.options.handle_impossible_answer:
            message = 'a question has no answer, and "" is never given: all such count as wrong; pass %s'
            self.warn_once("impossible", message, spelt("option", "handle_impossible_answer", True))
        return correct

    def compute_metrics(
        self, predictions: Sequence[SpanPrediction], references: Sequence[list[str]]
    ) -> dict[str, float]:
        """Those of SQuAD 2.0 too if a question has no answer."""
        metrics = answer_scores([prediction.answer for prediction in predictions], references)
        return metrics if all(references) else {**metrics, **no_answer_scores(predictions, references)}

    def breakdown(self, predictions: Sequence[SpanPrediction], references: Sequence[list[str]]) -> Breakdown:
        return Breakdown((), (), "f1 is the mean over the questions of the F1 of the words of an answer")

    def describe_prediction(self, row: Row, prediction: SpanPrediction) -> str:
        return prediction.answer or NO_ANSWER

    def describe_reference(self, row: Row, reference: list[str]) -> str:
        return " / ".join(dict.fromkeys(reference)) or NO_ANSWER


POSITIONS = ("start_positions", "end_positions")


def are_answers(value: Any) -> bool:
    """Whether this is SQuAD's format for the answers to a question, of which there may be none."""
    if not isinstance(value, Mapping) or "text" not in value:
        return False
    texts, starts = value["text"], value.get("answer_start", [])
    if not isinstance(texts, list | tuple) or not isinstance(starts, list | tuple) or len(texts) != len(starts):
        return False
    return all(isinstance(text, str) for text in texts) and all(isinstance(start, int) for start in starts)


def positions(encoded: Encoded, start: int, end: int) -> tuple[int, int]:
    """The first and last token of an answer given by its characters; (0, 0), [CLS], if a window does not contain it."""
    context = [
        (position, offsets)
        for position, (sequence, offsets) in enumerate(zip(encoded.sequences(), encoded.offsets(), strict=True))
        if sequence == 1
    ]
    if start == end or start < context[0][1][0] or end > context[-1][1][1]:
        return 0, 0
    inside = [position for position, (a, b) in context if a < end and b > start]
    return (inside[0], inside[-1]) if inside else (0, 0)
