"""Untrusted text never blocks the hub: in-process work takes time proportional to the text."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tabane.reader import hidden_text, paging, plain_text
from tabane.reader.fetching.interface import FetchedResource
from tabane.reader.sites import any_page, japanese_articles, site_adapter
from tabane.text import invisible_characters
from tests.harness.patience import assert_in_proportion

LONG = 5_000
SECONDS = 200  # of a process of its own: a regular expression that has run wild ends with it

BAD = (
    "[a](b)", "(a)", "[a]", "<a>", "<a b=c>", "`a`", '"a"',
    "a", "[", "[a](", "[a](b", "[a]( ", "[a](b \n", '[a](b "', "![[", "[\\", "[[a]", "[^a", "[a]: ", "`",
    "` `` ", "<!--", "<!---->", "<a", "</", "**a ", "~~a ", "_a ", "__a ", "*", " ", "\n", "\r", "|",
    "| a ", "|-", "> - ", "1. ", "```\n", "\ufeff", "a\ufe0f\u200d", '<div id="root">',
    "<div id=root><!---->", "<app-app ", "<noscript>", "<noscript", "<link ", "<meta ", "<svg", "<style>",
    "<embed-katex><eq", "<embed-katex>", '<figure data-src="https://a', "](", "[\\](", "~~~\n", "|x",
    "<script>", "<div hidden>", "<div ", '<a b="', "<a b='", "<a b=", "<a b='\"", "<svg/", "</div hidden",
)  # fmt: skip

AFTER = {
    "visible": ("<div hidden>",),
    "signs": ('<div id="root">', "<a>;", "[", "<link ", "<meta "),
    "without_links": ("[a](", "["),
    "with_whole_links": ("[", "[a]: "),
    "without_comments": ("[#", "```\n"),
    "plain": ("[a](", "[", "|", "**"),
    "absolute": ("[", "```\n"),
    "zenn": ("<embed-katex>",),
}


def _signs(text: str) -> None:
    body = b"<script></script>" + text.encode()
    any_page.html_hints(FetchedResource("https://a.test/x", 200, {"link": text[:60_000]}, body, "text/html"))
    any_page.pruned(text)


DONE: dict[str, Callable[[str], object]] = {
    "cleaned": invisible_characters.cleaned,
    "one_line": hidden_text.one_line,
    "without_comments": hidden_text.without_comments,
    "without_links": hidden_text.without_links,
    "with_whole_links": lambda text: hidden_text.with_whole_links(text, "https://a.test/"),
    "plain": plain_text.plain,
    "part": lambda text: (paging.part(text, 0, 1000), paging.part(text, len(text) // 2, 1000)),
    "signs": _signs,
    "absolute": lambda text: site_adapter.absolute(text, str.upper),
    "zenn": japanese_articles.zenn_html,
    "note": japanese_articles.note_html,
    "visible": lambda text: (plain_text.visible_text(text), plain_text.title_of(text)),
}


def work(name: str) -> None:
    for before in ("", *AFTER.get(name, ())):
        for bad in BAD:
            print(repr((before, bad)), flush=True)  # the last one is what grows too fast
            assert_in_proportion(_on(name, before, bad), LONG)


def _on(name: str, before: str, bad: str) -> Callable[[int], object]:
    return lambda size: DONE[name](before + bad * (size // len(bad)))


@pytest.mark.heavy("input that is expensive on purpose")
@pytest.mark.parametrize("name", DONE)
def test_work_on_any_text_is_in_proportion_to_it(name: str) -> None:
    script = f"from tests.reader.test_hostile import work; work({name!r})"
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_CPU, ({SECONDS}, {SECONDS})); {script}"
    done = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout.splitlines()[-1:] + done.stderr.splitlines()[-3:]


@pytest.mark.parametrize("bad", ["[\\](", "[[a](", "[a ", "](", "`` ` "])
def test_links_of_bad_text_cost_little_more_than_those_of_good_text(bad: str) -> None:
    """Regular expressions hold the interpreter, so a slow one would stop everything else."""
    good = "See [the page](https://a.test/b) and others. " * 2_000
    text = bad * (len(good) // len(bad))
    assert seconds_of(lambda: hidden_text.without_links(text)) < 25 * seconds_of(
        lambda: hidden_text.without_links(good)
    )


def seconds_of(work: Callable[[], object]) -> float:
    """Return the least processor time of several tries."""

    def once() -> float:
        begun = time.thread_time()
        work()
        return time.thread_time() - begun

    return min(once() for _ in range(5))
