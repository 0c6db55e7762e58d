"""Templates of the page and the static files that they name."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from tabane.messages import Lang, Message
from tabane.text.units import bytes_text, duration_text
from tabane.web.operation_names import operation_name
from tabane.web.paths import STATIC

STATIC_FOLDER = Path(__file__).with_name("static")

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
}

FIRST_STYLES = ("tokens.css", "base.css", "components.css", "layout.css")
"""Style sheets that the others build on."""

STYLES = "app.css"


class Asset(NamedTuple):
    """A file as it is sent. ``packed`` is its body with gzip; None if that is not smaller."""

    type: str
    body: bytes
    packed: bytes | None


class Assets:
    """The static files, read when they are first asked for."""

    def __init__(self, folder: Path = STATIC_FOLDER) -> None:
        self._folder = folder
        self._read: dict[str, Asset] = {}

    @cached_property
    def version(self) -> str:
        """Return a hash of all files."""
        digest = hashlib.sha256()
        for file in sorted(self._folder.rglob("*")):
            if file.is_file():
                digest.update(file.relative_to(self._folder).as_posix().encode() + b"\0")
                digest.update(file.read_bytes())
        return digest.hexdigest()[:12]

    def url(self, name: str) -> str:
        """Return the URL of a file."""
        return f"{STATIC}/{self.version}/{name}"

    def get(self, name: str) -> Asset | None:
        """Return a file by its path in the folder; None if there is none."""
        if name not in self._read:
            # What is not listed in the folder itself is not served, whatever the path says.
            file, path = self._folder / name, Path(name)
            if name == STYLES:
                body = b"\n".join(sheet.read_bytes() for sheet in self._styles())
            elif (
                file.suffix in _TYPES and ".." not in path.parts and not path.is_absolute() and file.is_file()
            ):
                body = file.read_bytes()
            else:
                return None
            packed = gzip.compress(body, 9, mtime=0)
            type = _TYPES.get(Path(name).suffix, "application/octet-stream")
            self._read[name] = Asset(type, body, packed if len(packed) < len(body) else None)
        return self._read[name]

    def _styles(self) -> Iterator[Path]:
        folder = self._folder / "css"
        yield from (folder / name for name in FIRST_STYLES)
        yield from sorted(file for file in folder.glob("*.css") if file.name not in FIRST_STYLES)


TEMPLATES_FOLDER = Path(__file__).with_name("templates")


class TemplateRenderer:
    """Renders templates in the language of a person."""

    def __init__(self, assets: Assets) -> None:
        self._assets = assets
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(TEMPLATES_FOLDER),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=jinja2.StrictUndefined,
            auto_reload=False,
            cache_size=200,
        )
        self._environment.filters.update(FILTERS)
        self._environment.globals["static"] = assets.url

    def render(
        self, template: str, lang: Lang, may: Callable[[str], bool], context: Mapping[str, Any]
    ) -> str:
        """Return the text of a template.

        ``say`` renders a sentence in ``lang``. A Message in the context is rendered with ``say`` too.
        """

        def said(sentence: str | Message, **fields: object) -> str:
            found = sentence if isinstance(sentence, Message) else Message(sentence, **fields)
            return found.render(lang)

        return self._environment.get_template(template).render(
            {**context, "say": said, "lang": lang, "may": may}
        )


def number(value: float) -> str:
    """Return a number with separators; fractions with one digit."""
    return f"{value:,.1f}" if isinstance(value, float) and not value.is_integer() else f"{value:,.0f}"


def milliseconds(value: float) -> str:
    """Return a duration in milliseconds as a short text: 0.4 ms, 12 ms, 1.2 s."""
    if value >= 1_000:
        return duration_text(value / 1_000)
    return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"


def percent(value: float) -> str:
    """Return a part of one as percent."""
    return f"{100 * value:.1f}%" if 0 < value < 0.1 else f"{100 * value:.0f}%"


def when(value: str | float | None, style: str = "relative") -> Markup:
    """Return a time as an element that the page shows in the person's time zone.

    ``value`` is RFC 3339, or seconds since 1970. ``style`` is relative, time, date or full.
    """
    if value is None or value == "":
        return Markup("")
    stamp = str(value)
    return Markup('<time data-when="{}" data-style="{}">{}</time>').format(stamp, style, "")


def as_json(value: Any) -> str:
    """Return a value as JSON, for an attribute: the template escapes it."""
    return json.dumps(value, ensure_ascii=False)


def url_part(value: str) -> str:
    """Return a text as one part of a URL's path."""
    return quote(str(value), safe="")


def url_path(value: str) -> str:
    """Return a text as several parts of a URL's path: slashes stay."""
    return quote(str(value), safe="/")


FILTERS: dict[str, Callable[..., Any]] = {
    "number": number,
    "bytes": bytes_text,
    "seconds": duration_text,
    "ms": milliseconds,
    "percent": percent,
    "when": when,
    "json": as_json,
    "operation": operation_name,
    "url": url_part,
    "urlpath": url_path,
}
