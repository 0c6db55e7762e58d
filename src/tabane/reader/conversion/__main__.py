"""The conversion process: ``python -m tabane.reader.conversion BYTES``, a worker of the pool.

It exits if a page has made it large, because processes seldom return memory.
"""

from __future__ import annotations

import sys

from tabane.errors import ReadError, upgraded
from tabane.messages import say
from tabane.reader.conversion import (
    CleaningRequest,
    ConversionFailure,
    ConversionRequest,
    ConversionResult,
    ConvertedPage,
    decode_request,
    pack,
)
from tabane.reader.formats import page_of, plain_page_of
from tabane.reader.url_reader import shown
from tabane.workers.serving import LastAnswer, serve


def answer(ask: ConversionRequest | CleaningRequest) -> ConversionResult:
    """Return the requested page, or the reason for the failure. Raises nothing."""
    try:
        if isinstance(ask, CleaningRequest):
            page = shown(ask.page, raw=ask.raw)
        elif ask.plain:
            page = plain_page_of(
                ask.body, ask.url, ask.media_type, ask.charset, ask.name, with_scripts=ask.scripts
            )
        else:
            page = page_of(ask.body, ask.url, ask.media_type, ask.charset, ask.name)
        return ConvertedPage(page)
    except ReadError as error:
        return ConversionFailure(error.message, error.cause)
    except MemoryError:
        return ConversionFailure(
            say("Converting the page needs more memory than the limit for one page."), "large", ending=True
        )
    except RecursionError:
        return ConversionFailure(say("The page is nested too deeply to be read."), "broken")
    except Exception as error:  # libraries raise anything on malformed pages
        url = ask.url if isinstance(ask, ConversionRequest) else ask.page.url
        print(f"{url}: {type(error).__name__}: {error}", file=sys.stderr)
        if isinstance(error, ImportError) and (old := upgraded(error)) is not None:
            return ConversionFailure(old.message, "broken", ending=True)
        reason = f"{type(error).__name__}: {error}"[:300]
        return ConversionFailure(say("The page cannot be converted: {reason}", reason=reason), "broken")


def respond(body: bytes) -> bytes:
    """Answer a request; its own bytes are released before the page is encoded."""
    ask = decode_request(body)
    del body
    report = answer(ask)
    del ask
    try:
        framed = pack(report)
    except ValueError:
        framed = pack(ConversionFailure(say("The page is too long to be returned."), "large"))
    except MemoryError:
        framed = pack(
            ConversionFailure(
                say("Converting the page needs more memory than the limit for one page."),
                "large",
                ending=True,
            )
        )
    return LastAnswer(framed) if isinstance(report, ConversionFailure) and report.ending else framed


if __name__ == "__main__":
    serve(respond)
