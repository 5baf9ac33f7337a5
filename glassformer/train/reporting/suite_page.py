"""comparison.html of a suite: the scores and their average, all metrics, costs, and the curves of every recipe."""

from __future__ import annotations

import html

from .compare_suite import SuiteComparison
from .run_comparison_page import NOT_PLOTTED, describe_seeds, format_difference, format_spread
from .run_log import duration
from .run_report import curve_names, curves, legend_entry, page, points_of, table


def score_header(comparison: SuiteComparison) -> tuple[str, ...]:
    return ("recipe", "score", *(variant or "value" for variant in comparison.variants))


def score_rows(comparison: SuiteComparison) -> list[tuple[str, ...]]:
    """A line for each recipe, and the average; of several variants also its difference from the first."""
    variants = comparison.variants
    rows = [
        (recipe, " and ".join(metrics), *(format_spread(comparison.score(recipe, variant)) for variant in variants))
        for recipe, metrics in comparison.suite.scores.items()
    ]
    rows.append(("average", "", *(format_spread(comparison.average(variant)) for variant in variants)))
    if len(variants) > 1:
        differences = (format_difference(comparison.difference(variant)) for variant in variants[1:])
        rows.append(("difference", "", "", *differences))
    return rows


def suite_page(comparison: SuiteComparison) -> str:
    name = comparison.suite.folder.name
    parts = [f"<p>{describe_seeds(comparison.seeds)}</p>", table(score_header(comparison), score_rows(comparison))]
    several = len(comparison.variants) > 1
    for recipe in comparison.suite.scores:
        outcomes = [comparison.outcomes[recipe, variant] for variant in comparison.variants]
        metrics = list(outcomes[0].metrics)
        rows = [
            (variant, *(format_spread(outcome.metrics[metric]) for metric in metrics))
            for variant, outcome in zip(comparison.variants, outcomes, strict=True)
        ]
        parts.append(f"<h2>{html.escape(recipe)}</h2>\n{table(('', *metrics), rows)}")
        if several:
            labels = [legend_entry(i, html.escape(variant)) for i, variant in enumerate(comparison.variants)]
            parts.append(f"<p>{' &nbsp; '.join(labels)}</p>")
        logs = [(colour, run.lines) for colour, outcome in enumerate(outcomes) for run in outcome.runs]
        for curve in dict.fromkeys(name for _, lines in logs for name in curve_names(lines)):
            series = [(colour, points) for colour, lines in logs if (points := points_of(curve, lines))]
            if series and curve not in NOT_PLOTTED and curve != "learning_rate":
                parts.append(f"<h3>{html.escape(curve.replace('_', ' '))}</h3>\n{curves(curve, series)}")
    costs = [
        (variant, duration(comparison.cost(variant, "seconds")), f"{comparison.cost(variant, 'tokens'):,.0f}")
        for variant in comparison.variants
    ]
    parts.append(f"<h2>cost of one seed</h2>\n{table(('', 'time', 'tokens'), costs)}")
    return page(html.escape(f"The suite {name}"), parts)
