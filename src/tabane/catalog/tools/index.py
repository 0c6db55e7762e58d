"""The searchable index of all tools, in a small file that may be deleted.

It has the postings of our own tokens, and vectors of the definitions as far as there are any. FTS5 has no
weight for each term, counts a word that half of a small catalog contains as worthless, and is slower. Tools
that are the same on several servers are folded into the best of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, structs

from tabane.catalog.tools.ranking import (
    LOOKED_AT,
    POSTINGS_INDEX,
    POSTINGS_TABLE,
    UNASKED,
    FitEvidence,
    Match,
    TermPostings,
    ToolHit,
    ToolHits,
    ToolPostings,
    ToolQuery,
    ToolRanking,
    ToolScore,
    best_by_words,
    delete_tool_postings,
    doubts,
    explained,
    factors,
    fused,
    matched_terms,
    name_similarity,
    objects_of,
    read_postings,
    tool_postings,
    world_weight,
    write_postings,
)
from tabane.catalog.tools.schemas import texts
from tabane.catalog.tools.tool import OWN
from tabane.catalog.tools.vector_table import (
    NOT_COMPARED,
    VECTORS_TABLE,
    ToolComparison,
    ToolVectors,
    gist_key,
    gist_of,
)
from tabane.search.analysis import identifier_tokens, is_cjk, normalize, tokens
from tabane.search.concepts import concepts, glossary
from tabane.search.snippets import first_sentence
from tabane.search.world_questions import world_concept, world_likelihood
from tabane.workers.time_slices import Pause, no_pause

if TYPE_CHECKING:
    from tabane.catalog.tools.tool import Tool
    from tabane.search.concepts import Concept

__all__ = ["Match", "ToolHit", "ToolHits", "ToolIndex", "ToolQuery"]

_SAME = 0.96  # the cosine of two definitions that say the same


class ToolFacts(NamedTuple):
    """Server, the server's own name of the tool, and the key of its definition's text."""

    server: str
    name: str
    gist: bytes


def folded(
    query: str,
    numbers: Sequence[int],
    facts: Mapping[int, ToolFacts],
    similarity: Callable[[int, int], float],
    called: Collection[int],
) -> dict[int, int]:
    """Return tool → the better tool that it is the same as. ``numbers`` are in order, the best first.

    Both have the same name on two servers, and the same or nearly the same description. A tool that the query
    names, or whose server it names, is kept.
    """
    said = {*tokens(query), *identifier_tokens(query)}
    kept: dict[tuple[str, ...], list[int]] = {}
    found: dict[int, int] = {}
    for number in numbers:
        server, name, _ = facts[number]
        alike = kept.setdefault(tuple(identifier_tokens(name)), [])
        named = number in called or said.issuperset(identifier_tokens(server))
        same = None if named else next((one for one in alike if _same(facts, number, one, similarity)), None)
        if same is None:
            alike.append(number)
        else:
            found[number] = same
    return found


def _same(
    facts: Mapping[int, ToolFacts], one: int, other: int, similarity: Callable[[int, int], float]
) -> bool:
    first, second = facts[one], facts[other]
    # The hub's own tools have no server: nothing is folded into them.
    if first.server == second.server or not first.server or not second.server:
        return False
    return first.gist == second.gist or similarity(one, other) >= _SAME


_MOST_TEXT = 4000
_MOST_HINT = 400
_MOST_ABOUT = 1000
_MOST_NAME = 128
_MOST_TOKENS = 800


def tool_words(tool: Tool, memo: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the tokens of each field. ``memo`` holds those of texts that a server's tools share."""
    lead = first_sentence(tool.description)
    named = list(texts(tool.schema))
    words = {
        "name": identifier_tokens(tool.shown_name[:_MOST_NAME]),
        "title": tokens(tool.title),
        "lead": tokens(lead),
        "rest": tokens(tool.description[len(lead) : _MOST_TEXT]),
        "params": [token for name, _ in named for token in identifier_tokens(name[:_MOST_NAME])],
        "hints": [token for _, text in named for token in _remembered(text[:_MOST_HINT], memo)],
        "place": [
            *identifier_tokens(" ".join((tool.server, *tool.tags, tool.category))),
            *_remembered(tool.about[:_MOST_ABOUT], memo),
        ],
        "notes": tokens("\n".join((tool.notes, *tool.examples))[:_MOST_TEXT]),
    }
    return {field: _fit(found) for field, found in words.items()}


def _remembered(text: str, memo: dict[str, list[str]]) -> list[str]:
    found = memo.get(text)
    if found is None:
        found = memo[text] = tokens(text)
    return found


def _fit(found: list[str]) -> list[str]:
    kept = found[:_MOST_TOKENS]
    text = " ".join(kept)
    return kept if text.isascii() else storable(text).split()


def storable(text: str) -> str:
    """Return the text without lone surrogates, which upstreams emit and SQLite refuses."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def digest_of(tools: Sequence[Tool]) -> bytes:
    """Return a hash of everything that is indexed of these tools."""
    digest = hashlib.blake2b(digest_size=16)
    for tool in tools:
        for part in (
            tool.alias.encode(),
            tool.definition,
            repr((tool.tags, tool.category, tool.about, tool.notes, tool.examples)).encode(),
        ):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


VERSION = 4
"""Raised whenever tokens or tables change: an index of another version is rebuilt."""

_TABLES = (
    "CREATE TABLE servers (name TEXT PRIMARY KEY, hash BLOB NOT NULL) WITHOUT ROWID",
    # A number is never used again: vectors in memory belong to numbers.
    "CREATE TABLE tools (number INTEGER PRIMARY KEY AUTOINCREMENT, alias TEXT NOT NULL UNIQUE,"
    " server TEXT NOT NULL, name TEXT NOT NULL, title TEXT NOT NULL, category TEXT NOT NULL,"
    " tags TEXT NOT NULL, name_parts INTEGER NOT NULL, japanese INTEGER NOT NULL, gist BLOB NOT NULL,"
    " gist_text TEXT NOT NULL)",
    "CREATE INDEX tools_of ON tools (server)",
    "CREATE INDEX tools_named ON tools (name)",
    "CREATE INDEX tools_meaning ON tools (gist)",
    POSTINGS_TABLE,
    POSTINGS_INDEX,
    VECTORS_TABLE,
    f"PRAGMA user_version={VERSION}",
)


def open_index(path: str) -> sqlite3.Connection:
    """Return the database with its tables. One that cannot be read, or of another version, is rebuilt."""
    try:
        db = _connected(path)
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (health,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if version == VERSION and health == "ok":
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


_LONGEST_NAME = 128
_MOST_NEAR = 3  # words that a misspelled one may be
_SURE = 0.9  # a relevance that needs no other tool


Vectors = Mapping[str, Sequence[bytes]]


class _IndexedTools(Struct, frozen=True):
    """All tools by number: public names, and the number of words in their names.

    ``own`` are tools of the hub; ``doing`` those with a word of :data:`UNASKED` in their names. ``ranking``
    has read what answers questions about the world, which many queries are compared with.
    """

    aliases: dict[int, str]
    name_parts: dict[int, int]
    japanese: bool
    own: frozenset[int]
    doing: dict[str, set[int]]
    ranking: ToolRanking


class ToolIndex:
    """Finds tools. Synchronous; any thread may use it, one at a time.

    ``path`` is its own file or ``:memory:``. A file that is damaged or of another version is rebuilt; its
    servers then count as never seen.
    """

    def __init__(self, path: str) -> None:
        self._db = open_index(path)
        self._known: _IndexedTools | None = None
        self.vectors = ToolVectors(self._db)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def replace(self, server: str, tools: Sequence[Tool], rest: Pause = no_pause) -> bool:
        """Make these the only tools of a server. Return False if they already were.

        ``rest`` is called between two tools, before anything is written.
        """
        digest = digest_of(tools)
        row = self._db.execute("SELECT hash FROM servers WHERE name = ?", (server,)).fetchone()
        if row and row[0] == digest:
            return False
        memo: dict[str, list[str]] = {}
        read: dict[str, _ReadTool] = {}
        for tool in tools:
            words = tool_words(tool, memo)
            gist = storable(gist_of(tool))
            postings = tool_postings(words)
            columns = (
                storable(tool.shown_name),
                storable(tool.title),
                normalize(tool.category),
                "".join(f"\n{normalize(tag)}\n" for tag in tool.tags),
                # The last token of a name with several parts is the whole name, and not a part.
                max(1, len(words["name"]) - (len(words["name"]) > 1)),
                any(is_cjk(token) for token in postings if not token.isascii()),
                gist_key(gist),
                gist,
            )
            read[tool.alias] = _ReadTool(columns, postings)
            rest()
        with self._changing():
            self._delete(server)
            self._db.execute("INSERT INTO servers VALUES (?, ?)", (server, digest))
            self._delete_aliases(read)
            numbers = [self._insert(server, alias, each) for alias, each in read.items()]
            write_postings(
                self._db, server, zip(numbers, (each.postings for each in read.values()), strict=True)
            )
        return True

    def remove(self, server: str) -> None:
        """Forget a server and its tools."""
        with self._changing():
            self._delete(server)

    def servers(self) -> frozenset[str]:
        """Return the servers that the index knows, also those without tools."""
        return frozenset(name for (name,) in self._db.execute("SELECT name FROM servers"))

    def search(self, query: ToolQuery, vectors: Vectors | None = None) -> ToolHits:
        """Return the tools that match, best first. ``vectors`` are those of the query, by model:

        of the whole query first, then of its sentences if it has several.
        """
        if query.match == "relevance":
            return self._relevant(query, vectors or {})
        likeness = name_similarity(query.match)
        wanted = normalize(query.query).strip()
        found = []
        for alias, server, name, title in self._select("alias, server, name, title", query):
            names = {normalize(text) for text in (alias, name, title, f"{server}.{name}") if text}
            score = max(likeness(wanted, candidate) for candidate in names) if wanted else 0.0
            if score:
                found.append(ToolHit(alias, round(score, 3)))
        return _best(found, query.limit)

    def _relevant(self, query: ToolQuery, vectors: Vectors) -> ToolHits:
        tools, among = self._read_tools(), self._among(query)
        text = storable(query.query)
        asked = concepts(text, glossary(), japanese=tools.japanese, near=self._near_words)
        if not asked and not vectors:
            aliases = tools.aliases.values() if among is None else [tools.aliases[n] for n in among]
            return _best([ToolHit(alias, 0.0) for alias in aliases], query.limit)
        ranking = tools.ranking.for_next_query()
        words = _among(ranking.scores(asked), among)
        compared = self.vectors.compare(vectors, among, best_by_words(words)) if vectors else NOT_COMPARED
        form, objects = world_likelihood(text), objects_of(asked)
        about = ranking.best_about(objects, words) if form else 0.0
        answering = asked
        if weight := world_weight(form, asked, about, compared.relevance.values()):
            answering = [*asked, world_concept(text, weight)]
            words = _among(ranking.scores(answering), among)
        scores = fused(words, compared, factors(asked, tools.own, tools.doing))
        called = [n for n in self._named_exactly(query.query) if among is None or n in among]
        scores |= {n: structs.replace(scores.get(n, ToolScore(1.0, 1.0)), score=1.0) for n in called}
        best = _leading(scores, tools.aliases, max(LOOKED_AT, query.limit * (1 + 2 * query.folded)))
        hits = self._hits(query, ranking, answering, scores, best, called)
        searched = len(tools.aliases if among is None else among)
        doubtful = not called and _doubted(text, ranking, objects, words, compared, best, searched)
        total = len(words.keys() | scores.keys())
        return ToolHits(tuple(hits), total, doubtful, compared.models > 0, bool(compared.missing))

    def _hits(
        self,
        query: ToolQuery,
        ranking: ToolRanking,
        asked: Sequence[Concept],
        scores: Mapping[int, ToolScore],
        best: Sequence[int],
        called: Sequence[int],
    ) -> list[ToolHit]:
        """Return the best tools, given in order, as hits: folded and explained as the query says."""
        aliases = self._read_tools().aliases
        same = self._folded(query, best, called) if query.folded else {}
        kept = [number for number in best if number not in same][: query.limit]
        hits = [_hit(aliases[n], scores[n], [aliases[m] for m in same if same[m] == n]) for n in kept]
        if not query.explain:
            return hits
        matches = matched_terms(ranking, self._postings, asked, kept, called)
        return [
            structs.replace(hit, terms=matches[n] if n in called else explained(scores[n], matches[n]))
            for n, hit in zip(kept, hits, strict=True)
        ]

    def _folded(self, query: ToolQuery, numbers: Sequence[int], called: Sequence[int]) -> dict[int, int]:
        if query.server is not None or not numbers:
            return {}
        marks = ", ".join("?" * len(numbers))
        rows = self._db.execute(
            f"SELECT number, server, name, gist FROM tools WHERE number IN ({marks})", list(numbers)
        )
        facts = {number: ToolFacts(server, name, gist) for number, server, name, gist in rows}
        return folded(query.query, numbers, facts, self.vectors.similarity, called)

    def _named_exactly(self, query: str) -> list[int]:
        """Return the tools whose name equals the query: ``alias``, ``name`` or ``server.name``."""
        wanted = storable(query).strip()
        found = self._db.execute(
            "SELECT number FROM tools WHERE alias = ?1 OR name = ?1", (wanted,)
        ).fetchall()
        for dot in [place for place, letter in enumerate(wanted[:_LONGEST_NAME]) if letter == "."]:
            found += self._db.execute(
                "SELECT number FROM tools WHERE name = ? AND server = ?", (wanted[dot + 1 :], wanted[:dot])
            ).fetchall()
        return [number for (number,) in found]

    def _select(self, columns: str, query: ToolQuery) -> list[Any]:
        """Return the rows of the tools that pass the query's filters. The first column is ``alias``."""
        clauses, values = ["1"], []
        if query.server is not None:
            clauses.append("server = ?")
            values.append(query.server)
        if query.category is not None:
            clauses.append("category = ?")
            values.append(normalize(query.category))
        if query.tags:
            clauses.append("(" + " OR ".join(["instr(tags, ?)"] * len(query.tags)) + ")")
            values.extend(f"\n{normalize(tag)}\n" for tag in query.tags)
        statement = f"SELECT {columns} FROM tools WHERE {' AND '.join(clauses)} ORDER BY alias"
        rows = self._db.execute(statement, [storable(value) for value in values]).fetchall()
        if query.names is None:
            return rows
        return [row for row in rows if row[0] in query.names]

    def _among(self, query: ToolQuery) -> frozenset[int] | None:
        """Return the numbers of the tools that pass the query's filters; None if there are no filters."""
        if query.names is None and query.server is None and query.category is None and not query.tags:
            return None
        if query.server is None and query.category is None and not query.tags:
            names = query.names or frozenset()
            return frozenset(n for n, alias in self._read_tools().aliases.items() if alias in names)
        return frozenset(number for _, number in self._select("alias, number", query))

    def _postings(self, token: str) -> TermPostings:
        return read_postings(self._db, token)

    def _near_words(self, word: str) -> list[str]:
        """Return words of tools that differ from this one by a letter, if no tool has it."""
        found = self._db.execute("SELECT 1 FROM postings WHERE token = ? LIMIT 1", (word,)).fetchone()
        if found or not word.isascii() or not word.isalpha():
            return []
        first = word[0]
        rows = self._db.execute(
            "SELECT DISTINCT token FROM postings WHERE (token BETWEEN ? AND ?)"
            " AND length(token) BETWEEN ? AND ? UNION SELECT token FROM postings WHERE token = ?",
            (first, first + "{", len(word) - 1, len(word) + 1, word[1] + word[0] + word[2:]),
        )
        return [token for (token,) in rows if token.isalpha() and one_edit(word, token)][:_MOST_NEAR]

    def _read_tools(self) -> _IndexedTools:
        if self._known is None:
            rows = self._db.execute(
                "SELECT number, alias, name_parts, japanese, server FROM tools"
            ).fetchall()
            name_parts = {number: parts for number, _, parts, *_ in rows}
            ranking = ToolRanking(self._postings, name_parts)
            ranking.scores([world_concept("", 1.0)])
            self._known = _IndexedTools(
                {number: alias for number, alias, *_ in rows},
                name_parts,
                any(japanese for *_, japanese, _ in rows),
                frozenset(number for number, *_, server in rows if server == OWN),
                {verb: self._postings(verb).names for verb in UNASKED},
                ranking,
            )
        return self._known

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
        self._known = None
        self.vectors.changed()

    def _delete(self, server: str) -> None:
        for table in ("tools", "postings"):
            self._db.execute(f"DELETE FROM {table} WHERE server = ?", (server,))
        self._db.execute("DELETE FROM servers WHERE name = ?", (server,))

    def _delete_aliases(self, aliases: Iterable[str]) -> None:
        """Delete tools of these names: a name belongs to one tool, the one that was listed last."""
        rows = [
            row
            for alias in aliases
            for row in self._db.execute("SELECT number, server FROM tools WHERE alias = ?", (alias,))
        ]
        for number, server in rows:
            delete_tool_postings(self._db, server, number)
            self._db.execute("DELETE FROM tools WHERE number = ?", (number,))

    def _insert(self, server: str, alias: str, tool: _ReadTool) -> int:
        row = (alias, server, *tool.columns)
        number = self._db.execute(f"INSERT INTO tools VALUES (NULL{', ?' * len(row)})", row).lastrowid
        assert number is not None
        return number


def _among(scores: dict[int, float], among: Collection[int] | None) -> dict[int, float]:
    return scores if among is None else {number: scores[number] for number in scores if number in among}


def _doubted(
    text: str,
    ranking: ToolRanking,
    objects: Sequence[Concept],
    words: Mapping[int, float],
    compared: ToolComparison,
    best: Sequence[int],
    searched: int,
) -> bool:
    """Return whether perhaps none of the best tools, which are given in order, fits a query."""
    if not best:
        return True
    relevance = max(compared.relevance.values(), default=0.0)
    answered = world_likelihood(text)
    if answered:
        world = world_concept(text, 1.0)
        answered *= max(ranking.covered(world, number) for number in best[:LOOKED_AT])
    evidence = FitEvidence(
        relevance,
        ranking.about(objects, best[0]),
        max(words.values(), default=0.0),
        answered,
        len(objects),
        searched,
    )
    known = bool(compared.relevance) and not (compared.missing and relevance < _SURE)
    return doubts(evidence, compared=known)


def one_edit(word: str, other: str) -> bool:
    """Return whether a letter was left out, added, swapped with the next, or, of five or more, replaced."""
    start = next((at for at, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), len(word))
    one, two = word[start:], other[start:]
    if len(one) == len(two):
        swapped = len(one) > 1 and one[0] == two[1] and one[1] == two[0] and one[2:] == two[2:]
        return swapped or (len(word) >= 5 and one[1:] == two[1:])
    return one[1:] == two if len(one) > len(two) else one == two[1:]


class _ReadTool(Struct, frozen=True):
    """A tool as it is stored: its columns after alias and server, and its postings."""

    columns: tuple[str | int | bytes, ...]
    postings: ToolPostings


def _hit(alias: str, score: ToolScore, same: list[str]) -> ToolHit:
    # Rounded before anybody sees it: the order is that of the scores that are shown.
    return ToolHit(
        alias,
        round(score.score, 3),
        cosine=score.cosine,
        relevance=score.relevance,
        words=score.covered,
        same=tuple(sorted(same)),
    )


def _leading(scores: Mapping[int, ToolScore], aliases: Mapping[int, str], most: int) -> list[int]:
    """Return the best numbers in the order of the rounded scores, ties by alias."""
    values = [score.score for score in scores.values()]
    least = round(heapq.nlargest(most, values)[-1], 3) - 0.001 if len(values) > most else 0.0
    chosen = [number for number, score in scores.items() if score.score >= least]
    return sorted(chosen, key=lambda number: (-round(scores[number].score, 3), aliases[number]))[:most]


def _best(found: Iterable[ToolHit], limit: int) -> ToolHits:
    ranked = sorted(found, key=lambda hit: (-hit.score, hit.alias))
    return ToolHits(tuple(ranked[:limit]), len(ranked))
