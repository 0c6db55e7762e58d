"""Calls about documents, whose operations return failures as values; and addresses of documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from tabane.errors import BadArguments, Conflict, HubError, TabaneError, UnknownName
from tabane.messages import Message
from tabane.web.page import PageRequest

HOME = "/documents"

_KINDS: Mapping[str, type[TabaneError]] = {
    "ConflictError": Conflict,
    "NotFoundError": UnknownName,
    "ValidationError": BadArguments,
}


async def asked(request: PageRequest, operation: str, /, **params: Any) -> dict[str, Any]:
    """Return the answer of an operation on documents. Raises TabaneError if the answer is a failure."""
    answer: dict[str, Any] = await request.call(operation, **params)
    if answer.get("status") != "error":
        return answer
    # The text is in the language of the request already.
    message = Message(str(answer.get("message", "")).replace("{", "{{").replace("}", "}}"))
    raise _KINDS.get(str(answer.get("error_type")), HubError)(message)


def document_url(filepath: str) -> str:
    """Return the address of a document's page.

    A browser would change a path with dots as a part, and ``-`` is the folder of the other pages.
    """
    parts = filepath.split("/")
    if "." in parts or parts[0] == "-" or "\\" in filepath:
        return f"{HOME}/-/at?{urlencode({'path': filepath})}"
    return f"{HOME}/{quote(filepath, safe='/')}"


def list_url(prefix: str = "", **more: str | None) -> str:
    """Return the address of a list of documents."""
    given = {name: value for name, value in {"prefix": prefix, **more}.items() if value}
    return f"{HOME}?{urlencode(given)}" if given else HOME


def crumbs(filepath: str) -> list[tuple[str, str]]:
    """Return the folders of a name: label, and address of its list."""
    found: list[tuple[str, str]] = []
    start = 0
    while (end := filepath.find("/", start)) >= 0:
        label = filepath[start:end]
        if label:
            found.append((label, list_url(filepath[: end + 1])))
        start = end + 1
    return found[-_MOST_CRUMBS:]


_MOST_CRUMBS = 8


def token_estimate(text: str) -> int:
    """Estimate the tokens of a text: one for four ASCII characters, or for one of any other script."""
    plain = len(text.encode("ascii", "ignore"))
    return (plain + 3) // 4 + len(text) - plain
