"""A server like the original twilog's: the archive's methods over a WebSocket, nothing else.

It answers from a few fixed posts, and records its requests.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

POST = {
    "post_id": 1,
    "content": "赤い猫\n\nが家にいる",
    "timestamp": "2024-03-15 14:30:25",
    "url": "https://twitter.com/alice/status/1",
    "user": "alice",
}


class TwilogServer:
    """The methods by name; each takes its parameters as keywords and raises TypeError for others."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.port = 0

    def search_similar(
        self, query: str, settings: Any = None, mode: str = "content", weights: Any = None
    ) -> Any:
        if query == "nothing":
            return []
        return [{"rank": 1, "score": 0.87912, "post": POST | {"tags": ["猫"], "reasoning": "because"}}]

    def search_posts_by_text(self, search_term: str, limit: int = 50, source: str = "content") -> Any:
        return [POST | {"user": None}] if search_term in POST["content"] else []  # type: ignore[operator]

    def get_user_stats(self, limit: int = 50) -> Any:
        return [{"user": "alice", "post_count": 1234}][:limit]

    def get_database_stats(self) -> Any:
        period = {"earliest": "2023-01-01 00:00:00", "latest": "2024-12-31 00:00:00"}
        return {"total_posts": 220_000, "total_users": 1, "date_range": period}

    def suggest_users(self, user_list: list[str]) -> Any:
        return {name: ["alice"] for name in user_list if name != "alice"}

    def get_status(self) -> Any:
        return {"status": "running", "ready": True, "server_type": "TwilogServer", "model": "ruri"}

    def embed_text(self, text: str) -> Any:
        return {"vector": "QUJD" * 1024}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(request)
        head = {"jsonrpc": "2.0", "id": request.get("id")}
        method = getattr(self, request["method"], None) if request["method"] in _METHODS else None
        if method is None:
            return head | {"error": {"code": -32601, "message": f"Method not found: {request['method']}"}}
        try:
            return head | {"result": method(**request.get("params", {}))}
        except Exception as error:  # as the original does
            return head | {"error": {"code": -32603, "message": str(error)}}

    def serve(self, connection: ServerConnection) -> None:
        try:
            for message in connection:
                connection.send(json.dumps(self.answer(json.loads(message)), ensure_ascii=False))
        except ConnectionClosed:
            return


_METHODS = frozenset(
    (
        "search_similar",
        "search_posts_by_text",
        "get_user_stats",
        "get_database_stats",
        "suggest_users",
        "get_status",
        "embed_text",
    )
)


@contextmanager
def twilog_server(port: int = 0) -> Iterator[TwilogServer]:
    """Run such a server during the block."""
    played = TwilogServer()
    with serve(played.serve, "127.0.0.1", port) as server:
        played.port = server.socket.getsockname()[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield played
        finally:
            server.shutdown()
            thread.join()
