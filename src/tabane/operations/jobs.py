"""What takes long or comes in parts: jobs that tell how far they are, streams, and who starts a job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from tabane.messages import Lang, Message


class Part(NamedTuple):
    """One part of a stream's answer. ``more`` is False on the last one, which every stream has."""

    value: Any
    more: bool


class Progress(Protocol):
    """Where a job tells how far it is."""

    def tell(self, done: int, total: int | None = None, note: Message | None = None) -> None:
        """So many of ``total`` are done; None where that is not known. ``note`` says what is done now.

        Costs next to nothing, any number of times. Called on the event loop. A ``done`` smaller than
        before begins a new stretch, whose rate is measured anew.
        """
        ...


class Started(Protocol):
    """A job that was started."""

    def state(self, lang: Lang) -> dict[str, Any]:
        """How it is now: what every operation on jobs answers, its sentences in that language."""
        ...


Work = Callable[[Progress], Awaitable[Any]]
"""What a job does, given where it tells of it; its result is the job's."""


class Starter(Protocol):
    """Starts jobs; a door is given one."""

    def start(self, name: str, title: Message, work: Work) -> Started:
        """Begin, and return at once. Raises HubError where too many run already, or the hub is ending."""
        ...
