"""One HTML file that needs no network; its content policy allows its own style and script, by their hashes, alone."""

from __future__ import annotations

import base64
import hashlib
from html import escape

PAGE = """<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
{script}</body>
</html>
"""


def html_page(
    title: str,
    style: str,
    body: str,
    script: str = "",
    *,
    is_module: bool = False,
    images: str = "",
    language: str = "en",
) -> str:
    """A complete page; `title`, `body` and `language` are HTML already. `images` is where pictures may come from."""
    policy = {
        "default-src": "'none'",
        "style-src": f"'{csp_hash(style)}'",
        "script-src": f"'{csp_hash(script)}'" if script else "",
        "img-src": images,
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    kind = ' type="module"' if is_module else ""
    return PAGE.format(
        language=language,
        policy="; ".join(f"{name} {source}" for name, source in policy.items() if source),
        title=title,
        style=style,
        body=body,
        script=f"<script{kind}>{script}</script>\n" if script else "",
    )


def csp_hash(code: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()


def printable(text: str) -> str:
    """Text that a page can hold: control characters and lone surrogates are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def escape_text(text: str) -> str:
    """Text for a page: it cannot run as code."""
    return escape(printable(text))
