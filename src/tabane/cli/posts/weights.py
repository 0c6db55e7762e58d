"""The weights of content, reasoning and summary in modes average and weighted; pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tabane.errors import CallerError
from tabane.messages import say

Weights = tuple[float, float, float]

PRESETS: Mapping[str, Weights] = MappingProxyType(
    {
        "equal": (1.0, 1.0, 1.0),
        ".7/.2/.1": (0.7, 0.2, 0.1),
        ".2/.7/.1": (0.2, 0.7, 0.1),
        ".1/.2/.7": (0.1, 0.2, 0.7),
        ".5/.5/0": (0.5, 0.5, 0.0),
        ".5/0/.5": (0.5, 0.0, 0.5),
        "0/.5/.5": (0.0, 0.5, 0.5),
    }
)
"""Those that the original had, by name."""

WEIGHING = ("average", "weighted")
"""Modes that weights go with."""


def weights_of(text: str) -> Weights:
    """A preset by its name, or three numbers with ``/``, commas or spaces between. Raises CallerError."""
    text = text.strip()
    if text in PRESETS:
        return PRESETS[text]
    try:
        content, reasoning, summary = (
            float(part) for part in text.replace("/", " ").replace(",", " ").split()
        )
    except ValueError:
        raise CallerError(
            say(
                "{text} are no weights. They are {presets}, or three numbers, for content, reasoning and "
                "summary, such as 0.5/0.3/0.2.",
                text=text,
                presets=", ".join(PRESETS),
            )
        ) from None
    return content, reasoning, summary


def named(weights: Weights) -> str:
    """The weights in a word: the name of the preset, or the numbers."""
    presets = (name for name, preset in PRESETS.items() if preset == weights)
    return next(presets, "/".join(f"{weight:g}" for weight in weights))
