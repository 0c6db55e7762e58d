"""Checks of what is stored: whether the files are whole, and what is derived agrees with them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from functools import partial
from typing import Any

from tabane.hub import collections
from tabane.hub.doctor.finding import DoctorFinding, fault, ok, warning
from tabane.hub.doctor.installation import Installation
from tabane.hub.stores import Stores
from tabane.messages import say


def stores(patient: Installation) -> Iterator[DoctorFinding]:
    """How each store is, as the hub that has it open says, or as it is found where none runs."""
    rows = patient.live.stores if patient.live else _looked_at(patient, mend=False)
    for row in rows:
        yield _finding(patient, row)


def _finding(patient: Installation, row: dict[str, Any]) -> DoctorFinding:
    path = row["path"]
    again = say("Make it anew: tabane doctor --fix")
    fix = patient.live.mend_stores if patient.live else partial(_mend, patient)
    if row["state"] == "stale":
        names = ", ".join(row["collections"])
        title = say(
            "What is derived in {path} does not agree with its records: {names}", path=path, names=names
        )
        return warning(title, again, fix)
    if row["state"] == "damaged" and row["derived"]:
        return warning(say("{error}. All that was in it is made again.", error=row["error"]), again, fix)
    if row["state"] in ("damaged", "unreadable"):
        return fault(say("{error}", error=row["error"]))
    return ok(say("{path} is whole", path=path))


def _looked_at(patient: Installation, *, mend: bool) -> list[dict[str, Any]]:
    async def look() -> list[dict[str, Any]]:
        found = Stores(patient.settings.home, collections.SHAPES)
        try:
            return await found.check(mend=mend)
        finally:
            await found.close()

    before = os.umask(0o077)
    try:
        return asyncio.run(look())
    finally:
        os.umask(before)


def _mend(patient: Installation) -> None:
    _looked_at(patient, mend=True)
