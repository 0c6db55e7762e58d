"""The plan of ``make bench``: its parts in order, what each needs, and its seconds on a quiet machine.

To add a part, write a module that ends with :func:`benchmarks.report.publish`, and put a line here. Parts
that are not ``full`` have to end in :data:`LIMIT` seconds together, on two cores with nothing else to do.
Figures with the unit ``" ×"`` are ratios; a part that has some names in ``check`` the arguments of a run that
is short enough for ``make bench-check``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

LIMIT = 1200
"""Seconds of all parts that are not ``full``."""

CHECK_LIMIT = 420
"""Seconds of all short runs of ``make bench-check``."""

SLACK, SPARE = 2, 30
"""A part is ended after so many times its seconds, and so many more: the machine is busy, or it hangs."""


class Chapter(StrEnum):
    """The groups of the page, in order."""

    GATEWAY = "Gateway"
    TOOLS = "Finding tools"
    SAFETY = "Servers, access and audit"
    SEARCH = "Store and search"
    ARCHIVES = "Posts and documents"
    PAGES = "Web page and reader"


class Need(StrEnum):
    """Requirements of parts. Each is a target of the Makefile."""

    GATEWAYS = "bench-gateways"
    TOKENS = "bench-tokens"
    MILVUS = "milvus"


RANKS = "build/tokens/o200k_base.js"
"""The file that ``make bench-tokens`` installs: the ranks of the tokenizer o200k_base."""


@dataclass(frozen=True, slots=True)
class Part:
    """One run that writes one section, which has the same name.

    ``seconds`` is what it takes on a quiet machine. ``check`` are the arguments of a short run for
    ``make bench-check``, which takes ``check_seconds``; None if the part has no ratios worth that.
    ``headlines`` are names of its figures in the summary. With ``makes_data``, the module has the argument
    ``--prepare``, with which it makes the data that it keeps, and measures nothing. A part with ``inputs``
    has to be given files that are not in the repository, and is run by hand.
    """

    name: str
    chapter: Chapter
    module: str
    arguments: tuple[str, ...] = ()
    seconds: int = 0
    full: bool = False
    needs: tuple[Need, ...] = ()
    check: tuple[str, ...] | None = None
    check_seconds: int = 0
    headlines: tuple[str, ...] = ()
    makes_data: bool = False
    inputs: str = ""

    @property
    def limit(self) -> int:
        """Seconds after which it is ended."""
        return self.seconds * SLACK + SPARE

    @property
    def is_by_hand(self) -> bool:
        return bool(self.inputs)


PARTS: tuple[Part, ...] = (
    Part(
        "gateway", Chapter.GATEWAY, "benchmarks.gateway", ("--rounds", "10", "--o200k", RANKS), 135,
        needs=(Need.GATEWAYS, Need.TOKENS),
        check=("--rounds", "6", "--calls", "100", "--ratios"), check_seconds=40,
        headlines=(
            "call p50, standalone, against direct", "call p50, bridge and daemon, against direct",
            "calls a second, 16 at once, standalone", "CPU to the first answer, standalone",
            "tokens of the list, mode search", "memory of a hub with 4 servers, after 1,000 calls",
        ),
    ),
    Part(
        "http", Chapter.GATEWAY, "benchmarks.http", (), 45, check=("--short",), check_seconds=20,
        headlines=("call p50, HTTP to HTTP, against direct", "calls a second, 16 at once"),
    ),
    Part("calls_counted", Chapter.GATEWAY, "benchmarks.gateway.calls_counted", (), 10),
    Part("skill", Chapter.GATEWAY, "benchmarks.gateway.skill", ("--o200k", RANKS), 10, needs=(Need.TOKENS,)),
    Part("questions", Chapter.GATEWAY, "benchmarks.questions", (), 20),
    Part("edits", Chapter.GATEWAY, "benchmarks.edits", (), 20),
    Part("scripts", Chapter.GATEWAY, "benchmarks.scripts", (), 6),
    Part("hubs", Chapter.GATEWAY, "benchmarks.hubs", (), 120, full=True),
    Part("memory", Chapter.GATEWAY, "benchmarks.memory", (), 4600, full=True),
    Part("cold_start", Chapter.GATEWAY, "benchmarks.cold_start", (), 60, full=True),
    Part("versions", Chapter.GATEWAY, "benchmarks.gateway.versions", inputs="CHECKOUT"),
    Part(
        "first_search", Chapter.TOOLS, "benchmarks.tools.first_search", (), 45,
        headlines=("first search after a restart",),
    ),
    Part("disclosure", Chapter.TOOLS, "benchmarks.disclosure", inputs="--set SET.json"),
    Part("tools", Chapter.TOOLS, "benchmarks.tools", inputs="SET.json …"),
    Part("everything", Chapter.TOOLS, "benchmarks.everything", (), 20),
    Part("scanning", Chapter.SAFETY, "benchmarks.scanning", (), 6),
    Part("logins", Chapter.SAFETY, "benchmarks.logins", (), 6),
    Part("cages", Chapter.SAFETY, "benchmarks.cages", (), 6),
    Part("access", Chapter.SAFETY, "benchmarks.access.fairness", (), 200, full=True),
    Part("door", Chapter.SAFETY, "benchmarks.access.door", (), 60),
    Part("flows", Chapter.SAFETY, "benchmarks.access.flows", (), 6),
    Part("keys", Chapter.SAFETY, "benchmarks.access.keys", (), 12),
    Part("audit", Chapter.SAFETY, "benchmarks.access.audit_queries", (), 40),
    Part("neighbors", Chapter.SAFETY, "benchmarks.neighbors", (), 240, full=True),
    Part("contents", Chapter.SAFETY, "benchmarks.neighbors.contents", (), 300, full=True),
    Part("script_memory", Chapter.SAFETY, "benchmarks.script_memory", (), 240, full=True),
    Part(
        "search", Chapter.SEARCH, "benchmarks.search", (), 130, makes_data=True,
        check=("--only", "tabane", "--only", "tantivy alone"), check_seconds=90,
        headlines=("rows a second, bulk", "top 10, Japanese, p50"),
    ),
    Part(
        "vectors", Chapter.SEARCH, "benchmarks.search.vectors", (), 140, makes_data=True,
        check=("--only", "tabane", "--only", "numpy, float32"), check_seconds=170,
        headlines=(
            "200,000 × 768: top 10, p50", "200,000 × 768: recall@10",
            "200,000 × 768: hybrid: words and vectors, p50", "200,000 × 768: average of three spaces, p50",
        ),
    ),
    Part(
        "million", Chapter.SEARCH, "benchmarks.search.vectors", ("--corpus", "million"), 400, full=True,
        makes_data=True,
    ),
    Part("embedding", Chapter.SEARCH, "benchmarks.search.embedding", ("--rounds", "3"), 80),
    Part("models", Chapter.SEARCH, "benchmarks.search.models", inputs="PATH"),
    Part("postgres", Chapter.SEARCH, "benchmarks.postgres", (), 160, full=True),
    Part("migration", Chapter.SEARCH, "benchmarks.postgres", ("--migration",), 120, full=True),
    Part("approximate", Chapter.SEARCH, "benchmarks.postgres", ("--approximate",), 300, full=True),
    Part("replica", Chapter.SEARCH, "benchmarks.postgres", ("--replica",), 400, full=True),
    Part("growth", Chapter.SEARCH, "benchmarks.growth", (), 300, full=True),
    Part("milvus", Chapter.SEARCH, "benchmarks.milvus", (), 300, full=True, needs=(Need.MILVUS,)),
    Part(
        "posts", Chapter.ARCHIVES, "benchmarks.posts", (), 230, makes_data=True,
        headlines=("search_similar", "queries a second, 64 clients", "import, vectors given"),
    ),
    Part(
        "backfill", Chapter.ARCHIVES, "benchmarks.posts.backfill", ("--posts", "200000"), 400, full=True
    ),
    Part(
        "documents", Chapter.ARCHIVES, "benchmarks.documents", (), 240, full=True, makes_data=True,
        headlines=("put_document, 2 KB, new",),
    ),
    Part(
        "web", Chapter.PAGES, "benchmarks.web", (), 480, full=True, makes_data=True,
        headlines=("first view, until interactive",),
    ),
    Part("other_reads", Chapter.PAGES, "benchmarks.reader.other_reads", (), 120, full=True),
    Part("reader", Chapter.PAGES, "benchmarks.reader.extraction", inputs="DATA"),
)  # fmt: skip


class UnknownPart(Exception):
    """A name that no part has."""


def chosen(parts: Iterable[Part], names: Sequence[str], *, full: bool) -> list[Part]:
    """Return the parts to run: those of that name, or the short ones, or with ``full`` all others too.

    Parts by hand are never among them. Raises UnknownPart.
    """
    known = {part.name: part for part in parts if not part.is_by_hand}
    if wrong := [name for name in names if name not in known]:
        raise UnknownPart(f"no such part: {', '.join(wrong)}. There are: {', '.join(known)}")
    return [part for part in known.values() if (part.name in names if names else full or not part.full)]


def checked(parts: Iterable[Part]) -> list[Part]:
    """Return the parts that have ratios, each as its short run."""
    return [
        replace(part, arguments=part.check, seconds=part.check_seconds)
        for part in parts
        if part.check is not None
    ]


def needed(parts: Iterable[Part]) -> list[Need]:
    """Return what the parts need, each once."""
    return list(dict.fromkeys(need for part in parts for need in part.needs))
