"""Search of prompts, resources, resource templates and skills, ranked and shown as tools are.

The index is in memory, and is made with the first such search: only clients that search for tools need it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Struct

from tabane.catalog.catalogs import IndexVectors, ToolMeaning
from tabane.catalog.gateway import Gateway
from tabane.catalog.lookup import may_find, prompt_target, resource_target
from tabane.catalog.offers.prompts import Prompt
from tabane.catalog.offers.resources import ResourceItem
from tabane.catalog.offers.skills import Skill
from tabane.catalog.tools.index import ToolIndex
from tabane.catalog.tools.ranking import ToolHits, ToolQuery
from tabane.catalog.tools.tool import Tool
from tabane.messages import Lang, say
from tabane.operations import Caller, CallTarget
from tabane.search.snippets import first_sentence, one_line
from tabane.text.cutting import shortened
from tabane.wire.json import InvalidJson, decode
from tabane.workers.time_slices import TimeSlices

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
            self.key if self.kind == "prompts" else (self.key.rstrip("/").rpartition("/")[2] or self.key),
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
        name = _member_text(each, "name")
        if name:
            arguments.append(name if each.get("required") is True else f"{name}?")
            described[name] = {"type": "string", "description": _member_text(each, "description")}
    shown = tuple(arguments[:_MOST_ARGUMENTS]) + (("…",) if len(arguments) > _MOST_ARGUMENTS else ())
    return FoundOffer(
        "prompts",
        prompt.alias,
        prompt.server,
        target,
        _member_text(given, "title"),
        _member_text(given, "description"),
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
            _member_text(given, "title") or _member_text(given, "name"),
            _member_text(given, "description"),
            _member_text(given, "mimeType"),
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


def _member_text(given: Any, key: str) -> str:
    value = given.get(key) if isinstance(given, dict) else None
    return value if isinstance(value, str) else ""


KINDS = ("prompts", "resources", "skills")


class OfferAnswer(Struct, frozen=True):
    """Result of a search of offers: rows for programs, and the text for a model."""

    results: list[dict[str, Any]]
    total: int
    text: str


class OfferSearch:
    """Finds what servers offer besides tools. A caller finds what it may use."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._offers: dict[str, FoundOffer] = {}
        self._versions: tuple[int, int, int] | None = None
        self._index: ToolIndex | None = None
        self._busy = asyncio.Lock()
        self._meaning = ToolMeaning(gateway.embedding, IndexVectors(self._with_index))

    async def search(
        self, caller: Caller, queries: Sequence[str], kind: str, limit: int, server: str | None
    ) -> OfferAnswer:
        """Return the best offers of a kind, or of all kinds, for the queries; each is found once."""
        await asyncio.gather(
            *(self._gateway.lookup.refresh(each, caller) for each in ("prompts", "resources", "skills"))
        )
        await self._refresh()
        names = await self._visible(caller)
        found: dict[str, float] = {}
        total = 0
        for query in queries:
            asked = await self._meaning.of_query(query)
            category = None if kind == "all" else kind
            wanted = ToolQuery(query, limit, server, category=category, names=names)
            hits: ToolHits = await self._with_index(_searching(wanted, asked.vectors))
            total = max(total, hits.total)
            if hits.doubtful and kind == "all":
                continue  # beside tools, offers that perhaps do not fit are in the way
            for key, score in ((hit.alias, hit.score) for hit in hits.hits):
                found[key] = max(found.get(key, 0.0), score)
        best = sorted(found, key=lambda key: (-found[key], key))[:limit]
        chosen = [(self._offers[key], found[key]) for key in best if key in self._offers]
        rows = [offer.row() | {"score": round(score, 3)} for offer, score in chosen]
        return OfferAnswer(
            rows, total, _answer_text([offer for offer, _ in chosen], total, kind, caller.lang)
        )

    async def _with_index(self, work: Callable[[ToolIndex], Any]) -> Any:
        """Run work on the index in a thread, one at a time."""
        async with self._busy:
            return await asyncio.to_thread(self._worked, work)

    def _worked(self, work: Callable[[ToolIndex], Any]) -> Any:
        if self._index is None:
            self._index = ToolIndex(":memory:")
        return work(self._index)

    async def _refresh(self) -> None:
        """Index what servers offer now, if it has changed."""
        skills = self._gateway.catalogs.skills
        versions = (self._gateway.prompts.version, self._gateway.resources.version, skills.version)
        if versions == self._versions:
            return
        await skills.read()
        offers, turns = {}, TimeSlices()
        for offer in self._all():
            await turns.pause()
            offers[offer.key] = offer
        tools: dict[str, list[Tool]] = {}
        for offer in offers.values():
            tools.setdefault(offer.server, []).append(offer.as_tool())
        await self._with_index(lambda index: _replace_all(index, tools))
        self._offers, self._versions = offers, versions
        self._meaning.changed()

    def _all(self) -> Iterable[FoundOffer]:
        prompts, resources = self._gateway.prompts, self._gateway.resources
        for name in prompts.names:
            if (prompt := prompts.find(name)) is not None:
                yield prompt_offer(prompt, prompt_target(prompt))
        yield from resource_offers(resources.template_items(), resource_target, templates=True)
        yield from resource_offers(resources.items(), resource_target)
        # Last: what a server says of a skill takes precedence over what it says of the file.
        yield from skill_offers(self._gateway.catalogs.skills.items(), resource_target)

    async def _visible(self, caller: Caller) -> frozenset[str] | None:
        """Return the keys of the offers that the caller may find; None for all."""
        if caller.access.everything:
            return None
        found, turns = [], TimeSlices()
        for key, offer in list(self._offers.items()):
            await turns.pause()
            if may_find(caller, offer.target):
                found.append(key)
        return frozenset(found)


def _replace_all(index: ToolIndex, tools: dict[str, list[Tool]]) -> None:
    for server in index.servers() - tools.keys():
        index.remove(server)
    for server, listed in tools.items():
        index.replace(server, listed)


def _searching(query: ToolQuery, vectors: Mapping[str, Sequence[bytes]]) -> Callable[[ToolIndex], ToolHits]:
    return lambda index: index.search(query, vectors)


def _answer_text(found: Sequence[FoundOffer], total: int, kind: str, lang: Lang) -> str:
    """Return the lines of what was found, and how a model uses it."""
    if not found:
        what = "prompts, resources and skills" if kind == "all" else kind
        return say("No {what} match.", what=what).render(lang)
    lines = [say("{shown} of {total}:", shown=len(found), total=total).render(lang)]
    lines += [offer.line() for offer in found]
    if any(offer.kind == "prompts" for offer in found):
        lines.append('Prompt: call_tool {"name": "get_prompt", "arguments": {"name": …, "arguments": {…}}}')
    if any(offer.kind != "prompts" for offer in found):
        lines.append('Read: call_tool {"name": "read_resource", "arguments": {"uri": …}}')
    return "\n".join(lines)
