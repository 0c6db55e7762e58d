"""Jobs and streams: operations that report progress or answer in parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from tabane.messages import Lang, Message
    from tabane.operations.caller import Caller


class StreamPart(NamedTuple):
    """A part of a stream's answer. ``more`` is False only for the last part, which every stream has."""

    value: Any
    more: bool


class Progress(Protocol):
    """Receives the progress of a job."""

    def tell(self, done: int, total: int | None = None, note: Message | None = None) -> None:
        """Report that ``done`` of ``total`` are done, None if unknown. ``note`` is the current step.

        Cheap enough to be called any number of times. Called on the event loop. If ``done`` is smaller than
        before, a new phase begins, and its rate is measured from then on.
        """
        ...


class TurnHolder:
    """The job that has a turn now; None if nobody has it, or a job of another hub."""

    holder: object = None


@runtime_checkable
class Queued(Protocol):
    """A job that can report which other job it waits for."""

    def behind(self, ahead: TurnHolder | None) -> None:
        """Set the holder of the turn that the job waits for. None ends the wait."""
        ...


class Started(Protocol):
    """A job that was started."""

    def state(self, lang: Lang) -> dict[str, Any]:
        """Return the current state, as every operation on jobs returns it. Sentences are in ``lang``."""
        ...


Work = Callable[[Progress], Awaitable[Any]]
"""The function of a job. It gets the receiver of its progress; its result is the job's result."""


class Starter(Protocol):
    """Starts the jobs of a door."""

    def start(self, name: str, title: Message, work: Work, caller: Caller | None = None) -> Started:
        """Start a job and return at once. Raises HubError if too many run already, or the hub is stopping.

        The job of a ``caller`` with a connection ends with that connection, unless it is detached.
        """
        ...
