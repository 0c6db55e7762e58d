"""What users see when something is wrong, as sections of docs/troubleshooting.md.

A finding of the doctor and an error at the terminal name their section. A test holds the names to the
headings of the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from tabane.errors import Forbidden, TabaneError, Unauthorized

PAGE = "troubleshooting"


class Trouble(StrEnum):
    """A section of the page, by the anchor of its English heading."""

    NO_TOOLS = "the-assistant-shows-no-tools"
    TWICE = "the-assistant-shows-a-tool-twice"
    PROJECT = "the-servers-of-a-project-are-not-used"
    SERVER = "a-server-does-not-work"
    PROGRAM = "a-program-is-not-found"
    PACKAGE = "a-package-cannot-be-downloaded"
    CERTIFICATE = "a-certificate-is-not-trusted"
    VARIABLE = "a-server-does-not-get-a-key-or-variable"
    LOGIN = "a-server-requires-a-login"
    DEFINITION = "a-tool-is-missing-or-held-back"
    SANDBOX = "a-server-cannot-work-in-its-sandbox"
    HUB = "the-hub-does-not-start-or-answer"
    VERSION = "the-hub-has-another-version"
    HTTP = "a-client-cannot-connect-over-http"
    REFUSED = "a-call-is-refused"
    CONFIGURATION = "the-configuration-is-refused"
    PERMISSIONS = "other-users-can-read-the-files"
    NETWORK = "there-is-no-network"
    NOTHING_FOUND = "search-finds-nothing"
    KEYWORDS = "search-matches-keywords-only"
    FOLDER = "a-folder-is-not-up-to-date"
    READING = "a-page-cannot-be-read"
    DISK = "the-disk-is-full"
    STORE = "a-file-is-damaged-or-cannot-be-used"
    AUDIT = "the-audit-log-is-incomplete"

    @property
    def section(self) -> str:
        """Return what `tabane manual` and get_documentation take."""
        return f"{PAGE}#{self}"


_OF_REASONS: Mapping[str, Trouble] = {
    "upstream": Trouble.SERVER,
    "login": Trouble.LOGIN,
    "hub": Trouble.HUB,
    "configuration": Trouble.CONFIGURATION,
    "rate": Trouble.REFUSED,
    "approval": Trouble.REFUSED,
    "passphrase": Trouble.REFUSED,
    "model": Trouble.KEYWORDS,
    "storage": Trouble.STORE,
    "reading": Trouble.READING,
    "audit": Trouble.AUDIT,
}
"""``data.reason`` of errors: the same for an error raised here and for the answer of a hub."""

_OF_CODES: Mapping[int, Trouble] = {Forbidden.code: Trouble.REFUSED, Unauthorized.code: Trouble.REFUSED}

OF_FAILED_STARTS: Mapping[str, Trouble] = {
    "tls": Trouble.CERTIFICATE,
    "package": Trouble.PACKAGE,
    "registry": Trouble.PACKAGE,
    "sign-in": Trouble.PACKAGE,
    "prompt": Trouble.PACKAGE,
    "cache": Trouble.PACKAGE,
    "program": Trouble.PROGRAM,
    "docker": Trouble.PROGRAM,
    "node": Trouble.PROGRAM,
    "python": Trouble.PROGRAM,
    "variable": Trouble.VARIABLE,
    "space": Trouble.DISK,
}
"""Kinds of causes of failed starts that have a section of their own; for all others it is SERVER."""


def trouble_of(error: TabaneError) -> Trouble | None:
    """Return the section about an error of this process or of a hub; None for the caller's own mistakes."""
    reason, code = error.reason, error.code
    if hasattr(error, "answered"):  # a hub's answer, of which only the code and the data are known
        data = getattr(error, "data", None)
        reason, code = data.get("reason") if isinstance(data, dict) else None, error.answered
    return _OF_REASONS.get(str(reason)) or _OF_CODES.get(code)
