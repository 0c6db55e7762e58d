"""What one identity may do: a placeholder until the seam of the lead lands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class CallTarget:
    """What is called: the real tool, however it is called."""

    name: str
    server: str = ""
    source: str = ""
    kind: Literal["tool", "prompt", "resource", "operation", "list"] = "tool"
    changes: bool = True
    public: bool = False


class Access(Protocol):
    """What one identity may do at this moment."""

    @property
    def holder(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def tier(self) -> str: ...
    @property
    def everything(self) -> bool: ...
    @property
    def revision(self) -> int: ...
    def allows(self, target: CallTarget) -> bool: ...
    def sees_server(self, server: str) -> bool: ...


class _LocalAccess:
    holder = label = tier = "local"
    everything = True
    revision = 0

    def allows(self, target: CallTarget) -> bool:
        return True

    def sees_server(self, server: str) -> bool:
        return True


LOCAL: Access = _LocalAccess()
