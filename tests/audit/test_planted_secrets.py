"""Secrets of all kinds, planted in arguments of many shapes: none is left in an entry."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from tabane.audit.redaction import ArgumentRedactor
from tabane.hub.telemetry.live import HubLive
from tests.audit.planted_secrets import PLANTED, Planted

LIMIT = 8192
LONG = "We met on Monday and talked about the release. " * 20
DEEP = 12


def _deep(value: Any) -> Any:
    for level in range(DEEP):
        value = {"a": value} if level % 2 else [value, level]
    return value


def _full_width(text: str) -> str:
    return "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" and one.isalnum() else one for one in text)


VALUES: dict[str, Callable[[Any], Any]] = {
    "a member": lambda value: {"t": value},
    "a list": lambda value: {"t": [value]},
    "a list of lists": lambda value: {"t": [[value]]},
    "a list with others": lambda value: {"t": ["the first", value, "the last", 7]},
    "deep": lambda value: {"t": _deep(value)},
    "after a long text": lambda value: {"a": LONG, "t": value},
    "before a long text": lambda value: {"t": value, "z": LONG},
    "twice": lambda value: {"t": value, "u": value},
    "JSON in a string": lambda value: {"body": json.dumps(value)},
    "JSON in JSON in a string": lambda value: {"body": json.dumps({"x": json.dumps([value])})},
    "JSON with indents": lambda value: {"body": json.dumps({"x": value}, indent=2)},
    "JSON in a sentence": lambda value: {
        "t": f"Send this: {json.dumps({'x': value}, ensure_ascii=False)} please."
    },
    "a call in a call": lambda value: {"name": "call_tool", "arguments": {"tool": "x", "arguments": value}},
    "steps": lambda value: {"steps": [{"do": "open"}, {"do": "write", "with": value}, {"do": "close"}]},
    "beside nothing": lambda value: {"a": None, "b": True, "t": value, "c": 1.5, "d": ""},
    "beside Japanese": lambda value: {"題名": "会議の記録", "本文": value},
}
TEXTS: dict[str, Callable[[str], str]] = {
    "after a line": lambda text: f"Hello,\n{text}",
    "before a line": lambda text: f"{text}\nBye",
    "among lines": lambda text: f"Dear all,\n\n{text}\n\nRegards\nBob",
    "lines of Windows": lambda text: (
        "Hello,\r\n" + text.replace("\r\n", "\n").replace("\n", "\r\n") + "\r\nBye"
    ),
    "blanks around": lambda text: f"  {text}  ",
    "in Japanese": lambda text: f"次のとおりです。\n{text}\nよろしくお願いします。",
    "in German": lambda text: f"Hallo zusammen,\n{text}\nViele Grüße",
    "a block of code": lambda text: f"Run this:\n```sh\n{text}\n```\n",
    "a block of YAML": lambda text: "run: |\n" + "".join(f"  {line}\n" for line in text.splitlines()),
    "CDATA": lambda text: f"<step><![CDATA[{text}]]></step>",
    "an element": lambda text: f"<step>\n{html.escape(text, quote=False)}\n</step>",
    "HTML": lambda text: f"<p>{html.escape(text)}</p>",
    "a query": lambda text: f"https://example.com/?q={quote(text, safe='')}&lang=en",
    "encoded twice": lambda text: quote(quote(text, safe=""), safe=""),
    "a string of Python": lambda text: f"print({json.dumps(text)})",
    "a string of JavaScript": lambda text: f"run({json.dumps(text, ensure_ascii=False)});",
    "a command with JSON": lambda text: f"curl -d '{json.dumps({'text': text})}' https://example.com",
    "a comment": lambda text: f"# note\n{text}\n# end",
    "a long text before": lambda text: f"{LONG}\n{text}",
    "a long text around": lambda text: f"{LONG}\n{text}\n{LONG}",
    "full width around": lambda text: f"　メモ\n{text}\n　以上",
}
WRITTEN: dict[str, Callable[[Any], bytes]] = {
    "all escapes": lambda value: json.dumps({"t": value}).encode(),
    "no blanks": lambda value: json.dumps({"t": value}, ensure_ascii=False, separators=(",", ":")).encode(),
    "lines": lambda value: json.dumps({"t": value}, ensure_ascii=False, indent=1).encode(),
    "cut": lambda value: json.dumps({"t": value, "z": "x"}, ensure_ascii=False).encode()[:-8],
    "no object": lambda value: json.dumps([value], ensure_ascii=False).encode(),
    "bytes before": lambda value: b"\xff\xfe" + json.dumps({"t": value}, ensure_ascii=False).encode(),
    "escaped slashes": lambda value: (
        json.dumps({"t": value}, ensure_ascii=False).replace("/", "\\/").encode()
    ),
    "beyond the limit": lambda value: json.dumps({"t": value, "z": LONG * 12}, ensure_ascii=False).encode(),
}


def left_of(arguments: bytes, secrets: tuple[str, ...]) -> list[str]:
    """Return the secrets that an entry of these arguments still shows."""
    redactor = ArgumentRedactor(LIMIT)
    try:
        written = redactor.prepare(arguments).take()[0].decode()
    finally:
        redactor.close()
    shown = {
        written,
        written.replace("\\\\", "\\").replace('\\"', '"').replace("\\/", "/"),
        str(json.loads(written)),
    }
    forms = {one: {one, quote(one, safe=""), quote_plus(one), html.escape(one)} for one in secrets}
    return [one for one in secrets if any(form in text for form in forms[one] for text in shown)]


def written_in(shape: str, planted: Planted) -> bytes | None:
    """Return arguments that have a planted secret in a shape; None if the shape is one of texts only."""
    if shape in WRITTEN:
        return WRITTEN[shape](planted.value)
    if shape in VALUES:
        return json.dumps(VALUES[shape](planted.value), ensure_ascii=False).encode()
    if not isinstance(planted.value, str):
        return None
    return json.dumps({"t": TEXTS[shape](planted.value)}, ensure_ascii=False).encode()


SHAPES = (*VALUES, *TEXTS, *WRITTEN)


@pytest.mark.heavy
@pytest.mark.parametrize("shape", SHAPES)
def test_no_planted_secret_is_left(shape: str) -> None:
    survivors = []
    for planted in PLANTED:
        arguments = written_in(shape, planted)
        if arguments is not None and left_of(arguments, planted.secrets):
            survivors.append(planted.value)
    assert survivors == []


@pytest.mark.parametrize("first", range(16))
def test_secrets_and_shapes_taken_in_turn(first: int) -> None:
    for at, planted in enumerate(PLANTED[first::16]):
        arguments = written_in(SHAPES[(first + at) % len(SHAPES)], planted)
        assert arguments is None or left_of(arguments, planted.secrets) == []


def test_what_is_no_secret_stays_readable() -> None:
    for planted in PLANTED:
        arguments = json.dumps({"t": planted.value}, ensure_ascii=False).encode()
        redactor = ArgumentRedactor(LIMIT)
        written = redactor.prepare(arguments).take()[0].decode()
        assert all(kept in written for kept in planted.kept)


def test_what_a_person_is_shown_before_a_call_is_hidden_in_the_same_way() -> None:
    nobody: Any = None
    shown = HubLive(nobody, nobody, nobody, nobody)
    for planted in PLANTED[::8]:
        arguments = json.dumps({"t": planted.value}, ensure_ascii=False).encode()
        text = shown.without_secrets(arguments)[0].decode()
        assert [secret for secret in planted.secrets if secret in text] == []
