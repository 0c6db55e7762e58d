"""Detection of the type of bytes: by signature, by the declared media type, by file name.

Documents that are ZIP archives are detected by the index of the archive. Loads no parser.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from pathlib import PurePosixPath
from typing import Literal, cast
from urllib.parse import unquote, urlsplit

Kind = Literal[
    "html", "plain", "code", "markdown", "json", "ndjson", "xml", "csv", "tsv", "pdf", "image",
    "docx", "xls", "xlsx", "pptx", "odt", "ods", "odp", "epub", "mail", "rtf",
    "whole", "wiki",
]  # fmt: skip

WHOLE_MEDIA = "application/vnd.tabane.whole+html"
"""Media type with which an adapter marks HTML that is all content."""

WIKI_MEDIA = "application/vnd.tabane.mediawiki+html"
"""Media type with which an adapter marks HTML of Parsoid."""

_COMPOUND = "application/x-ole-storage"
_SIGNATURES: tuple[tuple[bytes, int, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, "image"),
    (b"\xff\xd8\xff", 0, "image"),
    (b"GIF87a", 0, "image"),
    (b"GIF89a", 0, "image"),
    (b"WEBP", 8, "image"),
    (b"ftypavif", 4, "image"),
    (b"BM", 0, "bmp"),
    (b"II*\x00", 0, "image"),
    (b"MM\x00*", 0, "image"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0, _COMPOUND),
    (b"\x1f\x8b", 0, "application/gzip"),
    (b"7z\xbc\xaf'\x1c", 0, "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", 0, "application/vnd.rar"),
    (b"\x7fELF", 0, "application/x-executable"),
    (b"OggS", 0, "audio/ogg"),
    (b"fLaC", 0, "audio/flac"),
    (b"ID3", 0, "audio/mpeg"),
    (b"\x1aE\xdf\xa3", 0, "video/webm"),
    (b"ftyp", 4, "video/mp4"),
    (b"wOF2", 0, "font/woff2"),
    (b"{\\rtf", 0, "rtf"),
)
_MEDIA: dict[str, Kind] = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/vnd.wap.xhtml+xml": "html",
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "application/json": "json",
    "text/json": "json",
    "application/x-ndjson": "ndjson",
    "application/jsonl": "ndjson",
    "application/json-lines": "ndjson",
    "application/x-jsonlines": "ndjson",
    "text/xml": "xml",
    "application/xml": "xml",
    "text/csv": "csv",
    "application/csv": "csv",
    "text/tab-separated-values": "tsv",
    "text/plain": "plain",
    "message/rfc822": "mail",
    "application/mbox": "mail",
    WHOLE_MEDIA: "whole",
    WIKI_MEDIA: "wiki",
}
_NAMES: dict[str, Kind] = {
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".md": "markdown",
    ".mdx": "markdown",
    ".markdown": "markdown",
    ".json": "json",
    ".geojson": "json",
    ".ipynb": "json",
    ".jsonl": "ndjson",
    ".ndjson": "ndjson",
    ".xml": "xml",
    ".rss": "xml",
    ".atom": "xml",
    ".rdf": "xml",
    ".svg": "xml",
    ".csv": "csv",
    ".tsv": "tsv",
    ".eml": "mail",
    ".mbox": "mail",
    ".txt": "plain",
    ".text": "plain",
    ".log": "plain",
    ".rst": "plain",
    ".org": "plain",
    ".adoc": "plain",
}
CODE = {
    ".py": "python", ".js": "js", ".mjs": "js", ".cjs": "js", ".ts": "ts", ".tsx": "tsx", ".jsx": "jsx",
    ".css": "css", ".scss": "scss", ".go": "go", ".rs": "rust", ".rb": "ruby", ".java": "java",
    ".kt": "kotlin",
    ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".hpp": "cpp", ".cs": "csharp", ".php": "php",
    ".swift": "swift", ".scala": "scala", ".sh": "sh", ".bash": "bash", ".zsh": "zsh", ".ps1": "powershell",
    ".sql": "sql", ".yml": "yaml", ".yaml": "yaml", ".toml": "toml", ".ini": "ini", ".cfg": "ini",
    ".lua": "lua",
    ".pl": "perl", ".r": "r", ".jl": "julia", ".hs": "haskell", ".ml": "ocaml", ".ex": "elixir",
    ".exs": "elixir",
    ".erl": "erlang", ".clj": "clojure", ".dart": "dart", ".vue": "vue", ".svelte": "svelte", ".tf": "hcl",
    ".proto": "proto", ".graphql": "graphql", ".diff": "diff", ".patch": "diff", ".tex": "tex", ".zig": "zig",
    ".nix": "nix", ".gradle": "groovy", ".cmake": "cmake", ".asm": "asm", ".v": "verilog", ".bat": "bat",
}  # fmt: skip
_CODE_MEDIA = {
    "text/css": "css", "text/javascript": "js", "application/javascript": "js",
    "application/x-javascript": "js",
    "text/x-python": "python", "text/x-python-script": "python", "application/x-sh": "sh", "text/x-sh": "sh",
    "text/x-c": "c", "text/x-csrc": "c", "text/x-c++src": "cpp", "text/x-java-source": "java",
    "text/x-go": "go",
    "application/yaml": "yaml", "application/x-yaml": "yaml", "text/yaml": "yaml", "text/x-yaml": "yaml",
    "application/toml": "toml", "application/sql": "sql", "application/x-httpd-php": "php",
    "text/x-diff": "diff",
    "text/x-rust": "rust", "text/x-ruby": "ruby", "application/typescript": "ts",
    "application/graphql": "graphql",
}  # fmt: skip
_VAGUE = {
    "",
    "application/octet-stream",
    "binary/octet-stream",
    "application/unknown",
    "unknown/unknown",
    "application/vnd.ms-excel",  # also of tables in HTML and CSV: servers call them so for Excel
    "text/plain",
}
_HTML = re.compile(rb"<(?:!doctype\s+html|html|head|body|title|div|p|h1|table|article)\b", re.I)


class UnsupportedMediaType(Exception):
    """No kind that is read here; ``args[0]`` names the type."""


def kind_of(body: bytes, media_type: str, name: str, url: str) -> Kind:
    """Return the kind: by signature, else by the server's media type, else by the file name.

    Raises UnsupportedMediaType, with the type, for other content.
    """
    media = media_type.partition(";")[0].strip().lower()
    if signed := _kind_by_signature(body):
        return signed
    head = body[:2048]
    zeros = head.count(0)
    is_text = media.startswith("text/") or media.endswith(("json", "xml"))
    # Declared text may contain a few zeros, because some pages do.
    if zeros and not _is_utf16(head) and (not is_text or zeros * 20 > len(head)):
        raise UnsupportedMediaType(media if media not in _VAGUE else "application/octet-stream")
    suffix = suffix_of(name, url)
    kind = _kind_by_media_type(media, body) if media not in _VAGUE else None
    if kind is None and media in _VAGUE:
        kind = _NAMES.get(suffix) or ("code" if suffix in CODE else None) or _kind_by_look(body, media)
        if kind == "html" and media == "text/plain":
            kind = "plain"  # browsers show such a page as it is written, and so do we
    if kind is None:
        raise UnsupportedMediaType(media)
    if kind == "html" and body.lstrip()[:1] in (b"{", b"[") and _is_json(body):
        return "json"  # small services answer in JSON that is served as a page
    return kind


def suffix_of(name: str, url: str) -> str:
    """Return the extension of the name, or else of the URL's path; lower case, with its dot."""
    path = name or unquote(urlsplit(url).path)
    return PurePosixPath(path).suffix.lower()


def code_language(media_type: str, name: str, url: str) -> str:
    """Return the language of source code, as a fence names it."""
    return CODE.get(suffix_of(name, url)) or _CODE_MEDIA.get(media_type.partition(";")[0].strip().lower(), "")


def _kind_by_signature(body: bytes) -> Kind | None:
    if b"%PDF-" in body[:1024]:
        return "pdf"
    if body.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        kind = zipped_kind(body)
        if kind is None:
            raise UnsupportedMediaType("application/zip")
        return cast(Kind, kind)
    for signature, at, kind in _SIGNATURES:
        if body.startswith(signature, at):
            if kind == "bmp":
                if (
                    len(body) < 26
                    or int.from_bytes(body[2:6], "little") > len(body) * 2
                    or b"\0" not in body[:26]
                ):
                    continue
                return "image"
            if kind in ("image", "rtf"):
                return cast(Kind, kind)
            if kind == _COMPOUND and is_workbook(body):
                return "xls"
            if kind == _COMPOUND and "__substg1.0_".encode("utf-16-le") in body:
                raise UnsupportedMediaType("application/vnd.ms-outlook")
            raise UnsupportedMediaType(kind)
    return None


def _kind_by_media_type(media: str, body: bytes) -> Kind | None:
    """Return the kind of a media type; None if it is not supported."""
    if kind := _MEDIA.get(media):
        return kind
    if media in _CODE_MEDIA:
        return "code"
    if media.endswith("+json"):
        return "json"
    if media.endswith("+xml"):
        return "xml"
    if media.startswith("text/") and media != "text/rtf":
        return _kind_by_look(body, media) or "plain"
    if media.startswith("image/"):
        return "image"
    return None


def _kind_by_look(body: bytes, media: str) -> Kind | None:
    """Return the kind that text without a declared type looks like."""
    head = body[:1024].lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith(b"<?xml"):
        return "html" if b"<html" in body[:1024].lower() else "xml"
    if head.startswith(b"<") and _HTML.search(head):
        return "html"
    if media != "text/plain" and head[:1] in (b"{", b"[") and _is_json(body):
        return "json"
    return "plain"


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def _is_utf16(body: bytes) -> bool:
    """Return a mark, or zeros on one side of the first letters alone."""
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return True
    sides = (body[:64:2].count(0) * 2 > len(body[:64:2]), body[1:64:2].count(0) * 2 > len(body[1:64:2]))
    return sides[0] != sides[1]


def is_workbook(body: bytes) -> bool:
    """Return whether a compound file is a workbook or encrypted, by the names of its streams."""

    def has(name: str) -> bool:
        return name.encode("utf-16-le") in body

    # Texts and presentations of that time may have workbooks in them.
    return has("EncryptedPackage") or (
        has("Workbook") and not has("WordDocument") and not has("PowerPoint Document")
    )


UNREADABLE_INDEX = (zipfile.BadZipFile, ValueError, NotImplementedError)
"""Errors of zipfile for bytes that are no archive that it can read."""

UNREADABLE_MEMBER = (KeyError, RuntimeError, OSError, EOFError, zlib.error, *UNREADABLE_INDEX)
"""Errors of zipfile for a file of an archive that is missing, damaged or encrypted."""

_ODF = "application/vnd.oasis.opendocument."
_OPEN_DOCUMENTS = {"text": "odt", "spreadsheet": "ods", "presentation": "odp"}
_LONGEST = 200  # bytes of a media type in an archive
_FOLDERS = (("word/", "docx"), ("xl/", "xlsx"), ("ppt/", "pptx"))


def zipped_kind(body: bytes) -> str | None:
    """Return the kind of document: docx, xlsx, pptx, odt, ods, odp or epub. None for another archive, or for
    none.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            names = archive.namelist()
            present = set(names)
            declared = _declared_media_type(archive) if "mimetype" in present else ""
    except UNREADABLE_INDEX:
        return None
    if declared.startswith(_ODF):
        kind = declared.removeprefix(_ODF).removesuffix("-template").removesuffix("-master")
        return _OPEN_DOCUMENTS.get(kind)
    for main, kind in (("word/document", "docx"), ("xl/workbook", "xlsx"), ("ppt/presentation", "pptx")):
        if f"{main}.xml" in present:
            return kind
    if "META-INF/container.xml" in present:
        return "epub"
    # Some programs give the main part another name, such as word/document2.xml.
    if "[Content_Types].xml" in present:
        for folder, kind in _FOLDERS:
            if any(name.startswith(folder) and name.endswith(".xml") and "/" not in name[len(folder) :]
                   for name in names):  # fmt: skip
                return kind
    return None


def _declared_media_type(archive: zipfile.ZipFile) -> str:
    """Return the media type that an OpenDocument file or a book contains as its first file."""
    try:
        with archive.open("mimetype") as file:
            return file.read(_LONGEST).decode("ascii", "replace").strip()
    except UNREADABLE_MEMBER:
        return ""
