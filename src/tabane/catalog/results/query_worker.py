"""The process that queries kept results: ``python -m tabane.catalog.results.query_worker``.

An expression can be made so that it takes forever. Then the hub kills the process.
"""

from __future__ import annotations

from tabane.catalog.results.result_query import QueryAnswer, packed_answer, read_query
from tabane.catalog.results.selection import answer
from tabane.messages import say
from tabane.workers.serving import LastAnswer, serve

_LARGE = 150_000_000


def respond(body: bytes) -> bytes:
    """Return the packed answer to a packed query. The worker ends if memory ran out."""
    try:
        return packed_answer(answer(read_query(body)))
    except MemoryError:
        return LastAnswer(packed_answer(QueryAnswer(failure=say("The query needs too much memory."))))


if __name__ == "__main__":
    serve(respond, large=_LARGE, nice=5)
