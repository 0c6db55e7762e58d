"""Checks of the audit log: who can open it, whether it is written, and its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tabane.audit.chain import MacChain, read_key
from tabane.audit.entry import audit_files
from tabane.audit.head import ChainHead
from tabane.audit.options import AuditPaths, audit_paths
from tabane.audit.recovery import ChainEnd, find_end
from tabane.audit.verifying import stored_head
from tabane.errors import AuditError
from tabane.hub.doctor.files import closing
from tabane.hub.doctor.installation import DoctorFinding, Installation, LiveHub, fault, note, ok, warning
from tabane.messages import say


def audit_log(installation: Installation) -> Iterator[DoctorFinding]:
    """Check the permissions and the end of the log, and whether calls are recorded. Reads only its end."""
    paths = audit_paths(str(installation.settings.home))
    private = closing(Path(paths.folder), 0o077)
    if private is not None:
        yield warning(
            say("Other users can list and open {path}", path=paths.folder),
            say("Make it private: chmod 700 {path}", path=paths.folder),
            private,
        )
    if installation.live is not None:
        yield from _written(installation.live)
    if installation.settings.audit == "off":
        yield note(say("The audit log is off: calls are not recorded (setting audit)"))
    else:
        yield from _end(paths)


def _written(live: LiveHub) -> Iterator[DoctorFinding]:
    problem, lost = live.status.get("audit_problem"), live.status.get("audit_lost")
    if problem:
        yield fault(say("{problem}", problem=problem))
    if lost:
        yield warning(
            say(
                "{count} {count:call is|calls are} missing in the audit log since the hub started", count=lost
            ),
            say("Reasons are in the hub's log: tabane logs"),
        )


def _end(paths: AuditPaths) -> Iterator[DoctorFinding]:
    """Compare the last entries with the head, which is stored apart from them."""
    try:
        stored = stored_head(paths)  # before the files: a running hub may add entries in the meantime
        if stored is None and not audit_files(paths.folder):
            return
        end = find_end(paths.folder, stored, MacChain(read_key(paths.key)))
    except AuditError as error:
        yield fault(error.message)
        return
    except OSError as error:
        yield fault(
            say(
                "{path} cannot be read: {reason}",
                path=error.filename or paths.folder,
                reason=error.strerror or str(error),
            )
        )
        return
    yield _judged(paths, stored, end)


def _judged(paths: AuditPaths, stored: ChainHead | None, end: ChainEnd) -> DoctorFinding:
    verify = say("See what is wrong: tabane audit verify")
    if stored is None:
        return warning(
            say("The head of the audit log is missing, so missing entries cannot be detected"), verify
        )
    if end.head.seq < stored.seq:
        count = stored.seq - end.head.seq
        return warning(
            say("The last {count} {count:entry|entries} of the audit log are missing", count=count), verify
        )
    if not end.verified or (end.head.seq == stored.seq and end.head.mac != stored.mac):
        return warning(say("The last entries of the audit log were changed"), verify)
    return ok(
        say(
            "Audit log: {path}, {count} {count:entry|entries} so far",
            path=paths.folder,
            count=end.head.seq,
        )
    )
