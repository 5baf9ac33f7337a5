"""The routes of text-embeddings-inference: vectors, classification, reranking, similarity, tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import torch.nn.functional as F
from torch import Tensor

from ... import __version__
from ...tasks.text_classification import TextClassification
from ...tasks.text_task import TextTask
from .endpoint import Body, Endpoint
from .metrics import RequestRecord
from .refusal import Refusal
from .served_model import EMBEDDING, ServedModel

if TYPE_CHECKING:
    from .service import Service

SIMILARITY, CLASSIFICATION = "sentence-similarity", "text-classification"


class EmbedBody(Body):
    inputs: str | list[str]
    normalize: bool = True
    truncate: bool = False
    prompt_name: str | None = None
    dimensions: int | None = None


class PredictBody(Body):
    inputs: str | list[str | list[str]]
    truncate: bool = False
    raw_scores: bool = False


class RerankBody(Body):
    query: str
    texts: list[str]
    truncate: bool = False
    raw_scores: bool = False
    return_text: bool = False


class SimilarityInputs(msgspec.Struct, forbid_unknown_fields=True):
    source_sentence: str
    sentences: list[str]


class SimilarityParameters(msgspec.Struct, forbid_unknown_fields=True):
    truncate: bool = False
    prompt_name: str | None = None


class SimilarityBody(Body):
    inputs: SimilarityInputs
    parameters: SimilarityParameters = msgspec.field(default_factory=SimilarityParameters)


class TokenizeBody(Body):
    inputs: str | list[str]
    add_special_tokens: bool = True
    prompt_name: str | None = None


def does(*names: str) -> Any:
    return lambda model: any(name in model.tasks for name in names)


def one_type(values: list[Any], field: str) -> type | None:
    """The type of all elements of a list."""
    types = {*map(type, values)}
    if len(types) > 1:
        raise Refusal(422, f"{field} must hold values of one type", field)
    return next(iter(types), None)


def prompt_of(served: ServedModel, name: str | None) -> str:
    return served.pipe.worker.encoder.prompt(name, None)  # type: ignore[attr-defined]


async def embeddings_of(
    served: ServedModel,
    inputs: Any,
    record: RequestRecord,
    field: str,
    *,
    truncation: bool = False,
    normalize: bool = True,
    prompt_name: str | None = None,
    dimensions: int | None = None,
) -> list[Tensor]:
    """The vector of each text."""
    task = served.tasks[EMBEDDING].with_options(truncation=truncation, prompt=prompt_of(served, prompt_name))
    single = isinstance(inputs, str)
    if not single and not isinstance(inputs, list):
        raise Refusal(422, f"{field} must be a text or a list of texts, got a {type(inputs).__name__}", field)
    embedded = await served.answers(task, [inputs] if single else inputs, record, field, single)
    width = len(embedded[0].vector) if embedded else 0
    if dimensions is not None and not 1 <= dimensions <= max(width, 1):
        raise Refusal(422, f"dimensions must be between 1 and {width}, got {dimensions}", "dimensions")
    vectors = [each.vector[:dimensions].float() for each in embedded]
    return [F.normalize(each, dim=-1) if normalize else each for each in vectors]


async def embed(service: Service, body: EmbedBody, record: RequestRecord) -> list[Tensor]:
    return await embeddings_of(
        service.model(body.model, does(EMBEDDING)),
        body.inputs,
        record,
        "inputs",
        truncation=body.truncate,
        normalize=body.normalize,
        prompt_name=body.prompt_name,
        dimensions=body.dimensions,
    )


async def predict(service: Service, body: PredictBody, record: RequestRecord) -> list[Any]:
    """One text, one pair as two texts in a list, or a list of such lists."""
    served = service.model(body.model, does(CLASSIFICATION))
    function = {"function_to_apply": "none"} if body.raw_scores else {}
    task = served.tasks[CLASSIFICATION].with_options(top_k=None, truncation=body.truncate, **function)
    inputs = body.inputs
    is_batch = isinstance(inputs, list) and one_type(inputs, "inputs") is list
    given: list[Any] = inputs if is_batch else [[inputs] if isinstance(inputs, str) else inputs]  # type: ignore
    for number, each in enumerate(given):
        if len(each) not in (1, 2):
            where = f"inputs[{number}]" if is_batch else "inputs"
            raise Refusal(422, f"{where} must hold one text or two, got {len(each)}", where)
    rows = [dict(zip(("text", "text_pair"), each, strict=False)) for each in given]
    answers = await served.answers(task, rows, record, single=not is_batch)
    return answers if is_batch else answers[0]


async def rerank(service: Service, body: RerankBody, record: RequestRecord) -> list[dict[str, Any]]:
    """By a classifier of pairs with one label, or by the similarity of vectors."""
    served = service.model(body.model, can_rerank)
    if SIMILARITY in served.tasks:
        task = served.tasks[SIMILARITY].with_options(truncation=body.truncate)
        row = {"text": body.query, "text_pair": body.texts}
        (scores,) = await served.answers(task, [row], record, "texts", True) if body.texts else ([],)
    else:
        function = "none" if body.raw_scores else "sigmoid"
        task = served.tasks[CLASSIFICATION].with_options(function_to_apply=function, truncation=body.truncate)
        rows = [{"text": body.query, "text_pair": text} for text in body.texts]
        scores = [each["score"] for each in await served.answers(task, rows, record, "texts")]
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    text = {i: {"text": body.texts[i]} for i in order} if body.return_text else {}
    return [{"index": i, "score": scores[i], **text.get(i, {})} for i in order]


def can_rerank(served: ServedModel) -> bool:
    task = served.task
    return SIMILARITY in served.tasks or (isinstance(task, TextClassification) and task.model.config.num_labels == 1)


async def similarity(service: Service, body: SimilarityBody, record: RequestRecord) -> list[float]:
    served = service.model(body.model, does(SIMILARITY))
    if not body.inputs.sentences:
        return []
    prompt = prompt_of(served, body.parameters.prompt_name)
    task = served.tasks[SIMILARITY].with_options(truncation=body.parameters.truncate, prompt=prompt)
    row = {"text": body.inputs.source_sentence, "text_pair": body.inputs.sentences}
    (scores,) = await served.answers(task, [row], record, "inputs.sentences", True)
    return scores


async def tokenize(service: Service, body: TokenizeBody, record: RequestRecord) -> list[list[dict[str, Any]]]:
    """Each token with its id, its text, and where in the text it stands."""
    served = service.model(body.model, lambda model: isinstance(model.task, TextTask))
    prompt = prompt_of(served, body.prompt_name) if EMBEDDING in served.tasks else ""
    texts = [prompt + text for text in ([body.inputs] if isinstance(body.inputs, str) else body.inputs)]
    options = {"add_special_tokens": body.add_special_tokens, "split_special_tokens": True, "verbose": False}
    tokenizer = served.task.tokenizer  # type: ignore[attr-defined]
    encodings = tokenizer(texts, return_offsets_mapping=True, return_special_tokens_mask=True, **options)
    found = []
    for number, text in enumerate(texts):
        ids, offsets = encodings["input_ids"][number], encodings["offset_mapping"][number]
        special, tokens = encodings["special_tokens_mask"][number], tokenizer.convert_ids_to_tokens(ids)
        rows = []
        for id_, token, mask, (start, end) in zip(ids, tokens, special, offsets, strict=True):
            place = {"start": None, "stop": None} if mask else {"start": start, "stop": end}
            rows.append({"id": id_, "text": token if mask else text[start:end], "special": bool(mask), **place})
        found.append(rows)
    return found


async def info(service: Service, body: None, record: RequestRecord) -> dict[str, Any]:
    """The first model under the names of text-embeddings-inference, and all models under `models`."""
    settings = service.settings
    models = [describe(model) for model in service.models.values()]
    return {
        **models[0],
        "version": __version__,
        "max_concurrent_requests": settings.max_queue,
        "max_client_batch_size": settings.max_queue,
        "max_batch_tokens": settings.max_batch_tokens,
        "models": models,
    }


def describe(served: ServedModel) -> dict[str, Any]:
    model = served.task.model
    return {
        "model_id": served.name,
        "model_dtype": str(model.dtype).removeprefix("torch."),
        "model_type": type(model).__name__,
        "task": served.task.name,
        "max_input_length": served.task.limit if isinstance(served.task, TextTask) else None,
    }


TWO = {"inputs": ["A cat sleeps.", "The kitten naps."]}
EMBEDDINGS = [
    Endpoint("POST", "/embed", "A vector for each text", embed, EmbedBody, TWO),
    Endpoint("POST", "/predict", "Scores of labels", predict, PredictBody, {"inputs": [["so good"], ["so so"]]}),
    Endpoint(
        "POST",
        "/rerank",
        "Texts in the order in which they answer a query",
        rerank,
        RerankBody,
        {"query": "Who sleeps?", "texts": ["It rains.", "The cat sleeps."]},
    ),
    Endpoint(
        "POST",
        "/similarity",
        "How similar texts are to one",
        similarity,
        SimilarityBody,
        {"inputs": {"source_sentence": "A cat sleeps.", "sentences": ["The kitten naps.", "It rains."]}},
    ),
    Endpoint("POST", "/tokenize", "The tokens of texts", tokenize, TokenizeBody, TWO),
    Endpoint("GET", "/info", "The models and limits of the service", info),
]
