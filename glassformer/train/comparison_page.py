"""comparison.html: several recipes on one page, their numbers and their curves."""

from __future__ import annotations

import html

from .compare import Comparison, Spread
from .log import duration, shown
from .report import SHADES, curve_names, curves, page, points_of

NOT_DRAWN = ("grad_norm", "tokens_per_second", "padding", "skipped")


def comparison_page(comparison: Comparison) -> str:
    """The whole page: a table of means, the difference to the first recipe, and a curve for each run."""
    seeds = ", ".join(map(str, comparison.seeds))
    title = html.escape(" against ".join(outcome.name for outcome in comparison.outcomes))
    first = html.escape(comparison.outcomes[0].name)
    parts = [f"<p>Seeds {seeds}. Behind ± stands the standard deviation between them.</p>", results(comparison)]
    if len(comparison.outcomes) > 1:
        parts.append(f"<h2>difference to {first}, seed by seed</h2>\n{differences(comparison)}")
    parts += [f"<h2>cost of one run</h2>\n{costs(comparison)}", legend(comparison)]
    drawn = [run.lines for outcome in comparison.outcomes for run in outcome.runs]
    for name in dict.fromkeys(name for lines in drawn for name in curve_names(lines)):
        series = [
            (colour, points)
            for colour, outcome in enumerate(comparison.outcomes)
            for run in outcome.runs
            if (points := points_of(name, run.lines))
        ]
        if series and name not in NOT_DRAWN:
            parts.append(f"<h2>{html.escape(name.replace('_', ' '))}</h2>\n{curves(name, series)}")
    return page(title, parts)


def results(comparison: Comparison) -> str:
    rows = [
        (html.escape(outcome.name), *(in_words(outcome.metrics[name]) for name in comparison.metrics))
        for outcome in comparison.outcomes
    ]
    return table(("recipe", *comparison.metrics), rows)


def differences(comparison: Comparison) -> str:
    rows = [
        (html.escape(outcome.name), *(signed(comparison.difference(outcome, name)) for name in comparison.metrics))
        for outcome in comparison.outcomes[1:]
    ]
    return table(("recipe", *comparison.metrics), rows)


def costs(comparison: Comparison) -> str:
    rows = []
    for outcome in comparison.outcomes:
        found = {name: spread.mean for name, spread in outcome.costs.items()}
        rows.append(
            (
                html.escape(outcome.name),
                duration(found["seconds"]),
                f"{found['step']:,.0f}",
                f"{found['tokens']:,.0f}",
                f"{found['parameters']:,.0f}",
                f"{found['trained_parameters']:,.0f}",
            )
        )
    return table(("recipe", "time", "steps", "tokens", "parameters", "of these trained"), rows)


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def legend(comparison: Comparison) -> str:
    """Which colour is which recipe."""
    names = [
        f'<span class="c{colour % len(SHADES[0])}">■ {html.escape(outcome.name)}</span>'
        for colour, outcome in enumerate(comparison.outcomes)
    ]
    return f"<p>{' &nbsp; '.join(names)}</p>"


def in_words(spread: Spread) -> str:
    """A mean with its deviation.

    >>> in_words(Spread((0.5, 0.7))), in_words(Spread((0.5,)))
    ('0.6000 ± 0.1414', '0.5000')
    """
    told = shown(float(spread.mean))
    return told if spread.deviation is None else f"{told} ± {shown(spread.deviation)}"


def signed(spread: Spread) -> str:
    """A difference, with its sign.

    >>> signed(Spread((0.5, 0.7)))
    '+0.6000 ± 0.1414'
    """
    return ("+" if spread.mean >= 0 else "") + in_words(spread)
