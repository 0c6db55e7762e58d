"""Everything Tabane says to people is said in Japanese too, with the same fields."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo

from tabane.messages import Lang, Message, language, say
from tests.messages.sentences import MO, Saying, read_catalogue, sayings, translation

HOW = "bring it up to date with python -m tests.messages.sentences, and translate what that names"


def placeholders(template: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(template) if field is not None}


@pytest.fixture(scope="module")
def said(source: Mapping[Path, ast.Module]) -> list[Saying]:
    return list(sayings(source))


@pytest.fixture(scope="module")
def templates(said: list[Saying]) -> set[str]:
    return {saying.template for saying in said if saying.template is not None}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return read_catalogue()


def test_every_sentence_is_written_where_it_is_said(said: list[Saying]) -> None:
    assert [s.where for s in said if s.template is None] == [], "say() takes one literal template"


def test_every_sentence_is_given_the_fields_it_has(said: list[Saying]) -> None:
    wrong = [
        s.where
        for s in said
        if s.template is not None and s.fields and placeholders(s.template) != set(s.fields)
    ]
    assert wrong == []


def test_every_sentence_is_translated(catalog: Catalog, templates: set[str]) -> None:
    missing = sorted(template for template in templates if not translation(catalog, template))
    assert missing == [], HOW


# A command up to what cannot be part of it. One in quotes of either language, or as code, is not looked at.
_PROGRAMS = "tabane|pip|uv|npx|npm|sudo|apt-get|brew|systemctl|loginctl"
_COMMAND = re.compile(rf"(?<![\w./:@「`\"'-])(?:{_PROGRAMS}) (?=[a-z{{-])[ -~]*[!-~]…?")
_SENTENCES = re.compile(r"\{(?:state|reason)\} ?(?=[^\W_])")


def glued(text: str) -> list[str]:
    """Return the commands of a Japanese text that touch its words, so that nobody sees where they end."""
    found = []
    for command in _COMMAND.finditer(text):
        said = command.group()
        end = command.end() - (said.endswith(")") and said.count("(") < said.count(")"))
        before, after = text[: command.start()].rstrip(" ")[-1:], text[end:].lstrip(" ")[:1]
        in_brackets = before == "(" and after == ")"
        follows = before.isalnum() and not before.isascii()
        if not in_brackets and (follows or (after and not after.isascii() and after not in "」』）")):
            found.append(said)
    return found + _SENTENCES.findall(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("進み具合: tabane jobs list", 0),
        ("「tabane stop」で止めてください。", 0),
        ("確認するには: tabane status\n止めるには: tabane stop", 0),
        ("Webページ(tabane open)で", 0),
        ("tabane jobs list残りは", 1),
        ("tabane stop で止めてください。", 1),
        ("詳細は: tabane logs。", 1),
        ("次に tabane start", 1),
        ("{state}残りは", 1),
        ("残りは {state}", 0),
    ],
)
def test_a_glued_command_is_noticed(text: str, count: int) -> None:
    assert len(glued(text)) == count


def test_commands_stand_alone_or_in_quotes(catalog: Catalog) -> None:
    texts = [str(entry.string) for entry in catalog if entry.id]
    assert {text: found for text in texts if (found := glued(text))} == {}, (
        "write 「tabane …」, or a line of its own"
    )


def test_translations_have_the_fields_of_the_sentence(catalog: Catalog, said: list[Saying]) -> None:
    with_fields = {s.template for s in said if s.template is not None and s.fields != frozenset()}
    wrong = [
        template
        for template in with_fields & {str(entry.id) for entry in catalog if entry.string}
        if placeholders(translation(catalog, template)) != placeholders(template)
    ]
    assert wrong == []


def test_nothing_is_translated_that_nobody_says(catalog: Catalog, templates: set[str]) -> None:
    translated = {str(entry.id) for entry in catalog if entry.id}
    assert sorted(translated - templates) == [], HOW
    assert not catalog.obsolete
    assert [entry.id for entry in catalog if entry.fuzzy and entry.id] == []


def test_the_compiled_catalogue_is_the_written_one(catalog: Catalog) -> None:
    with MO.open("rb") as file:
        compiled = {entry.id: entry.string for entry in read_mo(file) if entry.id}
    written = {entry.id: entry.string for entry in catalog if entry.id and entry.string}
    assert compiled == written, HOW


_PLURAL = re.compile(r"\{(\w+)(?::[^}|]*)?\} (?:more |equal |new )?([a-z]{2,}s)\b")

_NOT_NUMBERS = frozenset(
    (  # noqa: SIM905
        "issuer place url client command content filepath given host kind method name nargs package path "
        "pattern program range reason server share source target title tool type url user what who word"
    ).split()
)
"""Fields that are no numbers; and ``nargs``, whose sentences are those of click."""

_VERBS = frozenset(
    (  # noqa: SIM905
        "accepts allows answers appears asks belongs contains defines denies does ends fails gives has is "
        "lists matches loses needs reads redirects requires responds runs sends uses was works"
    ).split()
)


def test_a_number_before_a_plural_chooses_the_singular_too(said: list[Saying]) -> None:
    wrong = [
        f"{s.where}: {found[0]}"
        for s in said
        for found in _PLURAL.finditer(s.template or "")
        if found[1] not in _NOT_NUMBERS and found[2] not in _VERBS
    ]
    assert wrong == [], "write {count} {count:tool|tools}"


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 tools"), (1, "1 tool"), ("1", "1 tool"), (1.0, "1.0 tool"), (2, "2 tools")]
)
def test_a_number_chooses_the_singular_or_the_plural(count: object, shown: str) -> None:
    assert say("{count} {count:tool|tools}", count=count).render("en") == shown


def test_every_sentence_can_be_rendered_in_both_languages(said: list[Saying]) -> None:
    for s in said:
        if s.template is not None and s.fields is not None:
            message = Message(s.template, **dict.fromkeys(s.fields, 1))
            for lang in get_args(Lang):
                assert message.render(lang), s.where


def test_a_sentence_within_a_sentence_is_in_the_same_language() -> None:
    outer = say("{expected}, but the text ends", expected=say("expected a value"))
    assert outer.render("en") == "expected a value, but the text ends"
    assert "expected" not in outer.render("ja")


def test_an_empty_sentence_is_empty_in_every_language() -> None:
    assert [say("").render(lang) for lang in get_args(Lang)] == ["", ""]


def test_braces_of_a_sentence_without_fields_stand_as_they_are() -> None:
    assert say('expected an object such as {"mcpServers": {}}').render("ja").count("{") == 2


@pytest.mark.parametrize(
    ("setting", "locales", "spoken"),
    [
        ("ja", ("en_US.UTF-8",), "ja"),
        ("en", ("ja_JP.UTF-8",), "en"),
        ("auto", ("ja_JP.UTF-8",), "ja"),
        ("auto", ("C.UTF-8", "ja"), "ja"),
        ("auto", (None, "", "POSIX", "de_DE"), "en"),
        ("auto", (), "en"),
    ],
)
def test_the_language_is_the_settings_or_the_callers(
    setting: str, locales: tuple[str | None, ...], spoken: str
) -> None:
    assert language(setting, *locales) == spoken
