"""What an operation is, and the one door through which every face calls it."""

from tabane.operations.door import AllowLocal, Caller, Door, Face, Permission, Privilege
from tabane.operations.operation import Operation, Table, input_schema

__all__ = [
    "AllowLocal",
    "Caller",
    "Door",
    "Face",
    "Operation",
    "Permission",
    "Privilege",
    "Table",
    "input_schema",
]
