"""Embedder: the interface of every source of vectors. Texts go in, float32 vectors of length one come out."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tabane.messages import Message

Kind = Literal["query", "document", "topic"]
"""What a text is to the model: a question, something to be found by one, or the name of a subject."""

BYTES = 4  # of a component: float32, little-endian


@dataclass(frozen=True, slots=True)
class NoModel:
    """The reason why there is no model."""

    reason: Message


class Embedder(Protocol):
    """One model, ready for requests.

    Failure policy: :class:`~tabane.errors.ModelError` if the model cannot answer. A call returns vectors for
    all of its texts or for none. Canceling a call affects no other call.
    """

    @property
    def fingerprint(self) -> str:
        """Return a name for everything that vectors depend on.

        Vectors of two fingerprints cannot be compared.
        """
        ...

    @property
    def dimension(self) -> int:
        """Return the number of components of a vector."""
        ...

    async def embed(self, texts: Sequence[str], kind: Kind = "document") -> list[bytes]:
        """Return one vector for each text, in order: ``dimension`` float32, little-endian, L2-normalized.

        The prefix that the model needs for ``kind`` is added here. Texts longer than the model accepts are
        cut at their end. Queries overtake documents.
        """
        ...

    async def close(self) -> None:
        """Release the model. Calls in progress fail. May be called twice."""
        ...


def clean(text: str) -> str:
    """Return the text as it is embedded and hashed: lone surrogates, which have no UTF-8, become ``?``."""
    return text.encode("utf-8", "replace").decode()


async def together(parts: Iterable[Coroutine[None, None, None]]) -> None:
    """Wait for all parts. The first that fails ends the others, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
