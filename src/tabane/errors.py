"""The errors that Tabane raises on purpose.

TabaneError
├── CallerError             the caller's fault: -32602, or usage at the command line (exit 2)
│   ├── UnknownName         a tool, server or method that does not exist; ``near`` has the nearest
│   └── BadArguments        arguments that do not fit; names the parameter and the allowed values
├── Forbidden               the caller may not do this
│   ├── ApprovalRequired    a person has to approve the call first
│   ├── ApprovalRefused     a person has refused the call, or its approval is not valid any more
│   └── PassphraseRequired  the passphrase of the hub has to be shown first
├── Unauthorized            nobody knows who the caller is
├── RateLimited             too many calls; says after how many seconds to try again
├── ConfigurationError      a file or setting is wrong; says where, and how to fix it
├── UpstreamError           an upstream server could not answer (isError for a call of a tool)
│   ├── UpstreamUnavailable it is not running: disabled, failed to start, circuit open
│   │   └── LoginRequired   the user has to log in there first
│   ├── UpstreamDied        it ended with the call in flight
│   ├── UpstreamTimeout     no answer in time
│   └── UpstreamOverloaded  too many calls wait for it already
├── StoreError              the store could not handle a request; acknowledged data is not affected
│   ├── StoreLocked         another process has it open
│   ├── StoreNewer          written by a newer version of Tabane
│   ├── StoreIncomplete     a migration to it has not ended
│   ├── StoreCorrupt        its file is damaged
│   ├── StoreFull           no space left on the disk
│   ├── StoreReadOnly       its folder or file may not be written
│   └── StoreBusy           too many writes wait: try again
├── ModelError              an embedding model is not available, or could not answer
│   ├── ModelMissing        it is missing, and cannot be downloaded
│   └── ModelUnavailable    its server or process does not answer now: try again
├── ReadError             a page could not be read; ``cause`` is the reason in one word
├── WorkerError           a process that works for the hub did not answer
│   ├── WorkerBusy        too many requests wait for their turn
│   ├── WorkerSpent       the work took longer than its limit
│   ├── WorkerEnded       the process ended while it did the work
│   └── WorkerUnavailable the process cannot be started
├── AuditError              the audit log cannot be written, or read
├── AnswerTooLong           an answer is longer than the limit of a message over the network: ask for less
└── HubError                the hub is not running, did not start, is held, or is of another version
    └── HubDraining         it is about to end; the request was not begun, and can be sent to the next hub

Each has a :class:`~tabane.messages.Message`, which a face renders in the language of its user, and a JSON-RPC
``code``.
"""

from __future__ import annotations

from typing import ClassVar, Self

from tabane.build import was_replaced
from tabane.messages import Lang, Message, say


class TabaneError(Exception):
    """Base of all errors. ``code`` is the code of JSON-RPC; ``reason`` goes to ``data.reason``."""

    code: ClassVar[int] = -32603
    reason: ClassVar[str | None] = None

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.message = message

    def text(self, lang: Lang = "en") -> str:
        return self.message.render(lang)

    def __str__(self) -> str:
        return self.message.render("en")


class CallerError(TabaneError):
    """The caller's fault."""

    code = -32602


class UnknownName(CallerError):
    """No such tool, server or method. ``near`` has up to three similar names."""

    def __init__(self, message: Message, near: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.near = near


class BadArguments(CallerError):
    """Arguments do not fit. ``parameter`` is the path of the wrong one, if there is one."""

    def __init__(self, message: Message, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class Conflict(CallerError):
    """The content to replace has changed since the caller read it."""


class Forbidden(TabaneError):
    """The caller is known, but not allowed to do this."""

    code = -31403


class ApprovalRequired(Forbidden):
    """A person has to approve the call first. ``approval`` is the id under which that is done."""

    reason = "approval"

    def __init__(self, message: Message, approval: str) -> None:
        super().__init__(message)
        self.approval = approval


class ApprovalRefused(Forbidden):
    """A person has refused the call, or its approval is not valid any more."""

    reason = "approval"


class PassphraseRequired(Forbidden):
    """The passphrase of the hub has to be shown first."""

    reason = "passphrase"


class Unauthorized(TabaneError):
    """The caller showed no identity, or one that is not valid."""

    code = -31401
    reason = "unauthorized"


class RateLimited(TabaneError):
    """The caller reached a limit. ``retry_after`` are the seconds after which a call is allowed again.

    ``pause`` are the seconds for which the answer is held back, because the caller ignores refusals.
    """

    code = -31429
    reason = "rate"
    pause: float = 0.0

    def __init__(self, message: Message, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ConfigurationError(TabaneError):
    """A settings or servers file is wrong."""

    reason = "configuration"


class UpstreamError(TabaneError):
    """An upstream server could not answer."""

    reason = "upstream"


class UpstreamUnavailable(UpstreamError):
    """Not running: disabled, did not start, or its circuit is open."""


class LoginRequired(UpstreamUnavailable):
    """The user has to log in at the server first, or again. ``server`` is its name.

    ``why`` is why a login that was valid is not enough, as far as that is known.
    """

    reason = "login"

    def __init__(self, message: Message, server: str, why: Message | None = None) -> None:
        super().__init__(message)
        self.server, self.why = server, why


class UpstreamDied(UpstreamError):
    """Ended while the call was in flight. It is unknown whether the call took effect."""


class UpstreamTimeout(UpstreamError):
    """No answer within the server's timeout."""


class UpstreamOverloaded(UpstreamError):
    """The queue of waiting calls is full."""


class StoreError(TabaneError):
    """The store could not handle a request. Acknowledged data is not affected."""

    reason = "storage"


class StoreLocked(StoreError):
    """Another process has the store open."""


class StoreNewer(StoreError):
    """A newer version of Tabane wrote the store."""

    @classmethod
    def of(cls, path: object, theirs: int, ours: int) -> Self:
        """Return the error of a file in the format ``theirs``, of which this build knows ``ours`` at most."""
        return cls(say(
            "{path} was written by a newer Tabane (version {theirs}; this one supports "
            "{ours}). Update Tabane",
            path=path, theirs=theirs, ours=ours))  # fmt: skip


class StoreIncomplete(StoreError):
    """A migration to the store has not ended."""


class StoreCorrupt(StoreError):
    """The store's file is damaged, or is no store."""


class StoreFull(StoreError):
    """No space is left on the disk of the store."""


class StoreReadOnly(StoreError):
    """The store's folder or file may not be written."""


class StoreBusy(StoreError):
    """The queue of the writer is full."""


class ModelError(TabaneError):
    """An embedding model is not available, or could not answer."""

    reason = "model"


class ModelMissing(ModelError):
    """The model, or a package that runs it, is missing and cannot be downloaded."""


class ModelUnavailable(ModelError):
    """The model's server or process does not answer now; it may do so later."""


class ReadError(TabaneError):
    """A page could not be read. ``cause`` is the reason in one word, for programs.

    One of: url, scheme, dns, refused (by the guard), connect, tls, timeout, redirect, status, robots, type,
    large, broken, empty, javascript, key, rate, wall (a check for bots, a login or a question stands
    before the page), way. ``status`` is the HTTP status, where there was one;
    ``wait`` the seconds after which it is worth another try, where somebody said so.
    """

    reason = "reading"

    def __init__(
        self, message: Message, cause: str, *, status: int | None = None, wait: float | None = None
    ) -> None:
        super().__init__(message)
        self.cause, self.status, self.wait = cause, status, wait


class WorkerError(TabaneError):
    """A process that works for the hub did not answer a request."""

    reason = "worker"


class WorkerBusy(WorkerError):
    """Too many requests wait for their turn: try again."""


class WorkerSpent(WorkerError):
    """The work took more CPU time, or more time, than the limit of a request."""


class WorkerEnded(WorkerError):
    """The process ended while it did the work, and so did the next process."""


class WorkerUnavailable(WorkerError):
    """The process cannot be started, or is being ended."""


class AuditError(TabaneError):
    """The audit log cannot be written, so a call is refused; or its key or files cannot be read."""

    reason = "audit"


class AnswerTooLong(TabaneError):
    """The answer is longer than the limit of a message over WebSocket or HTTP. The request was handled."""

    reason = "size"


class HubError(TabaneError):
    """The hub cannot be reached, would not start, is held by another, or is of another version."""

    reason = "hub"


class HubDraining(HubError):
    """The hub is about to end and did not begin the request. A bridge sends it to the next hub."""

    reason = "draining"


class CodeMissing(ImportError):
    """The code of an operation is not there, since Tabane was upgraded. The operation was not begun."""


def upgraded(error: Exception | None = None) -> HubError | None:
    """Return what to answer if a hub fails since Tabane was upgraded while it ran; else None.

    ``error`` is the unexpected error, if there is one.
    """
    if not was_replaced(error):
        return None
    return HubError(say("Tabane was upgraded while this hub ran. To go on, run: tabane restart"))
