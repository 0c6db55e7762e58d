"""A process that imports, to be killed or measured: ``tests.posts.importing.child HOME PART FILE…``.

Where that part of it is done it says ``waiting`` and goes no further; what it began to write it still
writes. At the end it says ``ended``, and how much memory it took at most beyond what it had before the
import, in bytes. Without a home it only reads the rows of a twilog.csv.
"""

from __future__ import annotations

import resource
import sys
from datetime import UTC
from pathlib import Path

from tabane.messages import Message
from tabane.posts.importing.twilog_csv import TwilogCsv
from tests.posts.importing.archives import Told, do_import


class Waiting(Told):
    """Waits, for ever, once a part is done."""

    def __init__(self, part: float) -> None:
        super().__init__()
        self._part = part

    def tell(self, done: int, total: int | None = None, note: Message | None = None) -> None:
        if total is not None and done >= self._part * total:
            print("waiting", flush=True)
            sys.stdin.read()


def peak() -> int:
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024


def main(home: str, part: str, *files: str) -> None:
    before = peak()
    if home:
        do_import(Path(home), files, Waiting(float(part)))
    else:
        print(sum(1 for _ in TwilogCsv(files[0], UTC)))
    print("ended", peak() - before, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
