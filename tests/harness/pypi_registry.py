"""A registry of Python packages on the loopback interface that can be slow."""

from __future__ import annotations

import base64
import hashlib
import io
import sys
import time
import zipfile
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.harness.package_registry import PackageRegistry

SERVER = """import json
import sys

import parts_of_it


def send(id, **members):
    print(json.dumps({"jsonrpc": "2.0", "id": id, **members}), flush=True)


def main():
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        match asked["method"]:
            case "initialize":
                about = {"name": "from PyPI", "version": "1"}
                send(asked["id"], result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                          "serverInfo": about})
            case "tools/list":
                tool = {"name": "count", "inputSchema": {"type": "object"}}
                send(asked["id"], result={"tools": [tool]})
            case "tools/call":
                text = f"parts: {parts_of_it.COUNT}"
                send(asked["id"], result={"content": [{"type": "text", "text": text}]})
            case "ping":
                send(asked["id"], result={})
            case _:
                send(asked["id"], error={"code": -32601, "message": "no"})
"""

PARTS = 300
"""Files of the dependency: their installation takes time, in which uv can be killed."""


def _wheel(name: str, metadata: str, files: dict[str, str]) -> bytes:
    info = f"{name}-1.0.0.dist-info"
    files = {
        **files,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},{_record(text)},{len(text.encode())}\n" for path, text in files.items())
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return out.getvalue()


def _record(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _metadata(name: str, *needs: str) -> str:
    wanted = "".join(f"Requires-Dist: {need}\n" for need in needs)
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n{wanted}"


class PypiRegistry(PackageRegistry):
    """Serves ``server-of-it``, an MCP server, and its dependency ``parts-of-it``, as wheels.

    Each answer takes ``delay`` seconds, and wheels ``slowness`` more in ten pieces.
    """

    def __init__(self, *, delay: float = 0.0, slowness: float = 0.0) -> None:
        super().__init__(delay=delay, slowness=slowness)
        parts = {f"parts_of_it/part{n}.py": f"VALUE = {n}\n" for n in range(PARTS)}
        wanted = "".join(f"from parts_of_it import part{n}\n" for n in range(PARTS))
        entry = "server_of_it-1.0.0.dist-info/entry_points.txt"
        self._metadata = {
            "parts_of_it": _metadata("parts-of-it"),
            "server_of_it": _metadata("server-of-it", "parts-of-it"),
        }
        code = {
            "parts_of_it": {**parts, "parts_of_it/__init__.py": f"{wanted}COUNT = {PARTS}\n"},
            "server_of_it": {
                "server_of_it.py": SERVER,
                entry: "[console_scripts]\nserver-of-it = server_of_it:main\n",
            },
        }
        self._wheels = {name: _wheel(name, self._metadata[name], files) for name, files in code.items()}

    @property
    def server(self) -> dict[str, Any]:
        """The definition of the server, as a user writes it."""
        return {
            "command": "uvx",
            "args": ["server-of-it"],
            "env": {
                "UV_DEFAULT_INDEX": f"{self.url}simple/",
                "UV_PYTHON": sys.executable,
                "UV_PYTHON_DOWNLOADS": "never",
                "UV_NO_CONFIG": "1",
            },
        }

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        time.sleep(self.delay)
        parts = request.path.strip("/").split("/")
        name = parts[1].split("-1.0.0")[0].replace("-", "_") if len(parts) > 1 else ""
        try:
            if name not in self._wheels:
                request.send_error(404)
            elif parts[0] == "simple":
                self.send(request, self._page(name), "text/html")
            elif parts[1].endswith(".metadata"):
                self.send(request, self._metadata[name].encode(), "application/octet-stream")
            else:
                self.send_slowly(request, self._wheels[name])
        except OSError:
            pass  # the client was killed

    def _page(self, name: str) -> bytes:
        file = f"{name}-1.0.0-py3-none-any.whl"
        wheel = hashlib.sha256(self._wheels[name]).hexdigest()
        metadata = hashlib.sha256(self._metadata[name].encode()).hexdigest()
        link = f'<a href="/files/{file}#sha256={wheel}" data-core-metadata="sha256={metadata}">{file}</a>'
        return f"<!DOCTYPE html><html><body>{link}</body></html>".encode()
