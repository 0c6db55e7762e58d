"""Arrays that are made of a model's files once, stored, and mapped into memory by every later process."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]

_ENDING = ".npy"
_WHOLE = "whole"


def kept_arrays(folder: str, name: str, make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays under this name in ``folder``; what ``make`` returns is stored there first.

    Whatever cannot be read is made again. If it cannot be stored, it is used from memory, and stderr says so.
    ``folder`` "" stores nothing.
    """
    if not folder:
        return make()
    place = os.path.join(folder, name)
    try:
        os.stat(os.path.join(place, _WHOLE))
        return _mapped(place)
    except (OSError, ValueError, EOFError):
        made = make()
    try:
        _store(folder, place, made)
        stored = _mapped(place)
        # It takes a second, in which texts can be embedded.
        threading.Thread(target=_confirm, args=(place,), daemon=True).start()
        return stored
    except (OSError, ValueError, EOFError) as error:
        print(f"{place} cannot be stored: {error}", file=sys.stderr)
        return made


def _mapped(place: str) -> Arrays:
    found = {
        name.removesuffix(_ENDING): np.load(os.path.join(place, name), mmap_mode="r")
        for name in os.listdir(place)
        if name.endswith(_ENDING)
    }
    if not found:
        raise ValueError("empty")
    return found


def _store(folder: str, place: str, arrays: Arrays) -> None:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="making-") as room:
        made = os.path.join(room, "arrays")
        os.mkdir(made)
        for name, array in arrays.items():
            np.save(os.path.join(made, name + _ENDING), array, allow_pickle=False)
        shutil.rmtree(place, ignore_errors=True)
        os.rename(made, place)


def _confirm(place: str) -> None:
    """Write the arrays to the disk, then the file that says so: a crash before it may leave zeros in them."""
    with contextlib.suppress(OSError):
        for name in os.listdir(place):
            with open(os.path.join(place, name), "rb") as file:
                os.fsync(file.fileno())
        with open(os.path.join(place, _WHOLE), "xb"):
            return
