"""What every source of vectors is: texts in, float32 vectors of length one out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tabane.messages import Message

Kind = Literal["query", "document", "topic"]
"""What a text is to the model: a question, something to be found by one, or the name of a subject."""

BYTES = 4  # of a component: float32, little-endian


@dataclass(frozen=True, slots=True)
class NoModel:
    """There is no model, and why."""

    reason: Message


class Embedder(Protocol):
    """One model, ready to be asked.

    Failure policy: :class:`~tabane.errors.ModelError` where the model cannot answer; a call answers for
    all of its texts or for none. Cancelling a call gives up its answer, and no other's.
    """

    @property
    def fingerprint(self) -> str:
        """What vectors depend on, as a name: those of two fingerprints are never to be compared."""
        ...

    @property
    def dimension(self) -> int:
        """Components of a vector."""
        ...

    async def embed(self, texts: Sequence[str], kind: Kind = "document") -> list[bytes]:
        """One vector a text, in order: ``dimension`` float32, little-endian, L2-normalised.

        The prefix that the model wants for ``kind`` is added here. Texts longer than the model takes
        are cut at their end. Queries overtake documents.
        """
        ...

    async def close(self) -> None:
        """Let go of the model. Calls under way fail; may be called twice."""
        ...


def clean(text: str) -> str:
    """The text as it is embedded and hashed: lone surrogates, which have no UTF-8, become ``?``."""
    return text.encode("utf-8", "replace").decode()
