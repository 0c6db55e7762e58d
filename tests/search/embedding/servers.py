"""Servers on this machine: a hub of models, and an embedding service, both with faults on demand."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def serving(*routes: web.RouteDef) -> AsyncIterator[str]:
    """Serve on a port of its own; the URL."""
    application = web.Application(client_max_size=1 << 30)
    application.add_routes(routes)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


class FakeHub:
    """Models as huggingface.co serves them: a listing, and files behind a redirect.

    ``asked`` are the requests, ``faults`` are statuses given before anything else, ``cut`` breaks a
    file off after so many bytes, ``cuts`` times.
    """

    def __init__(self) -> None:
        self.models: dict[str, dict[str, bytes]] = {}
        self.large: set[str] = set()
        self.commits: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []
        self.tokens: list[str | None] = []
        self.faults: list[tuple[int, dict[str, str]]] = []
        self.cut: int | None = None
        self.cuts = 1
        self.no_ranges = False
        self.altered: dict[str, Any] = {}

    def add(self, model: str, folder: Path, commit: str = "a" * 40) -> None:
        self.commits[model] = commit
        self.models[model] = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        self.large |= {path for path in self.models[model] if path.endswith((".safetensors", ".onnx"))}

    def serving(self) -> contextlib.AbstractAsyncContextManager[str]:
        return serving(
            web.get("/api/models/{org}/{name}/revision/{revision}", self._faulty(self._listing)),
            web.get("/{org}/{name}/resolve/{commit}/{path:.*}", self._faulty(self._resolve)),
            web.get("/cdn/{org}/{name}/{path:.*}", self._faulty(self._file)),
        )

    def fetched(self, kind: str) -> list[str]:
        return [what for asked, what in self.asked if asked == kind]

    def _faulty(self, handler: Handler) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            self.tokens.append(request.headers.get("Authorization"))
            if self.faults:
                status, headers = self.faults.pop(0)
                return web.Response(status=status, headers=headers)
            return await handler(request)

        return handle

    def _model(self, request: web.Request) -> str:
        model = f"{request.match_info['org']}/{request.match_info['name']}"
        if model not in self.models:
            raise web.HTTPNotFound
        return model

    async def _listing(self, request: web.Request) -> web.Response:
        model = self._model(request)
        revision = request.match_info["revision"]
        self.asked.append(("listing", revision))
        if revision not in ("main", "v1", self.commits[model]) or request.query.get("blobs") != "true":
            raise web.HTTPNotFound
        siblings = [self._sibling(path, content) for path, content in self.models[model].items()]
        return web.json_response(
            {"id": model, "sha": self.commits[model], "siblings": siblings, **self.altered}
        )

    def _sibling(self, path: str, content: bytes) -> dict[str, Any]:
        git = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
        large = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
        entry: dict[str, Any] = {"rfilename": path, "size": len(content), "blobId": git}
        return entry | ({"lfs": large} if path in self.large else {})

    async def _resolve(self, request: web.Request) -> web.Response:
        model, path = self._model(request), request.match_info["path"]
        assert request.match_info["commit"] == self.commits[model]
        raise web.HTTPFound(f"/cdn/{model}/{path}")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        content = self.models[self._model(request)][path]
        asked = request.headers.get("Range", "")
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and not self.no_ranges else 0
        self.asked.append(("file", f"{path}@{start}"))
        answer = web.StreamResponse(status=206 if start else 200)
        answer.content_length = len(content) - start
        if start:
            answer.headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        await answer.prepare(request)
        rest = content[start:]
        if self.cut is not None and self.cuts and path in self.large:
            rest = rest[: self.cut]
            self.cuts -= 1
            await answer.write(rest)
            assert request.transport is not None
            request.transport.close()
            return answer
        await answer.write(rest)
        return answer


class FakeService:
    """An embedding service; a vector is the text's length, its first character, and 1.

    It needs ``seconds`` for each text. ``begun`` is set when a request has come.
    """

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.faults: list[tuple[int, dict[str, str]]] = []
        self.most = 1000
        self.silent = False
        self.unanswered = 0  # requests to come that are never answered
        self.seconds = 0.0  # for each text of a request
        self.stuck: set[str] = set()  # texts that are never answered
        self.refused: set[str] = set()  # texts that are no valid request
        self.begun = asyncio.Event()
        self.answer: Callable[[list[str]], Any] = self.vectors

    def serving(self) -> contextlib.AbstractAsyncContextManager[str]:
        return serving(web.post("/v1/embeddings", self._embeddings))

    @staticmethod
    def vector(text: str) -> list[float]:
        return [float(len(text)), float(ord(text[0]) if text else 0), 1.0]

    def vectors(self, texts: list[str]) -> Any:
        data = [
            {"object": "embedding", "index": place, "embedding": self.vector(text)}
            for place, text in enumerate(texts)
        ]
        return {"object": "list", "data": data[::-1], "model": "m", "usage": {"prompt_tokens": 1}}

    async def _embeddings(self, request: web.Request) -> web.Response:
        self.keys.append(request.headers.get("Authorization"))
        if self.faults:
            status, headers = self.faults.pop(0)
            return web.Response(status=status, headers=headers, text="no such model")
        asked = json.loads(await request.read())
        self.asked.append(asked)
        if len(asked["input"]) > self.most:
            return web.Response(status=413)
        if self.refused & {*asked["input"]}:
            return web.Response(status=400, text="too long")
        self.begun.set()
        await asyncio.sleep(self.seconds * len(asked["input"]))
        if self.unanswered:
            self.unanswered -= 1
            await asyncio.Event().wait()
        if self.silent or self.stuck & {*asked["input"]}:
            await asyncio.Event().wait()
        answer = self.answer(asked["input"])
        return web.Response(body=answer) if isinstance(answer, bytes) else web.json_response(answer)
