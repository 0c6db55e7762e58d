"""The process that searches vectors: ``python -m tabane.engine.embedded.vectors.search_worker``.

It keeps the last moments that it was sent. It writes nothing, and reads nothing but the mapped files.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from tabane.engine.embedded.columns import Mask
from tabane.engine.embedded.vectors.space_index import SpaceSnapshot
from tabane.engine.embedded.vectors.vector_search import (
    SentMoment,
    VectorSpaceSearch,
    packed_matches,
    read_question,
)
from tabane.workers.serving import LoadedService, ReportProgress, serve_loaded

IDLE = 60.0
"""Seconds without a question after which the process ends."""

_REMEMBERED = 2  # moments: the current one, and that of the questions before it


class _OpenMoment:
    """A moment with its mapped files."""

    def __init__(self, sent: SentMoment) -> None:
        self.origin = sent.origin
        self.mask: Mask = sent.mask
        self.spaces: Mapping[str, SpaceSnapshot] = {
            name: space.snapshot() for name, space in sent.spaces.items()
        }


class SearchWorker:
    """Answers questions about the moments that it was sent."""

    def __init__(self) -> None:
        self._moments: OrderedDict[int, _OpenMoment] = OrderedDict()

    def respond(self, body: bytes) -> bytes:
        """Answer a question. Raises OSError if files of its moment are gone."""
        asked = read_question(body)
        if asked.moment is not None:
            self._moments[asked.number] = _OpenMoment(asked.moment)
            while len(self._moments) > _REMEMBERED:
                self._moments.popitem(last=False)
        moment = self._moments.get(asked.number)
        if moment is None or not asked.vectors.keys() <= moment.spaces.keys():
            return packed_matches(None)
        search = VectorSpaceSearch(asked.request, moment.spaces, moment.mask, moment.origin)
        return packed_matches(search.best(asked.wanted))


def _load(opening: bytes) -> LoadedService:
    worker = SearchWorker()

    def respond(body: bytes, progress: ReportProgress) -> bytes:
        return worker.respond(body) if body else b""

    return LoadedService(b"", respond, IDLE)


if __name__ == "__main__":
    serve_loaded(_load)
