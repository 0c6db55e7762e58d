"""Front matter of Markdown as metadata: YAML between dashes, or TOML between plus signs; pure.

Values are read as YAML 1.2 reads them: ``no`` and ``10:30`` are texts. Dates become ISO 8601, so that their
texts sort. What cannot be metadata stays text only: nested values, and all of it if it is not valid YAML.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import TYPE_CHECKING, NamedTuple

from tabane.documents import metadata
from tabane.documents.document import Own
from tabane.errors import BadArguments
from tabane.search.records import EXACT

if TYPE_CHECKING:
    from yaml.nodes import Node

LONGEST = 16_000  # characters between the lines
_FENCED = re.compile(
    rf"\ufeff?---[ \t]*\r?\n(.{{0,{LONGEST}}}?)\r?\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL
)
_PLUSES = re.compile(rf"\ufeff?\+\+\+[ \t]*\r?\n(.{{0,{LONGEST}}}?)\r?\n\+\+\+[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_MEMBER = re.compile(r"^[\w\"'][^:\n]*:(?:\s|\Z)", re.MULTILINE)
_COMMAS = re.compile(r"[,，、;；]")
_TAGS = frozenset({"tags", "tag", "keywords", "categories", "category"})
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "~": None, "": None}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,15})")
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,40})(?:\.[0-9]{0,40})?(?:[eE][-+]?[0-9]{1,3})?")
_DATE = re.compile(
    r"([0-9]{4})[-/]([0-9]{1,2})[-/]([0-9]{1,2})"
    r"(?:[Tt ][ \t]*([0-9]{1,2})(:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)[ \t]*(Z|[-+][0-9]{2}:?[0-9]{2})?)?"
)


class FrontMatter(NamedTuple):
    """The title of a document, empty if it has none, and its metadata. The other text begins at ``end``."""

    title: str
    metadata: dict[str, Own]
    end: int


NONE = FrontMatter("", {}, 0)


def begins(text: str) -> bool:
    """Return whether a text begins with what looks like front matter."""
    return _fenced(text) is not None or _PLUSES.match(text) is not None


def _fenced(text: str) -> re.Match[str] | None:
    found = _FENCED.match(text) if text.startswith(("---", "\ufeff---")) else None
    return found if found and _MEMBER.search(found[1]) else None


def read(text: str) -> FrontMatter:
    """Return the front matter of a text, :data:`NONE` if it has none or a broken one. Takes up to 0.2 s."""
    found = _PLUSES.match(text)
    if found is not None:
        try:
            table = tomllib.loads(found[1].replace("\r\n", "\n"))
        except (tomllib.TOMLDecodeError, RecursionError):
            return NONE
        return _front(((name, _toml_value(name, value)) for name, value in table.items()), found.end())
    found = _fenced(text)
    if found is None:
        return NONE
    import yaml  # 2.8 MB, which most documents do not need
    from yaml.nodes import MappingNode

    try:
        root = yaml.compose(found[1], Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return NONE
    if not isinstance(root, MappingNode):
        return NONE
    named = ((key.value.strip() if isinstance(key.value, str) else "", node) for key, node in root.value)
    return _front(
        ((name, _value(node, is_tags=name.casefold() in _TAGS)) for name, node in named), found.end()
    )


def _front(pairs: Iterable[tuple[str, Own | None]], end: int) -> FrontMatter:
    values = dict(_members(pairs))
    title = values.get("title", "")
    return FrontMatter("" if isinstance(title, list) else str(title), values, end)


def _members(pairs: Iterable[tuple[str, Own | None]]) -> Iterator[tuple[str, Own]]:
    """Yield the members that can be metadata, as many as it may have. Others are left out."""
    keys = values = size = 0
    for name, value in pairs:
        name = name.casefold() if name.casefold() in (*_TAGS, "title") else name
        if value is None or value == []:
            continue
        try:
            metadata.checked({name: value})
        except BadArguments:
            continue
        keys, values = keys + 1, values + (len(value) if isinstance(value, list) else 1)
        size += len(name.encode()) + len(str(value).encode()) + 8
        if keys > metadata.MOST_KEYS or values > metadata.MOST_VALUES or size > metadata.LARGEST:
            return
        yield name, value


def _value(node: Node, *, is_tags: bool) -> Own | None:
    if isinstance(node.value, str):
        value = _scalar(node)
        if not is_tags or value is None:
            return value
        return _tags(_COMMAS.split(node.value))
    texts = [each.value for each in node.value if not isinstance(each, tuple) and isinstance(each.value, str)]
    if len(texts) != len(node.value):
        return None
    return _tags(texts) if is_tags else texts


def _toml_value(name: str, value: object) -> Own | None:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, list):
        texts = [each for each in value if isinstance(each, str)]
        return None if len(texts) != len(value) else _tags(texts) if name.casefold() in _TAGS else texts
    if isinstance(value, str) and name.casefold() in _TAGS:
        return _tags(_COMMAS.split(value))
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float) and abs(value) <= EXACT:
        return value
    return None


def _tags(texts: list[str]) -> list[str]:
    tags = (text.strip().removeprefix("#").strip() for text in texts)
    return list(dict.fromkeys(tag for tag in tags if tag))


def _scalar(node: Node) -> str | int | float | bool | None:
    text: str = node.value
    if getattr(node, "style", None) in ("'", '"', "|", ">"):
        return text
    if text.casefold() in _WORDS:
        return _WORDS[text.casefold()]
    if _INTEGER.fullmatch(text) and abs(int(text)) <= EXACT:
        return int(text)
    if _FLOAT.fullmatch(text) and not _INTEGER.fullmatch(text) and abs(float(text)) < 1e300:
        return float(text)
    if found := _DATE.fullmatch(text):
        year, month, day, hour, rest, zone = found.groups()
        time = f"T{int(hour):02}{rest}{zone or ''}" if hour else ""
        return f"{year}-{int(month):02}-{int(day):02}{time}"
    return text
