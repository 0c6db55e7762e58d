"""A process that writes an audit log as fast as it can, and prints the number of each acknowledged entry."""

from __future__ import annotations

import asyncio
import os
import sys

from tabane.audit.entry import AuditOptions
from tabane.audit.log import AuditLog
from tests.audit.written_log import CALLER, TARGET


async def main(home: str) -> None:
    log = AuditLog(home, AuditOptions(size=64 << 10), asyncio.get_running_loop())
    number = log.head.seq
    while True:
        number += 1
        log.record(CALLER, TARGET, log.prepare(b'{"a":1}'), str(number))
        os.write(1, b"%d\n" % number)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
