"""Which tokens the answer of a task depends on: attribution of a label, an entity, a span, a masked or a next word.

The model reads exactly what the task gives it, so that the answer is that of `pipeline` and `glass predict`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from ...data.labels import find_label
from ...errors import InputError, nearest, suggests
from ...models.base.outputs import BodyOutput
from ...tasks.batch import Example
from ...tasks.inference import answers, run
from ...tasks.inputs import Row
from ...tasks.next_sentence import LABELS as NEXT_OR_NOT
from ...tasks.pipeline import Pipeline
from ...tasks.question_answering import MASKED, NO_ANSWER, QuestionAnswering, positions
from ...tasks.task import Task
from ...tasks.text_task import TextTask
from ...tasks.token_classification import OUTSIDE
from ...text.base.encoding_options import check_whole_number
from ..reading import Reading
from ..subject import Subject
from .attribution import STEPS, Attribution, ScoredAnswer, answer_for, attribute, check_method

MAX_STEPS = 512  # to which the steps of integrated gradients are doubled while the sum is not exact enough
EXACT_ENOUGH = 0.01  # error of that sum
TOLERATED = 0.05  # error above which the scores are not to be trusted


@dataclass(frozen=True)
class AnswerExplanation:
    """An answer, and how much it depends on each token."""

    task: str
    answer: Any  # what the task answers
    attribution: Attribution
    truncated: bool = False  # the text was cut to fit the model

    @property
    def is_unreliable(self) -> bool:
        """Whether the scores of integrated gradients fail to add up to what they should explain."""
        return (self.attribution.error or 0.0) > TOLERATED

    @property
    def summary(self) -> str:
        """In one line: do the scores add up to the change of the answer, as far as the method promises it?"""
        found = self.attribution
        if found.method == "saliency":
            return "sensitivities have no direction and add up to nothing"
        sums = f"the scores add up to {found.total:+.4f}; the answer minus that to a hidden text is {found.change:+.4f}"
        if found.error is None:
            return f"{sums}; {found.method} does not promise that these belong together"
        warning = "; do not trust the scores, try more steps or another method" if self.is_unreliable else ""
        return f"{sums}: off by {100 * found.error:.1f} % of the scores, with {found.steps} steps{warning}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        sums = {"sum": self.attribution.total, "error": self.attribution.error, "unreliable": self.is_unreliable}
        cut = {"truncated": True} if self.truncated else {}
        return {"task": self.task, "answer": self.answer, **asdict(self.attribution), **sums, **cut}


@dataclass(frozen=True)
class Question:
    """A row of a task with its inputs, and what is asked about it."""

    task: Any  # the task, with the attributes of its class
    row: Row
    examples: list[Example]
    target: str | None
    position: int | None


@suggests
def explain_answer(
    task: Task | Pipeline,
    row: Any,
    *,
    method: str = "integrated-gradients",
    target: str | None = None,
    position: int | None = None,
    steps: int | None = None,
) -> AnswerExplanation:
    """How much the answer to a row depends on each of its tokens.

    >>> found = explain_answer(pipeline("text-classification", model="./sst2/"), "so good")   # doctest: +SKIP
    >>> list(zip(found.attribution.tokens, found.attribution.scores))                         # doctest: +SKIP
    [('[CLS]', 0.0), ('so', 0.31), ('good', 1.92), ('[SEP]', 0.0)]

    The tasks are text-classification, next-sentence, token-classification, question-answering, fill-mask and
    text-generation (the next word). `target` is another answer than the model's own: a label, a word, or a span of the
    context. `position` is the token in question: of a tagger (if not given, that of its surest entity) or of several
    masks. `steps` are those of integrated gradients; if not given, they are doubled until the scores add up.
    """
    worker = task.worker if isinstance(task, Pipeline) else task
    if worker.name not in ANSWERS or not isinstance(worker, TextTask):
        raise InputError(f"answers of {worker.name} are not explained, those of {', '.join(ANSWERS)} are")
    check_method(method)
    check_whole_number("steps", steps, 1)
    check_whole_number("position", position, 0)
    worker.refuse_untrained()
    given = worker.read_without_targets(row)
    question = Question(worker, given, worker.encode(given), target, position)
    if "subject" not in worker.cache:  # it may have warnings, which are given once
        worker.cache["subject"] = Subject(worker.model, worker.tokenizer)
    subject = worker.cache["subject"]
    reading, scored = ANSWERS[worker.name](subject, question)
    used = steps or STEPS
    found = attribute(reading, method, answer=scored, steps=used)
    while steps is None and (found.error or 0.0) > EXACT_ENOUGH and used < MAX_STEPS:
        used *= 2
        found = attribute(reading, method, answer=scored, steps=used)
    cut = any(example.encoded.truncated for example in question.examples)
    if worker.name == "text-generation":  # of which the next word alone is explained
        return AnswerExplanation(worker.name, {"word": found.word, "score": math.exp(found.value)}, found, cut)
    (answer,) = answers(worker, [given], numbered=False)
    return AnswerExplanation(worker.name, answer, found, cut)


def read_example(subject: Subject, example: Example) -> Reading:
    """What the model makes of an input of the task."""
    encoded = example.encoded
    return subject.run(subject.reading_of(encoded.ids(), encoded.type_ids()))


# --- what each task answers -------------------------------------------------------------------------------------------


def label_answer(subject: Subject, question: Question) -> tuple[Reading, ScoredAnswer]:
    """The score of a label of the text."""
    refuse_position(question)
    reading = read_example(subject, question.examples[0])
    names = (
        question.task.label_ids
        if question.task.name != "next-sentence"
        else {name: i for i, name in enumerate(NEXT_OR_NOT)}
    )
    return reading, answer_for(reading, len(reading) - 1, label_number(question, names))


def tag_answer(subject: Subject, question: Question) -> tuple[Reading, ScoredAnswer]:
    """The score of a tag of one token: the requested one, or that of the surest entity."""
    task = question.task.with_options(aggregation_strategy="none", ignore_labels=[])
    (tagged,) = answers(task, [question.row], numbered=False)
    if question.position is None:
        chosen = max(tagged, key=lambda each: (each["entity"] != OUTSIDE, each["score"]))
    else:
        places = {each["index"]: each for each in tagged}
        if question.position not in places:
            raise InputError(f"position must be one of {min(places)} to {max(places)}, got {question.position}")
        chosen = places[question.position]
    example = question.examples[chosen.get("window", 0)]
    reading = read_example(subject, example)
    number = label_number(question, question.task.label_ids)
    if number is None:
        number = question.task.label_ids[chosen["entity"]]
    return reading, answer_for(reading, chosen["index"] - example.encoded.spans[0][0], number)


def masked_answer(subject: Subject, question: Question) -> tuple[Reading, ScoredAnswer]:
    """The log-probability of a word at a mask, the first one if no other is requested."""
    reading = read_example(subject, question.examples[0])
    masks = [place for place, token in enumerate(reading.ids) if token == question.task.mask_id]
    position = masks[0] if question.position is None else question.position
    if position not in masks:
        raise InputError(f"position must be that of a mask, {', '.join(map(str, masks))}, got {position}")
    word = None if question.target is None else question.task.word_id(question.target)
    return reading, answer_for(reading, position, word)


def next_answer(subject: Subject, question: Question) -> tuple[Reading, ScoredAnswer]:
    """The log-probability of the next word."""
    refuse_position(question)
    reading = read_example(subject, question.examples[0])
    return reading, answer_for(reading, len(reading) - 1, next_word(question, reading))


def span_answer(subject: Subject, question: Question) -> tuple[Reading, ScoredAnswer]:
    """The log-probability of a span of the context, or of "no answer" if that is the answer."""
    refuse_position(question)
    task: QuestionAnswering = question.task
    outputs = run(task, question.examples)
    probabilities = [
        task.probabilities(each.encoded, out) for each, out in zip(question.examples, outputs, strict=True)
    ]
    best = [
        (*task.best_spans(each.encoded, *found)[0], window)
        for window, (each, found) in enumerate(zip(question.examples, probabilities, strict=True))
    ]
    score, first, last, window = max(best)
    nothing, empty = min((float(starts[0] * ends[0]), window) for window, (starts, ends) in enumerate(probabilities))
    if question.target:
        window, first, last = place_of_span(question, probabilities)
    elif question.target == "" or (task.options.handle_impossible_answer and nothing > score):
        window, first, last = empty, 0, 0
    example = question.examples[window]
    reading = read_example(subject, example)
    word = task.span_text(question.row["context"], example.encoded, first, last)["answer"] if last else NO_ANSWER
    allowed = task.answer_tokens(example.encoded)

    def score_of(body: BodyOutput) -> Tensor:
        logits = subject.model.span_logits(body.last_hidden_state).float()  # B T 2
        logs = logits.masked_fill(~allowed[:, None].to(logits.device), MASKED).log_softmax(1)
        return logs[:, first, 0] + logs[:, last, 1]

    return reading, ScoredAnswer(score_of, f"log-probability of the answer {word!r}", word)


def place_of_span(question: Question, probabilities: list[Tensor]) -> tuple[int, int, int]:
    """The window where a span of the context is most probable, and its first and last token."""
    context, target = question.row["context"], question.target or ""
    start = context.find(target)
    if start < 0:
        raise InputError(f"target must be a part of the context, got {target!r}")
    found = []
    for window, (example, (starts, ends)) in enumerate(zip(question.examples, probabilities, strict=True)):
        first, last = positions(example.encoded, start, start + len(target))
        if last:
            found.append((float(starts[first] * ends[last]), window, first, last))
    if not found:
        raise InputError(f"no window of the context holds all of {target!r}")
    return max(found)[1:]


ANSWERS: dict[str, Callable[[Subject, Question], tuple[Reading, ScoredAnswer]]] = {
    "text-classification": label_answer,
    "next-sentence": label_answer,
    "token-classification": tag_answer,
    "question-answering": span_answer,
    "fill-mask": masked_answer,
    "text-generation": next_answer,
}


def refuse_position(question: Question) -> None:
    if question.position is not None:
        raise InputError(f"position is for taggers and masks; {question.task.name} has one answer")


def label_number(question: Question, names: dict[str, int]) -> int | None:
    """The number of the requested label."""
    if question.target is None:
        return None
    number = find_label(question.target, names)
    if number is None:
        known = ", ".join(list(names)[:20])
        raise InputError(f"target must be one of {known}, got {question.target!r}{nearest(question.target, names)}")
    return number


def next_word(question: Question, reading: Reading) -> int | None:
    """The id of the requested word, which must be one token: with a space before it, if it is likelier so."""
    if question.target is None:
        return None
    tokenizer, target = question.task.tokenizer, question.target
    special = {"add_special_tokens": False, "verbose": False}
    spelt = [tokenizer.encode(text, **special) for text in (target, f" {target}")]
    single = {ids[0] for ids in spelt if len(ids) == 1 and ids[0] != tokenizer.unk_token_id}
    if not single:
        tokens = " ".join(tokenizer.convert_ids_to_tokens(spelt[0]))
        raise InputError(f"target must be one token of the vocabulary, and {target!r} is {tokens or 'none'}")
    return max(single, key=reading.logits(-1).tolist().__getitem__)
