"""`tabane` that gets Ctrl+C at the moment when it has written a text: `python interrupted_rows.py TEXT …`."""

from __future__ import annotations

import io
import os
import signal
import sys


class InterruptedOutput(io.TextIOWrapper):
    """Standard output whose reader presses Ctrl+C as soon as it sees ``text``."""

    text = ""

    def write(self, written: str) -> int:
        count = super().write(written)
        self.flush()
        if self.text in written:
            os.kill(os.getpid(), signal.SIGINT)
        return count


if __name__ == "__main__":
    from tabane.cli.main import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    InterruptedOutput.text = sys.argv[1]
    sys.stdout = InterruptedOutput(sys.stdout.buffer, encoding="utf-8")
    main(sys.argv[2:], prog_name="tabane")
