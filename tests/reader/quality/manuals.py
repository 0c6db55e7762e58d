"""Recall over pages of real manuals: ``python -m tests.reader.quality.manuals [FOLDER]``.

The pages come from documentation packages of Debian. ``make manuals`` puts them into ``build/manuals``, in a
folder for each package. Security updates change the pages. So a page is found by its path, and the text that
a person reads on it by the element that contains it.
"""

from __future__ import annotations

import argparse
import gzip
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from lxml.etree import iterwalk
from lxml.html import HtmlElement, HTMLParser, fromstring

from tabane.reader.extraction.article import extract
from tests.reader.quality.corpus import plain

FOLDER = Path(__file__).parents[3] / "build" / "manuals"
FLOOR = 0.97
"""The lowest share of a page's words that may be read."""
_RUN = 4
"""Words in a row by which a line is looked for in what is read."""
_WORD = re.compile(r"[぀-ヿ㐀-鿿]|[^\W_぀-ヿ㐀-鿿]+")
_SILENT = "self::script or self::style or self::template or self::svg or self::button"
_BLOCK = re.compile("p|div|section|article|d[ldt]|[uo]l|li|table|t[rdh]|pre|blockquote|h[1-6r]|br")


@dataclass(frozen=True, slots=True)
class Manual:
    """A page of a package, and what a person reads on it.

    ``path`` is a glob in the package. ``main`` and ``drop`` are conditions of XPath for the elements that
    contain the text, and for those inside that are no text.
    """

    package: str
    path: str
    main: str
    drop: str

    @property
    def name(self) -> str:
        return f"{self.package}/{self.path.rsplit('/', 1)[-1].removesuffix('.gz').removesuffix('.html')}"

    def find(self, folder: Path) -> Path:
        """Return the page among unpacked packages. Raises FileNotFoundError if it is not there."""
        for path in sorted(folder.glob(f"{self.package}/{self.path}*")):
            return path
        raise FileNotFoundError(folder / self.package / self.path)


_PILCROWS = "@class='headerlink' or @class='mark' or @class='copiable-anchor'"
_TEXINFO = "@class='header' or @class='nav-panel'"


def _manuals(package: str, folder: str, pages: str, main: str, drop: str = "") -> Iterator[Manual]:
    for page in pages.split():
        yield Manual(package, f"usr/share/{folder}/{page}.html", main, drop or _PILCROWS)


MANUALS = (
    *_manuals("git-doc", "doc/git-doc", "git-rebase git-log git-config", "@id='content'"),
    *_manuals(
        "postgresql-doc",
        "doc/postgresql-doc-*/html",
        "sql-select sql-createtable functions-string",
        "@class='refentry' or @class='sect1'",
    ),
    *_manuals("nodejs-doc", "doc/nodejs/api", "fs http stream", "@id='apicontent'"),
    *_manuals("bash-doc", "doc/bash", "bashref", "@id='Top'", f"{_PILCROWS} or {_TEXINFO}"),
    *_manuals(
        "python3-doc",
        "doc/python3*/html",
        "library/stdtypes library/argparse library/asyncio-task",
        "@class='body'",
    ),
    *_manuals("rust-doc", "doc/rust-doc/html", "std/vec/struct.Vec", "@id='main-content'"),
    *_manuals("rust-doc", "doc/rust-doc/html", "book/ch04-01-what-is-ownership", "self::main"),
    *_manuals(
        "python-django-doc",
        "doc/python-django-doc/html",
        "ref/models/querysets topics/db/queries",
        "@id='yui-main'",
        f"{_PILCROWS} or @class='nav'",
    ),
    *_manuals("cmake-doc", "doc/cmake-data/html", "manual/cmake.1", "@class='body'"),
    *_manuals("libgtk-3-doc", "gtk-doc/html", "gtk3/GtkTreeView", "@class='refentry'"),
    *_manuals("apache2-doc", "doc/apache2-doc/manual/en", "mod/core", "@id='page-content'"),
    *_manuals(
        "zsh-doc",
        "doc/zsh-common/html",
        "Completion-System",
        "@id='Completion-System'",
        f"{_PILCROWS} or {_TEXINFO}",
    ),
)


def words(text: str) -> list[str]:
    """Return words in lower case, and Japanese characters one by one.

    Underscores separate words, because Markdown escapes them.
    """
    return _WORD.findall(text.lower())


def text_of(html: bytes, main: str, drop: str) -> str:
    """Return the text of the outermost elements that match ``main``, without those that match ``drop``.

    Each block is a line. Raises LookupError if no element matches.
    """
    root = fromstring(html, parser=HTMLParser(encoding="utf-8"))
    for silent in root.xpath(f"descendant::*[{_SILENT} or {drop}]"):
        silent.drop_tree()
    found = root.xpath(f"//*[{main}][not(ancestor::*[{main}])]")
    if not found:
        raise LookupError(main)
    return "\n".join(_lines(element) for element in found)


def _lines(main: HtmlElement) -> str:
    pieces = []
    for event, element in iterwalk(main, events=("start", "end", "comment", "pi")):
        if event in ("start", "end") and _BLOCK.fullmatch(str(element.tag)):
            pieces.append("\n")
        if event == "start":
            pieces.append(element.text or "")
        elif element is not main:
            pieces.append(element.tail or "")
    return "".join(pieces)


@dataclass(frozen=True, slots=True)
class Recall:
    """The share of a page's words that is read, 0..1, and the lines that are lost."""

    manual: Manual
    share: float
    lost: tuple[str, ...]


def recall(manual: Manual, folder: Path = FOLDER) -> Recall:
    """Read a page of an unpacked package. Raises FileNotFoundError if it is not there."""
    path = manual.find(folder)
    html = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    wanted = text_of(html, manual.main, manual.drop)
    markdown = extract(html, f"https://{manual.package}.example/{path.stem}").markdown
    read, count = words(plain(markdown)), words(wanted)
    share = (Counter(read) & Counter(count)).total() / len(count)
    runs = {tuple(read[at : at + size]) for size in range(1, _RUN + 1) for at in range(len(read) - size + 1)}
    lost = tuple(line.strip() for line in wanted.splitlines() if not _in_runs(words(line), runs))
    return Recall(manual, share, lost)


def _in_runs(said: Sequence[str], runs: Container[tuple[str, ...]]) -> bool:
    """Tell if most runs of a line's words are there."""
    size = min(_RUN, len(said))
    own = [tuple(said[at : at + size]) for at in range(len(said) - size + 1)] if size else []
    return sum(run in runs for run in own) * 2 >= len(own)


def fetch(folder: Path) -> None:
    """Download the packages by apt, and unpack their pages. Raises OSError if that fails.

    A package may be empty and depend on the one of the current version.
    """
    for package in dict.fromkeys(manual.package for manual in MANUALS):
        wanted = [manual.path for manual in MANUALS if manual.package == package]
        with tempfile.TemporaryDirectory() as downloads:
            try:
                archive = _download(package, downloads)
            except OSError:
                # A bare system has no list of packages, and an old list names versions that are gone.
                _run("apt-get", "update", "-qq")
                archive = _download(package, downloads)
            with (
                subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as unpacker,
                tarfile.open(fileobj=unpacker.stdout, mode="r|") as members,
            ):
                for member in members:
                    name = member.name.removeprefix("./")
                    if member.isfile() and any(fnmatch(name, f"{path}*") for path in wanted):
                        members.extract(member, folder / package, filter="data")
    for manual in MANUALS:
        manual.find(folder)


def _download(package: str, downloads: str) -> Path:
    stem = package.removesuffix("-doc")
    depends = re.findall(rf"Depends: ({re.escape(stem)}\S*)", _run("apt-cache", "depends", package))
    versioned = [name for name in depends if "-doc" in name]
    _run("apt-get", "download", "-qq", *(versioned[:1] or [package]), folder=downloads)
    return next(Path(downloads).glob("*.deb"))


def _run(*command: str, folder: str | None = None) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.reader.quality.manuals", description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--lost", metavar="COUNT", type=int, default=0, help="show lines of what is not read")
    parser.add_argument("--fetch", action="store_true", help="download the pages into FOLDER, and no more")
    options = parser.parse_args(arguments)
    if options.fetch:
        fetch(options.folder)
        return
    found = [recall(manual, options.folder) for manual in MANUALS]
    for page in found:
        print(f"{page.share:.3f} {'' if page.share >= FLOOR else '<'} {page.manual.name}", flush=True)
        for line in page.lost[: options.lost]:
            print(f"        {line[:100]}")
    print(f"{min(page.share for page in found):.3f} lowest of {len(found)}")


if __name__ == "__main__":
    main(sys.argv[1:])
