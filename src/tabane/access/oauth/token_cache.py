"""Results of checks of tokens, by the SHA-256 of the token: bounded, and only for as long as they hold."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from tabane.access.oauth.oauth_access import OAuthAccess
from tabane.access.oauth.refusals import TokenRefused
from tabane.access.oauth.signing_keys import SigningKey

MOST_RESULTS = 4_096


@dataclass(frozen=True, slots=True)
class CheckedToken:
    """The result of a check: an access, or why there is none. It holds before ``until``.

    ``key`` has signed the token, if it was checked by its signature.
    """

    result: OAuthAccess | TokenRefused
    until: float
    key: SigningKey | None = None


class TokenCache:
    """Keeps the results that were used last. Tokens themselves are never kept."""

    def __init__(self, most: int = MOST_RESULTS) -> None:
        self._most = most
        self._results: OrderedDict[bytes, CheckedToken] = OrderedDict()

    def __len__(self) -> int:
        return len(self._results)

    def get(self, digest: bytes, now: float) -> CheckedToken | None:
        """Return the result for a token, if there is one that still holds."""
        found = self._results.get(digest)
        if found is None:
            return None
        if now >= found.until:
            del self._results[digest]
            return None
        self._results.move_to_end(digest)
        return found

    def put(self, digest: bytes, checked: CheckedToken) -> None:
        self._results[digest] = checked
        self._results.move_to_end(digest)
        if len(self._results) > self._most:
            self._results.popitem(last=False)

    def drop(self, digest: bytes) -> None:
        self._results.pop(digest, None)
