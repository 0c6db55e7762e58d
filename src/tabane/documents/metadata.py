"""Metadata of documents, the front matter that has it, and the names of documents; pure.

Front matter is YAML between dashes, or TOML between plus signs. Values are read as YAML 1.2 reads them:
``no`` and ``10:30`` are texts. Dates become ISO 8601, so that their texts sort. What cannot be metadata
stays text only: nested values, and all of it if it is not valid YAML.
"""

from __future__ import annotations

import math
import re
import struct
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from tabane.documents.document import Own, TextKind
from tabane.errors import BadArguments
from tabane.messages import say
from tabane.search.records import EXACT, encodable

if TYPE_CHECKING:
    from yaml.nodes import Node

RESERVED = frozenset({"filepath", "file_type", "updated_at"})
"""Names of members that every document has. Filters use these names too."""

MOST_KEYS = 64
MOST_VALUES = 500  # of a document
LONGEST_KEY = 200  # bytes
LONGEST_VALUE = 3_000  # bytes
LARGEST = 16_000  # bytes of all as JSON: every chunk carries them

STRING, NUMBER, BOOLEAN = "s", "n", "b"


def checked(metadata: Mapping[str, Any]) -> dict[str, Own]:
    """Return the normalized metadata, without null values.

    Raises :class:`BadArguments` that names the key.
    """
    values = {key: _checked_value(key, value) for key, value in metadata.items() if value is not None}
    if len(values) > MOST_KEYS:
        raise BadArguments(say("metadata: it has at most {most} {most:key|keys}", most=MOST_KEYS), "metadata")
    if sum(len(value) if isinstance(value, list) else 1 for value in values.values()) > MOST_VALUES:
        raise BadArguments(
            say("metadata: it has at most {most} {most:value|values}", most=MOST_VALUES), "metadata"
        )
    if len(msgspec.json.encode(values)) > LARGEST:
        raise BadArguments(say("metadata: it has at most {most} {most:byte|bytes}", most=LARGEST), "metadata")
    return values


def encoded(metadata: Mapping[str, Own]) -> tuple[str, ...]:
    """Return the strings of a record for filters, each once, in order of keys."""
    strings: dict[str, None] = {}
    for key in sorted(metadata):
        value = metadata[key]
        for each in value if isinstance(value, list) else (value,):
            strings[element(key, each)] = None
    return tuple(strings)


def element(key: str, value: str | int | float | bool) -> str:
    """Return the string of one value under its key."""
    return beginning(key, kind_of_value(value)) + spelled(value)


def beginning(key: str, kind: str) -> str:
    """Return the common prefix of the strings of a key, for values of one kind."""
    return f"{key}\0{kind}"


def kind_of_value(value: str | int | float | bool) -> str:
    """Return the kind of a value: a string, a number, or true and false."""
    if isinstance(value, bool):
        return BOOLEAN
    return STRING if isinstance(value, str) else NUMBER


def spelled(value: str | int | float | bool) -> str:
    """Return a value as a string that sorts like the values of its kind."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, str):
        return value
    (bits,) = struct.unpack(">Q", struct.pack(">d", value + 0.0))  # -0.0 + 0.0 is 0.0
    ordered = bits ^ (2**64 - 1 if bits >> 63 else 1 << 63)
    return f"{ordered:016x}"


def checked_key(key: str, parameter: str) -> str:
    """Return a valid key. Raises :class:`BadArguments`."""
    size = len(encodable(key, parameter).encode())
    if not 0 < size <= LONGEST_KEY or "\0" in key or key.startswith("$"):
        message = say(
            "{parameter}: a key has 1 to {most} {most:byte|bytes}, no NUL, and does not begin with $",
            parameter=parameter,
            most=LONGEST_KEY,
        )
        raise BadArguments(message, parameter)
    return key


def checked_scalar(value: object, parameter: str) -> str | int | float | bool:
    """Return a string, number or boolean. Raises :class:`BadArguments`."""
    if isinstance(value, str):
        if len(encodable(value, parameter).encode()) > LONGEST_VALUE:
            raise BadArguments(
                say(
                    "{parameter}: a string has at most {most} {most:byte|bytes}",
                    parameter=parameter,
                    most=LONGEST_VALUE,
                ),
                parameter,
            )
        return value
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) <= EXACT:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise BadArguments(
        say("{parameter}: it must be a string, a number up to 2**53, true or false", parameter=parameter),
        parameter,
    )


def _checked_value(key: str, value: object) -> Own:
    path = f"metadata.{checked_key(key, 'metadata')}"
    if key in RESERVED:
        raise BadArguments(say("{parameter}: this name is reserved", parameter=path), path)
    if not isinstance(value, list | tuple):
        return checked_scalar(value, path)
    if not all(isinstance(each, str) for each in value):
        raise BadArguments(say("{parameter}: a list can contain only strings", parameter=path), path)
    return [str(checked_scalar(each, path)) for each in value]


LONGEST = 16_000  # characters between the lines
_FENCED = re.compile(
    rf"\ufeff?---[ \t]*\r?\n(.{{0,{LONGEST}}}?)\r?\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL
)
_PLUSES = re.compile(rf"\ufeff?\+\+\+[ \t]*\r?\n(.{{0,{LONGEST}}}?)\r?\n\+\+\+[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_MEMBER = re.compile(r"^[\w\"'][^:\n]*:(?:\s|\Z)", re.MULTILINE)
_COMMAS = re.compile(r"[,，、;；]")
_TAGS = frozenset({"tags", "tag", "keywords", "categories", "category"})
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "~": None, "": None}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,15})")
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,40})(?:\.[0-9]{0,40})?(?:[eE][-+]?[0-9]{1,3})?")
_DATE = re.compile(
    r"([0-9]{4})[-/]([0-9]{1,2})[-/]([0-9]{1,2})"
    r"(?:[Tt ][ \t]*([0-9]{1,2})(:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)[ \t]*(Z|[-+][0-9]{2}:?[0-9]{2})?)?"
)


class FrontMatter(NamedTuple):
    """The title of a document, empty if it has none, and its metadata. The other text begins at ``end``."""

    title: str
    metadata: dict[str, Own]
    end: int


NONE = FrontMatter("", {}, 0)


def begins(text: str) -> bool:
    """Return whether a text begins with what looks like front matter."""
    return _match_dashes(text) is not None or _PLUSES.match(text) is not None


def _match_dashes(text: str) -> re.Match[str] | None:
    match = _FENCED.match(text) if text.startswith(("---", "\ufeff---")) else None
    return match if match and _MEMBER.search(match[1]) else None


def read(text: str) -> FrontMatter:
    """Return the front matter of a text, :data:`NONE` if it has none or a broken one. Takes up to 0.2 s."""
    found = _PLUSES.match(text)
    if found is not None:
        try:
            table = tomllib.loads(found[1].replace("\r\n", "\n"))
        except (tomllib.TOMLDecodeError, RecursionError):
            return NONE
        return _front_matter(((name, _toml_value(name, value)) for name, value in table.items()), found.end())
    found = _match_dashes(text)
    if found is None:
        return NONE
    import yaml  # 2.8 MB, which most documents do not need
    from yaml.nodes import MappingNode

    try:
        root = yaml.compose(found[1], Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return NONE
    if not isinstance(root, MappingNode):
        return NONE
    named = ((key.value.strip() if isinstance(key.value, str) else "", node) for key, node in root.value)
    return _front_matter(
        ((name, _node_value(node, is_tags=name.casefold() in _TAGS)) for name, node in named), found.end()
    )


def _front_matter(pairs: Iterable[tuple[str, Own | None]], end: int) -> FrontMatter:
    values = dict(_valid_members(pairs))
    title = values.get("title", "")
    return FrontMatter("" if isinstance(title, list) else str(title), values, end)


def _valid_members(pairs: Iterable[tuple[str, Own | None]]) -> Iterator[tuple[str, Own]]:
    """Yield the members that can be metadata, as many as it may have. Others are left out."""
    keys = values = size = 0
    for name, value in pairs:
        name = name.casefold() if name.casefold() in (*_TAGS, "title") else name
        if value is None or value == []:
            continue
        try:
            checked({name: value})
        except BadArguments:
            continue
        keys, values = keys + 1, values + (len(value) if isinstance(value, list) else 1)
        size += len(name.encode()) + len(str(value).encode()) + 8
        if keys > MOST_KEYS or values > MOST_VALUES or size > LARGEST:
            return
        yield name, value


def _node_value(node: Node, *, is_tags: bool) -> Own | None:
    if isinstance(node.value, str):
        value = _read_scalar(node)
        if not is_tags or value is None:
            return value
        return _clean_tags(_COMMAS.split(node.value))
    texts = [each.value for each in node.value if not isinstance(each, tuple) and isinstance(each.value, str)]
    if len(texts) != len(node.value):
        return None
    return _clean_tags(texts) if is_tags else texts


def _toml_value(name: str, value: object) -> Own | None:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, list):
        texts = [each for each in value if isinstance(each, str)]
        return None if len(texts) != len(value) else _clean_tags(texts) if name.casefold() in _TAGS else texts
    if isinstance(value, str) and name.casefold() in _TAGS:
        return _clean_tags(_COMMAS.split(value))
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float) and abs(value) <= EXACT:
        return value
    return None


def _clean_tags(texts: list[str]) -> list[str]:
    tags = (text.strip().removeprefix("#").strip() for text in texts)
    return list(dict.fromkeys(tag for tag in tags if tag))


def _read_scalar(node: Node) -> str | int | float | bool | None:
    text: str = node.value
    if getattr(node, "style", None) in ("'", '"', "|", ">"):
        return text
    if text.casefold() in _WORDS:
        return _WORDS[text.casefold()]
    if _INTEGER.fullmatch(text) and abs(int(text)) <= EXACT:
        return int(text)
    if _FLOAT.fullmatch(text) and not _INTEGER.fullmatch(text) and abs(float(text)) < 1e300:
        return float(text)
    if match := _DATE.fullmatch(text):
        year, month, day, hour, rest, zone = match.groups()
        time = f"T{int(hour):02}{rest}{zone or ''}" if hour else ""
        return f"{year}-{int(month):02}-{int(day):02}{time}"
    return text


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
    end = ending(filepath)
    if end in _MARKDOWN:
        return "markdown"
    if end in _CODE or PurePath(filepath).name.lower() in _CODE_NAMES or (not end and text.startswith("#!")):
        return "code"
    if end in _PLAIN:
        return "text"
    looked = text[:_LOOKED]
    marked = _HEADING.search(looked) or _FENCE.search(looked) or begins(text)
    return "markdown" if marked else "text"


def title_of(text: str, kind: TextKind) -> str:
    """Return the heading at the beginning of Markdown. Empty if there is none."""
    if kind != "markdown":
        return ""
    match = _HEADING.match(text[:_LOOKED].lstrip("\ufeff \t\r\n"))
    return match[1][:LONGEST_TITLE].strip() if match else ""


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MARKDOWN: Final = _word_set("md markdown mdown mkd mkdn mdx qmd rmd")
_CODE: Final = _word_set(
    "ada adb ads asm astro awk bash bat bzl c cc cjs clj cljc cljs cmake cmd coffee cpp cs css cu cxx d dart "
    "dockerfile edn el elm erl ex exs f f03 f08 f90 f95 fish for fs fsi fsx gd glsl go gql gradle graphql "
    "groovy h hcl hh hlsl hpp hrl hs hxx inc ino java jl js jsonnet jsx kt kts less lisp lua m mak makefile "
    "metal mjs mk ml mli mm mts cts nim nix odin pas php pl pm po pp prisma proto ps1 psm1 pug py pyi pyx r "
    "rake rb rs s sass scala scm scss sh sol sql st sv svelte swift tcl tex tf thrift toml ts tsx v vb "
    "vhd vhdl vim vue wgsl wat xml xsd xsl xslt yaml yml zig zsh json json5 jsonc ini cfg conf properties"
)
_CODE_NAMES: Final = _word_set(
    "brewfile cmakelists.txt containerfile dockerfile gemfile gnumakefile jenkinsfile justfile makefile "
    "procfile rakefile vagrantfile"
)
CONVERTED: Final = _word_set("htm html xhtml pdf docx pptx xls xlsx epub odt odp ods ipynb rtf")
"""Endings of files with a format of their own. A converter reads them, if there is one."""

_NO_TEXT: Final = _word_set(
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
