"""The embedded engine fulfills the contract of engines."""

from __future__ import annotations

import pytest

from tests.store.contract import RecordsContract
from tests.store.opening import embedded

pytestmark = pytest.mark.heavy("thousands of records")


class TestEmbedded(RecordsContract):
    engine = staticmethod(embedded)
