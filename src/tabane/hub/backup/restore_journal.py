"""Exchange of files that is completed also if its process is killed: all new files are in place, or none.

The new files are complete on the disk before the journal is written. From then on the exchange can only go
forward: it is continued by the next hub of the home or by the next command that needs it. The lock of the
home is held all the time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tabane.errors import HubError
from tabane.messages import say
from tabane.settings.files import LIMIT, read_private, write_private

JOURNAL = "restore-journal.json"
STAGED = ".restore-"
"""Beginning of the name of a folder with new files, in the home."""

Reached = Callable[[str], object]
"""Called before each step with its name."""


class FileExchange(Struct, frozen=True):
    """One file or folder: ``staged`` gets to ``target``, and what was there to ``kept``.

    Without ``staged``, what was there is moved away.
    """

    target: str
    kept: str
    staged: str = ""


class RestoreJournal(Struct, frozen=True):
    """The exchange of a restored backup. ``folder`` has the new files; it is deleted at the end."""

    folder: str
    exchanges: tuple[FileExchange, ...]


def exchange_all(
    home: Path, folder: Path, exchanges: Sequence[FileExchange], reached: Reached = lambda step: None
) -> None:
    """Put the new files in place. Raises OSError before anything was changed, HubError after that."""
    journal = RestoreJournal(str(folder), tuple(exchanges))
    reached("journal")
    write_private(home / JOURNAL, msgspec.json.encode(journal))
    _complete(home, journal, reached)


def complete_restore(home: str | os.PathLike[str]) -> bool:
    """Complete an exchange that was cut off. Return whether there was one.

    Call it with the lock of the home held. Files of a restore that did not get as far are deleted.
    Raises HubError.
    """
    path = Path(home)
    try:
        journal = msgspec.json.decode(read_private(path / JOURNAL, 16 * LIMIT), type=RestoreJournal)
    except FileNotFoundError:
        journal = None
    except msgspec.DecodeError:
        raise HubError(
            say(
                "{path} cannot be read. It says how to complete a restore that was cut off. Restore the "
                "backup again after you have deleted this file.",
                path=path / JOURNAL,
            )
        ) from None
    if journal is not None:
        _complete(path, journal, lambda step: None)
    for left in path.glob(f"{STAGED}*"):
        import shutil  # nothing is left of most starts

        shutil.rmtree(left, ignore_errors=True)
    return journal is not None


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Write the entries of a folder to the disk. Blocks. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _complete(home: Path, journal: RestoreJournal, reached: Reached) -> None:
    try:
        for exchange in journal.exchanges:
            _exchange(exchange, reached)
        paths = [path for each in journal.exchanges for path in (each.target, each.kept, each.staged) if path]
        for folder in sorted({os.path.dirname(path) for path in paths}):
            with contextlib.suppress(FileNotFoundError):
                sync_folder(folder)
        reached("end")
        os.unlink(home / JOURNAL)
        sync_folder(home)
    except OSError as error:
        raise HubError(
            say(
                "A restore could not be completed: {path}: {reason}. Fix that, and start the hub: it "
                "continues the restore.",
                path=error.filename or home,
                reason=error.strerror or str(error),
            )
        ) from None
    reached("folder")
    import shutil

    shutil.rmtree(journal.folder, ignore_errors=True)


def _exchange(exchange: FileExchange, reached: Reached) -> None:
    """Do what is left to do: each state between two steps can be recognized."""
    if exchange.staged and not os.path.lexists(exchange.staged):
        return
    if os.path.lexists(exchange.target) and not os.path.lexists(exchange.kept):
        reached(f"keep {exchange.target}")
        os.makedirs(os.path.dirname(exchange.kept), mode=0o700, exist_ok=True)
        os.rename(exchange.target, exchange.kept)
    if exchange.staged:
        reached(f"place {exchange.target}")
        os.rename(exchange.staged, exchange.target)
