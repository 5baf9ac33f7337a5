"""The page of `glass compare-decoding`: one file that needs no network, and whose texts can never run as code.

Its content security policy allows the style and the script below, by their hashes, and nothing else; without the script
everything is visible but cannot be sorted.
"""

from __future__ import annotations

from html import escape

from ...explain.pages.html_page import html_page
from ..verbs.generate import without_control_codes
from .decoding_comparison import MEASURES, Comparison, Measure, Outcome, format_number

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5c636b; --paper: #ffffff; --card: #f5f6f8; --line: #d5d9de;
  --bar: #2f6fb5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --soft: #a2a9b1; --paper: #15171a; --card: #1f2226; --line: #3a3f45; --bar: #6ea8e8; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 90rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; white-space: pre-wrap; }
p, dd, .settings, figcaption span { color: var(--soft); } p { margin: .25rem 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .5rem; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
tbody th { font-weight: 600; text-align: left; } .settings { font-weight: 400; font-size: .8rem; display: block; }
th button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; }
th button:focus-visible { outline: 2px solid var(--bar); outline-offset: 3px; }
th[aria-sort=ascending] button::after { content: " \\25B2"; } th[aria-sort=descending] button::after {
  content: " \\25BC"; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; }
dt { font-weight: 600; } dd { margin: 0; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1rem; }
figure { margin: 0; padding: 1rem; background: var(--card); border-radius: .5rem; }
figcaption { font-weight: 600; margin-bottom: .5rem; }
figcaption span { font-weight: 400; font-size: .85rem; display: block; }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg rect { fill: var(--bar); } svg line { stroke: var(--line); }
.texts { display: grid; grid-auto-flow: column; grid-auto-columns: 19rem; gap: .75rem; overflow-x: auto;
  padding-bottom: .75rem; }
article { background: var(--card); border-radius: .5rem; padding: .75rem 1rem; } article h4 { margin: 0 0 .25rem; }
article ol { margin: 0; padding-left: 1.2rem; } article li + li { margin-top: .5rem; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; }
"""

SCRIPT = """
"use strict";
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") !== "descending";
    const value = row => row.cells[column].dataset.value;
    const compare = (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === "" || y === "") return (x === "") - (y === "");
      const order = column ? Number(x) - Number(y) : x.localeCompare(y);
      return down ? -order : order;
    };
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...[...body.rows].sort(compare));
  }));
}
"""

BODY = """<header>
<h1>Decoding strategies compared</h1>
<p>{summary}</p>
</header>
<main>
<section aria-labelledby="measures">
<h2 id="measures">Measures</h2>
<div class="wide" tabindex="0" role="region" aria-labelledby="measures">{table}</div>
<dl>{legend}</dl>
</section>
<section aria-labelledby="plots">
<h2 id="plots">Plots</h2>
<div class="plots">{plots}</div>
</section>
<section aria-labelledby="texts">
<h2 id="texts">Texts</h2>
{texts}
</section>
</main>"""

LABEL_WIDTH, ROW_HEIGHT, WIDTH = 92, 20, 340  # of a plot


def render_page(comparison: Comparison) -> str:
    prompts, model = len(comparison.prompts), comparison.model
    summary = (
        f"{model}: {prompts} prompt{'s' if prompts > 1 else ''}, at most {comparison.max_new_tokens} new tokens, "
        f"seed {comparison.seed}. The first text of each prompt is measured; BLEU-s takes all of them."
    )
    body = BODY.format(
        summary=escape_text(summary),
        table=render_table(comparison),
        legend="".join(f"<dt>{m.heading}</dt><dd>{escape(m.meaning)}</dd>" for m in MEASURES),
        plots="\n".join(render_plot(m, comparison.outcomes) for m in MEASURES if m.key != "log_probability"),
        texts="\n".join(render_texts(comparison, number) for number in range(prompts)),
    )
    return html_page(f"Decoding strategies compared: {escape_text(model)}", STYLE, body, SCRIPT)


def render_table(comparison: Comparison) -> str:
    """The measures, a row for each strategy; a click on a heading sorts."""
    names = [("strategy", "")] + [(measure.heading, measure.meaning) for measure in MEASURES]
    heads = "".join(
        f'<th scope="col"><button type="button" title="{escape(meaning)}">{name}</button></th>'
        for name, meaning in names
    )
    rows = []
    for outcome in comparison.outcomes:
        name = f'{outcome.name}<span class="settings">{escape(outcome.settings_text)}</span>'
        cells = [f'<th scope="row" data-value="{outcome.name}">{name}</th>']
        for measure in MEASURES:
            value = outcome.measures[measure.key]
            cells.append(
                f'<td data-value="{"" if value is None else value}">{format_number(value, measure.digits)}</td>'
            )
        rows.append(f"<tr>{''.join(cells)}</tr>")
    caption = "<caption>Choose a heading to sort by it, again to reverse the order.</caption>"
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def render_plot(measure: Measure, outcomes: list[Outcome]) -> str:
    """One measure as bars."""
    values = [outcome.measures[measure.key] for outcome in outcomes]
    maximum = max((value for value in values if value is not None), default=0.0) or 1.0
    bar_width = WIDTH - LABEL_WIDTH - 60
    parts, descriptions = [], []
    for place, (outcome, value) in enumerate(zip(outcomes, values, strict=True)):
        middle, text = place * ROW_HEIGHT + 14, format_number(value, measure.digits)
        length = 0.0 if value is None else max(bar_width * value / maximum, 1.0)
        descriptions.append(f"{outcome.name} {'not measured' if value is None else text}")
        parts.append(f'<text x="{LABEL_WIDTH - 8}" y="{middle}" text-anchor="end">{outcome.name}</text>')
        if value is not None:
            parts.append(
                f'<rect x="{LABEL_WIDTH}" y="{place * ROW_HEIGHT + 3}" width="{length:.1f}" '
                f'height="{ROW_HEIGHT - 6}" rx="2"/>'
            )
        parts.append(f'<text x="{LABEL_WIDTH + length + 6:.1f}" y="{middle}">{text}</text>')
    height = len(outcomes) * ROW_HEIGHT + 2
    axis = f'<line x1="{LABEL_WIDTH}" x2="{LABEL_WIDTH}" y1="0" y2="{height}"/>'
    label = escape(f"{measure.meaning}: {'; '.join(descriptions)}")
    return (
        f"<figure><figcaption>{measure.heading}<span>{escape(measure.meaning)}</span></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{axis}{"".join(parts)}</svg></figure>'
    )


def render_texts(comparison: Comparison, number: int) -> str:
    """The texts of every strategy for one prompt, side by side."""
    prompt = escape_text(comparison.prompts[number])
    cards = []
    for outcome in comparison.outcomes:
        texts = [f'<div class="text" dir="auto">{escape_text(one.text)}</div>' for one in outcome.texts[number]]
        inner = texts[0] if len(texts) == 1 else f"<ol>{''.join(f'<li>{one}</li>' for one in texts)}</ol>"
        cards.append(f"<article><h4>{outcome.name}</h4>{inner}</article>")
    name = f"texts for prompt {number + 1}"
    return (
        f'<h3 dir="auto">{prompt}</h3>\n'
        f'<div class="texts" tabindex="0" role="region" aria-label="{name}">{"".join(cards)}</div>'
    )


def escape_text(text: str) -> str:
    """A text as HTML, with control characters as escape sequences."""
    return escape(without_control_codes(text))
