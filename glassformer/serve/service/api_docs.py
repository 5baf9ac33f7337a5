"""What the service can do: OpenAPI for programs, and a page for people that needs no network."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any

import msgspec

from ... import __version__
from .endpoint import JSON, Endpoint, Reply
from .metrics import RequestRecord

if TYPE_CHECKING:
    from .service import Service

ERRORS = {
    "400": "The body is not JSON",
    "401": "The key is missing",
    "404": "No such model or path",
    "408": "The request did not arrive in time",
    "413": "The body is too large, or has too many inputs",
    "422": "A field is wrong; the response names it",
    "429": "The queue is full: try again after Retry-After seconds",
}
STYLE = """body { font: 15px/1.5 system-ui, sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em; }
pre { background: #8881; padding: .7em; overflow: auto; } h2 code { font-size: 1em; }
table { border-collapse: collapse; } td { padding: .1em 1em .1em 0; vertical-align: top; }
:root { color-scheme: light dark; }"""


async def openapi(service: Service, body: None, record: RequestRecord) -> dict[str, Any]:
    return openapi_of(service.endpoints)


async def docs(service: Service, body: None, record: RequestRecord) -> Reply:
    return Reply(page_of(service).encode(), "text/html; charset=utf-8")


def openapi_of(endpoints: list[Endpoint]) -> dict[str, Any]:
    bodies = [each.body for each in endpoints if each.body is not None]
    schemas, components = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    schema_of = {id(body): schema for body, schema in zip(bodies, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for each in endpoints:
        operation: dict[str, Any] = {"summary": each.summary, "responses": {"200": {"description": "The answer"}}}
        if each.body is not None:
            content = {"schema": schema_of[id(each.body)], "example": each.example}
            operation["requestBody"] = {"required": True, "content": {JSON: content}}
            operation["responses"] |= {code: {"description": text} for code, text in ERRORS.items()}
        names = [part[1:-1] for part in each.path.split("/") if part.startswith("{")]
        if names:
            string = {"type": "string"}
            operation["parameters"] = [{"name": n, "in": "path", "required": True, "schema": string} for n in names]
        paths.setdefault(each.path, {})[each.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Glassformer", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def page_of(service: Service) -> str:
    models = "".join(
        f"<li><code>{html.escape(model.name)}</code>: {html.escape(model.task.name)}</li>"
        for model in service.models.values()
    )
    schema = openapi_of(service.endpoints)
    parts = [section(each, schema["components"]["schemas"]) for each in service.endpoints]
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Glassformer service</title>"
        f"<style>{STYLE}</style><h1>Glassformer service</h1><p>Models:</p><ul>{models}</ul>"
        f"<p>For programs: <a href=/openapi.json>/openapi.json</a>.</p>{''.join(parts)}</html>"
    )


def section(endpoint: Endpoint, schemas: dict[str, Any]) -> str:
    lines = [
        f"<h2><code>{endpoint.method} {html.escape(endpoint.path)}</code></h2><p>{html.escape(endpoint.summary)}</p>"
    ]
    if endpoint.body is not None:
        fields = schemas.get(getattr(endpoint.body, "__name__", ""), {})
        rows = [
            f"<tr><td><code>{name}</code></td><td>{html.escape(described(field, name in fields['required']))}</td></tr>"
            for name, field in fields.get("properties", {}).items()
        ]
        lines.append(f"<table>{''.join(rows)}</table>" if rows else "")
        example = json.dumps(endpoint.example, ensure_ascii=False)
        lines.append(f"<pre>curl -H 'Content-Type: application/json' -d '{html.escape(example)}' ")
        lines.append(f"http://HOST:PORT{html.escape(endpoint.path)}</pre>")
    return "".join(lines)


def described(field: dict[str, Any], is_required: bool) -> str:
    """A field's type and default."""
    kinds = [each.get("type") or each.get("$ref", "").rpartition("/")[2] for each in field.get("anyOf", [field])]
    kind = " or ".join(dict.fromkeys(map(str, filter(None, kinds)))) or "any"
    return kind + ("" if is_required else f", default {json.dumps(field.get('default'))}")


DOCS = [
    Endpoint("GET", "/openapi.json", "This list for programs", openapi, is_open=True),
    Endpoint("GET", "/docs", "This list for people", docs, is_open=True),
]
