"""Folders of a client that names them itself (roots of MCP): asked for when they decide what it sees."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from msgspec import Raw

from tabane.hub.clients.client_questions import ClientQuestions
from tabane.operations import Caller

_SAME_EVERYWHERE = frozenset(
    {"initialize", "ping", "logging/setLevel", "subscriptions/listen", "server/discover"}
)
"""Requests whose answers do not depend on the client's folders."""

_MOVING = b"null"
"""Key of the task that asks for new folders. No request has it, because the id null is refused."""


class RootedClient(Protocol):
    """A client that may be asked for its folders."""

    caller: Caller
    questions: ClientQuestions | None

    def run(self, request_id: Raw, work: Coroutine[Any, Any, None]) -> None: ...

    def no_longer_runs(self, request_id: Raw) -> None: ...

    def sees_others(self) -> None:
        """Tell the client that it sees other servers from now on."""
        ...


class ProjectGateway(Protocol):
    """The gateway, which may have servers of projects."""

    def has_projects(self) -> bool: ...


class RootedHost(Protocol):
    """The hub of a client."""

    @property
    def gateway(self) -> ProjectGateway: ...

    def moved(self, caller: Caller) -> None:
        """Note that a client has named other folders."""
        ...


def waits_for_roots(client: RootedClient, host: RootedHost, method: str) -> bool:
    """Return whether a client has to name its folders before a request can be answered."""
    asking = client.questions
    return (
        asking is not None
        and asking.roots_wanted
        and method not in _SAME_EVERYWHERE
        and host.gateway.has_projects()
    )


async def answer_with_roots(
    client: RootedClient,
    host: RootedHost,
    request_id: Raw,
    answer: Callable[[], Coroutine[Any, Any, None] | None],
) -> None:
    """Answer a request after the client has named its folders, or had the time to."""
    await _settle(client, host, bytes(request_id))
    client.no_longer_runs(request_id)
    later = answer()
    if later is not None:
        client.run(request_id, later)


def follow_roots(client: RootedClient, host: RootedHost) -> None:
    """Note that a client has other folders now.

    It is asked for them when they matter, which is now if they decide about servers of projects.
    """
    asking = client.questions
    if asking is None:
        return
    moving = asking.roots_wanted
    asking.roots_changed()
    if not moving and asking.roots_wanted and host.gateway.has_projects():
        client.run(Raw(_MOVING), _move(client, host))


async def _move(client: RootedClient, host: RootedHost) -> None:
    news = False
    while client.questions is not None and client.questions.roots_wanted:
        news = await _settle(client, host) or news
    if news:
        client.sees_others()


async def _settle(client: RootedClient, host: RootedHost, about: bytes | None = None) -> bool:
    assert client.questions is not None  # asked for before
    before = client.caller.roots
    news = await client.questions.settle_roots(about)
    if client.caller.roots != before:
        host.moved(client.caller)
    return news
