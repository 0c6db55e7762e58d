"""What of a text is embedded: neither addresses nor names of users; pure."""

from __future__ import annotations

import re

# An address ends where ASCII does: Japanese goes on without a space behind it.
_ADDRESS = re.compile(r"(?:https?://|(?<![\w.])www\.)(?:[!-~]+|\S+)", re.IGNORECASE)
# Behind a letter, digit or one of these an @ belongs to an e-mail address.
_MENTION = re.compile(r"(?<![A-Za-z0-9_.%+/@＠-])[@＠][A-Za-z0-9_]+(?:@[A-Za-z0-9_.-]+)?")


def cleaned(text: str) -> str:
    """The text without addresses of pages and @names, white space as single spaces; #tags stay.

    Empty where nothing is left: then there is nothing to embed.
    """
    return " ".join(_MENTION.sub(" ", _ADDRESS.sub(" ", text)).split())
