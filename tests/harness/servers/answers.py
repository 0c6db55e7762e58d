"""Protocol names and answer types that child.py's protocol and tools share."""

from __future__ import annotations

MODERN = "2026-07-28"
KEY = "io.modelcontextprotocol/"

TYPE_CHECKING = False  # of typing, which takes long to import
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]
else:
    Json = dict


class Refused(Exception):
    """An error to answer with."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


class Raw(str):
    """JSON text to send as it stands, where json.dumps would not write it so."""
