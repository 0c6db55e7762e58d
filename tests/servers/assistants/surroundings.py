"""Files of clients as people leave them: hand-written samples, and random ones, in each format."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import strategies as st

from tabane.servers.assistants.table import ServersPlace
from tests.servers.test_splicing import files

_LINE_ENDS = st.sampled_from(["\n", "\r\n"])
_TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=6) | st.sampled_from(
    [
        "タバネ",
        "# no comment",
        "a: b",
        "[x]",
        "'",
        '"',
        "=",
        "- x",
        "~",
        "null",
        "{",
        "]]",
        '"""',
        "'''",
        "\\",
    ]
)
_VALUES = st.recursive(
    st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS.filter(bool), inner, max_size=3),
    max_leaves=8,
)
_SERVERS = st.dictionaries(
    _TEXTS.filter(lambda name: bool(name) and name != "tabane"),
    st.fixed_dictionaries(
        {"command": _TEXTS, "args": st.lists(_TEXTS, max_size=2)}, optional={"env": _VALUES}
    ),
    max_size=3,
)
_COMMENTS = st.sampled_from(["", "# 注: mine", "#", "", "   # indented"])


@st.composite
def json_texts(draw: st.DrawFn, key: str) -> str:
    text, _ = draw(files())
    return text.replace('"mcpServers"', json.dumps(key))


@st.composite
def toml_texts(draw: st.DrawFn, key: str) -> str:
    """TOML with tables, tables in lists, inline tables, comments and long strings."""
    lines: list[str] = []
    names = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=8)

    def values(place: str) -> None:
        for name, value in draw(st.dictionaries(names, _VALUES, max_size=3)).items():
            lines.append(draw(_COMMENTS))
            lines.append(f"{place}{name} = {_toml(value)}{draw(st.sampled_from(['', ' # why', '  ']))}")

    values("")
    long = st.sampled_from(['long{n} = """\n[a]\n# x\n"""', "list{n} = [ # a\n  1, # ]\n]"])
    lines += [draw(long).format(n=number) for number in range(draw(st.integers(0, 2)))]
    for name in draw(st.lists(names, unique=True, max_size=2)):
        lines.append(draw(st.sampled_from([f"[table-{name}]", f'["{name} タ".b]', f"[[many-{name}]]"])))
        values("")
    for name, server in draw(_SERVERS).items():
        lines.append(draw(_COMMENTS))
        lines.append(f"[{key}.{json.dumps(name, ensure_ascii=False)}]")
        lines += [f"{part} = {_toml(value)}" for part, value in server.items()]
    return _joined(draw, lines)


@st.composite
def yaml_texts(draw: st.DrawFn, key: str) -> str:
    """YAML as a library writes it, in block and in flow style, with comments between its lines."""
    value: dict[str, Any] = draw(st.dictionaries(_TEXTS.filter(bool), _VALUES, max_size=3))
    if draw(st.booleans()):
        value[key] = draw(_SERVERS)
    text = yaml.safe_dump(
        value,
        allow_unicode=True,
        default_flow_style=draw(st.sampled_from([False, None, True])),
        indent=draw(st.sampled_from([2, 4])),
        sort_keys=False,
        width=draw(st.sampled_from([20, 10_000])),
    )
    lines = text.splitlines()
    if draw(st.booleans()):
        lines.insert(0, draw(st.sampled_from(["---", "# mine", ""])))
    if draw(st.booleans()):
        lines.append(draw(_COMMENTS))
    return _joined(draw, lines)


def texts(place: ServersPlace) -> st.SearchStrategy[str]:
    """Random texts of a client's file, of which some have other servers."""
    strategy = {"toml": toml_texts, "yaml": yaml_texts}.get(place.form, json_texts)
    return strategy(place.key[0])


def samples(place: ServersPlace) -> list[str]:
    """Return texts that a person may have written: empty, rich, with each kind of layout."""
    key = place.key[0]
    if place.form == "toml":
        rich = (
            f"# mine\nmodel = \"o3\" # タバネ\nbig = 1_000\n\n[{key}.time]\ncommand = 'uvx'\n"
            f'args = [ # two\n  "a",\n]\n\n[{key}.time.env]\nKEY = "v"\n\n'
            f'[other]\ntext = """\n[{key}.tabane]\n"""\n'
        )
        return ["", "\n", "# only a comment\n", rich, f"[{key}]\n", "[[list]]\na = 1\n\n[[list]]\na = 2\n"]
    if place.form == "yaml":
        rich = (
            f"# mine\nmodel: o3  # タバネ\n\n{key}:\n  # the clock\n  time:\n    cmd: uvx\n    args:\n"
            "    - a\n    - b\n    type: stdio\n\nafter: |\n  text: of\n    many lines\nlast: 'x'\n"
        )
        return [
            "",
            "# only a comment\n",
            rich,
            f"{key}: {{}}\n",
            f"{key}:\n",
            f"{key}: {{time: {{cmd: x}}}}\n",
            "a: 1\n",
        ]
    shown = json.dumps(key)
    rich = (
        f'{{\n\t// mine\n\t{shown}: {{\n\t\t"time": {{"command": "uvx"}}, // タバネ\n\t}},\n\t"big": 1.50,\n'
        '\t/* and */ "esc": "\\u3042"\n}\n'
    )
    return [
        "",
        "{}",
        "{}\n",
        rich,
        f"{{{shown}: {{}}}}",
        f'{{{shown}:{{"a":{{"command":"x"}}}}}}',
        '{\n  "a": 1\n}',
    ]


def layouts(text: str) -> dict[str, str]:
    """Return a text in the layouts that editors leave behind."""
    return {
        "as it is": text,
        "windows": text.replace("\n", "\r\n"),
        "marked": "\ufeff" + text,
        "without its last line end": text.removesuffix("\n"),
        "with spaces at its end": text + "\n\n",
    }


def _joined(draw: st.DrawFn, lines: list[str]) -> str:
    end = draw(_LINE_ENDS)
    return "\n".join(lines).replace("\n", end) + draw(st.sampled_from(["", end, end * 2]))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)} = {_toml(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value) if "inf" not in repr(value) else repr(value).replace("inf", "inf")
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
