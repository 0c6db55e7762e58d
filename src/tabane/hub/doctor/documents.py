"""Checks of where documents come from: the folders that may be read, and those that are watched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tabane.hub.doctor.finding import DoctorFinding, ok, warning
from tabane.hub.doctor.installation import Installation
from tabane.messages import say


def roots(patient: Installation) -> Iterator[DoctorFinding]:
    """Whether the folders are there that assistants may put files from."""
    for root in patient.settings.documents_roots:
        path = Path(root).expanduser()
        if not path.is_dir():
            yield warning(
                say("{path}, from which assistants may put files, is no folder", path=path),
                say("Make it, or take it out of the setting documents_roots"),
            )


def watched(patient: Installation) -> Iterator[DoctorFinding]:
    """Whether the documents of watched folders are in step with them, as the hub that watches them says."""
    for row in patient.live.watched if patient.live else ():
        path = row["path"]
        if row["problem"]:
            yield warning(
                say("The watched folder {path} is not in step: {problem}", path=path, problem=row["problem"]),
                say("Or watch it no longer: tabane docs watch --remove {path}", path=path),
            )
        else:
            yield ok(say("{path} is watched; its documents are in step", path=path))
