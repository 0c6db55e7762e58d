"""Descriptors that a new process has from its parent, and should not keep.

Only the standard library: processes that start quickly use this.
"""

from __future__ import annotations

import os


def close_inherited() -> None:
    """Close all descriptors but the standard three."""
    for name in os.listdir("/dev/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor of the listing itself
