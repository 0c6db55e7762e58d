"""Operations on the passphrase of a hub."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from tabane.access.passphrase import LONGEST, SHORTEST
from tabane.operations import Caller, Face, Operation, Privilege

if TYPE_CHECKING:
    from tabane.hub.people.approvals.passphrase import HubPassphrase

_FACES = frozenset({Face.RPC, Face.CLI})


class NoPassphraseParameters(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class SetPassphrase(Struct, frozen=True, forbid_unknown_fields=True):
    passphrase: Annotated[str, Meta(min_length=SHORTEST, max_length=LONGEST)]


class Unlock(Struct, frozen=True, forbid_unknown_fields=True):
    passphrase: Annotated[str, Meta(max_length=LONGEST)]


class PassphraseOperations:
    """Handlers over the passphrase. ``changed`` is called after it was set or removed."""

    def __init__(self, passphrase: Callable[[], HubPassphrase], changed: Callable[[], None]) -> None:
        self._passphrase, self._changed = passphrase, changed

    def table(self) -> list[Operation]:
        return [
            Operation(
                "passphrase_state",
                "Whether a passphrase is set, and whether the caller has shown it.",
                NoPassphraseParameters, self._state, _FACES, Privilege.READ, read_only=True, source="admin",
            ),
            Operation(
                "unlock",
                "Show the passphrase: for five minutes, this connection may approve calls and change what is "
                "allowed.",
                Unlock, self._unlock, _FACES, Privilege.ADMIN, source="admin",
            ),
            Operation(
                "set_passphrase",
                "Set a passphrase, which is needed then to approve calls, for sign-in links, and to change "
                "settings, servers, keys and profiles.",
                SetPassphrase, self._set, _FACES, Privilege.ADMIN, source="admin",
            ),
            Operation(
                "remove_passphrase", "Remove the passphrase.",
                NoPassphraseParameters, self._remove, _FACES, Privilege.ADMIN, source="admin",
            ),
        ]  # fmt: skip

    async def _state(self, caller: Caller, params: NoPassphraseParameters) -> dict[str, Any]:
        passphrase = self._passphrase()
        return {"set": passphrase.is_set, "unlocked": not passphrase.is_set or passphrase.unlocked(caller)}

    async def _unlock(self, caller: Caller, params: Unlock) -> dict[str, Any]:
        await self._passphrase().unlock(caller, params.passphrase)
        return await self._state(caller, NoPassphraseParameters())

    async def _set(self, caller: Caller, params: SetPassphrase) -> dict[str, Any]:
        await self._passphrase().set(params.passphrase)
        self._changed()
        return await self._state(caller, NoPassphraseParameters())

    async def _remove(self, caller: Caller, params: NoPassphraseParameters) -> dict[str, Any]:
        await self._passphrase().remove()
        self._changed()
        return await self._state(caller, NoPassphraseParameters())
