"""The process that renders untrusted Markdown. The hub ends it if a text takes too much time or memory."""

from __future__ import annotations

import sys

import msgspec

from tabane.web.markdown_worker import REQUESTS, MarkdownResult
from tabane.web.markdown_worker.rendering import TooLong, rendered
from tabane.workers.serving import LastAnswer, serve

_LARGE = 200_000_000


def respond(body: bytes) -> bytes:
    """Answer a request. Raises nothing: a text that cannot be rendered has no HTML."""
    request = REQUESTS.decode(body)
    try:
        return msgspec.msgpack.encode(rendered(request))
    except (TooLong, RecursionError):
        return msgspec.msgpack.encode(MarkdownResult())
    except MemoryError:
        return LastAnswer(msgspec.msgpack.encode(MarkdownResult()))
    except Exception as error:  # a parser may raise anything on malformed text
        print(f"Markdown: {type(error).__name__}: {error}", file=sys.stderr)
        return msgspec.msgpack.encode(MarkdownResult())


if __name__ == "__main__":
    serve(respond, large=_LARGE, nice=5)
