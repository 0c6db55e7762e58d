"""Quality against its floor: ``python -m tests.guard.scanner [--raise | --lower REASON]``."""

from __future__ import annotations

import argparse

import msgspec

from tests.guard.scanner import floor


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.guard.scanner", description=__doc__)
    parser.add_argument("--raise", dest="up", action="store_true", help="make what is reached now the floor")
    parser.add_argument("--lower", metavar="REASON", help="the same where it is less, and write down why")
    options = parser.parse_args()
    step = floor.reached()
    print(step)
    if options.lower:
        floor.add(msgspec.structs.replace(step, reason=options.lower))
    elif options.up:
        if floor.FILE.exists() and step.takes_back(floor.read()[-1]):
            parser.error("this is lower than the floor: --lower REASON")
        floor.add(step)


if __name__ == "__main__":
    main()
