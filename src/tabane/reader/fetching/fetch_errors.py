"""Errors of the network and of HTTP statuses, as a cause and a sentence that says what to do."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator

from tabane.errors import ReadError
from tabane.messages import Message, say


def refusal(status: int, host: str, wait: float | None) -> ReadError:
    """Return the ReadError for ``status``: cause ``rate`` if a retry may succeed later, else ``status``.

    ``wait`` is the number of seconds that ``host`` asks to wait, or None. A 403 with a wait is a rate limit:
    APIs whose limit is spent answer so.
    """
    timely = status in (429, 503) or (status == 403 and wait is not None)
    return ReadError(
        _slow(status, host, wait) if timely else _other(status, host),
        "rate" if timely else "status",
        status=status,
        wait=wait,
    )


def walled(status: int, host: str, vendor: str) -> ReadError:
    """Return the error for a page that checks for bots; ``vendor`` makes the check, "" if unknown."""
    check = say("a check for bots ({vendor})", vendor=vendor) if vendor else say("a check for bots")
    message = say(
        "{host} shows {check} in place of the page (HTTP {status}). Ask the user to open the page in a "
        "browser, or import the cookies of that browser: tabane reader cookies HOST FILE.",
        host=host,
        check=check,
        status=status,
    )
    return ReadError(message, "wall", status=status)


def _slow(status: int, host: str, wait: float | None) -> Message:
    if wait:
        return say(
            "{host} asks Tabane to wait for {seconds:.0f} s (HTTP {status}). Try again after that.",
            host=host,
            seconds=wait,
            status=status,
        )
    return say("{host} is too busy (HTTP {status}). Try again later.", host=host, status=status)


def _other(status: int, host: str) -> Message:
    if status in (401, 407):
        return say("{host} requires a login for this page (HTTP {status}).", host=host, status=status)
    if status == 403:
        return say(
            "{host} does not allow programs to read this page, or requires a login (HTTP {status}).",
            host=host,
            status=status,
        )
    if status in (404, 410):
        return say("{host} has nothing at this URL (HTTP {status}).", host=host, status=status)
    if status >= 500:
        return say("{host} has an internal error (HTTP {status}). Try again later.", host=host, status=status)
    return say("{host} does not accept this request (HTTP {status}).", host=host, status=status)


_EXPIRED, _EARLY, _NAME, _ADDRESS = 10, 9, 62, 64  # X509_V_ERR_… of OpenSSL


class TransientFetchError(Exception):
    """A failure that a retry may fix. ``wait`` is the number of seconds to wait, if the server gave one."""

    def __init__(self, error: ReadError, wait: float | None = None) -> None:
        super().__init__(str(error))
        self.error, self.wait = error, wait


def lookup(error: Exception, host: str) -> ReadError | TransientFetchError:
    """Return a name that was not found, or could not be looked up."""
    number = getattr(error, "errno", None)
    if number == socket.EAI_AGAIN:
        return TransientFetchError(
            ReadError(
                say(
                    "the name {host} cannot be resolved now. Check the connection, or try again later.",
                    host=host,
                ),
                "dns",
            )
        )
    return ReadError(say("the name {host} does not exist. Check its spelling.", host=host), "dns")


def connecting(error: BaseException, host: str, port: int) -> TransientFetchError:
    """Nobody answers at an address."""
    where = f"{host}:{port}"
    number = next((e.errno for e in chain(error) if isinstance(e, OSError) and (e.errno or 0) > 0), None)
    if number is None:
        return TransientFetchError(ReadError(say("{host} cannot be reached.", host=where), "connect"))
    return TransientFetchError(
        ReadError(
            say("{host} cannot be reached: {error}.", host=where, error=os.strerror(number)),
            "connect",
        )
    )


def by_proxy(error: BaseException, host: str) -> ReadError:
    """Return the proxy of the settings refused."""
    return ReadError(
        say(
            "the proxy of the setting reader_proxy does not connect to {host}: {error}.",
            host=host,
            error=_first(error),
        ),
        "connect",
    )


def tls(error: BaseException, host: str) -> ReadError | None:
    """Return the fault of the certificate or the handshake; None if the error is not of TLS."""
    found = next((e for e in chain(error) if isinstance(e, ssl.SSLError)), None)
    if found is None:
        return None
    if isinstance(found, ssl.SSLCertVerificationError):
        return ReadError(_certificate(found, host), "tls")
    return ReadError(
        say(
            "no TLS connection to {host}: {error}. The server may support only http://, not https://.",
            host=host,
            error=(found.reason or "handshake").lower().replace("_", " "),
        ),
        "tls",
    )


def _certificate(error: ssl.SSLCertVerificationError, host: str) -> Message:
    if error.verify_code == _EXPIRED:
        return say("the certificate of {host} has expired. The site's owner must renew it.", host=host)
    if error.verify_code == _EARLY:
        return say("the certificate of {host} is not valid yet. Check the clock of this computer.", host=host)
    if error.verify_code in (_NAME, _ADDRESS):
        return say(
            "the certificate of {host} is for another host, so this may not be the right site.", host=host
        )
    return say(
        "the certificate of {host} is not trusted ({error}). If your own authority signed "
        "it, set reader_ca to its PEM file.",
        host=host,
        error=error.verify_message,
    )


def broken(error: BaseException, host: str) -> TransientFetchError:
    """Return the error for a connection that broke after it was open, or an answer that is not HTTP."""
    return TransientFetchError(
        ReadError(
            say(
                "the response of {host} ended too early or is not HTTP ({error}).",
                host=host,
                error=_first(error),
            ),
            "broken",
        )
    )


def late(phase: Message, seconds: float) -> ReadError:
    """Return the error for a timeout. ``phase`` says which step took too long."""
    return ReadError(
        say(
            "{phase} took more than {seconds:g} s and was stopped. The setting reader_timeout "
            "can allow more.",
            phase=phase,
            seconds=seconds,
        ),
        "timeout",
    )


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes: the connection library passes causes as arguments."""
    seen: list[BaseException] = [error]
    for one in seen:
        yield one
        inner = [one.__cause__, *one.args, *getattr(one, "exceptions", ())]
        seen += [e for e in inner if isinstance(e, BaseException) and e not in seen][:8]


def _first(error: BaseException) -> str:
    text = next((str(e) for e in chain(error) if str(e)), type(error).__name__)
    return " ".join(text.split())[:120].rstrip(".")
