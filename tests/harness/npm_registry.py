"""A registry of npm packages on the loopback interface that can be slow or stall."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.harness.package_registry import PackageRegistry

SERVER = """#!/usr/bin/env node
const parts = require('npm-parts-of-it');
const send = (id, result) => process.stdout.write(JSON.stringify({jsonrpc: '2.0', id, result}) + '\\n');
require('readline').createInterface({input: process.stdin}).on('line', line => {
  const {id, method} = JSON.parse(line);
  if (method === 'initialize') send(id, {protocolVersion: '2025-06-18', capabilities: {tools: {}},
    serverInfo: {name: 'from npm', version: '1'}});
  else if (method === 'tools/list') send(id, {tools: [{name: 'count', inputSchema: {type: 'object'}}]});
  else if (method === 'tools/call') send(id, {content: [{type: 'text', text: 'parts: ' + parts}]});
  else if (method === 'ping') send(id, {});
  else if (id !== undefined) process.stdout.write(
    JSON.stringify({jsonrpc: '2.0', id, error: {code: -32601, message: 'no'}}) + '\\n');
});
"""

PARTS = 300
"""Files of the dependency: their extraction takes time, in which npm can be killed."""


def _tarball(name: str, about: dict[str, object], files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path, text in {"package.json": json.dumps({"name": name, **about}), **files}.items():
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size, entry.mode = len(text.encode()), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(out.getvalue(), 1)


class NpmRegistry(PackageRegistry):
    """Serves ``npm-server-of-it``, an MCP server, and its dependency ``npm-parts-of-it``.

    Each answer takes ``delay`` seconds, and tarballs ``slowness`` more in ten pieces. ``stalls`` holds every
    tarball back until it is cleared. ``installs`` is what
    the dependency runs while npm installs it. ``authorized`` has the ``Authorization``
    header of each request.
    """

    def __init__(self, *, delay: float = 0.0, slowness: float = 0.0, installs: str = "") -> None:
        super().__init__(delay=delay, slowness=slowness)
        self.requests: list[str] = []
        self.authorized: list[str | None] = []
        parts = {f"part{n}.js": f"module.exports = {n};\n" for n in range(PARTS)}
        wanted = "".join(f"require('./part{n}.js');" for n in range(PARTS))
        dependency: dict[str, object] = {"version": "1.0.0", "main": "index.js"}
        if installs:
            dependency |= {"scripts": {"postinstall": installs}, "hasInstallScript": True}
        needed = {"npm-parts-of-it": "^1.0.0"}
        program: dict[str, object] = {"version": "1.0.0", "bin": "cli.js", "dependencies": needed}
        self._packages = {
            "npm-parts-of-it": (
                dependency,
                _tarball("npm-parts-of-it", dependency,
                         {**parts, "index.js": f"{wanted} module.exports = {PARTS};"}),
            ),
            "npm-server-of-it": (program, _tarball("npm-server-of-it", program, {"cli.js": SERVER})),
        }  # fmt: skip

    @property
    def server(self) -> dict[str, Any]:
        """The definition of the server, as a user writes it."""
        return {
            "command": "npx",
            "args": ["-y", "npm-server-of-it"],
            "env": {"npm_config_registry": self.url, "npm_config_update_notifier": "false"},
        }

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.requests.append(request.path)
        self.authorized.append(request.headers.get("Authorization"))
        time.sleep(self.delay)
        name = request.path.strip("/").split("/")[0]
        about, tarball = self._packages.get(name, ({}, b""))
        try:
            if not about:
                request.send_error(404)
            elif request.path.endswith(".tgz"):
                self.send_slowly(request, tarball)
            else:
                body = json.dumps(self._document(name, about, tarball)).encode()
                self.send(request, body, "application/json")
        except OSError:
            pass  # the client was killed

    def _document(self, name: str, about: dict[str, object], tarball: bytes) -> dict[str, object]:
        sums = base64.b64encode(hashlib.sha512(tarball).digest()).decode()
        dist = {"tarball": f"{self.url}{name}/-/{name}.tgz", "integrity": f"sha512-{sums}"}
        bins = {"bin": {name: about["bin"]}} if "bin" in about else {}
        version = {"name": name, **about, **bins, "dist": dist}
        return {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
