"""Messages between the hub and the process of a script, in MessagePack, and the limits of scripts; pure.

Values of a script are JSON in them: the process has converted and counted them. So a value is bytes of
limited length to the hub, which builds no object of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, msgpack

MIB = 1 << 20


class ScriptLimits(Struct, frozen=True):
    """Limits of one script, and the number of scripts that run at the same time.

    ``seconds`` is the time that the interpreter computes, without the time in which tools work. ``memory`` is
    that of the values of a script, ``output`` the size of what it prints, and of its result; all in bytes.
    ``calls`` are those of tools, ``parallel`` how many of them run at the same time. ``recursion`` is the
    depth of calls of functions. ``workers`` are processes; further scripts wait up to ``patience`` seconds.
    """

    seconds: float = 10.0
    memory: int = 64 * MIB
    output: int = MIB
    calls: int = 500
    parallel: int = 16
    recursion: int = 400
    workers: int = 4
    patience: float = 30.0


class HostGreeting(Struct, frozen=True):
    """The path of the interpreter that the process has found."""

    interpreter: str


class Begin(Struct, frozen=True, tag="Begin"):
    """Start a script, or go on with one from its ``state``.

    ``program`` starts the interpreter. ``modules`` are as in :data:`tabane.code.sandbox.Modules`. ``inputs``
    are JSON, ``output`` is what the script may still print in bytes.
    """

    program: str
    modules: Mapping[str, Sequence[str]]
    limits: ScriptLimits
    output: int
    code: str = ""
    inputs: bytes = b"{}"
    state: bytes = b""


class SentResult(Struct, frozen=True):
    """The end of a call: an exception of ``kind`` with a text, or a tool's result if ``kind`` is empty."""

    kind: str = ""
    text: str = ""
    result: bytes = b""
    wrapped: bool = False


class Judged(Struct, frozen=True, tag="Judged"):
    """Accept the call at which the script stands, or let it raise ``refused``."""

    refused: SentResult | None = None


class Settle(Struct, frozen=True, tag="Settle"):
    """Give the script the results of calls, by their ids."""

    results: Mapping[int, SentResult]


class Dump(Struct, frozen=True, tag="Dump"):
    """Return the state of the script, which may have ``most`` bytes."""

    most: int


class Leave(Struct, frozen=True, tag="Leave"):
    """Forget the script."""


class HostCalled(Struct, frozen=True, tag="HostCalled"):
    """The script calls a function. ``arguments`` is a JSON array of a list and an object.

    ``unfit`` says why they are none; for the rest, see :class:`tabane.code.sandbox.ToolCalled`.
    """

    id: int
    function: str
    arguments: bytes
    unfit: str
    place: tuple[int, int]
    awaited: bool


class HostWaiting(Struct, frozen=True, tag="HostWaiting"):
    """The script waits for one of these calls."""

    ids: tuple[int, ...]


class HostFinished(Struct, frozen=True, tag="HostFinished"):
    """The script has ended. ``value`` is JSON; ``unfit`` says why it has none."""

    value: bytes
    unfit: str = ""


class HostDumped(Struct, frozen=True, tag="HostDumped"):
    """The state of a script; empty after :class:`Leave`."""

    state: bytes = b""


class HostFailed(Struct, frozen=True, tag="HostFailed"):
    """The script has failed. ``broken``: the process is not to be used again."""

    text: str
    broken: bool = False


HostRequest = Begin | Judged | Settle | Dump | Leave
HostAnswer = HostCalled | HostWaiting | HostFinished | HostDumped | HostFailed

decode_greeting = msgpack.Decoder(HostGreeting).decode
decode_request = msgpack.Decoder(HostRequest).decode
decode_answer = msgpack.Decoder(HostAnswer).decode
encode = msgpack.encode
