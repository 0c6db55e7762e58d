"""The moving picture of the README: small, with nothing from elsewhere, true to what a terminal shows."""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.e2e.docs.pages import ROOT
from tests.e2e.docs.session.__main__ import IMAGES, LANGUAGES
from tests.e2e.docs.session.drawing import Typing, picture
from tests.e2e.docs.session.recording import Session, Step
from tests.e2e.docs.session.screen import COLUMNS, Run, Screen, Shown
from tests.e2e.docs.test_docs import command_fault, spelt_out

MOST_BYTES = 150_000
_SVG = "{http://www.w3.org/2000/svg}"

PICTURES = pytest.mark.parametrize("name", LANGUAGES)


@PICTURES
def test_the_picture_is_small_and_needs_nothing_from_elsewhere(name: str) -> None:
    svg = (IMAGES / LANGUAGES[name].name).read_text("utf-8")
    assert len(svg.encode()) <= MOST_BYTES
    kinds = {element.tag.removeprefix(_SVG) for element in ElementTree.fromstring(svg).iter()}
    assert kinds == {"svg", "title", "desc", "style", "rect", "path", "circle", "text", "g"}
    assert (
        re.findall(r"\bhref|\burl\(|@import|@font-face|\bon\w+=|https?://(?!www\.w3\.org/2000/svg\")", svg)
        == []
    )


@PICTURES
def test_the_picture_is_in_both_looks_and_rests_for_whoever_asks(name: str) -> None:
    svg = (IMAGES / LANGUAGES[name].name).read_text("utf-8")
    assert "@media (prefers-color-scheme:dark)" in svg
    still, moving = svg.split("@media (prefers-reduced-motion:no-preference)")
    assert "animation" not in still
    assert "@keyframes" in moving
    (seconds,) = set(re.findall(r"([\d.]+)s step-end", svg))
    assert 15 <= float(seconds) <= 45


@PICTURES
def test_the_picture_shows_commands_that_exist_and_no_path_of_a_machine(name: str) -> None:
    texts = shown_texts((IMAGES / LANGUAGES[name].name).read_text("utf-8"))
    for step in LANGUAGES[name].steps:
        assert re.sub(r"\s", "", f"${step.command}") in re.sub(r"\s", "", texts)
        for part in step.command.split(" && "):
            assert [command_fault(words) for words in spelt_out(part)] == [None]
    assert re.findall(r"/tmp/|/home/(?!aki)|\.venv", texts) == []
    assert str(Path.home()) not in texts


@pytest.mark.parametrize(("readme", "name"), [("README.md", "en"), ("README.ja.md", "ja")])
def test_the_readme_shows_the_picture_with_a_text_for_it(readme: str, name: str) -> None:
    text = (ROOT / readme).read_text("utf-8")
    (alt,) = re.findall(rf"!\[([^\]]+)\]\(docs/images/{re.escape(LANGUAGES[name].name)}\)", text)
    assert len(alt) > 40
    assert all(" ".join(step.command.split()[:2]) in alt for step in LANGUAGES[name].steps)


@pytest.mark.parametrize(
    ("written", "rows"),
    [
        ("one\r\ntwo\r\n", ["one", "two"]),
        ("\x1b[32m✓\x1b[0m done\r\n", ["✓done"]),
        ("half\rw\x1b[Khole\r\n", ["whole"]),
        ("50 %\r\x1b[K100 %\r\n", ["100 %"]),
        ("a\r\nb\r\n\x1b[2A\x1b[Jc\r\n", ["c"]),
        ("あ" * 41, ["あ" * 40, "あ"]),
        ("x" * (COLUMNS + 1), ["x" * COLUMNS, "x"]),
    ],
)
def test_a_terminal_shows(written: str, rows: list[str]) -> None:
    screen = Screen()
    screen.write(written, 0)
    last: dict[int, str] = {}
    for row in screen.finish():
        last[row.row] = "".join(run.text for run in row.runs)
    assert [last[row] for row in sorted(last)] == rows


def test_a_sequence_that_is_not_known_is_an_error() -> None:
    with pytest.raises(ValueError, match="not known"):
        Screen().write("\x1b[5S", 0)


def test_a_row_that_changes_at_once_was_not_seen() -> None:
    screen = Screen()
    for time, text in [(0.0, "a"), (0.05, "b"), (1.0, "c")]:
        screen.write(f"\r{text}", time)
    found = [(row.runs[0].text, row.start, row.end) for row in screen.finish()]
    assert found == [("b", 0.05, 1.0), ("c", 1.0, None)]


def test_runs_keep_their_columns_and_styles() -> None:
    screen = Screen()
    screen.write("\x1b[1mname\x1b[0m    日本 x", 0)
    (row,) = screen.finish()
    assert row.runs == (Run(0, "name", ("bold",)), Run(8, "日本", ()), Run(13, "x", ()))


def test_a_command_is_recorded_with_its_questions_and_without_names_of_this_machine(tmp_path: Path) -> None:
    session = Session(os.environ, tmp_path, {str(tmp_path): "/home/aki"})
    session.run(Step("read -p 'Where? ' place; pwd; echo to $place", ((r"Where\?", "there"),)))
    texts = ["".join(run.text for run in row.runs) for row in session.screen.finish() if row.end is None]
    assert texts[1:] == ["Where? there", "/home/aki", "to there"]
    (line,) = session.typed
    assert (line.row, line.column, len(line.keys)) == (0, 2, 44)


def test_a_command_that_fails_ends_the_recording(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="exit status 3"):
        Session(os.environ, tmp_path, {}).run(Step("exit 3"))


def test_without_motion_the_last_frame_is_shown() -> None:
    """Rows that are gone at the end are invisible, and the others are scrolled as far as at the end."""
    rows = [
        Shown(0, (Run(0, "waiting", ()),), 0.0, 1.0),
        *(Shown(n, (Run(0, f"row{n}", ()),), 1.0) for n in range(30)),
    ]
    svg = picture(rows, [Typing(0, 2, 0.0, [(0.1, 1)])], 2.0, "title", "about")
    root = ElementTree.fromstring(svg)
    gone = {
        text.text
        for group in root.iter(f"{_SVG}g")
        if "gone" in (group.get("class") or "").split()
        for text in group.iter(f"{_SVG}text")
    }
    assert gone == {"waiting"}
    assert "#rows{transform:translateY(-114px)}" in svg  # six of thirty rows are above


def shown_texts(svg: str) -> str:
    return "\n".join("".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{_SVG}text"))
