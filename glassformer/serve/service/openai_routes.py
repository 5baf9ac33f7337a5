"""OpenAI's routes for models and embeddings, as its clients call them."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Literal

from .embedding_routes import does, embeddings_of
from .endpoint import Body, Endpoint
from .metrics import RequestRecord
from .served_model import EMBEDDING, ServedModel

if TYPE_CHECKING:
    from .service import Service


class EmbeddingsBody(Body):
    model: str
    input: str | list[str]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str | None = None


async def list_models(service: Service, body: None, record: RequestRecord) -> dict[str, Any]:
    return {"object": "list", "data": [model_object(model) for model in service.models.values()]}


async def one_model(service: Service, body: None, record: RequestRecord) -> dict[str, Any]:
    return model_object(service.model(record.parameters["model"]))


def model_object(served: ServedModel) -> dict[str, Any]:
    return {"id": served.name, "object": "model", "created": int(served.loaded), "owned_by": "glassformer"}


async def embeddings(service: Service, body: EmbeddingsBody, record: RequestRecord) -> dict[str, Any]:
    """Vectors of length 1; with `dimensions` the first of their components, scaled to length 1 again."""
    served = service.model(body.model, does(EMBEDDING))
    vectors = await embeddings_of(served, body.input, record, "input", dimensions=body.dimensions)
    as_base64 = body.encoding_format == "base64"
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64.b64encode(each.numpy().astype("<f4").tobytes()).decode() if as_base64 else each,
        }
        for index, each in enumerate(vectors)
    ]
    usage = {"prompt_tokens": record.tokens, "total_tokens": record.tokens}
    return {"object": "list", "data": data, "model": served.name, "usage": usage}


OPENAI = [
    Endpoint("GET", "/v1/models", "The models that are served", list_models),
    Endpoint("GET", "/v1/models/{model}", "One of them", one_model),
    Endpoint(
        "POST",
        "/v1/embeddings",
        "A vector for each text",
        embeddings,
        EmbeddingsBody,
        {"model": "minilm", "input": ["A cat sleeps.", "The kitten naps."]},
    ),
]
