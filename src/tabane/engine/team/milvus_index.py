"""An index of vectors on Milvus, which proposes candidates to the engine on PostgreSQL.

Each set is a collection. The client is imported when it connects. The URL of an index is
``milvus://user:password@host:19530/database?index=hnsw``.

A set is marked by a property of its collection. A search passes the timestamp at which the set was
marked, so the node that answers it has seen everything that was put before, and usually does not wait for
it. https://milvus.io/docs/consistency.md

Fields of records as columns of a collection in Milvus, and filters as its expressions. Milvus 2.3 has no
null, so an absent value is one that no filter finds. Lists are in the dynamic field. What an expression
cannot say is left out: it is true for every record that the filter matches, and for others.
https://milvus.io/docs/boolean.md
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from tabane.engine.candidate_index import CandidateIndex, IndexedVector
from tabane.errors import ConfigurationError, StoreError
from tabane.extras import extra_command
from tabane.messages import say
from tabane.search.records import (
    And,
    Condition,
    Contains,
    Equal,
    Everything,
    Field,
    Filter,
    In,
    Kind,
    Not,
    Or,
    Prefix,
    Range,
    Scalar,
    Shape,
    Value,
)
from tabane.settings.addresses import unreadable_index

log = logging.getLogger(__name__)

T = TypeVar("T")

SCHEME = "milvus"
PORT = 19530
KINDS = ("hnsw", "ivf_flat", "ivf_sq8", "diskann", "flat", "autoindex")
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,20}")


@dataclass(frozen=True, slots=True)
class MilvusUrl:
    """A checked URL. ``uri`` and ``token`` are for the client; ``place`` is what may be shown.

    ``prefix`` begins the names of collections. ``strong``: each search waits until it sees all writes.
    ``timeout``: seconds of a search.
    """

    uri: str
    place: str
    token: str = field(default="", repr=False)
    database: str = "default"
    prefix: str = "tabane"
    kind: str = "hnsw"
    shards: int = 2
    replicas: int = 1
    mmap: bool = False
    strong: bool = False
    timeout: int = 2


class _Parameters:
    """Parameters of the URL, taken one by one. Each raises ConfigurationError, without its value."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._values = dict(pairs)

    def choose(self, name: str, values: Mapping[str, T], default: T) -> T:
        """Return what the text of a parameter stands for."""
        return self.take(name, values.get, default)

    def count(self, name: str, most: int, default: int) -> int:
        """Return a whole number from 1 to ``most``."""
        return self.choose(name, {str(number): number for number in range(1, most + 1)}, default)

    def take(self, name: str, read: Callable[[str], T | None], default: T) -> T:
        """Return a parameter as ``read`` parses it, or the default. ``read`` returns None if it is wrong."""
        if name not in self._values:
            return default
        value = read(self._values.pop(name))
        if value is None:
            raise ConfigurationError(
                say("{name} in the setting vector_index has an unknown value", name=name)
            )
        return value

    def end(self) -> None:
        """Raise if a parameter was not taken."""
        for name in self._values:
            raise ConfigurationError(say("the setting vector_index has no parameter {name}", name=name))


_SWITCH = {"true": True, "false": False}


def parse_milvus_url(url: str) -> MilvusUrl:
    """Parse a URL. Raises ConfigurationError, which never contains the password."""
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        host, port = parts.hostname or "", parts.port or PORT
    except ValueError:
        raise unreadable_index() from None
    if parts.scheme != SCHEME or not host or parts.fragment or len(dict(pairs)) < len(pairs):
        raise unreadable_index()
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    parameters = _Parameters(pairs)
    scheme = "https" if parameters.choose("tls", _SWITCH, False) else "http"
    found = MilvusUrl(
        uri=f"{scheme}://{address}",
        place="",
        token=parameters.take("token", str, "" if login == ":" else login),
        database=unquote(parts.path.strip("/")) or "default",
        prefix=parameters.take("prefix", lambda text: text if _PREFIX.fullmatch(text) else None, "tabane"),
        kind=parameters.choose("index", {kind: kind for kind in KINDS}, "hnsw"),
        shards=parameters.count("shards", 64, 2),
        replicas=parameters.count("replicas", 64, 1),
        mmap=parameters.choose("mmap", _SWITCH, False),
        strong=parameters.choose("consistency", {"watermark": False, "strong": True}, False),
        timeout=parameters.count("timeout", 60, 2),
    )
    # Up to version 0.17, keywords could be searched on Milvus, too.
    parameters.choose("keywords", {"postgres": "", "milvus": ""}, "")
    parameters.end()
    path = "" if found.database == "default" else f"/{found.database}"
    suffix = "" if found.prefix == "tabane" else f"?prefix={found.prefix}"
    return replace(found, place=f"{SCHEME}://{address}{path}{suffix}")


ROW, VECTOR = "row", "vec"
MOST_COLUMNS = 58  # of the 64 fields that a collection may have
LONGEST = 1024  # bytes of a string; a longer one is cut
_LONGEST_ASKED = 900  # bytes of a string in a filter
_LONGEST_LIST = 20_000  # bytes of all elements; others are left out
_MOST_VALUES = 1000  # of a set in a filter
_CUT = "cut"  # in the dynamic field: a list is not complete
_ABSENT = -math.ldexp(1.0, 1023)


@dataclass(frozen=True, slots=True)
class MilvusExpression:
    """An expression. ``exact``: it is false for all records that the filter does not match."""

    text: str
    exact: bool = True


def columns(shape: Shape) -> dict[str, Field]:
    """Return the fields that have a column of their own, by its name."""
    plain = [field for field in shape.fields if field.kind is not Kind.STRINGS]
    return {column(field): field for field in plain[:MOST_COLUMNS]}


def column(field: Field) -> str:
    """Return the name of the column of a field. Fields of different kinds have different ones."""
    return f"{'n' if field.kind.numeric else field.kind.value}_{field.name}"


def cells(fields: Mapping[str, Value], shape: Shape) -> dict[str, Any]:
    """Return the values of the columns, and those of the dynamic field."""
    values: dict[str, Any] = {
        name: _cell(fields.get(each.name), each) for name, each in columns(shape).items()
    }
    for each in shape.fields:
        value = fields.get(each.name)
        if each.kind is Kind.STRINGS and isinstance(value, tuple):
            kept = list(_fitting_elements(value))
            values[column(each)] = kept
            if len(kept) < len(value):
                values[_CUT] = True
    return values


def _cell(value: Value | None, field: Field) -> Any:
    if field.kind is Kind.STRING:
        return "=" + _cut_string(value) if isinstance(value, str) else ""
    if field.kind is Kind.BOOLEAN:
        return int(value) if isinstance(value, bool) else -1
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else _ABSENT


def _cut_string(text: str) -> str:
    encoded = text.encode()
    return text if len(encoded) < LONGEST else encoded[: LONGEST - 1].decode(errors="ignore")


def _fitting_elements(values: Iterable[str]) -> Iterable[str]:
    room = _LONGEST_LIST
    for value in values:
        size = len(value.encode()) + 8
        if size <= room:
            room -= size
            yield value


def expression(where: Filter, shape: Shape) -> MilvusExpression | None:
    """Return the expression of a checked filter; None if it says nothing."""
    match where:
        case Everything() | Contains():
            return None
        case Not(of):
            inner = expression(of, shape)
            return MilvusExpression(f"not ({inner.text})") if inner and inner.exact else None
        case And(of):
            found = [expression(each, shape) for each in of]
            said = [each for each in found if each is not None]
            exact = all(each.exact for each in said) and len(said) == len(of)
            return MilvusExpression(_join_expressions(" and ", said), exact) if said else None
        case Or(of):
            said = [each for part in of if (each := expression(part, shape)) is not None]
            if not said or len(said) < len(of):
                return None
            return MilvusExpression(_join_expressions(" or ", said), all(each.exact for each in said))
        case _:
            return _condition(where, shape)


def _join_expressions(word: str, parts: Sequence[MilvusExpression]) -> str:
    return word.join(f"({each.text})" for each in parts)


def _condition(where: Condition, shape: Shape) -> MilvusExpression | None:
    field = shape.field(where.field)
    if field.kind is Kind.STRINGS:
        return _of_list(where, column(field))
    if column(field) not in columns(shape):
        return None
    match field.kind:
        case Kind.STRING:
            text = _of_string(where, column(field))
        case Kind.BOOLEAN:
            text = _of_boolean(where, column(field))
        case _:
            text = _of_number(where, column(field))
    return None if text is None else MilvusExpression(text)


def _of_string(where: Condition, name: str) -> str | None:
    match where:
        case Equal(_, value):
            return f"{name} == {_quote(value)}" if _sayable(value) else None
        case In(_, values):
            if len(values) > _MOST_VALUES or not all(map(_sayable, values)):
                return None
            return f"{name} in [{', '.join(map(_quote, values))}]"
        case Prefix(_, text):
            if not _sayable(text) or "%" in text or "_" in text:
                return None
            return f'{name} like "={text}%"' if text else f'{name} != ""'
        case Range(_, None, None):
            return f'{name} != ""'
        case _:
            return None


def _of_list(where: Condition, name: str) -> MilvusExpression | None:
    match where:
        case Equal(_, value) if _sayable(value):
            found = f'json_contains($meta["{name}"], {_quote(value, "")})'
        case In(_, values) if 0 < len(values) <= _MOST_VALUES and all(map(_sayable, values)):
            listed = ", ".join(_quote(value, "") for value in values)
            found = f'json_contains_any($meta["{name}"], [{listed}])'
        case _:
            return None
    return MilvusExpression(f'{found} or $meta["{_CUT}"] == true', exact=False)


def _of_boolean(where: Condition, name: str) -> str | None:
    match where:
        case Equal(_, value):
            return f"{name} == {int(value is True)}"
        case In(_, values):
            return f"{name} in [{', '.join(str(int(value is True)) for value in values)}]"
        case _:
            return None


def _of_number(where: Condition, name: str) -> str | None:
    match where:
        case Equal(_, value):
            return f"{name} == {_number_text(value)}"
        case In(_, values):
            if len(values) > _MOST_VALUES:
                return None
            return f"{name} in [{', '.join(map(_number_text, values))}]"
        case Range(_, low, high, include_low, include_high):
            least = (
                f"{name} > {_ABSENT!r}"
                if low is None
                else f"{name} {'>=' if include_low else '>'} {_number_text(low)}"
            )
            if high is None:
                return least
            return f"{least} and {name} {'<=' if include_high else '<'} {_number_text(high)}"
        case _:
            return None


def _number_text(value: Scalar) -> str:
    return repr(float(value))


def _sayable(value: Scalar) -> bool:
    """Return whether a string can be written in an expression of every version without escapes."""
    text = str(value)
    return text.isprintable() and not {'"', "\\"} & set(text) and len(text.encode()) <= _LONGEST_ASKED


def _quote(value: Scalar, begin: str = "=") -> str:
    return f'"{begin}{value}"'


MOST = 16_384  # rows of a search; the server's own limit
OLDEST = (2, 3)
_LITE = "milvus_lite"  # begins the version of Milvus Lite, which has no timestamps of writes
_CONNECT = 5.0  # seconds until a server must answer
_PATIENCE = 30.0  # seconds of a call that is no search
_MARK, _FORM = "tabane.mark", "tabane.form"
_MOST_BYTES = 8_000_000  # of vectors in a call
_LAYOUT = 1  # of the columns; another one is another form
_BUILD: dict[str, dict[str, Any]] = {
    "hnsw": {"M": 16, "efConstruction": 200},
    "ivf_flat": {"nlist": 4096},
    "ivf_sq8": {"nlist": 4096},
}
_LEAST_EFFORT = 800  # nodes of a graph that are compared at least
_PROBES = 64  # lists of an IVF index that a search looks into
# Milvus compares the vectors of a growing segment one by one. From about 5,000 on it has a rough index for
# them, which finds half of the nearest, until the segment is sealed. By itself, it seals at some 100,000.
_MOST_GROWING = 4000
_SEALING = 15.0  # seconds between two seals of a set; a server takes one in ten


class MilvusIndex(CandidateIndex):
    """The protocol :class:`~tabane.engine.candidate_index.CandidateIndex`, by several threads."""

    def __init__(self, url: MilvusUrl) -> None:
        self._url = url
        self._gate = threading.Lock()
        self._connected: Any = None
        self._growing: dict[str, int] = {}  # vectors that were put since the last seal, by set
        self._sealed: dict[str, float] = {}  # when that was

    @property
    def place(self) -> str:
        return self._url.place

    @property
    def slowest(self) -> float:
        return float(self._url.timeout)

    @property
    def most(self) -> int:
        return MOST

    def version(self) -> str:
        with self._convert_errors():
            found = str(self._client().get_server_version(timeout=_PATIENCE)).lstrip("v")
        if found.startswith(_LITE):
            problem = say("Milvus Lite is not supported; a Milvus server is needed")
            raise StoreError(say("{place}: {problem}", place=self.place, problem=problem))
        numbers = tuple(int(part) for part in found.split("-")[0].split(".")[:2] if part.isdecimal())
        if len(numbers) == 2 and numbers < OLDEST:
            least = ".".join(map(str, OLDEST))
            problem = say("Milvus {found} is too old; {least} or newer is needed", found=found, least=least)
            raise StoreError(say("{place}: {problem}", place=self.place, problem=problem))
        return f"Milvus {found}"

    # Sets

    def mark(self, name: str, shape: Shape) -> str | None:
        name = self._collection_name(name)
        with self._convert_errors():
            client = self._client()
            if not client.has_collection(name, timeout=_PATIENCE):
                return None
            properties = client.describe_collection(name, timeout=_PATIENCE).get("properties", {})
        if properties.get(_FORM) != self._form(shape):
            return None
        return str(properties.get(_MARK, "")) or None

    def reset(self, name: str, dimension: int, shape: Shape) -> None:
        self._growing[name] = 0
        name = self._collection_name(name)
        with self._convert_errors():
            client = self._client()
            if client.has_collection(name, timeout=_PATIENCE):
                client.drop_collection(name, timeout=_PATIENCE)
            properties = {_FORM: self._form(shape)}
            if self._url.mmap:
                properties["mmap.enabled"] = "true"
            client.create_collection(
                name,
                schema=self._schema(client, dimension, shape),
                num_shards=self._url.shards,
                properties=properties,
                timeout=_PATIENCE,
            )
            kind = self._url.kind
            index = client.prepare_index_params()
            index.add_index(VECTOR, index_type=kind.upper(), metric_type="IP", params=_BUILD.get(kind, {}))
            client.create_index(name, index, timeout=_PATIENCE)
            client.load_collection(name, replica_number=self._url.replicas, timeout=_PATIENCE)

    def _schema(self, client: Any, dimension: int, shape: Shape) -> Any:
        from pymilvus import DataType

        kinds = {Kind.STRING: DataType.VARCHAR, Kind.BOOLEAN: DataType.INT8}
        schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
        schema.add_field(ROW, DataType.INT64, is_primary=True)
        schema.add_field(VECTOR, DataType.FLOAT_VECTOR, dim=max(dimension, 2))
        for name, each in columns(shape).items():
            more = {"max_length": LONGEST + 1} if each.kind is Kind.STRING else {}
            schema.add_field(name, kinds.get(each.kind, DataType.DOUBLE), **more)
        return schema

    def _form(self, shape: Shape) -> str:
        """Return what names the columns and the kind of the index."""
        named = f"{_LAYOUT} {self._url.kind} {sorted(columns(shape))}"
        return hashlib.sha256(named.encode()).hexdigest()[:16]

    def drop(self, name: str) -> None:
        name = self._collection_name(name)
        with self._convert_errors():
            client = self._client()
            if client.has_collection(name, timeout=_PATIENCE):
                client.drop_collection(name, timeout=_PATIENCE)

    def _collection_name(self, name: str) -> str:
        return f"{self._url.prefix}_{name}"

    # Vectors

    def put(self, name: str, vectors: Sequence[IndexedVector], shape: Shape) -> None:
        with self._convert_errors():
            for part in _vector_parts(vectors):
                rows = [
                    {ROW: each.row, VECTOR: _numbers(each.vector), **cells(each.fields, shape)}
                    for each in part
                ]
                self._client().upsert(self._collection_name(name), rows, timeout=_PATIENCE)
        # Of a set that an earlier process filled, it is not known how many were not sealed.
        self._growing[name] = self._growing.get(name, _MOST_GROWING) + len(vectors)

    def remove(self, name: str, rows: Sequence[int]) -> None:
        with self._convert_errors():
            for first in range(0, len(rows), MOST):
                part = list(rows[first : first + MOST])
                self._client().delete(self._collection_name(name), ids=part, timeout=_PATIENCE)

    def advance(self, name: str, mark: str, *, complete: bool) -> str:
        if complete and self._growing.get(name, 0) > _MOST_GROWING:
            self._seal(name)
        with self._convert_errors():
            client = self._client()
            # The client library has the call, but only its connection offers it.
            stamp = client._get_connection().alloc_timestamp(timeout=_PATIENCE)
            client.alter_collection_properties(self._collection_name(name), {_MARK: mark}, timeout=_PATIENCE)
        return str(stamp)

    def _seal(self, name: str) -> None:
        """Let Milvus seal the growing segments of a set, and index them, unless it did so just now."""
        now = time.monotonic()
        if now - self._sealed.get(name, -_SEALING) < _SEALING:
            return
        self._sealed[name] = now
        try:
            self._client().flush(self._collection_name(name), timeout=_PATIENCE)
        except Exception as error:  # a server may be slow at it, or limit it; then it seals by itself later
            log.info("Milvus did not seal the set %s: %s", name, error)
            return
        self._growing[name] = 0

    def narrows(self, where: Filter, shape: Shape) -> bool:
        found = expression(where, shape)
        return found is not None and found.exact

    def nearest(
        self, name: str, vector: bytes, where: Filter, shape: Shape, most: int, note: str
    ) -> Sequence[int]:
        said = expression(where, shape)
        seen: dict[str, Any] = {"consistency_level": "Strong"}
        if not self._url.strong:
            seen = {"consistency_level": "Customized", "guarantee_timestamp": int(note)}
        with self._convert_errors():
            found = self._client().search(
                self._collection_name(name),
                [_numbers(vector)],
                filter=said.text if said else "",
                limit=min(most, MOST),
                anns_field=VECTOR,
                search_params={"metric_type": "IP", "params": self._effort(most)},
                timeout=self.slowest,
                **seen,
            )
        return [int(row) for row in found[0].ids]

    def _effort(self, most: int) -> dict[str, int]:
        if self._url.kind == "hnsw":
            return {"ef": min(max(2 * most, _LEAST_EFFORT), 32_768)}
        if self._url.kind == "diskann":
            return {"search_list": min(max(2 * most, _LEAST_EFFORT), 65_535)}
        return {"nprobe": _PROBES} if self._url.kind.startswith("ivf") else {}

    # Connections

    def _client(self) -> Any:
        with self._gate:
            if self._connected is None:
                from pymilvus import MilvusClient

                logging.getLogger("pymilvus").setLevel(logging.CRITICAL + 1)  # its errors are reported here
                self._connected = MilvusClient(
                    uri=self._url.uri, token=self._url.token, db_name=self._url.database, timeout=_CONNECT
                )
            return self._connected

    def close(self) -> None:
        with self._gate:
            connected, self._connected = self._connected, None
        if connected is not None:
            with contextlib.suppress(Exception):
                connected.close()

    @contextlib.contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Convert errors of the client library, which have no base class in common."""
        try:
            yield
        except StoreError:
            raise
        except ImportError as error:
            message = say(
                "the setting vector_index needs another package. Install it with: {command}",
                command=extra_command("milvus"),
            )
            raise StoreError(message) from error
        except Exception as error:
            self.close()
            detail = (str(getattr(error, "message", "") or error).strip().splitlines() or ["?"])[0][:300]
            message = say("{place} cannot be used ({detail})", place=self.place, detail=detail)
            raise StoreError(message) from error


def _numbers(vector: bytes) -> Any:
    """Return a vector for the client. Milvus has none with one dimension, so that gets a second one."""
    import numpy as np

    found = np.frombuffer(vector, dtype="<f4")
    return found if len(found) > 1 else np.append(found, np.float32(0))


def _vector_parts(vectors: Sequence[IndexedVector]) -> Iterator[Sequence[IndexedVector]]:
    """Yield vectors in parts of limited size."""
    if vectors:
        size = max(1, _MOST_BYTES // (len(vectors[0].vector) + 4 * LONGEST))
        for first in range(0, len(vectors), size):
            yield vectors[first : first + size]
