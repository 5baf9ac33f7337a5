"""comparison.html: several recipes on one page, their numbers and their curves."""

from __future__ import annotations

import html
from collections.abc import Sequence

from .compare_runs import LENGTH_METRIC, Comparison, Spread
from .run_log import duration, format_value
from .run_report import SHADES, WIDTH, curve_names, curves, legend_entry, page, points_of, table

NOT_PLOTTED = ("grad_norm", "tokens_per_second", "padding", "skipped")
ROW, NAMES = 22, 380  # the height of a bar, and the width of its name


def comparison_page(comparison: Comparison) -> str:
    """The page: means as a table and as bars, the differences from the first recipe, and a curve for each run."""
    outcomes = comparison.outcomes
    first = html.escape(comparison.label(outcomes[0]))
    parts = [f"<p>{describe_seeds(comparison.seeds)}</p>", results(comparison)]
    parts.append(f"<h2>{html.escape(comparison.main_metric.replace('_', ' '))}</h2>\n{bars(comparison)}")
    if len(outcomes) > 1:
        parts.append(f"<h2>difference to {first}, seed by seed</h2>\n{differences(comparison)}")
    parts.append(f"<h2>cost of one run</h2>\n{costs(comparison)}")
    if len(outcomes) > len(SHADES[0]):
        parts.append(
            "<p>There are too many for curves in one picture: report.html in the folder of a run has its own.</p>"
        )
    else:
        parts += [legend(comparison), *length_charts(comparison), *learning_curves(comparison)]
    return page(html.escape(title(comparison)), parts)


def title(comparison: Comparison) -> str:
    names = [comparison.label(outcome) for outcome in comparison.outcomes]
    if comparison.headings != ["recipe"]:
        return f"{len(names)} variants of {comparison.outcomes[0].name.partition(', ')[0]}"
    return " against ".join(names) if len(names) < 4 else f"{len(names)} recipes, from {names[0]} to {names[-1]}"


def describe_seeds(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"Seed {seeds[0]} alone: how much of a difference is due to chance is unknown."
    listed = ", ".join(map(str, seeds))
    return f"Seeds {listed}. The number after ± is the standard deviation between them."


def learning_curves(comparison: Comparison) -> list[str]:
    """The values in the logs, a curve for each run."""
    parts = []
    logs = [run.lines for outcome in comparison.outcomes for run in outcome.runs]
    for name in dict.fromkeys(name for lines in logs for name in curve_names(lines)):
        series = [
            (colour, points)
            for colour, outcome in enumerate(comparison.outcomes)
            for run in outcome.runs
            if (points := points_of(name, run.lines))
        ]
        if series and name not in NOT_PLOTTED and not LENGTH_METRIC.fullmatch(name):
            parts.append(f"<h2>{html.escape(name.replace('_', ' '))}</h2>\n{curves(name, series)}")
    return parts


def bars(comparison: Comparison) -> str:
    """A bar for each recipe, as long as its mean of the main metric."""
    means = [outcome.metrics[comparison.main_metric].mean for outcome in comparison.outcomes]
    scale = (WIDTH - NAMES - 60) / (max(map(abs, means)) or 1.0)
    parts = []
    for i, (outcome, mean) in enumerate(zip(comparison.outcomes, means, strict=True)):
        y, length = i * ROW, abs(mean) * scale
        name, value = html.escape(comparison.label(outcome)), format_value(float(mean))
        parts.append(
            f'<text x="{NAMES - 8}" y="{y + 15}" text-anchor="end">{name}</text><g class="c0">'
            f'<rect x="{NAMES}" y="{y + 3}" width="{length:.1f}" height="{ROW - 6}" fill="currentColor"/></g>'
            f'<text x="{NAMES + length + 6:.1f}" y="{y + 15}">{value}</text>'
        )
    label = html.escape(f"{comparison.main_metric} of each recipe", quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {len(means) * ROW}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def length_charts(comparison: Comparison) -> list[str]:
    """Metrics by length of the text: a curve for each recipe, from short to long, and a table."""
    parts = []
    for metric, ranges in comparison.by_length.items():
        series = [
            (colour, [(i, outcome.metrics[f"{metric} {lengths}"].mean) for i, lengths in enumerate(ranges)])
            for colour, outcome in enumerate(comparison.outcomes)
        ]
        chart = curves(f"{metric} by length", series, dict(enumerate(f"{lengths} tokens" for lengths in ranges)))
        heading = f"<h2>{html.escape(metric.replace('_', ' '))} by length of the right answer</h2>"
        rows = table((*comparison.headings, *ranges), length_rows(comparison, metric))
        parts.append("\n".join((heading, chart, rows)))
    return parts


def length_rows(comparison: Comparison, metric: str) -> list[tuple[str, ...]]:
    """For each recipe its cells, and a metric for texts of each range of lengths."""
    ranges = comparison.by_length[metric]
    return [
        (*comparison.cells(outcome), *(format_spread(outcome.metrics[f"{metric} {lengths}"]) for lengths in ranges))
        for outcome in comparison.outcomes
    ]


def results(comparison: Comparison) -> str:
    rows = [
        (*comparison.cells(outcome), *(format_spread(outcome.metrics[name]) for name in comparison.overall_metrics))
        for outcome in comparison.outcomes
    ]
    return table((*comparison.headings, *comparison.overall_metrics), rows)


def differences(comparison: Comparison) -> str:
    rows = [
        (
            *comparison.cells(outcome),
            *(format_difference(comparison.difference(outcome, name)) for name in comparison.overall_metrics),
        )
        for outcome in comparison.outcomes[1:]
    ]
    return table((*comparison.headings, *comparison.overall_metrics), rows)


def costs(comparison: Comparison) -> str:
    rows = []
    for outcome in comparison.outcomes:
        means = {name: spread.mean for name, spread in outcome.costs.items()}
        rows.append(
            (
                *comparison.cells(outcome),
                duration(means["seconds"]),
                f"{means['step']:,.0f}",
                f"{means['tokens']:,.0f}",
                f"{means['parameters']:,.0f}",
                f"{means['trained_parameters']:,.0f}",
            )
        )
    return table((*comparison.headings, "time", "steps", "tokens", "parameters", "of these trained"), rows)


def legend(comparison: Comparison) -> str:
    """The recipes in the colours of their curves."""
    labels = [html.escape(comparison.label(outcome)) for outcome in comparison.outcomes]
    names = [legend_entry(colour, label) for colour, label in enumerate(labels)]
    return f"<p>{' &nbsp; '.join(names)}</p>"


def format_spread(spread: Spread) -> str:
    """A mean with its deviation.

    >>> format_spread(Spread((0.5, 0.7))), format_spread(Spread((0.5,)))
    ('0.6000 ± 0.1414', '0.5000')
    """
    mean = format_value(float(spread.mean))
    return mean if spread.deviation is None else f"{mean} ± {format_value(spread.deviation)}"


def format_difference(spread: Spread) -> str:
    """A difference, with its sign.

    >>> format_difference(Spread((0.5, 0.7)))
    '+0.6000 ± 0.1414'
    """
    return ("+" if spread.mean >= 0 else "") + format_spread(spread)
