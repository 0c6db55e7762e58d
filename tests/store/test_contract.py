"""The embedded engine fulfills the contract of engines."""

from __future__ import annotations

from tests.store.contract import RecordsContract
from tests.store.opening import embedded


class TestEmbedded(RecordsContract):
    engine = staticmethod(embedded)
