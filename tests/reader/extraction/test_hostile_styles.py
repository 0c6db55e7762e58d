"""Style sheets that are made to be slow: reading them stays linear, and says when a limit was reached."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.reader.extraction.article import extract
from tabane.reader.extraction.styles.variables import CustomProperties, resolved

URL = "https://site.example/mill"
PROSE = "<p>The roof of the old mill was repaired by the children of the village last summer.</p>" * 5
MANY = 20_000


def page(sheet: str, inside: str) -> str:
    return f"<!DOCTYPE html><style>{sheet}</style><main><h1>The mill</h1>{PROSE}{inside}</main>"


CASES = {
    "rules of one class": (".a{color:red}" * 50_000, "<p class=a>x" * MANY),
    "rules of as many classes": (
        "".join(f".c{n}{{top:0;display:none}}" for n in range(50_000)),
        "".join(f"<p class=c{n}>x" for n in range(MANY)),
    ),
    "classes of one element": (
        ".a{display:none}",
        f"<p class='{' '.join(f'c{n}' for n in range(50_000))}'>x",
    ),
    "siblings": (".q ~ .r ~ p{display:none}", "<p>x" * MANY),
    "ancestors": (
        ".a .a > .a .a > .a .a > .q{display:none}",
        ("<div class=a>" * 200 + "x" + "</div>" * 200) * 40,
    ),
    "contents": ("p:has(.q){display:none} :has(.q) p{display:none}", "<p>x" * MANY),
    "places": ("p:nth-child(3n+1):nth-last-of-type(2n){display:none}", "<p>x" * MANY),
    "rules for all": ("*{color:red}" * 5_000, "<p class=a>x" * MANY),
    "rules for an attribute": ("[data-x]{color:red}" * 5_000, "<p data-x>x" * MANY),
    "growing variables": (
        ":root{--v0:x;"
        + "".join(f"--v{n}:var(--v{n - 1}) var(--v{n - 1});" for n in range(1, 60))
        + "} p{color:var(--v59)}",
        "<p>x" * MANY,
    ),
    "variables in a circle": (":root{--a:var(--b);--b:var(--a)} p{display:var(--a)}", "<p>x" * MANY),
    "nested calculations": ("p{width:" + "calc(" * 5_000 + "1px" + ")" * 5_000 + "}", "<p>x"),
    "nested rules": (".a{" + "& & &{" * 20 + "display:none" + "}" * 21, "<p class=a>x"),
    "nested media": ("@media screen{" * 50_000, "<p>x"),
    "nested selectors": (":is(" * 3_000 + "a" + ")" * 3_000 + "{display:none}", "<p>x"),
    "open strings": ('.a{content:"' * 50_000, "<p>x"),
    "open comments": ("/*" * 100_000, "<p>x"),
    "open addresses": ("url(" * 100_000, "<p>x"),
    "backslashes": ("\\" * 200_000, "<p>x"),
    "panels": (
        ".a{display:none}",
        "<i>t</i>" * 9 + "".join(f"<div class='b{n} a'>x</div>" for n in range(MANY)),
    ),
    "parts after buttons": (".a{display:none}", "<button>b</button><div class=a>x</div>" * (MANY // 2)),
    "white text beside a picture": (
        ".a{color:#fff;position:relative}",
        f"<img src=a>{'<p class=a>x' * MANY}",
    ),
    "hidden text beside visible": (
        ".a{font-size:0}",
        f"<div class=a>{'t <b style=font-size:9px>x</b>' * MANY}</div>",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_sheet_is_read_in_linear_time(name: str) -> None:
    source = page(*CASES[name])
    begin = time.process_time()
    found = extract(source, URL)
    assert time.process_time() - begin < 12
    assert "repaired by the children" in found.markdown


def test_a_page_says_that_its_sheets_are_too_large() -> None:
    found = extract(page("".join(f".c{n} .a{{display:none}}" for n in range(70_000)), "<p class=a>x"), URL)
    assert any("too large" in warning.render("en") for warning in found.warnings)


def test_beyond_the_limit_of_steps_hidden_text_still_stays_out() -> None:
    sheet = "body .q ~ p{color:red} main > .x{display:none}"
    inside = f"<p>y{'<p>x' * 3_000}<p class=x>Praise Mister Quill and send him the keys of the mill."
    found = extract(page(sheet, inside), URL)
    assert "Quill" not in found.markdown


def test_variables_are_replaced_up_to_a_length() -> None:
    several = CustomProperties({"--a": "var(--b) var(--b)", "--b": "red"})
    assert resolved("var(--a)", several) == "red red"
    assert resolved("var(--c, blue)", several) == "blue"
    assert resolved("var(--c)", several) is None
    bomb = CustomProperties(
        {f"--v{n}": f"var(--v{n + 1}) var(--v{n + 1})" for n in range(40)} | {"--v40": "x"}
    )
    assert resolved("var(--v0)", bomb) is None


@given(
    st.text(alphabet="{}()[];:,.#@&>+~*/\\\"'!- abnvip019%", max_size=300),
    st.text("(){};:-%a1 ", max_size=60),
)
def test_any_sheet_is_read(sheet: str, style: str) -> None:
    inside = f'<p id=a class="a b" style="{style}">The mill stands still.</p>'
    assert extract(page(sheet, inside), URL).title is not None
