"""Our own route for every task, and Hugging Face's for one model: rows and options in, the pipeline's answers out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ...tasks.task_registry import full_name
from .endpoint import Endpoint
from .metrics import RequestRecord
from .refusal import Refusal
from .served_model import EMBEDDING, ServedModel

if TYPE_CHECKING:
    from .service import Service

NOT_OVER_HTTP = ("batch_size", "progress", "num_workers", "return_tensors")
TOP_LABELS = 5  # of a text, as the hosted service returns them
STOP = {"stop": "stop_strings"}  # names of Hugging Face's clients


class InferenceBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A request as Hugging Face's clients make it."""

    inputs: Any
    parameters: dict[str, Any] = {}
    options: dict[str, Any] = {}  # such as use_cache, of the hosted service
    stream: bool = False


async def answer_task(service: Service, body: dict[str, Any], record: RequestRecord) -> Any:
    """`POST /tasks/{task}`: the arguments of the pipeline, with the model's name beside them."""
    name = full_name(record.parameters["task"])
    arguments = dict(body)
    model = arguments.pop("model", None)
    if model is not None and not isinstance(model, str):
        raise Refusal(422, "model must be a text", "model")
    served = service.model(model, lambda model: name in model.tasks)
    return await call(served, name, arguments, record)


async def infer(service: Service, body: InferenceBody, record: RequestRecord) -> Any:
    """`POST /` and `POST /models/{model}`: what the model does with `inputs`."""
    served = service.model(record.parameters.get("model"))
    if body.stream:
        raise Refusal(422, "streams are at /v1/completions", "stream")
    inputs, parameters = body.inputs, {STOP.get(key, key): value for key, value in body.parameters.items()}
    if EMBEDDING not in served.tasks:
        columns = served.task.columns.all
        named = inputs if isinstance(inputs, Mapping) and inputs.keys() <= {*columns} else {"inputs": inputs}
        if served.task.name == "text-classification" and "top_k" not in parameters:
            answers = await call(served, served.task.name, {**named, **parameters, "top_k": TOP_LABELS}, record)
            return answers if isinstance(inputs, list) else [answers]
        return await call(served, served.task.name, {**named, **parameters}, record, "parameters")
    if isinstance(inputs, Mapping):
        return await call(served, served.task.name, {**inputs, **parameters}, record, "parameters")
    options = {"truncation": parameters.pop("truncate", False), "normalize": parameters.pop("normalize", True)}
    if parameters:
        raise Refusal(422, f"embeddings take truncate and normalize, got {', '.join(parameters)[:80]}", "parameters")
    from .embedding_routes import embeddings_of

    return await embeddings_of(served, inputs, record, "inputs", **options)


async def call(
    served: ServedModel, name: str, arguments: dict[str, Any], record: RequestRecord, options_field: str | None = None
) -> Any:
    """What the pipeline returns for these arguments."""
    task = served.tasks[name]
    for each in NOT_OVER_HTTP:
        if each in arguments:
            raise Refusal(422, f"{each} is not an option of the service", each)
    given, options = task.parse_call((), arguments)
    task = task.with_options(**options) if options else task
    if task.is_single_row(given):
        (answer,) = await served.answers(task, [given], record, single=True)
        return task.wrap(answer, given, options)
    if not isinstance(given, list):
        raise Refusal(422, f"inputs must be a row or a list of rows, got a {type(given).__name__}", "inputs")
    answers = await served.answers(task, given, record)
    return answers[0] if task.unwraps_one and len(answers) == 1 else answers


CLASSIFY = {"inputs": ["so good", "a waste of time"], "top_k": 2}
TASK_ROUTES = [
    Endpoint(
        "POST",
        "/tasks/{task}",
        "Any task: the arguments of its pipeline, and its answers",
        answer_task,
        dict[str, Any],
        CLASSIFY,
    ),
    Endpoint("POST", "/", "Hugging Face's inference, of the first model", infer, InferenceBody, {"inputs": "so good"}),
    Endpoint(
        "POST", "/models/{model}", "Hugging Face's inference, of one model", infer, InferenceBody, {"inputs": "so good"}
    ),
]
