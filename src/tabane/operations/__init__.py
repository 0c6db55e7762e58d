"""Operations, and the door through which every face calls them."""

from tabane.operations.caller import AllowLocal, Caller, Face, Permission, Privilege
from tabane.operations.door import Door
from tabane.operations.jobs import Progress, Queued, Started, Starter, StreamPart, Work
from tabane.operations.operation import Operation, OperationTable, input_schema

__all__ = [
    "AllowLocal",
    "Caller",
    "Door",
    "Face",
    "Operation",
    "OperationTable",
    "Permission",
    "Privilege",
    "Progress",
    "Queued",
    "Started",
    "Starter",
    "StreamPart",
    "Work",
    "input_schema",
]
