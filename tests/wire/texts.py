"""JSON as peers write it: texts, not values, since what must survive is the spelling."""

from __future__ import annotations

import json

from hypothesis import strategies as st

SPACE = st.text(" \t\r\n", max_size=3)

ESCAPES = st.sampled_from([r"\ud83d\ude00", r"\uD83D\uDE00", r"\u0041", r"\/", r"\"", r"\\", r"\n"])
CHARACTERS = st.characters(codec="utf-8", exclude_characters='"\\', min_codepoint=32)
STRINGS = st.lists(CHARACTERS | ESCAPES, max_size=8).map(lambda parts: '"' + "".join(parts) + '"')

NUMBERS = st.sampled_from(
    ["0", "-0", "-0.0", "1E5", "1e400", "0.10", "1.00000000000000000001", "9" * 30, "7" * 5000, "-1e-999"]
) | st.integers().map(str)
CONSTANTS = st.sampled_from(["true", "false", "null"])
SCALARS = NUMBERS | CONSTANTS | STRINGS


@st.composite
def arrays(draw: st.DrawFn, parts: st.SearchStrategy[str]) -> str:
    elements = [draw(SPACE) + part + draw(SPACE) for part in draw(st.lists(parts, max_size=4))]
    return "[" + (",".join(elements) or draw(SPACE)) + "]"


@st.composite
def objects(draw: st.DrawFn, parts: st.SearchStrategy[str]) -> str:
    members = [
        draw(SPACE) + key + draw(SPACE) + ":" + draw(SPACE) + value + draw(SPACE)
        for key, value in draw(st.lists(st.tuples(STRINGS, parts), max_size=4))
    ]
    return "{" + (",".join(members) or draw(SPACE)) + "}"


def nested(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return arrays(parts) | objects(parts)


VALUES = st.recursive(SCALARS, nested, max_leaves=12)


@st.composite
def member_lists(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]]]:
    """The text of an object, and its members as (name decoded, value as it is spelled), in order."""
    members = draw(st.lists(st.tuples(STRINGS, VALUES), max_size=6))
    spelled = [
        draw(SPACE) + key + draw(SPACE) + ":" + draw(SPACE) + value + draw(SPACE) for key, value in members
    ]
    text = draw(SPACE) + "{" + (",".join(spelled) or draw(SPACE)) + "}" + draw(SPACE)
    return text, [(json.loads(key), value) for key, value in members]
