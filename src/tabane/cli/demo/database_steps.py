"""Steps with the database that keeps the demo's posts, documents and pages: a schema of its own in it."""

from __future__ import annotations

import time

from tabane.cli.demo.steps import DemoPage
from tabane.errors import TabaneError
from tabane.hub.stores.temporary_schema import TemporarySchema
from tabane.messages import say

VARIABLE = "DEMO_ENGINE"
"""The variable of the demo's hub that has the URL with the password."""


class DemoDatabase:
    """Shows where the demo's data is kept, and deletes it."""

    def __init__(self, page: DemoPage, schema: TemporarySchema) -> None:
        self._page, self._schema = page, schema
        self._created = False

    @property
    def url(self) -> str:
        """Return the URL with the password."""
        return self._schema.url

    def create(self) -> bool:
        """Create the schema. Return False if the database cannot be used."""
        self._page.chapter(say("A database that keeps posts, documents and pages"))
        began = time.perf_counter()
        self._created = True  # perhaps, if this is interrupted
        report = self._schema.create()
        self._created = report["state"] == "ok"
        if self._created:
            versions = f"{report['server']}, pgvector {report['pgvector']}: {report['path']}"
            self._page.done("engine", versions, time.perf_counter() - began)
        else:
            self._page.failed("engine", report["error"])
        return self._created

    def drop(self) -> None:
        """Delete the schema. Nothing may use it any more. A second call does nothing."""
        if not self._created:
            return
        self._created, began = False, time.perf_counter()
        try:
            self._schema.drop()
        except TabaneError as error:
            self._page.failed("DROP SCHEMA", error.message)
            return
        text = say("the schema {name} was deleted from the database", name=self._schema.name)
        self._page.done("DROP SCHEMA", text, time.perf_counter() - began)

    def keep(self) -> None:
        """Leave the schema, and say so."""
        if self._created:
            self._created = False
            self._page.aside(say("The schema {name} was kept in the database.", name=self._schema.name))
