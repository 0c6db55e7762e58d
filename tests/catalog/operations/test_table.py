"""The table of operations is cheap: handlers are imported with the first call."""

from __future__ import annotations

import subprocess
import sys

HANDLERS = {
    "tabane.catalog.operations.definition_operations",
    "tabane.catalog.operations.offer_operations",
    "tabane.catalog.operations.server_operations",
    "tabane.catalog.operations.tool_operations",
}

DECLARE = """
import sys
from tabane.catalog.operations.table import gateway_table
table = gateway_table(*[None] * 6)
print(len(table), *sys.modules)
"""


def test_declaring_the_operations_imports_no_handler() -> None:
    command = [sys.executable, "-c", DECLARE]
    count, *modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(count) > 20
    assert not HANDLERS & set(modules)
    assert "tabane.catalog.gateway" not in modules
