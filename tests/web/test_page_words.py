"""Messages in the words of a page: no command of a shell where a page has a button."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

import tabane.messages
from tabane.messages import say
from tabane.messages.page_words import for_page, without_commands

CATALOG = Path(tabane.messages.__file__).parent / "locales" / "ja" / "LC_MESSAGES" / "tabane.po"
COMMAND = re.compile(r"(?<![\w./-])tabane [a-z]", re.ASCII)

CASES = (
    ("linear requires a login. Run: tabane servers login linear", "linear requires a login."),
    ("broken failed: {why}\nThen test it: tabane servers test broken", "broken failed: {why}"),
    ("Log in: tabane servers login linear", "Log in."),
    ("To start the hub: tabane start", ""),
    ("Connect to the network, then run: tabane doctor. Behind a proxy, set HTTPS_PROXY",
     "Behind a proxy, set HTTPS_PROXY"),
    ("git is not running: {why} (next try in 3 s; to try now: tabane servers restart git)",
     "git is not running: {why}"),
    ("linear にはログインが必要です。次を実行してください: tabane servers login linear",
     "linear にはログインが必要です。"),
    ("Tabane needs tabane.toml in ~/.config/tabane", "Tabane needs tabane.toml in ~/.config/tabane"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), CASES)
def test_a_sentence_with_a_command_is_left_out(text: str, shown: str) -> None:
    assert without_commands(text) == shown


def test_no_message_of_the_catalog_keeps_a_command_on_the_page() -> None:
    with CATALOG.open("rb") as file:
        texts = [
            text for entry in read_po(file) for text in (entry.id, entry.string) if isinstance(text, str)
        ]
    assert sum(bool(COMMAND.search(text)) for text in texts) > 100
    assert [text for text in texts if COMMAND.search(without_commands(text))] == []


def test_what_is_filled_in_is_never_left_out() -> None:
    message = say("The program ended: {line}. Run: tabane logs", line="usage: tabane servers login X")
    assert message.render(for_page("en")) == "The program ended: usage: tabane servers login X."
    assert message.render("en").endswith("Run: tabane logs")
