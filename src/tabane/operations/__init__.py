"""Operations, and the door through which every face calls them."""

from tabane.operations.caller import LOCAL, METRICS, SOURCES, Access, Caller, CallTarget, Face, Privilege
from tabane.operations.door import Door
from tabane.operations.jobs import Progress, Queued, Started, Starter, StreamPart, Work
from tabane.operations.metering import UNMETERED, CallMarks, CallMeter, NoMeter, OpenCall, Outcome, ended
from tabane.operations.operation import (
    EVERYONE,
    PEOPLE,
    Lazy,
    NoParameters,
    Opener,
    Operation,
    OperationTable,
    Reference,
    bound,
    input_schema,
)

__all__ = [
    "EVERYONE",
    "LOCAL",
    "METRICS",
    "PEOPLE",
    "SOURCES",
    "UNMETERED",
    "Access",
    "CallMarks",
    "CallMeter",
    "CallTarget",
    "Caller",
    "Door",
    "Face",
    "Lazy",
    "NoMeter",
    "NoParameters",
    "OpenCall",
    "Opener",
    "Operation",
    "OperationTable",
    "Outcome",
    "Privilege",
    "Progress",
    "Queued",
    "Reference",
    "Started",
    "Starter",
    "StreamPart",
    "Work",
    "bound",
    "ended",
    "input_schema",
]
