"""A section with its figures, and the folder of JSON files that keeps all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from benchmarks.sections.blocks import Block, Comparison, Goals, Plot
from benchmarks.sections.figure import Figure
from msgspec import Struct

FIGURES = Path(__file__).parents[1] / "figures"
"""Committed: what the performance page is rendered from."""

FOLDER = "BENCH_FIGURES"
"""The environment variable with another folder for the figures of a run. The page stays as it is then."""


class Section(Struct, frozen=True):
    """The section of one part. ``measured`` is the date, ``load`` the load average before and after.

    The loads are None if they are not known.
    """

    name: str
    title: str
    measured: str
    load: tuple[float | None, float | None]
    blocks: tuple[Block, ...]

    def goals(self) -> Iterator[Figure]:
        """Yield all figures with a goal."""
        for block in self.blocks:
            if isinstance(block, Goals):
                yield from (figure for figure in block.figures if figure.goal is not None)

    def ratios(self) -> Iterator[Figure]:
        """Yield what can be compared with another run on another machine."""
        for block in self.blocks:
            if isinstance(block, Goals):
                yield from (figure for figure in block.figures if figure.is_ratio)
            elif isinstance(block, Comparison):
                yield from block.ratios()

    def comparisons(self) -> Iterator[Comparison]:
        yield from (block for block in self.blocks if isinstance(block, Comparison))

    def plots(self) -> Iterator[Plot]:
        yield from (block for block in self.blocks if isinstance(block, Plot))


def figures_folder() -> Path:
    """Return the folder where this run puts its figures."""
    return Path(os.environ.get(FOLDER) or FIGURES)


def write_section(section: Section, folder: Path) -> Path:
    """Write the figures of a section in one step, and return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{section.name}.json"
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(section), indent=1) + b"\n")
    part.replace(path)
    return path


def read_sections(folder: Path) -> dict[str, Section]:
    """Return the sections that a folder has, by name. Raises ValidationError if a file is none."""
    found = (
        msgspec.json.decode(path.read_bytes(), type=Section, strict=False)
        for path in sorted(folder.glob("*.json"))
    )
    return {section.name: section for section in found}
