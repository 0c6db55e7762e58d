"""What an operation is, and the one door through which every face calls it."""

from tabane.operations.door import AllowLocal, Caller, Door, Face, Permission, Privilege
from tabane.operations.jobs import Part, Progress, Queued, Started, Starter, Turn, Work
from tabane.operations.operation import Operation, Table, input_schema

__all__ = [
    "AllowLocal",
    "Caller",
    "Door",
    "Face",
    "Operation",
    "Part",
    "Permission",
    "Privilege",
    "Progress",
    "Queued",
    "Started",
    "Starter",
    "Table",
    "Turn",
    "Work",
    "input_schema",
]
