"""Prompts, resources, resource templates and skills as they are searched and shown; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tabane.catalog.offers.prompts import Prompt
from tabane.catalog.offers.resources import ResourceItem
from tabane.catalog.offers.skills import Skill
from tabane.catalog.tools.tool import Tool
from tabane.operations import CallTarget
from tabane.search.snippets import first_sentence, one_line
from tabane.text.cutting import shortened
from tabane.wire.json import InvalidJson, decode

OfferKind = Literal["prompts", "resources", "skills"]

SKILL_SCHEME = "skill://"
"""Beginning of the URIs of skills, which are resources (SEP-2640)."""

_SENTENCE = 160
_LONGEST_KEY = 1_000
_MOST_ARGUMENTS = 8


@dataclass(frozen=True, slots=True)
class FoundOffer:
    """Something of a server that is no tool. ``key`` is its public name or URI, ``target`` what is called.

    ``template``: the URI has variables, which have to be filled in. ``arguments`` are those of a prompt, with
    ``?`` after optional ones.
    """

    kind: OfferKind
    key: str
    server: str
    target: CallTarget
    title: str = ""
    description: str = ""
    media_type: str = ""
    template: bool = False
    arguments: tuple[str, ...] = ()
    described: dict[str, Any] = field(default_factory=dict, compare=False)

    def as_tool(self) -> Tool:
        """Return the offer as a document of an index of tools."""
        return Tool(
            self.key,
            self.server,
            self.key if self.kind == "prompts" else _last_part(self.key),
            repr((self.kind, self.title, self.description, self.arguments, self.media_type)).encode(
                "utf-8", "replace"
            ),
            self.title,
            self.description,
            {"type": "object", "properties": self.described},
            category=self.kind,
            target=self.target,
        )

    def line(self) -> str:
        """Return a line for a model, which says what it is and how it is called."""
        about = shortened(one_line(first_sentence(self.description) or self.title), _SENTENCE)
        if self.kind == "prompts":
            head = f"prompt {self.key}({', '.join(self.arguments)})"
        else:
            kind = "skill" if self.kind == "skills" else "template" if self.template else "resource"
            media = f" [{self.media_type}]" if self.media_type else ""
            head = f"{kind} {self.key}{media}"
        return f"{head}: {about}" if about else head

    def row(self) -> dict[str, Any]:
        """Return the offer for programs."""
        key = "name" if self.kind == "prompts" else "uriTemplate" if self.template else "uri"
        found = {
            "kind": self.kind,
            key: self.key,
            "server": self.server,
            "title": self.title,
            "description": shortened(one_line(self.description), _SENTENCE),
        }
        if self.kind == "prompts":
            return found | {"arguments": list(self.arguments)}
        return found | ({"mimeType": self.media_type} if self.media_type else {})


def offered_line(row: Mapping[str, Any]) -> str:
    """Return the line for a model of a row of :meth:`FoundOffer.row`, without arguments and media type."""
    key = row.get("name") or row.get("uri") or row.get("uriTemplate")
    kind = "template" if "uriTemplate" in row else row["kind"].removesuffix("s")
    about = row["description"] or row["title"]
    return f"{kind} {key}: {about}" if about else f"{kind} {key}"


def prompt_offer(prompt: Prompt, target: CallTarget) -> FoundOffer:
    """Return a prompt as something to be found."""
    given = _members(prompt.definition)
    arguments, described = [], {}
    listed = given.get("arguments")
    for each in listed if isinstance(listed, list) else ():
        name = _text(each, "name")
        if name:
            arguments.append(name if each.get("required") is True else f"{name}?")
            described[name] = {"type": "string", "description": _text(each, "description")}
    shown = tuple(arguments[:_MOST_ARGUMENTS]) + (("…",) if len(arguments) > _MOST_ARGUMENTS else ())
    return FoundOffer(
        "prompts",
        prompt.alias,
        prompt.server,
        target,
        _text(given, "title"),
        _text(given, "description"),
        arguments=shown,
        described=described,
    )


def resource_offers(
    items: Iterable[ResourceItem], target: Any, *, templates: bool = False
) -> Iterable[FoundOffer]:
    """Yield resources or templates to be found. ``target`` makes a CallTarget of server and URI."""
    for item in items:
        if len(item.shown) > _LONGEST_KEY:
            continue
        given = _members(item.definition)
        yield FoundOffer(
            "skills" if item.uri.startswith(SKILL_SCHEME) else "resources",
            item.shown,
            item.server,
            target(item.server, item.uri),
            _text(given, "title") or _text(given, "name"),
            _text(given, "description"),
            _text(given, "mimeType"),
            templates,
        )


def skill_offers(skills: Iterable[Skill], target: Any) -> Iterable[FoundOffer]:
    """Yield skills to be found. ``target`` makes a CallTarget of server and URI."""
    for skill in skills:
        if len(skill.shown) <= _LONGEST_KEY:
            yield FoundOffer(
                "skills",
                skill.shown,
                skill.server,
                target(skill.server, skill.uri),
                skill.name,
                skill.description,
                "text/markdown",
            )


def _members(definition: bytes) -> dict[str, Any]:
    try:
        found = decode(definition)
    except InvalidJson:
        return {}
    return found if isinstance(found, dict) else {}


def _text(given: Any, key: str) -> str:
    value = given.get(key) if isinstance(given, dict) else None
    return value if isinstance(value, str) else ""


def _last_part(uri: str) -> str:
    """Return the end of a URI, which is most like a name."""
    return uri.rstrip("/").rpartition("/")[2] or uri
