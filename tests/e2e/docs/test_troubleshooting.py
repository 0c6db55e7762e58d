"""docs/troubleshooting.md has a section for each finding and error, and `tabane manual` finds it."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path
from typing import get_args
from urllib.parse import unquote

import pytest

from tabane import errors
from tabane.errors import BadArguments, CallerError, HubError, StoreFull, TabaneError
from tabane.hub.doctor import checkup
from tabane.hub.doctor.__main__ import finding_row
from tabane.hub.doctor.installation import fault, ok
from tabane.hub.doctor.troubles import OF_FAILED_STARTS, Trouble, trouble_of
from tabane.hub.local.client import raised
from tabane.hub.sources.manual import GetDocumentation, get_documentation
from tabane.messages import Lang, say
from tabane.operations import Caller, Face
from tabane.upstreams.launching.failure_causes import FailureKind
from tabane.web.rendering import Assets, TemplateRenderer
from tests.e2e.docs.pages import ROOT
from tests.e2e.docs.test_translations import headings, slug
from tests.harness.home import Home

SECTIONS = [*checkup.SECTIONS, checkup.NETWORK, checkup.SERVERS, checkup.AUTHORIZATION, checkup.SITES]


def test_the_page_has_exactly_the_sections_that_findings_and_errors_name() -> None:
    text = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
    assert [slug(title) for title in re.findall(r"^### (.+)$", text, re.MULTILINE)] == [*Trouble]


@pytest.mark.parametrize("lang", ["en", "ja"])
@pytest.mark.parametrize("trouble", Trouble)
def test_the_manual_finds_each_section_in_both_languages(trouble: Trouble, lang: Lang) -> None:
    found = read(trouble.section, lang)
    name = "troubleshooting.ja.md" if lang == "ja" else "troubleshooting.md"
    titles = [slug(title) for title in headings(ROOT / "docs" / name)]
    english = [slug(title) for title in headings(ROOT / "docs/troubleshooting.md")]
    assert titles.index(slug(found["title"].rpartition(" › ")[2])) == english.index(trouble)
    assert found["text"]


@pytest.mark.parametrize(
    ("section", "lang", "title"),
    [
        ("settings#flow_policy", "en", "flow_policy"),
        ("privacy", "en", "privacy.md"),
        ("privacy", "ja", "privacy.ja.md"),
        ("privacy.md", "ja", "privacy.md"),
        ("settings", "ja", "settings.md"),
        ("privacy.ja.md#削除する方法", "en", "削除する方法"),
    ],
)
def test_a_page_is_found_without_its_suffix_and_a_section_by_its_anchor(
    section: str, lang: Lang, title: str
) -> None:
    assert read(section, lang)["title"].endswith(title)


@pytest.mark.parametrize("section", ["privacy#what-is-stored-and-were", "nothing#at-all", "settings#"])
def test_an_unknown_section_is_an_error_that_names_near_ones(section: str) -> None:
    if section == "settings#":
        assert read(section, "en")["title"] == "settings.md"
        return
    with pytest.raises(BadArguments, match=r"what-is-stored-and-where|no page nothing"):
        read(section, "en")


def test_every_check_has_a_section_and_only_what_is_in_order_has_no_help() -> None:
    checks = [check for section in SECTIONS for check, _ in section.checks]
    assert len(set(checks)) == len(checks) >= 25
    section = checkup.DoctorSection(
        "x", say("x"), ((lambda _: [fault(say("a")), ok(say("b"))], Trouble.HUB),)
    )
    helps = [finding.help for finding in checkup.findings(section, None)]  # type: ignore[arg-type]
    assert helps == [Trouble.HUB.section, None]


def test_kinds_of_failed_starts_are_kinds_that_exist() -> None:
    assert set(OF_FAILED_STARTS) <= set(get_args(FailureKind))


def test_errors_that_are_not_the_callers_have_a_section_also_as_answers_of_a_hub() -> None:
    tree = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, TabaneError)}
    without = {kind.__name__ for kind in tree if of_kind(kind) is None and not issubclass(kind, CallerError)}
    assert without == {
        "TabaneError", "HubDraining", "AnswerTooLong",
        "WorkerError", "WorkerBusy", "WorkerSpent", "WorkerEnded", "WorkerUnavailable",
    }  # fmt: skip
    assert {kind for kind in tree if issubclass(kind, CallerError) and of_kind(kind)} == set()


def of_kind(kind: type[TabaneError]) -> Trouble | None:
    """Return the section of an error, which is the same if it comes from a hub."""
    error = kind.__new__(kind)
    TabaneError.__init__(error, say("x"))
    data = {"data": {"reason": kind.reason}} if kind.reason else {}
    answer = raised({"code": kind.code, "message": "x", **data})
    assert trouble_of(error) == trouble_of(answer)
    return trouble_of(error)


def test_the_terminal_names_the_section_once_and_json_has_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (home.folder / "tabane.toml").write_text("mode = 'nothing'\n")
    (home.folder / "tabane.toml").chmod(0o600)
    home.environment["TABANE_CONFIG"] = str(home.folder / "tabane.toml")
    named = Trouble.CONFIGURATION.section
    failed = home.run("servers", "list")
    assert failed.err.splitlines()[-1] == f"Help: tabane manual {named}"
    assert home.run("servers", "list", "--json").json["error"]["help"] == named
    assert "Help:" not in home.run("servers", "lsit").err
    checked = home.run("doctor", "--quick", "--json").json["findings"]
    assert {row["help"] for row in checked if row["level"] == "fault"} == {named}
    assert {row["help"] for row in checked if row["level"] == "ok"} == {None}
    printed = home.run("doctor", "--quick").out
    assert printed.count("Help: tabane manual troubleshooting#") == 1


def test_the_health_page_links_what_is_wrong_to_its_section() -> None:
    section = checkup.DoctorSection(
        "x", say("x"), ((lambda _: [fault(say("a")), ok(say("b"))], Trouble.HUB),)
    )
    rows = [finding_row(finding, "en") for finding in checkup.findings(section, None)]  # type: ignore[arg-type]
    context = {
        "job": {"status": "done", "ended": 0},
        "wrong": [{**rows[0], "section": "x", "action": None}],
        "notes": [],
        "good": [{"title": "x", "findings": rows[1:]}],
        "counts": {"fault": 1, "warning": 0},
        "fixable": 0,
        "fixes": None,
    }
    shown = TemplateRenderer(Assets()).render("health/checkup.html", "en", lambda _: True, context)
    (link,) = re.findall(r'href="/search/manual\?section=([^"]+)"', shown)
    assert unquote(link) == Trouble.HUB.section


def test_the_most_frequent_errors_lead_to_their_sections() -> None:
    assert trouble_of(HubError(say("x"))) == Trouble.HUB
    assert trouble_of(StoreFull(say("x"))) == Trouble.STORE


def read(section: str, lang: Lang) -> dict[str, str]:
    reader = Caller("local", Face.RPC, "test", lang)
    found: dict[str, str] = asyncio.run(get_documentation(reader, GetDocumentation(section)))
    return found
