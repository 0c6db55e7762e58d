"""Japanese words by a dictionary: what the extra ``ja`` adds to text analysis.

Sudachi in its finest mode, each word in its normalised form (打込む, 打ち込む and うちこむ are one), less
particles, endings and punctuation. Loaded where it is first needed: 75 MB, a second.
"""

from __future__ import annotations

import threading
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Protocol

from tabane.search.analysis import is_cjk

_EMPTY = ("助詞", "助動詞", "補助記号", "記号", "空白")
_LONGEST = 8_000  # characters at once: Sudachi refuses more than 49,149 bytes


class Japanese(Protocol):
    """Cuts Japanese into words. ``fingerprint`` names the dictionary: an index holds one's words alone."""

    @property
    def fingerprint(self) -> str: ...

    def words(self, text: str) -> list[str]: ...


def japanese() -> Japanese | None:
    """The dictionary that is installed, None without the extra ``ja``. Nothing is loaded yet."""
    try:
        fingerprint = f"sudachi {version('sudachipy')} {version('sudachidict-core')}"
    except PackageNotFoundError:
        return None
    return Sudachi(fingerprint) if find_spec("sudachipy") else None


class Sudachi:
    """SudachiPy with its core dictionary. For any thread."""

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self._lock = threading.Lock()
        self._tokenizer: Any = None

    def words(self, text: str) -> list[str]:
        """The words of Japanese text in their normalised form, in order. Latin words are left to others."""
        if text.isascii():
            return []
        with self._lock:
            tokenizer = self._loaded()
            return [word for part in _parts(text) for word in _normalised(tokenizer.tokenize(part))]

    def _loaded(self) -> Any:
        if self._tokenizer is None:
            from sudachipy import Dictionary, SplitMode

            self._tokenizer = Dictionary(dict="core").tokenizer(mode=SplitMode.A)
        return self._tokenizer


def _parts(text: str) -> list[str]:
    return [text[at : at + _LONGEST] for at in range(0, len(text), _LONGEST)]


def _normalised(morphemes: Any) -> list[str]:
    forms = (each.normalized_form().lower() for each in morphemes if each.part_of_speech()[0] not in _EMPTY)
    return [form for form in forms if is_cjk(form) and not any(map(str.isspace, form))]
