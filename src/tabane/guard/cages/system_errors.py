"""Errors of system calls that are made through ctypes."""

from __future__ import annotations

import ctypes
import os


def failed() -> OSError:
    """Return the error of the last system call through ctypes."""
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
