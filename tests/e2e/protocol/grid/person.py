"""A client that answers questions, and keeps what it was asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from mcp_types import (
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    Root,
    TextContent,
)
from pydantic import FileUrl

from tests.e2e.protocol.grid.cell import plain
from tests.harness.servers.questions import FILLED

Action = Literal["accept", "decline", "cancel"]

OF_A_HOP = frozenset({"_meta", "task", "elicitationId"})
"""Members of questions that only one era has, or that each hop sets."""


class Person:
    """Answers every question with ``action``. ``asked`` are the questions as they came, without the envelope.

    A form is filled as a host does it: with the defaults of its schema, and with FILLED.
    """

    def __init__(self, action: Action = "accept", fails: bool = False) -> None:
        self.action, self.fails = action, fails
        self.asked: list[Any] = []

    async def elicit(self, context: Any, params: Any) -> ElicitResult | ErrorData:
        self._keep(params)
        if self.fails:
            return ErrorData(code=-31997, message="nobody is here")
        if self.action != "accept" or not isinstance(params, ElicitRequestFormParams):
            return ElicitResult(action=self.action)
        return ElicitResult(action="accept", content=filled(params.requested_schema, len(self.asked)))

    async def sample(self, context: Any, params: Any) -> CreateMessageResult:
        self._keep(params)
        words = TextContent(text="words 言葉")
        return CreateMessageResult(role="assistant", content=words, model="m", stop_reason="endTurn")

    async def roots(self, context: Any) -> ListRootsResult:
        self.asked.append("roots")
        return ListRootsResult(roots=[Root(uri=FileUrl("file:///somewhere"), name="花")])

    @property
    def callbacks(self) -> dict[str, Any]:
        """The options of a client that has this person."""
        return {
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "list_roots_callback": self.roots,
        }

    def _keep(self, params: Any) -> None:
        self.asked.append({key: value for key, value in plain(params).items() if key not in OF_A_HOP})


def filled(schema: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return the content for a form: defaults, FILLED, and else a word with the number of the question."""
    content: dict[str, Any] = {}
    for name, part in schema["properties"].items():
        if "default" in part:
            content[name] = part["default"]
        elif len(schema["properties"]) == 1:
            content[name] = f"花 {number}"
        elif name in FILLED:
            content[name] = FILLED[name]
    return content


def comparable(asked: list[Any]) -> list[Any]:
    """Return questions in an order that does not depend on which of several was put first."""
    return sorted(asked, key=lambda question: re.sub(r"\s", "", repr(question)))
