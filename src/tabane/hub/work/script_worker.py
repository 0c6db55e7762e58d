"""The start of a worker process of scripts: it gives up what it does not need, and becomes the interpreter.

Only the standard library, and as little of it as possible: a script waits for this.
"""

from __future__ import annotations

import marshal
import os
import sys

from tabane.guard.cages.entering import enter
from tabane.upstreams.processes.descriptors import close_inherited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OPTIONAL: dict[str, object] = {"landlock": 0, "seccomp": b""}
"""Parts of the cage that a kernel may refuse, and what they are without it."""

_SET_PDEATHSIG, _KILL = 1, 9


def main() -> None:
    """Run the command in the arguments, which follow the path of the package and the cage.

    It gets an empty environment, ``/`` as its folder, and no descriptors but its two pipes.
    """
    cage, command = marshal.loads(bytes.fromhex(sys.argv[2])), [os.fsencode(part) for part in sys.argv[3:]]
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    close_inherited()
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PDEATHSIG, _KILL, 0, 0, 0)
    _enter(cage, command)
    os.execve(command[0], command, {})


def _enter(cage: dict[str, Any], command: list[bytes]) -> None:
    """Enter the cage, without a part that this kernel refuses. Raises OSError."""
    while True:
        try:
            enter(cage, command, {})
        except OSError as error:
            part = str(error.filename)
            if not cage.get(part):
                raise
            cage[part] = _OPTIONAL[part]
        else:
            return
