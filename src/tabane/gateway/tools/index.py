"""The searchable index of all tools: FTS5 over our own tokens, in a small file that may be deleted.

FTS5 keeps the postings; they are read through its vocabulary table and scored in
:mod:`tabane.gateway.tools.ranking`, because bm25() has no weight per term, counts a word that half of a
small catalog contains as worthless, and took two to four times as long.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tabane.gateway.tools.ranking import (
    FIELDS,
    LOOKED_AT,
    ToolRanking,
    field_weights,
    fits_query,
    name_similarity,
)
from tabane.gateway.tools.schemas import texts
from tabane.search.analysis import identifier_tokens, is_cjk, normalise, tokens
from tabane.search.concepts import concepts
from tabane.search.glossary import glossary
from tabane.search.snippets import first_sentence
from tabane.search.source import SearchRequest

if TYPE_CHECKING:
    from tabane.gateway.tools.tool import Tool
    from tabane.text.nearest_names import Similarity

Match = Literal["relevance", "partial", "prefix", "exact", "fuzzy"]

# Raised whenever tokens or tables change: an index of another version is rebuilt.
_VERSION = 2
_MOST_TEXT = 4000
_MOST_HINT = 400
_MOST_NAME = 128
_MOST_TOKENS = 800
_MOST_NEAREST = 2

_TABLES = (
    "CREATE TABLE servers (name TEXT PRIMARY KEY, hash BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE tools (number INTEGER PRIMARY KEY, alias TEXT NOT NULL UNIQUE, server TEXT NOT NULL,"
    " name TEXT NOT NULL, title TEXT NOT NULL, category TEXT NOT NULL, tags TEXT NOT NULL,"
    " name_parts INTEGER NOT NULL, lengths TEXT NOT NULL, japanese INTEGER NOT NULL)",
    "CREATE INDEX tools_of ON tools (server)",
    # ascii: what is not ASCII is part of a token; with _ # + no token of ours is cut.
    f"CREATE VIRTUAL TABLE words USING fts5({', '.join(FIELDS)}, detail=column, columnsize=0,"
    " tokenize=\"ascii tokenchars '_#+'\")",
    f"PRAGMA user_version={_VERSION}",
)
_POSTINGS = "CREATE VIRTUAL TABLE temp.postings USING fts5vocab(main, words, instance)"


@dataclass(frozen=True, slots=True)
class ToolQuery(SearchRequest):
    """A search for tools. ``tags`` are met by any of them; ``match`` other than relevance is by name.

    ``names`` are those of the tools that may be found; None: all.

    One matching tag is enough. Each ``match`` other than relevance compares names. A relevance query without
    any word lists the tools that match the filters, by alias.
    """

    limit: int = 5
    server: str | None = None
    tags: tuple[str, ...] = ()
    category: str | None = None
    match: Match = "relevance"
    names: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class ToolHit:
    """A tool that was found. ``score`` is in 0..1; in a relevance query, how much of it the tool covers."""

    alias: str
    score: float


@dataclass(frozen=True, slots=True)
class ToolHits:
    """The best hits in order, ties by alias, and the total number of tools that matched.

    ``nearest``: no tool fits the query, and these are the nearest. Then there are no hits.
    """

    hits: tuple[ToolHit, ...]
    total: int
    nearest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _IndexFigures:
    """The figures for scoring, by tool number."""

    weights: dict[int, tuple[float, ...]]
    name_parts: dict[int, int]
    japanese: bool


class ToolIndex:
    """Finds tools. Synchronous; any thread may use it, one at a time.

    ``path`` is its own file or ``:memory:``. A file that is damaged or of another version is rebuilt; its
    servers then count as never seen.
    """

    def __init__(self, path: str) -> None:
        self._db = _open_database(path)
        self._db.execute(_POSTINGS)
        self._figures: _IndexFigures | None = None

    def close(self) -> None:
        self._db.close()

    def replace(self, server: str, tools: Sequence[Tool]) -> bool:
        """Make these the only tools of a server. Return False if they already were."""
        digest = _digest(tools)
        row = self._db.execute("SELECT hash FROM servers WHERE name = ?", (server,)).fetchone()
        if row and row[0] == digest:
            return False
        memo: dict[str, list[str]] = {}
        with self._changing():
            self._delete(server)
            self._db.execute("INSERT INTO servers VALUES (?, ?)", (server, digest))
            for tool in tools:
                self._insert(server, tool, memo)
        return True

    def remove(self, server: str) -> None:
        """Forget a server and its tools."""
        with self._changing():
            self._delete(server)

    def servers(self) -> frozenset[str]:
        """Return the servers that the index knows, also those without tools."""
        return frozenset(name for (name,) in self._db.execute("SELECT name FROM servers"))

    def search(self, query: ToolQuery) -> ToolHits:
        """Return the tools that match, best first."""
        if query.match == "relevance":
            return self._relevant(query)
        return _best(self._match_names(query, name_similarity(query.match)), query.limit)

    def _relevant(self, query: ToolQuery) -> ToolHits:
        allowed = {number: alias for alias, number in self._select("alias, number", query)}
        figures = self._read_figures()
        asked = concepts(_storable(query.query), glossary(), japanese=figures.japanese)
        if not asked:
            return _best([ToolHit(alias, 0.0) for alias in allowed.values()], query.limit)
        ranking = ToolRanking(self._postings, figures.weights, figures.name_parts)
        scores = ranking.scores(asked)
        called = [number for number in self._named_exactly(query.query) if number in allowed]
        scores.update((number, 1.0) for number in called)
        # Rounded before they are sorted: the order is that of the scores a reader sees.
        found = {ToolHit(allowed[n], round(score, 3)): n for n, score in scores.items() if n in allowed}
        best = _best(found, max(query.limit, LOOKED_AT))
        if called or fits_query(ranking, asked, [(found[hit], hit.score) for hit in best.hits]):
            return ToolHits(best.hits[: query.limit], best.total)
        return ToolHits((), 0, tuple(hit.alias for hit in best.hits[:_MOST_NEAREST]))

    def _named_exactly(self, query: str) -> list[int]:
        """Return the tools whose name equals the query."""
        wanted = _storable(query).strip()
        rows = self._db.execute(
            "SELECT number FROM tools WHERE alias = ?1 OR name = ?1 OR server || '.' || name = ?1", (wanted,)
        )
        return [number for (number,) in rows]

    def _match_names(self, query: ToolQuery, likeness: Similarity) -> list[ToolHit]:
        wanted = normalise(query.query).strip()
        found = []
        for alias, server, name, title in self._select("alias, server, name, title", query):
            names = {normalise(text) for text in (alias, name, title, f"{server}.{name}") if text}
            score = max(likeness(wanted, candidate) for candidate in names) if wanted else 0.0
            if score:
                found.append(ToolHit(alias, round(score, 3)))
        return found

    def _select(self, columns: str, query: ToolQuery) -> list[Any]:
        """Return the rows of the tools that pass the query's filters. The first column is ``alias``."""
        clauses, values = ["1"], []
        if query.server is not None:
            clauses.append("server = ?")
            values.append(query.server)
        if query.category is not None:
            clauses.append("category = ?")
            values.append(normalise(query.category))
        if query.tags:
            clauses.append("(" + " OR ".join(["instr(tags, ?)"] * len(query.tags)) + ")")
            values.extend(f"\n{normalise(tag)}\n" for tag in query.tags)
        statement = f"SELECT {columns} FROM tools WHERE {' AND '.join(clauses)} ORDER BY alias"
        rows = self._db.execute(statement, [_storable(value) for value in values]).fetchall()
        if query.names is None:
            return rows
        return [row for row in rows if row[0] in query.names]

    def _postings(self, token: str) -> Iterable[tuple[int, str]]:
        return self._db.execute("SELECT doc, col FROM temp.postings WHERE term = ?", (token,))

    def _read_figures(self) -> _IndexFigures:
        if self._figures is None:
            rows = self._db.execute("SELECT number, name_parts, lengths, japanese FROM tools").fetchall()
            self._figures = _IndexFigures(
                {number: field_weights(json.loads(lengths)) for number, _, lengths, _ in rows},
                {number: parts for number, parts, _, _ in rows},
                any(japanese for *_, japanese in rows),
            )
        return self._figures

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Run one transaction: all of a change is kept, or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
        self._figures = None

    def _delete(self, server: str) -> None:
        self._delete_tools("server = ?", server)
        self._db.execute("DELETE FROM servers WHERE name = ?", (server,))

    def _delete_tools(self, condition: str, value: str) -> None:
        self._db.execute(
            f"DELETE FROM words WHERE rowid IN (SELECT number FROM tools WHERE {condition})", (value,)
        )
        self._db.execute(f"DELETE FROM tools WHERE {condition}", (value,))

    def _insert(self, server: str, tool: Tool, memo: dict[str, list[str]]) -> None:
        words = _words(tool, memo)
        # An alias belongs to one tool: the one that was listed last.
        self._delete_tools("alias = ?", tool.alias)
        row = (
            tool.alias,
            server,
            _storable(tool.name),
            _storable(tool.title),
            normalise(tool.category),
            "".join(f"\n{normalise(tag)}\n" for tag in tool.tags),
            # The last token of a name with several parts is the whole name, and not a part.
            max(1, len(words["name"]) - (len(words["name"]) > 1)),
            json.dumps([len(words[field]) for field in FIELDS]),
            any(is_cjk(token) for found in words.values() for token in found),
        )
        number = self._db.execute(f"INSERT INTO tools VALUES (NULL{', ?' * len(row)})", row).lastrowid
        self._db.execute(
            f"INSERT INTO words (rowid, {', '.join(FIELDS)}) VALUES (?{', ?' * len(FIELDS)})",
            (number, *(" ".join(words[field]) for field in FIELDS)),
        )


def _words(tool: Tool, memo: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the tokens of each field. ``memo`` holds those of texts that a server's tools share."""
    lead = first_sentence(tool.description)
    named = list(texts(tool.schema))
    words = {
        "name": identifier_tokens(tool.name[:_MOST_NAME]),
        "title": tokens(tool.title),
        "lead": tokens(lead),
        "rest": tokens(tool.description[len(lead) : _MOST_TEXT]),
        "params": [token for name, _ in named for token in identifier_tokens(name[:_MOST_NAME])],
        "hints": [token for _, text in named for token in _remembered(text[:_MOST_HINT], memo)],
        "place": [
            *identifier_tokens(" ".join((tool.server, *tool.tags, tool.category))),
            *_remembered(tool.about[:_MOST_HINT], memo),
        ],
    }
    return {field: _fit(found) for field, found in words.items()}


def _remembered(text: str, memo: dict[str, list[str]]) -> list[str]:
    found = memo.get(text)
    if found is None:
        found = memo[text] = tokens(text)
    return found


def _fit(found: list[str]) -> list[str]:
    return _storable(" ".join(found[:_MOST_TOKENS])).split()


def _storable(text: str) -> str:
    """Return the text without lone surrogates, which upstreams emit and SQLite refuses."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _best(found: Iterable[ToolHit], limit: int) -> ToolHits:
    ranked = sorted(found, key=lambda hit: (-hit.score, hit.alias))
    return ToolHits(tuple(ranked[:limit]), len(ranked))


def _digest(tools: Sequence[Tool]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for tool in tools:
        for part in (
            tool.alias.encode(),
            tool.definition,
            repr((tool.tags, tool.category, tool.about)).encode(),
        ):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def _open_database(path: str) -> sqlite3.Connection:
    """Return the database with its tables. One that cannot be read, or of another version, is rebuilt."""
    try:
        db = _connected(path)
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (health,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if version == _VERSION and health == "ok":
            return db
        db.close()
    except sqlite3.OperationalError:
        # Locked, or a folder that cannot be written to: rebuilding would not help.
        raise
    except sqlite3.DatabaseError:
        pass
    for ending in ("", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + ending)
    db = _connected(path)
    for statement in _TABLES:
        db.execute(statement)
    return db


def _connected(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    # Derived data: if a power cut breaks it, quick_check finds that and it is rebuilt.
    db.execute("PRAGMA synchronous=OFF")
    db.execute("PRAGMA cache_size=-512")
    return db
