"""Documents put and searched by programs over POST and WebSocket, which requires the token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from tabane.operations import Face
from tests.harness.http_hub import HttpHub, http_hub, request

DOCUMENT = {"filepath": "会議/一.md", "text": "# 議事録\n\n青いほうを選んだ。", "metadata": {"year": 2026}}

OTHERS = ("search", "search_everything", "put_file", "list_watched", "import_chroma", "hello")


def sockets(here: HttpHub) -> str:
    return f"ws://127.0.0.1:{here.door.port}/"


async def post(here: HttpHub, method: str, params: Any, **headers: str | None) -> Any:
    peer = await here.peer()
    answer = await peer.post(request(method, params), "/rpc", **headers)
    assert answer.status == 200
    return answer.json


async def test_a_document_that_was_put_by_post_is_found_over_a_websocket(tmp_path: Path) -> None:
    async with http_hub(tmp_path) as here:
        put = await post(here, "put_document", DOCUMENT)
        assert put["result"]["status"] == "success"
        headers = {"authorization": str(here.bearer)}
        async with connect(sockets(here), additional_headers=headers) as client:
            for method in ("search", "search_documents"):
                await client.send(json.dumps(request(method, {"query": "青い", "top_k": 1})))
                found = json.loads(await client.recv())["result"]
                assert (found["status"], found["count"]) == ("success", 1)
                (hit,) = found["results"]
                assert hit["filepath"] == DOCUMENT["filepath"]
                assert hit["document"] == DOCUMENT["text"]  # programs get the text, as they always did
                assert set(hit["metadata"]) >= {"filepath", "updated_at", "file_type", "year"}
                assert isinstance(hit["score"], float)
        failed = await post(here, "put_document", {"filepath": "../x", "text": "x"})
        assert failed["result"]["status"] == "error"
        assert failed["result"]["error_type"] == "ValidationError"
        everything = await post(here, "search_everything", {"query": "議事録", "in": ["documents"]})
        assert [hit["key"] for hit in everything["result"]["results"]] == [DOCUMENT["filepath"]]


async def test_without_the_token_no_document_is_reached(tmp_path: Path) -> None:
    async with http_hub(tmp_path) as here:
        await post(here, "put_document", DOCUMENT)
        methods = [
            operation.name
            for operation in here.hub.table.with_face(Face.RPC)
            if "document" in operation.name or operation.name in OTHERS
        ]
        assert len(methods) > 12
        async with connect(sockets(here)) as client:
            for method in methods:
                params = {"query": "青い", "filepath": "会議/一.md"}
                answer = await post(here, method, params, authorization=None)
                assert answer["error"]["code"] == -31403, method
                await client.send(json.dumps(request(method, params)))
                assert json.loads(await client.recv())["error"]["code"] == -31403, method
        peer = await here.peer()
        for path in ("/mcp", "/mcp/full"):
            read = request("resources/read", {"uri": "tabane://documents/a"})
            assert (await peer.post(read, path, authorization=None)).status == 401


@pytest.mark.parametrize("method", ["search", "search_documents"])
async def test_where_nothing_was_ever_put_nothing_is_found(tmp_path: Path, method: str) -> None:
    async with http_hub(tmp_path) as here:
        empty = await post(here, method, {"query": "anything"})
        assert (empty["result"]["status"], empty["result"]["count"]) == ("success", 0)
