"""Facts about a tool and its server from which its labels are decided."""

from __future__ import annotations

from dataclasses import dataclass, field

from tabane.servers.labels import NO_CHANGE, LabelChange


@dataclass(frozen=True, slots=True)
class DescribedTool:
    """One tool as its server describes it. The three hints are its annotations; None if it says nothing.

    ``parameters`` are the names of its parameters.
    """

    name: str
    title: str = ""
    description: str = ""
    parameters: tuple[str, ...] = ()
    read_only: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server as the user configured it: how it is started or reached, and the labels that the user gave.

    ``words`` are its command and arguments. ``change`` is for all of its tools, ``tools`` for single ones.
    """

    name: str
    words: tuple[str, ...] = ()
    url: str = ""
    change: LabelChange = NO_CHANGE
    tools: tuple[tuple[str, LabelChange], ...] = field(default=())
