"""Commands that are written as one line, though a definition has program and arguments apart."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence


def words_of_line(line: str) -> list[str]:
    """Return the words of a command line. Quotes group words; a backslash is a character of a path.

    If a quote is not closed, the line is split at its spaces.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.escape, lexer.commenters = True, "", ""
    try:
        return list(lexer)
    except ValueError:
        return line.split()


def split_command(command: str, folder: str, path: str | None) -> list[str]:
    """Return the words of a "command" that also has arguments; empty if all of it is the program.

    A program whose name has spaces exists: in ``folder``, which relative paths start from, or on ``path``.
    Blocks on files, if the command has a space.
    """
    words = words_of_line(command) if " " in command.strip() else []
    if len(words) < 2:
        return []
    import shutil  # most commands are one word

    if os.path.exists(os.path.join(folder, command)) or shutil.which(command, path=path):
        return []
    first = words[0]
    # of /opt/My Server/run, the first word is no program
    is_path = "/" in first or "\\" in first
    return words if not is_path or os.path.exists(os.path.join(folder, os.path.expanduser(first))) else []


def in_json(words: Sequence[str]) -> str:
    return json.dumps(list(words), ensure_ascii=False)
