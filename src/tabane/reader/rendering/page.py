"""One page shown: the gate, the browser and the visit, put together and taken apart again."""

from __future__ import annotations

import asyncio

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.fetched import Fetched
from tabane.reader.fetching.guarded_connections import Guarded, Source
from tabane.reader.fetching.interface import Policy
from tabane.reader.fetching.resolver import Resolver
from tabane.reader.guard import Guard
from tabane.reader.rendering.browser_process import Browser, Report
from tabane.reader.rendering.devtools import Gone, Refused
from tabane.reader.rendering.egress_proxy import Gate
from tabane.reader.rendering.flags import flags
from tabane.reader.rendering.limits import Limits
from tabane.reader.rendering.page_visit import Visit


class Shown:
    """A page under one policy. To be shown once; :meth:`end` may come at any time."""

    def __init__(
        self, policy: Policy, limits: Limits, resolve: Resolver, source: Source, errors: int | None
    ) -> None:
        self._policy, self._limits = policy, limits
        self._guard = Guard(policy.allowed, policy.ports)
        self._network = Guarded(self._guard, resolve, source)
        self._browser = Browser(limits, errors)

    async def shown(self, program: str, url: str, *, sandbox: bool) -> Fetched:
        """The page as HTML. Raises ReadError."""
        if self._policy.proxy:
            raise ReadError(
                say("pages are not rendered where they come through a proxy (the setting reader_proxy)."),
                "way",
            )
        at = self._guard.target(url).url
        try:
            async with (
                asyncio.timeout(self._limits.seconds) as limit,
                Gate(self._guard, self._network, self._limits, self._policy.connect_timeout) as gate,
            ):
                return await self._visited(gate, program, at, sandbox)
        except TimeoutError:
            if not limit.expired():
                raise
            raise ReadError(
                say("rendering took more than {seconds:g} s and was given up.", seconds=self._limits.seconds),
                "timeout",
            ) from None
        finally:
            await self.end()

    async def end(self) -> None:
        """End the browser, where there is one."""
        await self._browser.end()

    async def _visited(self, gate: Gate, program: str, url: str, sandbox: bool) -> Fetched:
        talk = await self._browser.start(
            program,
            lambda profile: flags(profile, gate.name, gate.port, self._policy.user_agent, sandbox=sandbox),
        )
        visit = Visit(talk, gate, self._guard, self._limits)
        try:
            await talk.ask("Browser.getVersion")
        except (Gone, Refused):
            raise _unstarted(await self._browser.end()) from None
        try:
            return await visit.go(url)
        except Gone:
            raise _ended(await self._browser.end(), visit.crashed) from None


def _unstarted(report: Report) -> ReadError:
    """Why it never answered."""
    if "usable sandbox" in report.said:
        return ReadError(
            say(
                "the browser has no sandbox on this system, so it is not used: let the system's users have "
                "namespaces, or set reader_render to unsandboxed where the hub as a whole is confined."
            ),
            "way",
        )
    lines = [line for line in report.said.splitlines() if line.strip()]
    fatal = [line for line in lines if "FATAL" in line]
    reason = (fatal or lines or [report.why])[-1][:300].rstrip(".")
    return ReadError(say("the browser cannot be started: {reason}.", reason=reason), "way")


def _ended(report: Report, crashed: bool) -> ReadError:
    if report.why == "memory":
        return ReadError(say("the page takes more memory than the browser has for one."), "large")
    if crashed:
        return ReadError(say("the page's programs made the browser crash."), "broken")
    return ReadError(say("the browser ended before it had shown the page."), "broken")
