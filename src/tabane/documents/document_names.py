"""Names of documents, and the file type, kind of text and title derived from them; pure."""

from __future__ import annotations

import re
import unicodedata
from pathlib import PurePath
from typing import Final

from tabane.documents import front_matter
from tabane.documents.document import TextKind
from tabane.errors import BadArguments
from tabane.messages import say
from tabane.search.records import encodable

LONGEST_FILEPATH = 900  # bytes
LONGEST_TITLE = 500  # characters

_SEPARATORS = re.compile(r"[/\\]")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(\S.*?)[ \t#]*$", re.MULTILINE)
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_LOOKED = 4_000  # characters in which a title is searched

_PLAIN = frozenset({"txt", "text", "log", "csv", "tsv", "srt", "vtt"})


def checked_filepath(filepath: str) -> str:
    """Return the name in NFC.

    Raises :class:`BadArguments` unless it has 1 to 900 bytes, no NUL, and no ``..``.
    """
    name = unicodedata.normalize("NFC", encodable(filepath, "filepath"))
    if not 0 < len(name.encode()) <= LONGEST_FILEPATH:
        message = say("filepath: it has 1 to {most} {most:byte|bytes}", most=LONGEST_FILEPATH)
        raise BadArguments(message, "filepath")
    if "\0" in name:
        raise BadArguments(say("filepath: it must not contain NUL"), "filepath")
    if ".." in _SEPARATORS.split(name):
        raise BadArguments(say('filepath: none of its parts may be ".."'), "filepath")
    return name


def kind_of(filepath: str, text: str) -> TextKind:
    """Return the kind of a text by its name, or by its content if the name is not enough."""
    kind = _kind_by_name(filepath, text)
    if kind != "text" or ending(filepath) in _PLAIN:
        return kind
    looked = text[:_LOOKED]
    marked = _HEADING.search(looked) or _FENCE.search(looked) or front_matter.begins(text)
    return "markdown" if marked else "text"


def title_of(text: str, kind: TextKind) -> str:
    """Return the heading at the beginning of Markdown. Empty if there is none."""
    if kind != "markdown":
        return ""
    found = _HEADING.match(text[:_LOOKED].lstrip("\ufeff \t\r\n"))
    return found[1][:LONGEST_TITLE].strip() if found else ""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MARKDOWN: Final = _words("md markdown mdown mkd mkdn mdx qmd rmd")
_CODE: Final = _words(
    "ada adb ads asm astro awk bash bat bzl c cc cjs clj cljc cljs cmake cmd coffee cpp cs css cu cxx d dart "
    "dockerfile edn el elm erl ex exs f f03 f08 f90 f95 fish for fs fsi fsx gd glsl go gql gradle graphql "
    "groovy h hcl hh hlsl hpp hrl hs hxx inc ino java jl js jsonnet jsx kt kts less lisp lua m mak makefile "
    "metal mjs mk ml mli mm mts cts nim nix odin pas php pl pm po pp prisma proto ps1 psm1 pug py pyi pyx r "
    "rake rb rs s sass scala scm scss sh sol sql st sv svelte swift tcl tex tf thrift toml ts tsx v vb "
    "vhd vhdl vim vue wgsl wat xml xsd xsl xslt yaml yml zig zsh json json5 jsonc ini cfg conf properties"
)
_CODE_NAMES: Final = _words(
    "brewfile cmakelists.txt containerfile dockerfile gemfile gnumakefile jenkinsfile justfile makefile "
    "procfile rakefile vagrantfile"
)
CONVERTED: Final = _words("htm html xhtml pdf docx pptx xlsx epub odt odp ods ipynb rtf")
"""Endings of files with a format of their own. A converter reads them, if there is one."""

_NO_TEXT: Final = _words(
    "7z a aac ai aiff apk avi avif bin blend bmp bz2 class dat db dll dmg dylib eot exe fig flac gif gz heic "
    "ico icns iso jar jpeg jpg lib lz4 lzma m4a m4v mid mkv mo mov mp3 mp4 mpeg mpg npy npz o obj ogg opus "
    "otf parquet pickle pkl png psd pt pth pyc pyd rar safetensors so sqlite sqlite3 tar tgz tif tiff ttf "
    "wasm wav webm webp whl wmv woff woff2 xz zip zst"
)
_MAGIC: Final = (b"%PDF-", b"{\\rtf")
_HTML: Final = (b"<!doctype html", b"<html")


def ending(name: str) -> str:
    """Return the ending of a name without the dot, in lower case: ``md`` for ``README.MD``."""
    return PurePath(name).suffix[1:].lower()


def _kind_by_name(name: str, text: str) -> TextKind:
    """Return the kind of text by the name of the file, or by a ``#!`` line if it has no ending."""
    end = ending(name)
    if end in _MARKDOWN:
        return "markdown"
    if end in _CODE or PurePath(name).name.lower() in _CODE_NAMES or (not end and text.startswith("#!")):
        return "code"
    return "text"


def file_type_of(name: str, data: bytes, kind: TextKind) -> str:
    """Return the default file type of a document: the format of its file, or else the kind of its text."""
    if not is_converted(name, data):
        return kind
    end = ending(name)
    if end in CONVERTED:
        return "html" if end in ("htm", "xhtml") else end
    return "html" if _is_html(data) else "pdf" if data.startswith(b"%PDF-") else "rtf"


def is_converted(name: str, data: bytes) -> bool:
    """Return whether a converter must read the file, by its name or content."""
    end = ending(name)
    if end in CONVERTED or data.startswith(_MAGIC):
        return True
    return end not in _MARKDOWN and end not in _CODE and _is_html(data)


def is_no_text(name: str) -> bool:
    """Return whether a file with this name is never text. Such files are not read."""
    return ending(name) in _NO_TEXT


def _is_html(data: bytes) -> bool:
    return data[:256].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_HTML)
