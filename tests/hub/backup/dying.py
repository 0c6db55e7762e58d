"""A process that restores a backup and kills itself before a step: ``dying.py FOLDER ARCHIVE STEP``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tabane.hub.backup.restoring import restore_backup
from tests.hub.backup.homes import SmallHome


def main(folder: str, archive: str, last: int) -> None:
    steps = 0

    def reached(_step: str) -> None:
        nonlocal steps
        steps += 1
        if steps == last:
            os.kill(os.getpid(), signal.SIGKILL)

    with open(archive, "rb") as stream:
        target = SmallHome(Path(folder)).target(forced=True)
        restore_backup(stream, archive, target, lambda done, total: reached("unpack"), reached)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
