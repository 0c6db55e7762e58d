"""A package index on the loopback interface with releases of Tabane, by the simple repository API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.harness.package_registry import PackageRegistry

JSON = "application/vnd.pypi.simple.v1+json"


class ReleaseIndex(PackageRegistry):
    """Serves the page of Tabane and the wheels of a folder. ``files`` are members of further files.

    ``asked`` are the paths of requests, and ``html`` whether the page is HTML, as in older indexes.
    """

    def __init__(
        self, files: Sequence[Mapping[str, Any]] = (), folder: Path | None = None, *, html: bool = False
    ) -> None:
        super().__init__()
        self._folder, self._html = folder, html
        wheels = [] if folder is None else [{"filename": path.name} for path in folder.glob("*.whl")]
        self._files = [
            {"url": f"/files/{file['filename']}", "hashes": {}, **file} for file in (*files, *wheels)
        ]
        self.asked: list[str] = []

    @property
    def simple(self) -> str:
        """The address that installers are given."""
        return f"{self.url}simple"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.asked.append(request.path)
        if request.path.startswith("/files/") and self._folder is not None:
            data = (self._folder / request.path.rpartition("/")[2]).read_bytes()
            self.send(request, data, "application/octet-stream")
        elif request.path != "/simple/tabane/" or not self._files:
            request.send_error(404)
        elif self._html:
            links = "".join(f'<a href="{file["url"]}">{file["filename"]}</a><br>' for file in self._files)
            self.send(request, f"<!DOCTYPE html><html><body>{links}</body></html>".encode(), "text/html")
        else:
            page = {"meta": {"api-version": "1.0"}, "name": "tabane", "files": self._files}
            self.send(request, json.dumps(page).encode(), JSON)
