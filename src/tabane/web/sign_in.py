"""Signing in and out: by a link that works once, by a key, or by nothing if the hub requires nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tabane.errors import BadArguments, RateLimited, TabaneError, Unauthorized
from tabane.messages import Lang, say
from tabane.operations import LOCAL, Access, Caller, Face
from tabane.web.headers import NOT_KEPT
from tabane.web.hub import VISIT, Visit, WebHub
from tabane.web.sessions import LONGEST, FoundSession

PAGE_HEADER = "tabane-page"
"""Has the secret that the page keeps. Another site cannot send it, and another port does not get it."""

MOST_SIGN_IN = 32 << 10
"""Bytes of a request to sign in."""


class SignInAttempt(msgspec.Struct, forbid_unknown_fields=True):
    """The credential of a browser: the code of a link, or a key; or neither."""

    code: str = ""
    key: str = ""


class SignIn:
    """Signs browsers in and out, and finds who a request is from."""

    def __init__(self, hub: WebHub) -> None:
        self._hub = hub

    async def found(self, request: Request) -> FoundSession | None:
        """Return the session of a request; None if it shows none that is valid."""
        cookie, page = request.cookies.get(self._hub.cookie, ""), request.headers.get(PAGE_HEADER, "")
        return await self._hub.sessions.find(cookie, page) if cookie and page else None

    async def sign_in(self, request: Request) -> Response:
        """Answer a POST with a code or key: the page's secret as JSON, and the cookie."""
        visit: Visit = request.scope[VISIT]
        try:
            access = await self._access(await _attempt(request), visit)
        except TabaneError as error:
            status = 429 if isinstance(error, RateLimited) else 401
            return JSONResponse({"error": error.text(visit.lang)}, status, NOT_KEPT)
        begun = await self._hub.sessions.begin(access.holder)
        self._hub.signed_in(access, visit.source)
        response = JSONResponse({"page": begun.page}, 200, NOT_KEPT)
        response.set_cookie(
            self._hub.cookie,
            begun.cookie,
            max_age=int(LONGEST),
            httponly=True,
            secure=visit.secure,
            samesite="strict",
        )
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the session of a request."""
        found = await self.found(request)
        if found is not None:
            await self._hub.sessions.end(found.session)
        response = JSONResponse({"signed_in": False}, 200, NOT_KEPT)
        response.delete_cookie(self._hub.cookie, httponly=True, samesite="strict")
        return response

    async def _access(self, attempt: SignInAttempt, visit: Visit) -> Access:
        """Raise Unauthorized for a link that was used or is too old, and for a wrong key."""
        if attempt.code:
            if not self._hub.links.use(attempt.code):
                raise Unauthorized(
                    say("This link was used already, or is too old. Run tabane open again for a new one.")
                )
            return LOCAL
        if attempt.key:
            access = await self._hub.identify(attempt.key.strip(), visit.source)
            if access.holder.startswith("oauth:"):
                raise Unauthorized(say("Sign in with an API key or a link; access tokens are for programs."))
            return access
        if visit.open:
            return LOCAL
        raise Unauthorized(say("Sign in with a link from tabane open, or with an API key."))


async def _attempt(request: Request) -> SignInAttempt:
    size, parts = 0, []
    async for part in request.stream():
        size += len(part)
        if size > MOST_SIGN_IN:
            raise BadArguments(
                say(
                    "This is too large: at most {limit:,} {limit:byte is|bytes are} accepted here.",
                    limit=MOST_SIGN_IN,
                )
            )
        parts.append(part)
    try:
        return msgspec.json.decode(b"".join(parts) or b"{}", type=SignInAttempt)
    except msgspec.MsgspecError as error:
        raise BadArguments(say("The form cannot be read: {reason}", reason=error)) from None


def caller_of(found: FoundSession, lang: Lang) -> Caller:
    """Return the caller of a request in a session."""
    session = f"web:{found.session.id}"
    return Caller(found.session.holder, Face.WEB, session, lang, client="web", access=found.access)


def language_of(headers: Mapping[str, Any], default: Lang) -> Lang:
    """Return the language that a person chose in the page, else the one of the browser."""
    chosen = headers.get("tabane-lang")
    return "ja" if chosen == "ja" else "en" if chosen == "en" else default
