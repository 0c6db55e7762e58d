"""Parameters of the operations of code mode, imported with the first of them and by the command line."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

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
