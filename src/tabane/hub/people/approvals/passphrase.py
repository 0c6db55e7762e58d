"""The passphrase of a hub: it protects approvals, sign-in links, and what decides who may do what."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from pathlib import Path

import msgspec

from tabane.access.passphrase import matches, record_of
from tabane.errors import Forbidden, PassphraseRequired, RateLimited, StoreError
from tabane.hub.people.approvals.passphrase_file import PASSPHRASE, read_passphrase
from tabane.messages import say
from tabane.operations import Caller, CallTarget, Face
from tabane.operations.door import CallVerdict
from tabane.settings.files import write_private

PROTECTED = frozenset(
    {
        "approve_call", "sign_in_link", "set_passphrase", "remove_passphrase",
        "keys_create", "keys_update", "keys_revoke", "save_profile", "remove_profile", "change_setting",
        "add_server", "change_server", "remove_server", "enable_server", "set_tool_visibility", "apply_fix",
        "set_up_assistants", "undo_setup", "trust_project",
        "allow_flow", "forget_flow_trails", "accept_definitions",
    }
)  # fmt: skip
"""Operations that need the passphrase: they approve, sign in, or change what is allowed."""

UNLOCKED = 300.0
"""Seconds for which a connection, or a session of the web page, may use them after the passphrase."""

MOST_UNLOCKED = 256
FREE, FIRST_DELAY, LONGEST_DELAY = 3, 0.5, 30.0
"""Wrong passphrases that are answered at once, and seconds before the next answers: they double."""

FORGIVEN = 60.0
"""Seconds after which one wrong passphrase is forgotten."""

MOST_WAITING = 4
"""Attempts that wait for their turn. Further ones are refused at once."""


class HubPassphrase:
    """The passphrase of a home, and who has shown it. Attempts are checked one after the other."""

    def __init__(self, home: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._path, self._loop = home / PASSPHRASE, loop
        self._unlocked: OrderedDict[str, float] = OrderedDict()
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._wrong, self._since = 0.0, 0.0

    @property
    def is_set(self) -> bool:
        """Whether a passphrase is set."""
        return self._path.exists()

    @property
    def rule(self) -> PassphraseRule:
        """The rule that refuses protected operations to those who have not shown it."""
        return PassphraseRule(self)

    def unlocked(self, caller: Caller) -> bool:
        """Return whether a caller has shown the passphrase on its connection a short time ago."""
        return self._unlocked.get(caller.session, 0.0) > self._loop.time()

    async def unlock(self, caller: Caller, passphrase: str) -> None:
        """Let a caller use what is protected for a while.

        Raises Forbidden if it is not the passphrase, RateLimited, and ConfigurationError if the file cannot
        be used.
        """
        if not caller.connected and caller.face is not Face.WEB:
            raise Forbidden(say("The passphrase is only taken on a connection that stays: use a WebSocket."))
        if self._waiting >= MOST_WAITING:
            raise RateLimited(say("Too many attempts at the passphrase. Try again later."), LONGEST_DELAY)
        self._waiting += 1
        try:
            async with self._turn:
                over = self._counted() - FREE
                await asyncio.sleep(0.0 if over < 0 else min(LONGEST_DELAY, FIRST_DELAY * 2.0**over))
                record = await asyncio.to_thread(read_passphrase, self._path.parent)
                if not await asyncio.to_thread(matches, passphrase, record):
                    self._wrong, self._since = self._counted() + 1, self._loop.time()
                    raise Forbidden(say("This is not the passphrase."))
        finally:
            self._waiting -= 1
        self._unlocked.pop(caller.session, None)
        self._unlocked[caller.session] = self._loop.time() + UNLOCKED
        if len(self._unlocked) > MOST_UNLOCKED:
            self._unlocked.popitem(last=False)

    async def set(self, passphrase: str) -> None:
        """Set the passphrase, or replace it. Whoever has shown an earlier one has to show this one."""
        record = await asyncio.to_thread(record_of, passphrase)
        try:
            await asyncio.to_thread(write_private, self._path, msgspec.json.encode(record))
        except OSError as error:
            raise StoreError(
                say("{path} cannot be written: {reason}.", path=self._path, reason=error.strerror)
            ) from None
        self._unlocked.clear()

    async def remove(self) -> None:
        """Remove the passphrase: nothing needs one any more."""
        await asyncio.to_thread(self._path.unlink, missing_ok=True)

    def _counted(self) -> float:
        return max(0.0, self._wrong - (self._loop.time() - self._since) / FORGIVEN)


class PassphraseRule:
    """Refuses operations that need the passphrase to those who have not shown it."""

    def __init__(self, passphrase: HubPassphrase) -> None:
        self._passphrase = passphrase

    def verdict(self, caller: Caller, target: CallTarget, arguments: bytes) -> CallVerdict | None:
        """Raise PassphraseRequired for a protected operation whose caller has not shown the passphrase."""
        if target.name not in PROTECTED or target.kind != "operation" or self._passphrase.unlocked(caller):
            return None
        raise PassphraseRequired(
            say(
                "{operation} needs the passphrase. Run the command in a terminal, which asks for it, or "
                "enter it on the web page, under Approvals.",
                operation=target.name,
            )
        )
