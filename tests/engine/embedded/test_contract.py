"""The embedded engine fulfills the contract of engines."""

from __future__ import annotations

import pytest

from tests.engine.embedded.contract import RecordsContract
from tests.engine.embedded.opening import embedded

pytestmark = pytest.mark.heavy("thousands of records")


class TestEmbedded(RecordsContract):
    engine = staticmethod(embedded)
