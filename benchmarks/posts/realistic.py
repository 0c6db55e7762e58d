"""Posts of real words and of realistic lengths: sentences of the sample archive and of the documentation."""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from tabane.posts.importing.importer import sample_files

DOCS = Path(__file__).parents[2] / "docs"
USERS = 700
_SEED = 20261123
_FIRST_ID = 1_700_000_000_000_000_000
_FIRST_DAY, _STEP = 1_600_000_000, 900.0  # seconds
_LENGTHS = {"ja": (3.7, 0.6), "en": (4.7, 0.6)}  # characters, log-normal: medians 40 and 110
_LONGEST = {"ja": 140, "en": 280}
_WORD = re.compile(r"[A-Za-z][A-Za-z' ,-]{20,200}[.?!]")


class Posts:
    """Posts by number, the same for each seed. No two texts are equal."""

    def __init__(self, seed: int = _SEED) -> None:
        self._source = random.Random(seed)
        samples = [row[3] for name in sample_files() if name.endswith(".csv") for row in _rows(name)]
        self._sentences = {
            "ja": [part for text in samples for part in re.findall(r"[^。!?\n]+[。!?]", text)],
            "en": [
                part for page in sorted(DOCS.glob("*.md")) for part in _WORD.findall(page.read_text("utf-8"))
            ],
        }

    def text(self, number: int) -> str:
        language = self._source.choice(("ja", "en"))
        wanted = min(self._source.lognormvariate(*_LENGTHS[language]), _LONGEST[language])
        gap = "" if language == "ja" else " "
        text = str(number)
        while len(text) < wanted:
            text += gap + self._source.choice(self._sentences[language])
        return text[: _LONGEST[language]]

    def write(self, path: Path, count: int) -> Iterator[str]:
        """Write so many posts as a CSV file, oldest first. Yields their texts."""
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
            for number in range(count):
                text = self.text(number)
                moment = datetime.fromtimestamp(_FIRST_DAY + number * _STEP, UTC)
                user, post = f"user{self._source.randrange(USERS)}", _FIRST_ID + number * 7919
                url = f"https://x.com/{user}/status/{post}"
                table.writerow((post, url, f"{moment:%Y-%m-%d %H:%M:%S}", text, 1 + (number % 10 == 0)))
                yield text


def _rows(name: str) -> list[list[str]]:
    with open(name, encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))
