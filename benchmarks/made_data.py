"""Data that runs share: made once, kept in ``build/bench-data``, made again when its maker changes."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

DATA = Path(__file__).parents[1] / "build" / "bench-data"


def made_data(
    name: str, makers: Sequence[Path], make: Callable[[Path], object], *, folder: Path = DATA
) -> Path:
    """Return the folder of that name. ``make`` fills it if it is not there.

    ``makers`` are the source files that the data depends on. ``name`` has to tell every other thing that it
    depends on, such as its size. Folders of the name that other makers left are deleted.
    """
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in makers)).hexdigest()[:12]
    target = folder / f"{name}-{digest}"
    if target.exists():
        return target
    print(f"making {name}", file=sys.stderr)
    for old in folder.glob(f"{name}-????????????"):
        shutil.rmtree(old)
    part = folder / f"{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    make(part)
    part.rename(target)
    return target


def linked(source: Path, target: Path) -> Path:
    """Make ``target`` a folder with links to the files of ``source``: engines write beside them."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        (target / path.name).symlink_to(path)
    return target
