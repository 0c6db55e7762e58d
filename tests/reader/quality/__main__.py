"""Quality of reading against its floor: ``python -m tests.reader.quality [--raise | --lower REASON]``."""

from __future__ import annotations

import argparse
import statistics
import sys

from tests.reader.quality import floor
from tests.reader.quality.corpus import digest, measured


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.reader.quality", description=__doc__)
    parser.add_argument("--raise", dest="up", action="store_true", help="make what is reached now the floor")
    parser.add_argument("--lower", metavar="REASON", help="the same where it is less, and write down why")
    options = parser.parse_args(arguments)
    readings = measured()
    for reading in readings:
        print(f"{reading.name:14s} F1 {reading.f1:.3f}  structure {reading.structure:.3f}", *reading.missing)
    step = floor.Step(
        digest(),
        floor.floored(statistics.mean(reading.f1 for reading in readings)),
        floor.floored(statistics.mean(reading.structure for reading in readings)),
    )
    print(f"F1 {step.f1:.3f}, structure {step.structure:.3f}")
    steps = floor.read() if floor.FILE.exists() else []
    try:
        if options.lower is not None:
            floor.write(floor.lowered(steps, step, options.lower))
        elif options.up:
            floor.write(floor.raised(steps, step))
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
