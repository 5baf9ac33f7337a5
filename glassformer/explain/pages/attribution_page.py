"""Explained answers as a page: the tokens on backgrounds as strong as their scores. No script, no network."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.answer_explanation import AnswerExplanation
from ..analysis.attribution import METHODS, Attribution
from .html_page import escape_text, html_page

LEVELS = 10
STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5c636b; --paper: #ffffff; --for: 37 99 168;
  --against: 184 73 29; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --soft: #a2a9b1; --paper: #15171a; --for: 110 168 232;
  --against: 240 146 106; } }
body { margin: 1.5rem auto; max-width: 60rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.9 system-ui, sans-serif; }
h1 { font-size: 1.3rem; } h2 { font-size: 1rem; margin: 1.6rem 0 .2rem; } p { margin: .3rem 0; }
.note { color: var(--soft); font-size: .9rem; line-height: 1.5; } .warning { color: rgb(var(--against)); }
.token { border-radius: .25rem; padding: .1rem .15rem; white-space: pre-wrap; }
table { border-collapse: collapse; font-size: .85rem; line-height: 1.4; } td { padding: 0 1rem 0 0; }
td + td { text-align: right; font-variant-numeric: tabular-nums; }
"""
STYLE += "".join(
    f".{sign}{level} {{ background: rgb(var(--{name}) / {0.75 * level / LEVELS:.3f}); }}\n"
    for sign, name in (("p", "for"), ("n", "against"))
    for level in range(1, LEVELS + 1)
)


def explanation_page(explanations: Sequence[AnswerExplanation], model: str) -> str:
    """The page about some answers of a model."""
    first = explanations[0].attribution
    title = f"{explanations[0].task}: which tokens the answers of {model} depend on"
    about = f"{first.method}: {METHODS[first.method]}. A hidden token is replaced by {first.hidden}."
    body = [f"<h1>{escape_text(title)}</h1>", f'<p class="note">{escape_text(about)}</p>']
    for explanation in explanations:
        body += explanation_parts(explanation)
    return html_page(escape_text(title), STYLE, "\n".join(body))


def explanation_parts(explanation: AnswerExplanation) -> list[str]:
    found = explanation.attribution
    kind = "warning" if explanation.is_unreliable else "note"
    cut = ['<p class="warning">the text was cut to fit the model</p>'] if explanation.truncated else []
    spans = [
        f'{before}<span class="token {shade}" title="{score:+.4f}">{escape_text(text)}</span>'
        for (before, text), score, shade in zip(spaced_tokens(found), found.scores, shades(found), strict=True)
    ]
    rows = "".join(
        f"<tr><td>{escape_text(token)}</td><td>{score:+.4f}</td></tr>"
        for token, score in zip(found.tokens, found.scores, strict=True)
    )
    return [
        f"<h2>{escape_text(found.target)}: {found.value:.4f}</h2>",
        f"<p>{''.join(spans)}</p>",
        f'<p class="{kind}">{escape_text(explanation.summary)}</p>',
        *cut,
        f"<details><summary>scores</summary><table>{rows}</table></details>",
    ]


def spaced_tokens(attribution: Attribution) -> list[tuple[str, str]]:
    """The tokens with the space that stands before each: pieces of a word are joined.

    >>> spaced_tokens(Attribution("occlusion", "", "", 0.0, ["un", "##able", "cat"], [0.0] * 3, 0, ""))
    [('', 'un'), ('', 'able'), (' ', 'cat')]
    """
    holds_spaces = any(token.startswith(" ") for token in attribution.tokens)
    found: list[tuple[str, str]] = []
    for token in attribution.tokens:
        is_piece = token.startswith("##") and len(token) > 2
        space = "" if holds_spaces or is_piece or not found else " "
        found.append((space, token[2:] if is_piece else token))
    return found


def strengths(attribution: Attribution) -> list[float]:
    """Every score as a share of the largest, from -1 to 1."""
    largest = max(map(abs, attribution.scores), default=0.0) or 1.0
    return [score / largest for score in attribution.scores]


def shades(attribution: Attribution) -> list[str]:
    """The style of each token: p1 to p10 for what raises the answer, n1 to n10 for what lowers it."""
    levels = [round(LEVELS * strength) for strength in strengths(attribution)]
    return [f"{'p' if level > 0 else 'n'}{abs(level)}" if level else "" for level in levels]
