"""The operation of code mode: its parameters and declaration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from tabane.messages import Lang
from tabane.operations import EVERYONE, Caller, Operation, Privilege
from tabane.wire import json

if TYPE_CHECKING:
    from tabane.code.scripts import ScriptReport

RUN = "run_script"

OPEN = "open_result"
"""The function of scripts that opens a kept result by its handle."""

NOTHING = "(no result: end the script with an expression, or print)"

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


def code_table(run: Callable[[Caller, RunScript], Awaitable[ScriptReport]]) -> list[Operation]:
    """Return the operations of code mode. ``run`` runs a script."""
    return [
        Operation(
            RUN,
            "Run a Python script that calls tools as async functions and returns only what you need: the "
            "value of its last line, and what it prints. Find functions with search_tools. Use it for "
            "several calls, or to select from large results.",
            RunScript, run, EVERYONE, Privilege.CALL, text=report_text,
            annotations={"destructiveHint": True}, failed=lambda report: bool(report.error),
            source="hub", relays=True,
        )
    ]  # fmt: skip


def report_text(report: ScriptReport, lang: Lang) -> str:
    """Return a report for a model: what was printed, then the result or the error."""
    text = json.text(report.value)
    result = report.error or (bytes(report.value).decode() if text is None else text)
    if not report.error and bytes(report.value) == b"null":
        result = "" if report.output else NOTHING
    return "\n".join(part for part in (report.output.rstrip("\n"), result) if part)
