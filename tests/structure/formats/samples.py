"""Values as they are written, where code and not a type decides about the form, such as in hashes."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from tabane.access.key_store import hash_of
from tabane.audit.chain import MacChain
from tabane.audit.queries import EntryPlace, UsagePlace, _entries, _groups
from tabane.catalog.operations import tool_operations as tool_pages
from tabane.code.result_types import KeptType, Property, ResultShape, line_of
from tabane.code.sandbox import PausedRun, ScriptSnapshot, packed, signed_by
from tabane.documents.document import SHAPE as DOCUMENTS
from tabane.documents.document_reader import _FOLDER_CURSORS, _PART_CURSORS, PartCursor, _FolderCursor
from tabane.engine import input_checks as record_cursors
from tabane.engine.embedded.collection_state import shape_blob
from tabane.errors import (
    TabaneError,
    UpstreamDied,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from tabane.group.signatures import ForwardedRequest, LinkFrames, LinkHead, session_digest, signed
from tabane.guard.definitions.definition import definition_digest
from tabane.hub.clients.questions.parked_files import CallBinding, CallHandle, HandleSigner
from tabane.hub.group.server_relay import failure_line
from tabane.hub.local import handshake
from tabane.hub.servers.recorded_environment import record_environment
from tabane.hub.sources.embedded_collections import MANUAL
from tabane.messages import Message
from tabane.posts import operations as browsing
from tabane.posts.post import SHAPE as POSTS
from tabane.reader import paging
from tabane.reader.page import SHAPE as PAGES
from tabane.search.embedding.model_files import Recipe
from tabane.servers.projects.project_servers import ProjectFile, ProjectTrust
from tabane.servers.redaction import fingerprint
from tabane.wire.cursors import list_cursor
from tabane.wire.json import argument_digest
from tabane.workers import frames

KEY = bytes(range(32))
SHAPES = (POSTS, DOCUMENTS, PAGES, MANUAL)


def samples() -> dict[str, Any]:
    """Return a value of each form that a function makes of fixed parts."""
    return {**_lines(), **_files(), **_cursors(), **_signatures(), **_hashes(), **_frames()}


def _lines() -> dict[str, Any]:
    texts = {"en": "no", "ja": "否"}
    failures: tuple[type[TabaneError], ...] = (
        UpstreamDied, UpstreamOverloaded, UpstreamTimeout, UpstreamUnavailable, UpstreamError,
    )  # fmt: skip
    inner = Message("{count} {count:tool|tools}", count=2)
    return {
        "hello": handshake.encode(handshake.Hello("0.1", "mcp", roots=("file:///a",))).decode(),
        "welcome": handshake.encode(handshake.Welcome("0.1", 7)).decode(),
        "refusal of a hello": handshake.encode(handshake.HelloRefused("why", texts)).decode(),
        "drain, held, begun": [handshake.DRAIN.decode(), handshake.HELD.decode(), handshake.BEGUN.decode()],
        "reason of a request that was not begun": handshake.DRAINING,
        "failures on a link": [
            [kind, line.decode()]
            for kind, line in (failure_line(7, each(Message("no {why}", why=inner))) for each in failures)
        ],
    }


def _files() -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        home = Path(folder).resolve() / "home"
        home.mkdir(mode=0o700)
        ProjectTrust(home).add(
            [ProjectFile("/project", ".mcp.json", b'{"mcpServers": {"a": {"command": "b"}}}')]
        )
        record_environment(home, {"PATH": "/usr/bin", "HTTPS_PROXY": "http://proxy.test:3128"})
        found = {path.name: path.read_text() for path in home.iterdir() if path.suffix != ".lock"}
    counted = ResultShape(8, names={})
    shape = ResultShape(32, objects=2, names={"id": Property(counted, 2, frozenset((1, 2)))})
    paused = ScriptSnapshot("s", "local", "code", PausedRun(b"state", "", (), (), 0, 0, 0, 1.0), 1.0, 2.0)
    return {
        "trusted projects": found.pop("projects.json"),
        "recorded environment": found.pop("environment"),
        "other files of both": found,
        "learned type": line_of(KeptType("local", "a", "b", "d", 2), shape).decode(),
        "paused script": packed(paused, "1 2", signed_by(KEY)).hex(),
        "shapes of collections": {shape.name: shape_blob(shape).decode() for shape in SHAPES},
    }


def _cursors() -> dict[str, Any]:
    return {
        "cursor of a list": list_cursor("tools", "a"),
        "cursor of tools": tool_pages._CODEC.encode(tool_pages.ToolPlace("a", "b")),
        "cursor of records": record_cursors._CURSORS.encode(
            record_cursors.RecordsCursor("a", (1, None), "k")
        ),
        "cursor of counted posts": browsing._PLACES.encode(browsing.CountedPlace(3, "a")),
        "cursor of audit entries": _entries.encode(EntryPlace(5)),
        "cursor of usage": _groups.encode(UsagePlace(5)),
        "cursor of a page": paging._CURSORS.encode(paging.PageCursor(1, "markdown", True, 9, b"p", b"u")),
        "cursor of a folder": _FOLDER_CURSORS.encode(_FolderCursor("folders", "a")),
        "cursor of a document": _PART_CURSORS.encode(PartCursor("m", 1)),
    }


def _signatures() -> dict[str, Any]:
    signer = HandleSigner(KEY)
    binding = CallBinding("local", b"tools/call", "a__b", b"digest")
    forwarded = ForwardedRequest("a", "b", 1, 2.0, "local", False, b"digest")
    return {
        "mark of a hub": signer.hub,
        "handle of a call": signer.sign(CallHandle("0123456789abcdef", 1, 2), binding),
        "signed request": signed(KEY, forwarded, "POST", "/mcp", [("a", "b")]),
        "session in the shared state": session_digest("a.b.c"),
        "message on a link": LinkFrames(KEY, "o", runs=True).sealed(LinkHead(1, session="s"), b"{}").hex(),
        "mac of an audit entry": MacChain(KEY).mac(b"previous", b"body").hex(),
    }


def _hashes() -> dict[str, Any]:
    values = {"command": "uvx", "args": ["a", "--token=x"], "env": {"A": "b"}, "inherit": ["C"]}
    return {
        "hash of a key": hash_of("tbn_abc_secret").hex(),
        "fingerprint of a server": fingerprint("stdio", values),
        "fingerprint of a model": Recipe("model", "revision", topic="t").fingerprint(384),
        "digest of a definition": definition_digest("tool", b'{"name": "a", "inputSchema": {}}').hex(),
        "digest of arguments": argument_digest(b'{"b": 1, "a": [1.5]}').hex(),
    }


def _frames() -> dict[str, Any]:
    refusal = frames.WorkerRefusal("why", "package")
    message = Message("{a} {b}", a=Message("x"), b=1)
    return {
        "request to a worker": frames.request(5, 1.5, number=2, urgent=True).hex(),
        "answer of a worker": frames.answer(5, kind=frames.AnswerKind.REFUSED, number=2).hex(),
        "refusal of a worker": msgspec.msgpack.encode(refusal).hex(),
        "message in transit": msgspec.json.encode(message, enc_hook=frames.encode_message).decode(),
    }
