"""The types of results that a hub has learned: which tools are learned of, and who is shown what."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING

from msgspec import Raw

from tabane.catalog.gateway import Gateway
from tabane.catalog.tools.tool import Tool
from tabane.errors import StoreError
from tabane.hub.context import HubContext
from tabane.hub.servers import BROKEN
from tabane.messages import say
from tabane.operations import Caller, CallTarget, Operation
from tabane.wire.json import InvalidJson, fields

if TYPE_CHECKING:
    from tabane.catalog.operations.table import ForgetTypes
    from tabane.catalog.tools.disclosure import LearnedResult
    from tabane.hub.servers.type_learning import TypeLearning

log = logging.getLogger(__name__)

TYPE_FILE = "learned-types.jsonl"
"""Name of the file of learned types in the home."""

MOST_KNOWN = 5_000
"""Tools of which it is known whether they declare their results."""


class HubResultTypes:
    """Learns the types of results of tools that declare none, for each caller apart.

    What learns is imported with the first result. Nothing is learned if the settings say so.
    """

    def __init__(self, context: HubContext, gateway: Gateway) -> None:
        self._context, self._gateway = context, gateway
        self._learning: TypeLearning | None = None
        self._digests: dict[str, tuple[Tool, str]] = {}

    def open(self) -> None:
        """Read what was learned earlier, or remove it if nothing is to be learned."""
        if (self._context.home / TYPE_FILE).exists():
            self.apply()
            if self._context.settings.learn_result_types:
                self._begun()

    def apply(self) -> None:
        """Remove everything if nothing is to be learned any more."""
        if self._context.settings.learn_result_types:
            return
        if self._learning is not None:
            self._learning.abandon()
            self._learning = None
        try:
            for name in (TYPE_FILE, TYPE_FILE + BROKEN):
                (self._context.home / name).unlink(missing_ok=True)
        except OSError as error:
            log.warning("the learned types of results cannot be removed: %s", error)

    async def close(self) -> None:
        """Write what was learned to the disk."""
        if self._learning is not None:
            await self._learning.close()

    def abandon(self) -> None:
        """Write nothing more."""
        if self._learning is not None:
            self._learning.abandon()

    def returned(self, target: CallTarget, holder: str, result: bytes | Raw) -> None:
        """Note the result of a successful call."""
        if not self._context.settings.learn_result_types:
            return
        tool = self._gateway.catalog.find(target.name)
        if tool is not None and (digest := self._digest(tool)):
            learning = self._learning or self._begun()
            learning.note((holder, tool.alias, tool.server, digest), result)

    def of(self, caller: Caller, tool: Tool) -> LearnedResult | None:
        """Return the type of a tool's results; None if it declares one, or not enough was seen."""
        from tabane.catalog.tools.disclosure import LearnedResult

        if self._learning is None or not (digest := self._digest(tool)):
            return None
        found = self._learning.find((caller.access.holder, tool.alias, tool.server, digest))
        if found is None or (schema := found.schema) is None:
            return None
        return LearnedResult(schema, found.results)

    async def forget(self, caller: Caller, params: ForgetTypes) -> dict[str, int]:
        """Forget the types of a tool, of the tools of a server, or all. Raises StoreError."""
        if not self._context.settings.learn_result_types:
            return {"forgotten": 0}
        tool = self._gateway.catalog.find(params.name) if params.name else None
        name = tool.alias if tool is not None else params.name
        try:
            return {"forgotten": await self._begun().forget(name)}
        except OSError as error:
            raise StoreError(
                say("{path} cannot be written: {detail}", path=TYPE_FILE, detail=str(error))
            ) from None

    def table(self) -> list[Operation]:
        """Return the operation that forgets types."""
        from tabane.catalog.operations.table import ForgetTypes

        return [
            Operation(
                "forget_result_types",
                "Forget the learned types of results: of a tool, of the tools of a server, or all.",
                ForgetTypes, self.forget,
            )
        ]  # fmt: skip

    def _begun(self) -> TypeLearning:
        if self._learning is None:
            from tabane.hub.servers.type_learning import TypeFile, TypeLearning

            # As counts of uses: if calls are not to be recorded, nothing outlives the hub.
            file = TypeFile(self._context.home / TYPE_FILE)
            self._learning = TypeLearning(self._context, file)
        return self._learning

    def _digest(self, tool: Tool) -> str:
        """Return the digest of a tool's definition; empty if it declares the type of its results."""
        known = self._digests.get(tool.alias)
        if known is not None and known[0] is tool:
            return known[1]
        if len(self._digests) >= MOST_KNOWN:
            self._digests.clear()
        digest = "" if _declares(tool) else tool.digest or hashlib.sha256(tool.definition).hexdigest()
        self._digests[tool.alias] = tool, digest
        return digest


def _declares(tool: Tool) -> bool:
    """Return whether the server says of which type the results are."""
    if b"outputSchema" not in tool.definition:
        return False
    try:
        return fields(tool.definition).get("outputSchema", Raw(b"null")) != Raw(b"null")
    except InvalidJson:
        return True
