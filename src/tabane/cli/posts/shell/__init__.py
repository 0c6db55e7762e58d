"""A prompt for searching posts. Imported only where somebody wants one."""

from __future__ import annotations

from tabane.cli.posts.shell.shell import run_shell

__all__ = ["run_shell"]
