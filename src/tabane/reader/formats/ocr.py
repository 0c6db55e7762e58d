"""Recognition of text in pictures (OCR) by tesseract, where it is installed. Nothing else needs it.

tesseract decodes no file of the page: it gets gray pixels. It runs as one process at a time, on one core,
with limits of memory, CPU time and time by the clock. If the process that started it is killed, the limit of
CPU time ends it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from time import monotonic
from typing import NamedTuple

from tabane.reader.markdown import spans

INSTALLATION = "apt install tesseract-ocr tesseract-ocr-jpn"
"""The command that installs tesseract with Japanese on Debian; other systems have packages of such names."""

SECONDS = 45.0
"""By the clock, for all pictures of a document."""

RESOLUTION = 300
"""Dots per inch at which tesseract reads best."""

MOST_PIXELS = 16_000_000
"""Pixels of one picture: a page of A3 at 300 dpi has 17 million."""

_EACH = 20.0  # seconds for one picture
_MEMORY = 1_500_000_000  # bytes of address space
_ANSWER = 4_000_000  # bytes of one answer
_PREFERRED = ("eng", "jpn")  # if Japanese comes first, English loses spaces
_LANGUAGES = 3  # at once: each takes its time
_LOWER = 5  # nice value
# Text paler than this on white is hidden in all formats (see hidden_text): it must not be recognized either.
_UNREADABLE = 234
_WITHOUT_PALE = bytes(range(_UNREADABLE)) + b"\xff" * (256 - _UNREADABLE)
_DOUBTFUL = 40.0  # mean confidence, 0..100, below which a line is noise of a picture
_FULL = 0.8  # of the width of its paragraph: a line that ends there goes on in the next one
_COLUMN = 0.35  # of the width of the picture, which a line of running text has at least
_WIDE = "\u2e80-\u9fff\uf900-\ufaff\uff01-\uff60\uff66-\uff9f\U00020000-\U0003ffff"
_WIDE_END, _WIDE_START = re.compile(f"[{_WIDE}]$"), re.compile(f"^[{_WIDE}]")


class GrayPicture(NamedTuple):
    """Rows of pixels, one byte each: 0 is black, 255 is white."""

    wide: int
    high: int
    pixels: bytes


@dataclass(frozen=True, slots=True)
class _Tesseract:
    """The installed program, and the languages that it reads, as its option names them."""

    path: str
    languages: str


@cache
def _installed(path: str) -> _Tesseract | None:
    """Return the program that is found on this PATH; None if there is none, or it has no language."""
    program = shutil.which("tesseract", path=path)
    if program is None:
        return None
    try:
        listed = subprocess.run(
            [program, "--list-langs"], env=_environment(), capture_output=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    names = [line.strip() for line in listed.stdout.decode("utf-8", "replace").splitlines()[1:]]
    known = [name for name in names if re.fullmatch(r"\w{1,40}", name) and name not in ("osd", "equ")]
    known = [name for name in known if not name.endswith("_vert")]  # loaded by its horizontal one
    ordered = [*(name for name in _PREFERRED if name in known), *sorted(set(known) - set(_PREFERRED))]
    return _Tesseract(program, "+".join(ordered[:_LANGUAGES])) if ordered else None


def can_recognize() -> bool:
    """Return whether tesseract is installed."""
    return _installed(os.environ.get("PATH", os.defpath)) is not None


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "TESSDATA_PREFIX") if name in os.environ}
    return {**kept, "LC_ALL": "C.UTF-8", "OMP_THREAD_LIMIT": "1"}


@dataclass(slots=True)
class TextRecognizer:
    """Reads pictures one after the other, as long as ``seconds`` by the clock last."""

    seconds: float = SECONDS
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        self._end = monotonic() + self.seconds

    @property
    def left(self) -> float:
        """Return the seconds that are left."""
        return self._end - monotonic()

    def paragraphs(self, picture: GrayPicture) -> list[str] | None:
        """Return the paragraphs of a picture as plain text, [] if it shows none.

        None if there is no tesseract, no time is left, the picture is too large, or tesseract failed.
        """
        program = _installed(os.environ.get("PATH", os.defpath))
        seconds = min(self.left, _EACH)
        if program is None or seconds <= 0.5 or picture.wide * picture.high > MOST_PIXELS:
            return None
        pixels = picture.pixels.translate(_WITHOUT_PALE)
        if pixels.count(255) == len(pixels):
            return []
        answer = _run(program, f"P5 {picture.wide} {picture.high} 255\n".encode() + pixels, seconds)
        return None if answer is None else list(_paragraphs_of(answer))


def recognized_markdown(paragraphs: Sequence[str]) -> str:
    """Return paragraphs as Markdown: nothing in them is a mark of it."""
    return "\n\n".join(spans.lines(spans.inline(paragraph)) for paragraph in paragraphs)


def _run(program: _Tesseract, picture: bytes, seconds: float) -> str | None:
    command = [program.path, "stdin", "stdout", "-l", program.languages, "--dpi", str(RESOLUTION), "tsv"]
    try:
        child = subprocess.Popen(
            command,
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    with child:
        _limit(child.pid, seconds)
        try:
            answer, _ = child.communicate(picture, timeout=seconds)
        except (subprocess.TimeoutExpired, OSError):
            child.kill()
            return None
        except BaseException:
            child.kill()
            raise
    return answer[:_ANSWER].decode("utf-8", "replace") if child.returncode == 0 else None


def _limit(pid: int, seconds: float) -> None:
    """Set the limits of a process that has just begun. A conversion process has passed on its own already."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, _LOWER)
    if sys.platform != "linux":
        return
    import resource

    limits = {
        resource.RLIMIT_CPU: int(seconds) + 1,
        resource.RLIMIT_AS: _MEMORY,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    for limit, value in limits.items():
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(pid, limit, (value, value))


class _Box(NamedTuple):
    left: int
    width: int
    height: int

    @property
    def right(self) -> int:
        return self.left + self.width


@dataclass(slots=True)
class _Line:
    box: _Box
    text: str = ""
    end: int = 0
    confidence: list[float] = field(default_factory=list)
    has_gap: bool = False

    def add(self, word: str, box: _Box, confidence: float) -> None:
        """Add the next word. Beside Japanese there is no space, unless the words stand apart."""
        if self.text:
            gap = (box.left - self.end) / max(self.box.height, box.height, 1)
            self.has_gap = self.has_gap or gap > 3
            self.text += _space(self.text, word, gap)
        self.text += word
        self.end = box.right
        self.confidence.append(confidence)

    @property
    def is_read(self) -> bool:
        return sum(self.confidence) >= _DOUBTFUL * len(self.confidence)


def _space(before: str, after: str, gap: float = 0.0) -> str:
    """Return what is between two words. ``gap`` is in heights of the line."""
    wide = bool(_WIDE_END.search(before)) + bool(_WIDE_START.search(after))
    return " " if gap > (0.0, 0.25, 1.0)[wide] or not wide else ""


def _paragraphs_of(table: str) -> Iterator[str]:
    """Yield the paragraphs of tesseract's table (level, page, block, paragraph, line, word, box, …)."""
    paragraph: list[_Line] = []
    area = page = _Box(0, 0, 0)
    for row in table.splitlines()[1:]:
        cells = row.split("\t")
        if len(cells) != 12:
            continue
        level = cells[0]
        left, _, width, height = (int(cell) if cell.isdecimal() else 0 for cell in cells[6:10])
        box = _Box(left, width, height)
        if level == "1":
            page = box
        elif level == "3":
            yield from _joined(paragraph, area, page)
            paragraph, area = [], box
        elif level == "4":
            paragraph.append(_Line(box))
        elif level == "5" and paragraph and (word := cells[11].strip()):
            with contextlib.suppress(ValueError):
                paragraph[-1].add(word, box, float(cells[10]))
    yield from _joined(paragraph, area, page)


def _joined(lines: Sequence[_Line], area: _Box, page: _Box) -> Iterator[str]:
    """Yield a paragraph, if it has text: full lines run on, others, as in forms and tables, end."""
    text = ""
    runs_on = False
    for line in lines:
        if not line.text or not line.is_read:
            continue
        if not text:
            text = line.text
        elif not runs_on:
            text += "\n" + line.text
        elif text.endswith("-") and line.text[:1].islower():
            text = text[:-1] + line.text
        else:
            text += _space(text, line.text) + line.text
        runs_on = (
            not line.has_gap
            and line.box.width >= _COLUMN * page.width
            and line.box.right - area.left >= _FULL * area.width
        )
    if text:
        yield text
