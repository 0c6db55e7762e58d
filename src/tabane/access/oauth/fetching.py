"""Requests to the authorization server: within limits of time and bytes, without redirects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tabane.errors import TabaneError
from tabane.net.http_failures import HttpFailure, ResponseTooLong

if TYPE_CHECKING:
    from tabane.net.fetching import HttpFetcher


class FetchFailed(Exception):
    """A request that was not answered as expected. Its text is for the log. ``status`` is 0 without one."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class AuthorizationServerHttp:
    """HTTP requests to one authorization server. ``timeout`` is in seconds, for a whole request.

    ``environment`` is the hub's: it names proxies and, with ``SSL_CERT_FILE``, a bundle of authorities.
    The HTTP client is imported at the first request.
    """

    def __init__(self, timeout: float, ca: Path | None, environment: Mapping[str, str]) -> None:
        self._timeout, self._ca, self._environment = timeout, ca, environment
        self._fetcher: HttpFetcher | None = None
        self._closed = False

    async def get(self, url: str, limit: int) -> bytes:
        """Return the body of an answer with status 200, of ``limit`` bytes at most. Raises FetchFailed."""
        return await self._fetch(url, limit, {})

    async def post(self, url: str, form: Mapping[str, str], authorization: str, limit: int) -> bytes:
        """Send a form, and return the body as :meth:`get` does. Raises FetchFailed."""
        from urllib.parse import urlencode

        headers = {"Authorization": authorization, "Content-Type": "application/x-www-form-urlencoded"}
        return await self._fetch(url, limit, headers, urlencode(form).encode())

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        if self._fetcher is not None:
            self._fetcher.close()

    async def _fetch(
        self, url: str, limit: int, headers: Mapping[str, str], form: bytes | None = None
    ) -> bytes:
        place = url.partition("?")[0].partition("#")[0]  # the rest may be secret
        try:
            answer = await self._opened().fetch(
                url, limit=limit, seconds=self._timeout, headers=headers, form=form
            )
        except TimeoutError:
            raise FetchFailed(f"{place}: no answer within {self._timeout:g} s") from None
        except ResponseTooLong:
            raise FetchFailed(f"{place}: the answer has more than {limit} bytes") from None
        except (HttpFailure, TabaneError) as failure:
            raise FetchFailed(f"{place}: {failure}") from None
        except ValueError as error:
            raise FetchFailed(f"{place}: {type(error).__name__}") from None
        if answer.status != 200:
            what = "redirects, which is refused" if 300 <= answer.status < 400 else "answers"
            raise FetchFailed(f"{place}: the server {what} with status {answer.status}", answer.status)
        return answer.body

    def _opened(self) -> HttpFetcher:
        if self._fetcher is None:
            from tabane.net.fetching import environment_fetcher

            ca = str(self._ca) if self._ca else None
            self._fetcher = environment_fetcher(self._environment, {"Accept": "application/json"}, ca)
        if self._closed:
            self._fetcher.close()
        return self._fetcher
