"""What is put: documents of Markdown with metadata, files of a folder, and the questions about them.

Made once from a seed and kept in the user's cache.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.search.generator import Entry, Generator

VERSION = 1
SECTIONS = 10  # a filter on one of them means as large a part of all documents
PIECES = 10  # headings of a document, each with a text that makes one chunk
FILE = 2_000  # characters of a file, and of a document that is put while the clock runs

_CHARACTERS = {"ja": 260, "en": 600}  # of a piece
_SEED = 20261122
_QUESTIONS = 400
_PUTS = 3_000
_OF_A_FOLDER = 100

Params = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sources:
    """The folder, made."""

    folder: Path

    @property
    def files(self) -> Path:
        """A folder of folders of Markdown files."""
        return self.folder / "files"

    def batches(self, size: int) -> Iterator[list[Params]]:
        """All documents, so many at a time, as put_documents takes them."""
        with (self.folder / "documents.jsonl").open(encoding="utf-8") as lines:
            while batch := [json.loads(line) for line in islice(lines, size)]:
                yield batch

    def puts(self) -> list[Params]:
        """Other documents, of 2 KB each, as put_document takes them."""
        return self._read("puts.json")  # type: ignore[no-any-return]

    def questions(self) -> list[str]:
        """One to three words each that stand together in some document."""
        return self._read("questions.json")  # type: ignore[no-any-return]

    def _read(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text(encoding="utf-8"))


def made(documents: int, files: int) -> Sources:
    """The folder with so many documents and files, from the cache where it is there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tabane-benchmarks"
    folder = cache / f"documents-{VERSION}-{documents}-{files}"
    if not folder.exists():
        partial = folder.with_name(folder.name + ".part")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _Making(partial).write(documents, files)
        partial.rename(folder)
    return Sources(folder)


class _Making:
    def __init__(self, folder: Path) -> None:
        self._folder, self._generator, self._source = folder, Generator(_SEED), random.Random(_SEED)

    def write(self, documents: int, files: int) -> None:
        kept: list[Entry] = []
        with (self._folder / "documents.jsonl").open("w", encoding="utf-8") as lines:
            for number in range(documents):
                language = self._language()
                text = self._text(language, PIECES)
                lines.write(
                    json.dumps(self._document(f"corpus/{number:05}.md", text, number), ensure_ascii=False)
                    + "\n"
                )
                if number % 10 == 0:
                    kept.append(Entry(str(number), text, language, 0, ""))
        for number in range(files):
            path = self._folder / "files" / f"{number // _OF_A_FOLDER:03}" / f"{number:05}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._short(), encoding="utf-8")
        puts = [self._document(f"put/{number:05}.md", self._short(), number) for number in range(_PUTS)]
        self._write("puts.json", puts)
        self._write("questions.json", self._questions(kept))

    def _write(self, name: str, value: Any) -> None:
        (self._folder / name).write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")

    def _language(self) -> str:
        return self._source.choice(("ja", "en"))

    def _text(self, language: str, pieces: int) -> str:
        words, write = self._generator.words(language)[:2_000], self._generator.text
        parts = (
            f"## {' '.join(self._source.sample(words, 3))}\n\n{write(language, _CHARACTERS[language])}"
            for _ in range(pieces)
        )
        return "\n\n".join(parts) + "\n"

    def _short(self) -> str:
        """About 2 KB of UTF-8."""
        found = self._text(self._language(), 5).encode()
        return found[:FILE].decode("utf-8", "ignore")

    def _document(self, filepath: str, text: str, number: int) -> Params:
        tags = self._source.sample(("red", "green", "blue", "white", "black"), 2)
        return {
            "filepath": filepath,
            "text": text,
            "file_type": "note",
            "metadata": {"section": number % SECTIONS, "tags": tags, "author": f"author{number % 97}"},
        }

    def _questions(self, entries: Sequence[Entry]) -> list[str]:
        found = [
            " ".join(asked.words)
            for language in ("ja", "en")
            for asked in self._generator.queries(entries, language, _QUESTIONS // 2)
        ]
        self._source.shuffle(found)
        return found
