"""Text format 0.0.4 of Prometheus: families of metrics, and the page that they make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

MetricKind = Literal["counter", "gauge", "histogram"]
Labels = tuple[tuple[str, str], ...]


class MetricSample(NamedTuple):
    """A value with its labels. ``suffix`` follows the name of the family: only a histogram has some."""

    labels: Labels
    value: float
    suffix: str = ""


class MetricFamily(NamedTuple):
    """A metric with its samples."""

    name: str
    kind: MetricKind
    help: str
    samples: Sequence[MetricSample]


def single(value: float) -> list[MetricSample]:
    """Return the samples of a metric without labels."""
    return [MetricSample((), value)]


def histogram(
    labels: Labels, bounds: Sequence[float], counts: Sequence[int], total: float
) -> list[MetricSample]:
    """Return the samples of one histogram.

    ``counts`` has the number of observations for each bound, and last the number above all bounds. They are
    not cumulative. ``total`` is the sum of the observed values.
    """
    samples, below = [], 0
    for bound, count in zip((*bounds, float("inf")), counts, strict=True):
        below += count
        samples.append(MetricSample((*labels, ("le", number(bound))), below, "_bucket"))
    return [*samples, MetricSample(labels, total, "_sum"), MetricSample(labels, below, "_count")]


def exposition(families: Iterable[MetricFamily]) -> str:
    """Return the page of these families."""
    return "".join(map(_written, families))


def number(value: float) -> str:
    """Return a number as the format writes it."""
    return "+Inf" if value == float("inf") else f"{value:.15g}"


def _written(family: MetricFamily) -> str:
    lines = [f"# HELP {family.name} {_escaped(family.help)}\n# TYPE {family.name} {family.kind}\n"]
    for labels, value, suffix in family.samples:
        shown = ",".join([f'{name}="{_quoted(text)}"' for name, text in labels])
        lines.append(f"{family.name}{suffix}{{{shown}}} {number(value)}\n" if shown
                     else f"{family.name}{suffix} {number(value)}\n")  # fmt: skip
    return "".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    """Return the value of a label. Lone surrogates, which are not UTF-8, are replaced."""
    return _escaped(text).replace('"', '\\"').encode("utf-8", "replace").decode()
