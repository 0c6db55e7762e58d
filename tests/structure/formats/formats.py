"""Everything that is written to disk, or passes between processes that may be of different builds.

Each format has a logical name, under which formats.json describes it. A class may be renamed and moved: this
table then names it differently, and formats.json stays as it is.

``python -m tests.structure.formats.formats`` writes formats.json. Whoever changes a format on purpose says
with the change how builds before it read what is written now, and how this one reads what they wrote.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tabane.access.passphrase import PassphraseRecord
from tabane.audit.entry import AuditEntry
from tabane.audit.index_requests import (
    CatchUp,
    EntryCounts,
    EntryFilter,
    EntryQuery,
    IndexAnswer,
    IndexRequest,
    NewestEntry,
    UsageDays,
    UsageOfDay,
    UsageQuery,
)
from tabane.audit.queries import EntryPlace, UsagePlace
from tabane.catalog.operations.tool_operations import ToolPlace
from tabane.catalog.results.result_query import QueryAnswer, ResultQuery
from tabane.catalog.tools.argument_errors import ValidationRequest, ValidationResult
from tabane.code.host_messages import (
    Begin,
    Dump,
    HostCalled,
    HostDumped,
    HostFailed,
    HostFinished,
    HostGreeting,
    HostWaiting,
    Judged,
    Leave,
    ScriptLimits,
    SentResult,
    Settle,
)
from tabane.code.result_types import KeptType
from tabane.code.sandbox import AskedCall, HeldCall, PausedRun, ScriptSnapshot
from tabane.documents.document import ChunkSpan, Document
from tabane.documents.document_reader import PartCursor, _FolderCursor
from tabane.documents.files.file_operations import WatchedFolders
from tabane.documents.files.readable_files import DocumentFolder, FileSource
from tabane.engine.collection_replica import ReplicaMark
from tabane.engine.embedded.clean_points import FileState, LogEnd
from tabane.engine.embedded.lexical.analysis_worker import AnalysisRequest
from tabane.engine.embedded.lexical.tantivy_index import IndexWatermark
from tabane.engine.embedded.vectors.space_files import CodeState, OwnersStamp, _OwnersHeader
from tabane.engine.embedded.vectors.vector_search import (
    MappedArray,
    SentMatches,
    SentMoment,
    SentQuestion,
    SentSpace,
)
from tabane.engine.input_checks import RecordsCursor
from tabane.group.profile_changes import ProfileChange, ProfileTable
from tabane.group.signatures import ForwardedRequest, LinkHead
from tabane.guard.approvals.approvals import Approval, ApprovalBinding, ApprovalReason, ApprovalTrail
from tabane.guard.definitions.definition import KeptFinding
from tabane.guard.definitions.pins import PinState
from tabane.guard.scanner.findings import Finding
from tabane.guard.scanner.scan_requests import ScanRequest
from tabane.hub.backup.archive_format import BackupManifest, BackupMember
from tabane.hub.backup.restore_journal import FileExchange, RestoreJournal
from tabane.hub.clients.questions.parked_files import StoredCall, StoredQuestion
from tabane.hub.local.connector import LaunchOutcome
from tabane.hub.local.handshake import Hello, Welcome
from tabane.hub.local.lock import LockHolder
from tabane.hub.people.approvals.past_decisions import ToolDecisions
from tabane.hub.people.flows.flow_files import TrailLine, WrittenLine
from tabane.hub.process.home_version import HomeStamp
from tabane.hub.sources.models.model_records import ModelRecord, _ModelRecordsFile
from tabane.hub.work.tasks import KeptTask
from tabane.operations import CallTarget
from tabane.operations.door import JudgedTarget
from tabane.posts.operations import CountedPlace
from tabane.posts.post import _PostPayload
from tabane.reader.conversion import CleaningRequest, ConversionFailure, ConversionRequest, ConvertedPage
from tabane.reader.cookies import CookieJar, ImportedCookie
from tabane.reader.crawling.site_file import KeptResponse
from tabane.reader.page import Page, Picture
from tabane.reader.page_records import PageHead, PassageSpan
from tabane.reader.paging import PageCursor
from tabane.reader.rendering.page_visit import BrowserExit
from tabane.search.embedding.model_families import Pooling
from tabane.search.embedding.model_files import Recipe
from tabane.search.embedding.process_requests import (
    DownloadFailure,
    DownloadSettings,
    EmbeddingRequest,
    FileRequest,
    FileStored,
    HubFile,
    ListRequest,
    ModelListing,
    ModelSpec,
    TokenizerSpec,
)
from tabane.search.engine import Combination
from tabane.search.records import EmbeddingSpace, Field, Kind, Shape, TextField
from tabane.servers.assistants.restoration import EntryChange, FileBackup
from tabane.upstreams.call import SessionPosition
from tabane.upstreams.logins.login_book import KeptClient, KeptLogin, KeptTokens, _LoginDocument
from tabane.web.markdown_worker import MarkdownRequest, MarkdownResult, OutlineEntry
from tabane.web.sessions import WebSession
from tabane.workers.frames import AnswerKind, SentMessage, WorkerRefusal
from tests.structure.formats.constants import constants
from tests.structure.formats.description import Descriptions
from tests.structure.formats.samples import samples
from tests.structure.formats.statements import statements

DATA = Path(__file__).with_name("formats.json")

BETWEEN_PROCESSES: dict[str, Any] = {
    "hello of a client": Hello,
    "welcome of a hub": Welcome,
    "outcome of a launch": LaunchOutcome,
}
"""Between a bridge or a command and a hub."""

FILES: dict[str, Any] = {
    "stamp of a home": HomeStamp,
    "note in the lock file": LockHolder,
    "parked call": StoredCall,
    "parked question": StoredQuestion,
    "position in a session": SessionPosition,
    "paused script": ScriptSnapshot,
    "paused run": PausedRun,
    "call of a paused script": HeldCall,
    "call of a paused script that was asked about": AskedCall,
    "target of a call": CallTarget,
    "task": KeptTask,
    "response of a page of a site": KeptResponse,
    "trail": TrailLine,
    "written texts": WrittenLine,
    "pairs by holder": dict[str, frozenset[str]],
    "approvals": tuple[Approval, ...],
    "approval": Approval,
    "binding of an approval": ApprovalBinding,
    "reason of an approval": ApprovalReason,
    "trail before an approval": ApprovalTrail,
    "target of an approved call": JudgedTarget,
    "decisions by tool": dict[str, ToolDecisions],
    "decisions about a tool": ToolDecisions,
    "passphrase": PassphraseRecord,
    "model records": _ModelRecordsFile,
    "model record": ModelRecord,
    "learned type": KeptType,
    "logins": _LoginDocument,
    "login": KeptLogin,
    "client of a login": KeptClient,
    "tokens of a login": KeptTokens,
    "browser sessions": list[WebSession],
    "browser session": WebSession,
    "changes of profiles": list[ProfileChange],
    "change of a profile": ProfileChange,
    "profile": ProfileTable,
    "finding of a pin": KeptFinding,
    "state of a pin": PinState,
    "audit entry": AuditEntry,
    "manifest of a backup": BackupManifest,
    "member of a backup": BackupMember,
    "journal of a restore": RestoreJournal,
    "backup of an assistant's file": FileBackup,
    "entry that a setup changed": EntryChange,
    "exchange of a file": FileExchange,
    "cookies of a host": CookieJar,
    "cookie": ImportedCookie,
    "watched folders": WatchedFolders,
    "watched folder": DocumentFolder,
    "file of a document": FileSource,
    "payload of a post": _PostPayload,
    "head of a document": Document,
    "span of a chunk": ChunkSpan,
    "head of a page": PageHead,
    "span of a passage": PassageSpan,
    "replica": ReplicaMark,
    "shape of a collection": Shape,
    "text of a shape": TextField,
    "field of a shape": Field,
    "kind of a field": Kind,
    "space of a shape": EmbeddingSpace,
    "clean point of a database": FileState,
    "end of a log": LogEnd,
    "watermark of a lexical index": IndexWatermark,
    "codes of a space": CodeState,
    "header of the rows of vectors": _OwnersHeader,
    "stamp of the rows of vectors": OwnersStamp,
    "facts of a fingerprint": Recipe,
    "pooling of a model": Pooling,
}
"""In a home, a database, a keyring or a backup."""

CURSORS: dict[str, Any] = {
    "cursor of tools": ToolPlace,
    "cursor of records": RecordsCursor,
    "cursor of counted posts": CountedPlace,
    "cursor of audit entries": EntryPlace,
    "cursor of usage": UsagePlace,
    "cursor of a page": PageCursor,
    "cursor of a folder": _FolderCursor,
    "cursor of a document": PartCursor,
}
"""Clients keep them longer than a hub runs."""

GROUP: dict[str, Any] = {
    "forwarded request": ForwardedRequest,
    "head on a link": LinkHead,
    "messages of a session": tuple[bytes, ...],
}
"""Between the hubs of a group."""

WORKERS: dict[str, Any] = {
    "kind of an answer of a worker": AnswerKind,
    "refusal of a worker": WorkerRefusal,
    "message in transit": SentMessage,
    "script host: greeting": HostGreeting,
    "script host: begin": Begin,
    "script host: limits": ScriptLimits,
    "script host: result of a call": SentResult,
    "script host: judged": Judged,
    "script host: settle": Settle,
    "script host: dump": Dump,
    "script host: leave": Leave,
    "script host: called": HostCalled,
    "script host: waiting": HostWaiting,
    "script host: finished": HostFinished,
    "script host: dumped": HostDumped,
    "script host: failed": HostFailed,
    "model to run": ModelSpec,
    "tokenizer to run": TokenizerSpec,
    "texts to embed": EmbeddingRequest,
    "source of models": DownloadSettings,
    "file of a model": HubFile,
    "download: list": ListRequest,
    "download: file": FileRequest,
    "download: listing": ModelListing,
    "download: stored": FileStored,
    "download: failure": DownloadFailure,
    "page to convert": ConversionRequest,
    "page to clean": CleaningRequest,
    "converted page": ConvertedPage,
    "failed conversion": ConversionFailure,
    "page": Page,
    "picture of a page": Picture,
    "end of a browser": BrowserExit,
    "Markdown to render": MarkdownRequest,
    "rendered Markdown": MarkdownResult,
    "heading of rendered Markdown": OutlineEntry,
    "query of a result": ResultQuery,
    "answer to a query of a result": QueryAnswer,
    "arguments to check": ValidationRequest,
    "fault of arguments": ValidationResult,
    "definition to scan": ScanRequest,
    "findings of a scan": tuple[Finding, ...],
    "finding of a scan": Finding,
    "texts to analyze": AnalysisRequest,
    "analyzed texts": list[dict[str, str]] | None,
    "question to vectors": SentQuestion,
    "moment of a collection": SentMoment,
    "space of a moment": SentSpace,
    "mapped array": MappedArray,
    "combination of spaces": Combination,
    "matches of vectors": SentMatches,
    "audit index: request": IndexRequest,
    "audit index: answer": IndexAnswer,
    "audit index: filter": EntryFilter,
    "audit index: entries": EntryQuery,
    "audit index: counts": EntryCounts,
    "audit index: usage": UsageQuery,
    "audit index: days": UsageDays,
    "audit index: a day": UsageOfDay,
    "audit index: newest": NewestEntry,
    "audit index: catch up": CatchUp,
}
"""Between a hub and its workers, which may be started from a package that has replaced that of the hub."""

SECTIONS = {
    "between processes": BETWEEN_PROCESSES,
    "files": FILES,
    "cursors": CURSORS,
    "hubs of a group": GROUP,
    "workers": WORKERS,
}
"""All formats that have a type."""


def formats() -> dict[str, Any]:
    """Return what formats.json says if it is up to date."""
    named = {name: kind for section in SECTIONS.values() for name, kind in section.items()}
    assert len(named) == sum(map(len, SECTIONS.values())), "a logical name stands twice"
    described = Descriptions(named)
    return {
        "types": {
            title: {name: described.of(kind) for name, kind in section.items()}
            for title, section in SECTIONS.items()
        },
        "samples": samples(),
        "constants": constants(),
        "tables": statements(),
    }


def written(found: dict[str, Any]) -> str:
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    DATA.write_text(written(formats()))
