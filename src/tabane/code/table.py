"""The operation of code mode: its parameters and declaration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from msgspec import Meta, Struct

from tabane.operations import EVERYONE, Caller, Operation, Privilege, Reference

RUN = "run_script"

OPEN = "open_result"
"""The function of scripts that opens a kept result by its handle."""

LONGEST_CODE = 64 << 10
LONGEST_TIMEOUT = 600.0


class RunScript(Struct, frozen=True, forbid_unknown_fields=True):
    """``inputs`` are variables of the script. Without ``timeout``, the setting counts."""

    code: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=LONGEST_CODE,
            description="Python. Import servers: from tools import github; then await github.tool(…).",
        ),
    ]
    timeout: Annotated[float, Meta(gt=0, le=LONGEST_TIMEOUT, description="Seconds.")] | None = None
    inputs: Annotated[dict[str, Any], Meta(description="Variables of the script.")] = {}


def code_table(run: Callable[[Caller, RunScript], Awaitable[Any]]) -> list[Operation]:
    """Return the operations of code mode. ``run`` runs a script."""
    return [
        Operation(
            RUN,
            "Run a Python script that calls tools as async functions and returns only what you need: the "
            "value of its last line, and what it prints. Find functions with search_tools. Use it for "
            "several calls, or to select from large results.",
            RunScript, run, EVERYONE, Privilege.CALL, text=Reference("code.scripts:report_text"),
            annotations={"destructiveHint": True}, failed=lambda report: bool(report.error),
            source="hub", relays=True,
        )
    ]  # fmt: skip
