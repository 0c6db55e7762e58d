"""Search of tools: their search source, the operation over it, and tools as rows for people and programs.

A search for the steps of a task has one list of results, and its text by step. A row has its size in tokens,
and why the tool matches.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace as replace_fields

from tabane.catalog.catalogs import has_steps
from tabane.catalog.gateway import Gateway
from tabane.catalog.lookup import UnlistedServers, visible_names, visible_tools
from tabane.catalog.offer_search import OfferSearch
from tabane.catalog.operations.table import LONGEST_QUERY, SearchTools
from tabane.catalog.result_parts import BYTES_OF_TOKEN
from tabane.catalog.tools.catalog import pinned
from tabane.catalog.tools.disclosure import search_text, signature, tool_page, unlisted_lines
from tabane.catalog.tools.ranking import MatchedTerm, ToolQuery, spelled
from tabane.catalog.tools.tool import Tool
from tabane.messages import Lang, Message, say
from tabane.operations import Caller, Face
from tabane.search.snippets import first_sentence, one_line
from tabane.search.source import HitCard, Reference, SearchAnswer, SearchHit, SearchRequest
from tabane.text.cutting import shortened
from tabane.workers.time_slices import TimeSlices

if TYPE_CHECKING:
    from tabane.catalog.tools.ranking import ToolHit, ToolHits
    from tabane.servers.server import Server

Found = SearchHit[Tool]

_STARTING = say("Semantic search is starting; these results match keywords only.")
_LATE = say("Semantic search did not answer in time; these results match keywords only.")
_INCOMPLETE = say("Semantic search is still indexing the tools; some results match keywords only.")
_USE_STEPS = say("If this is a task of several steps, send queries: one short query for each step.")

MOST_SESSIONS = 1_000
"""Sessions for which it is remembered which failures they were told."""

MOST_TOOLS = 50
"""Tools that one search finds."""


@dataclass(frozen=True, slots=True)
class ToolAnswer(SearchAnswer[Tool]):
    """The best tools, and how many match in all.

    ``doubtful``: perhaps none fits, and these are only the nearest. ``waiting`` are servers that are
    starting. ``found`` has the index's hits by public name.
    ``notice`` says why hits match keywords only; ``starting``: that will change.
    """

    total: int = 0
    doubtful: bool = False
    waiting: Sequence[str] = ()
    found: Mapping[str, ToolHit] = field(default_factory=dict)
    starting: bool = False
    notice: Message | None = None


class ToolSource:
    """Search of tools by words and meaning of their definitions, ranked by the index of the catalog."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._shown_before: dict[str, set[str]] = {}

    async def search(self, caller: Caller, request: SearchRequest) -> ToolAnswer:
        """Return the tools that match a search over all sources: none that perhaps does not fit."""
        query = ToolQuery(
            request.query[:LONGEST_QUERY],
            min(request.limit, MOST_TOOLS),
            keywords=request.keywords,
            folded=True,
        )
        answer = await self.find(caller, query, waits=request.keywords != "typing")
        return replace(answer, hits=()) if answer.doubtful else answer

    async def find(
        self, caller: Caller, request: ToolQuery, *, waits: bool = True, about: str = ""
    ) -> ToolAnswer:
        """Return the best tools. ``waits``, at most two seconds, for servers that never listed theirs.

        ``about`` is the whole of what is searched, if the query is a part of it.
        """
        unlisted = await self._gateway.lookup.wait_listed(caller) if waits else UnlistedServers()
        catalog, asked = self._gateway.catalog, request.server
        if not caller.access.everything:
            request = replace(request, names=frozenset(visible_names(caller.access, catalog)))
        ranked = await self._gateway.catalogs.search(request, caller.access.holder)
        hits = [
            SearchHit(tool, hit.score, hit.cosine, covered=hit.words)
            for hit in ranked.hits
            if (tool := catalog.get(hit.alias))
        ]
        failed = {name: why for name, why in unlisted.failed.items() if asked in (None, name)}
        if caller.face is Face.MCP and asked is None:
            failed = self._news(
                caller, failed, about or request.query, fits=bool(hits) and not ranked.doubtful
            )
        waiting = [name for name in unlisted.starting if asked in (None, name)]
        warning = next(iter(failed.values()), None)
        return ToolAnswer(
            hits,
            (),
            warning,
            ranked.total,
            ranked.doubtful,
            waiting,
            {hit.alias: hit for hit in ranked.hits},
            ranked.starting,
            _meaning_notice(ranked),
            failed=failed,
        )

    def _news(
        self, caller: Caller, failed: Mapping[str, Message], query: str, *, fits: bool
    ) -> dict[str, Message]:
        """Return the failures that a model is shown: once a session, and of servers that the query may mean.

        If perhaps no tool ``fits``, each of them may be the reason.
        """
        shown = self._shown_before.setdefault(caller.session, set())
        if len(self._shown_before) > MOST_SESSIONS:
            del self._shown_before[next(iter(self._shown_before))]
        words = _stems(query)
        news = {
            name: why
            for name, why in failed.items()
            if name not in shown and (not fits or not words.isdisjoint(self._stems_of(name)))
        }
        shown.update(news)
        return news

    def _stems_of(self, name: str) -> set[str]:
        """Return the stems of what is known of a server that has listed nothing, also from earlier starts."""
        server, entries = self._gateway.servers.get(name), self._gateway.catalog.aliases.entries
        known = [alias for alias, entry in entries.items() if entry[0] == name]
        about = (
            () if server is None else (server.description, server.category, *server.tags, *server.keywords)
        )
        return _stems(" ".join((name, *about, *(server.examples if server else ()), *known)))

    def card(self, item: Tool) -> HitCard:
        """Return a tool as a card among hits of other kinds."""
        return HitCard(item.alias, signature(item), "", Reference("describe_tools", {"names": [item.alias]}))


def _meaning_notice(ranked: ToolHits) -> Message | None:
    """Return what to say if hits match keywords only, though there is a model."""
    if not ranked.starting:
        return None
    return _INCOMPLETE if ranked.compared else _LATE if ranked.late else _STARTING


_word = re.compile(r"[^\W_]+")


def _stems(text: str) -> set[str]:
    """Return the beginnings of words, and pairs of characters of words in scripts without spaces."""
    found: set[str] = set()
    for word in _word.findall(text.casefold()):
        if word.isascii():
            found |= {word[:5]} if len(word) > 1 else set()
        else:
            found |= {word[at : at + 2] for at in range(len(word) - 1)}
    return found - _EMPTY


_EMPTY = {
    *("the", "and", "for", "from", "with", "this", "that", "all", "get", "list", "tool", "tools", "my", "me"),
    *("to", "of", "in", "on", "at", "by", "as", "is", "it", "or", "an", "do", "be"),
}


class ToolSearchResult(Struct, frozen=True):
    """The result of a search. ``waiting`` names servers that are starting, ``failed`` why others failed.

    ``doubtful``: perhaps none of the tools fits one of the queries; their rows have it too. ``tokens`` are
    those of ``text``, and of the definitions of all tools that the caller may use; only with an explanation.
    ``starting``: some results match keywords alone for now. ``notices`` are sentences about the search, such
    as that. A row has ``query`` if there were several, and ``same`` if other servers have the same tool.
    """

    results: list[dict[str, Any]]
    total: int
    waiting: list[str]
    text: str
    doubtful: bool = False
    failed: dict[str, str] = {}
    tokens: dict[str, int] | UnsetType = UNSET
    starting: bool = False
    notices: list[str] = []


class ToolSearch:
    """The operation that finds tools, for one query or for the steps of a task."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._source = ToolSource(gateway)
        self._offers = OfferSearch(gateway)

    async def search(self, caller: Caller, params: SearchTools) -> ToolSearchResult:
        """Return ranked tools, or what else servers offer. Waits at most two seconds for unlisted servers."""
        if params.kind in (None, "tools"):
            return await self._search_tools(caller, params)
        steps = params.steps()
        offers = await self._offers.search(caller, steps, params.kind, params.limit, params.server)
        if params.kind != "all":
            return ToolSearchResult(offers.results, offers.total, [], offers.text)
        tools = await self._search_tools(caller, params)
        return replace_fields(
            tools,
            results=[row | {"kind": "tools"} for row in tools.results] + offers.results,
            total=tools.total + offers.total,
            text="\n".join((tools.text, offers.text)) if offers.results else tools.text,
        )

    async def _search_tools(self, caller: Caller, params: SearchTools) -> ToolSearchResult:

        steps = params.steps()
        most = min(params.limit * len(steps), MOST_TOOLS)
        queries = [
            ToolQuery(
                step,
                params.limit,
                params.server,
                tuple(params.tags or ()),
                params.category,
                params.match,
                explain=params.explain,
                folded=True,
            )
            for step in steps
        ]
        # In the page, a part of a name is searched with each key that somebody presses.
        waits = params.match != "partial" or caller.face is not Face.WEB
        first = await self._source.find(caller, queries[0], waits=waits, about=" ".join(steps))
        others = (self._source.find(caller, query, waits=False) for query in queries[1:])
        answers = [first, *await asyncio.gather(*others)]
        chosen = fused_steps([[hit.item.alias for hit in answer.hits] for answer in answers], most)
        found = [(answers[step].hits[rank], step) for step, rank in chosen]
        notices = self._notices(caller, params, answers)
        answer = ToolSearchResult(
            [self._found_row(hit, answers[step], steps, step) for hit, step in found],
            max(answer.total for answer in answers),
            list(first.waiting),
            "\n".join((self._answer_text(caller, steps, answers, found), *notices)),
            any(answer.doubtful for answer in answers),
            rendered(first.failed, caller.lang),
            starting=any(answer.starting for answer in answers),
            notices=notices,
        )
        return await self._explained(caller, answer, steps, answers, found) if params.explain else answer

    def _notices(self, caller: Caller, params: SearchTools, answers: list[ToolAnswer]) -> list[str]:
        """Return what is to be said of a search beside its results."""
        notices = dict.fromkeys(answer.notice for answer in answers)
        notices[params.cut_notice()] = None
        if caller.face is Face.MCP and params.query is not None and has_steps(params.query):
            notices[_USE_STEPS] = None
        notices[self._gateway.projects.notice(caller)] = None
        return [notice.render(caller.lang) for notice in notices if notice]

    def _answer_text(
        self, caller: Caller, steps: list[str], answers: list[ToolAnswer], found: list[tuple[Found, int]]
    ) -> str:

        names, first, texts = visible_names(caller.access, self._gateway.catalog), answers[0], []
        several = len(steps) > 1
        for step, (query, answer) in enumerate(zip(steps, answers, strict=True)):
            tools = [hit.item for hit, of in found if of == step]
            # A model pays for each line, and has no use for the total.
            total = None if several or caller.face is Face.MCP else answer.total
            text = search_text(
                tools, query, names, caller.lang, total=total, doubtful=answer.doubtful, of_step=several
            )
            texts.append(text if tools or not answer.hits else "")
        if several:
            shown = {hit.item.alias: step for hit, step in found}
            best = [answer.hits[0].item.alias if answer.hits else None for answer in answers]
            texts = [steps_text(steps, texts, best, shown, caller.lang)]
        texts += unlisted_lines(first.waiting, [*rendered(first.failed, caller.lang).values()], caller.lang)
        same = {hit.item.alias: answers[step].found[hit.item.alias].same for hit, step in found}
        texts.append(same_text(same, caller.lang))
        unpinned = [hit.item.alias for hit, _ in found if self._lacks_pin(hit.item)]
        if unpinned:
            texts.append(
                say("Page shown only if pinned: {names}", names=", ".join(unpinned)).render(caller.lang)
            )
        return "\n".join(text for text in texts if text)

    def _lacks_pin(self, tool: Tool) -> bool:
        """Return whether a tool has a page that no host shows, because the list of mode search lacks it."""
        return bool(tool.app.page) and not pinned(self._gateway.servers[tool.server], tool)

    async def _explained(
        self,
        caller: Caller,
        answer: ToolSearchResult,
        steps: list[str],
        answers: list[ToolAnswer],
        found: list[tuple[Found, int]],
    ) -> ToolSearchResult:

        turns, rows = TimeSlices(), []
        for row, (hit, step) in zip(answer.results, found, strict=True):
            await turns.pause()
            terms = answers[step].found[hit.item.alias].terms
            rows.append(row | explained_row(hit.item, steps[step], terms))
        every = visible_tools(caller.access, self._gateway.catalog.tools)
        sizes = {"text": tokens(answer.text), "definitions": sum(tokens(tool.definition) for tool in every)}
        return replace_fields(answer, results=rows, tokens=sizes)

    def _found_row(self, hit: Found, answer: ToolAnswer, steps: list[str], step: int) -> dict[str, Any]:

        same = answer.found[hit.item.alias].same
        row = tool_row(hit.item, self._gateway.servers.get(hit.item.server)) | {"score": round(hit.score, 3)}
        if len(steps) > 1:
            row["query"] = steps[step]
        if answer.doubtful:
            row["doubtful"] = True
        return row | ({"same": list(same)} if same else {})


def rendered(failed: Mapping[str, Message], lang: Lang) -> dict[str, str]:
    """Return why servers have listed nothing, in a language."""
    return {name: why.render(lang) for name, why in failed.items()}


T = TypeVar("T")

_QUERY = 80


class StepHit(NamedTuple):
    """The place of a hit: its step, and its rank there."""

    step: int
    rank: int


def fused_steps(names: Sequence[Sequence[str]], most: int) -> list[StepHit]:
    """Return the best hits of the steps in turn, each tool once, in the order of steps and ranks.

    ``names`` are those of each step's tools, best first. The best tool of every step is among them.
    """
    chosen: dict[str, StepHit] = {}
    for rank in range(max(map(len, names), default=0)):
        for step, found in enumerate(names):
            if rank < len(found) and len(chosen) < most:
                chosen.setdefault(found[rank], StepHit(step, rank))
    return sorted(chosen.values())


def steps_text(
    queries: Sequence[str],
    texts: Sequence[str],
    best: Sequence[str | None],
    shown: Mapping[str, int],
    lang: Lang,
) -> str:
    """Return the texts of the steps under their numbers and queries.

    ``best`` is the best tool of each step. If it is listed with an earlier step, as ``shown`` says, it is
    named.
    """
    lines = []
    for number, (query, text, name) in enumerate(zip(queries, texts, best, strict=True)):
        lines.append(f"{number + 1}. {shortened(one_line(query), _QUERY)}")
        if name is not None and shown.get(name, number) != number:
            above = say("Best: {name} (step {step})", name=name, step=shown[name] + 1)
            lines.append(above.render(lang))
        if text:
            lines.append(text)
    return "\n".join(lines)


def same_text(same: Mapping[str, Sequence[str]], lang: Lang) -> str:
    """Return a line that names the tools of other servers that are the same as one that was found."""
    pairs = [f"{name} = {', '.join(others)}" for name, others in same.items() if others]
    return say("Same on other servers: {tools}", tools="; ".join(pairs)).render(lang) if pairs else ""


_MOST_PURPOSE = 200


def tokens(text: str | bytes) -> int:
    """Return the estimated number of tokens of a text, rounded up."""
    size = len(text.encode("utf-8", "replace") if isinstance(text, str) else text)
    return -(-size // BYTES_OF_TOKEN)


def tool_row(tool: Tool, server: Server | None) -> dict[str, Any]:
    """Describe a tool in a line. ``server`` is the one that it belongs to; None for the hub's own tools."""
    return {
        "name": tool.alias,
        "server": tool.server,
        "signature": signature(tool),
        "purpose": shortened(first_sentence(tool.description) or tool.title, _MOST_PURPOSE),
        "read_only": tool.read_only,
        "destructive": tool.destructive,
        "pinned": server is not None and pinned(server, tool),
        "tokens": tokens(tool.definition),
    } | ({"ui": True} if tool.app.page else {})


def tool_detail(tool: Tool, server: Server | None) -> dict[str, Any]:
    """Return all that is known of a tool beside its definition.

    ``line`` is what an assistant reads of it in a search, ``page`` what it reads before a call. ``sizes`` are
    the tokens of line, page and definition.
    """
    line, page = signature(tool, typed=False), tool_page(tool)
    return tool_row(tool, server) | {
        "original": tool.name,
        "title": tool.title,
        "description": tool.description,
        "idempotent": tool.idempotent,
        "tags": list(tool.tags),
        "category": tool.category,
        "notes": tool.notes,
        "examples": list(tool.examples),
        "line": line,
        "page": page,
        "sizes": _sizes(tool, line, page),
    }


def explained_row(tool: Tool, query: str, terms: Sequence[MatchedTerm]) -> dict[str, Any]:
    """Return why a tool matches, the line that an assistant gets, and its sizes."""
    line = signature(tool, typed=False)
    texts = (tool.shown_name, tool.title, tool.description, tool.notes, *tool.examples)
    return {
        "line": line,
        "title": tool.title,
        "sizes": _sizes(tool, line, tool_page(tool)),
        "terms": [
            {
                "kind": term.kind,
                "score": round(term.score, 4),
                "asked": spelled(term.asked, query),
                "matched": spelled(term.matched, " ".join(texts)),
                "fields": list(term.fields),
            }
            for term in terms
        ],
    }


def _sizes(tool: Tool, line: str, page: str) -> dict[str, int]:
    """Return the tokens of a tool in the result of a search, described, and as its whole definition."""
    return {"line": tokens(line), "page": tokens(page), "definition": tokens(tool.definition)}
