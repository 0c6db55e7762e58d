"""A URL read through everything that is real: the network under the guard, the extractor, the shelf."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

import tabane.reader
from tabane.errors import ReadError
from tabane.reader import ThreadedConversion, reading
from tabane.reader.fetching import PageFetcher
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import ReadingTools
from tabane.reader.url_reader import UrlReader
from tests.reader.shelves import shelved
from tests.reader.site import JAPANESE, LEGACY, Answer, Site, furnish

ARTICLE = """<!doctype html><html lang=en><head><title>On cats | A site</title>
<meta name=author content="Ann Other"><meta property="og:site_name" content="A site">
<meta property="article:published_time" content="2024-03-15"></head><body>
<nav><a href=/>Home</a> <a href=/all>All</a></nav><article><h1>On cats</h1>
<p>A cat sleeps most of the day, and <a href="/fish">fish</a> is what it dreams of at night, as far as is
known to those who have watched one for long enough.</p>
<p>Hid\u202eden\U000e0041\U000e0042 words. In the evening it wakes up, looks about the house, and decides
which of the chairs has to be scratched before the sun goes down.</p>
<h2>How to call one</h2><p>There is a program for everything, and so there is one for calling cats; it is
written in a language whose name is that of another animal.</p>
<pre><code class="language-py">print('meow')</code></pre>
<p>Run it twice, wait for the sound of a bell, and have a bowl at hand: nothing is as quick as a cat that
believes it was meant.</p></article><footer>© A site</footer></body></html>"""


def read(site: Site, path: str) -> Page:
    async def run() -> Page:
        async with reading(site.policy()) as reader:
            return await reader.read(site.url(path))

    return asyncio.run(run())


def test_an_article_is_its_content_and_what_is_known_of_it(site: Site) -> None:
    site.put("/cats", ARTICLE)
    page = read(site, "/cats")
    assert (page.title, page.author, page.site, page.lang, page.way) == (
        "On cats", "Ann Other", "A site", "en", "extracted",
    )  # fmt: skip
    assert (page.date or "").startswith("2024-03-15")
    assert f"[fish]({site.url('/fish')})" in page.markdown
    assert "print('meow')\n```" in page.markdown
    assert "Hidden words." in page.markdown
    assert "Home" not in page.markdown
    assert "©" not in page.markdown
    assert any("3 invisible characters" in str(warning) for warning in page.warnings)
    assert page.text.startswith("On cats")
    assert site.paths == ["/cats"]


@pytest.mark.parametrize("variant", ["", "-meta", "-header"])
@pytest.mark.parametrize("charset", LEGACY)
def test_japanese_of_any_encoding_is_read(site: Site, charset: str, variant: str) -> None:
    furnish(site)
    assert JAPANESE in read(site, f"/{charset}{variant}").markdown


def test_markdown_is_asked_for_and_taken(site: Site) -> None:
    furnish(site)
    page = read(site, "/guide")
    assert (page.markdown.strip(), page.way) == ("# Guide\n\nFirst, open the lid.", "markdown")


def test_a_shell_is_answered_by_llms_txt(site: Site) -> None:
    furnish(site)
    site.put("/app/", "<script src=/a.js></script><div id=root></div>")
    site.put("/app/llms.txt", "# App\n\n- [Guide](/guide.md)\n", "text/plain")
    page = read(site, "/app/")
    assert (page.way, page.title) == ("llms.txt", "App")
    site.put("/app/llms.txt", "<p>not here</p>", status=404)
    with pytest.raises(ReadError) as raised:
        read(site, "/app/")
    assert raised.value.cause == "javascript"


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("/none", "status"), ("/loop", "redirect"), ("/private", "refused"), ("/large", "large"),
        ("/down", "rate"), ("/closed", "rate"), ("/wrong.bin", "type"),
    ],
)  # fmt: skip
def test_the_real_cause_of_a_failure_is_said(site: Site, path: str, cause: str) -> None:
    furnish(site)
    site.put("/wrong.bin", b"\x00\x01\x02" * 100, "application/x-thing")
    with pytest.raises(ReadError) as raised:
        read(site, path)
    assert raised.value.cause == cause


def test_a_private_address_is_refused_unless_it_is_allowed(site: Site) -> None:
    site.put("/", ARTICLE)
    with pytest.raises(ReadError) as raised:
        asyncio.run(tabane.reader.read(site.url("/")))
    assert raised.value.cause == "refused"
    assert site.asked == []
    page = asyncio.run(tabane.reader.read(site.url("/"), policy=site.policy()))
    assert page.title == "On cats"


async def test_a_page_that_has_not_changed_is_not_sent_again(site: Site) -> None:
    furnish(site)
    now = [1000.0]
    async with shelved() as here:
        fetching = PageFetcher(site.policy)
        tools = ReadingTools(fetching, ThreadedConversion())
        reader = UrlReader(tools, shelf=here.shelf, clock=lambda: now[0])
        first = await reader.read(site.url("/etag"))
        now[0] += 1000
        assert await reader.read(site.url("/etag")) == first
        assert [asked.headers.get("if-none-match") for asked in site.asked] == [None, '"one"']
        await fetching.close()


def test_other_types_are_read_as_what_they_are(site: Site) -> None:
    site.put("/a.json", '{"cat": ["meow"]}', "application/json")
    site.put("/a.csv", "name,sound\ncat,meow\n", "text/csv")
    site.put("/a.txt", "Just text.\n", "text/plain")
    assert '"meow"' in read(site, "/a.json").markdown
    assert "| cat | meow |" in read(site, "/a.csv").markdown
    assert "Just text." in read(site, "/a.txt").markdown


def test_the_source_is_what_was_served(site: Site) -> None:
    source = f"<p>{JAPANESE}</p><!-- kept -->"
    site.put("/s", source.encode("shift_jis"), "text/html")

    async def run() -> Page:
        async with reading(site.policy()) as reader:
            return await reader.read(site.url("/s"), raw=True)

    assert asyncio.run(run()).markdown == source


def test_extract_is_pure_and_takes_text_or_bytes() -> None:
    for html in (ARTICLE, ARTICLE.encode()):
        page = tabane.reader.extract(html, "https://a.test/cats")
        assert page.title == "On cats"
        assert "[fish](https://a.test/fish)" in page.markdown
    assert tabane.reader.extract("", "https://a.test/").markdown == ""
    assert tabane.reader.Page is Page
    assert tabane.reader.ReadError is ReadError


def test_importing_the_room_loads_no_library() -> None:
    script = (
        "import sys; before = set(sys.modules); import tabane.reader\n"
        "heavy = {'lxml', 'httpcore2', 'msgspec', 'cchardet', 'markdown_it', 'asyncio', 'trafilatura'}\n"
        "print(sorted((set(sys.modules) - before) & heavy))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_answer_that_nothing_has_changed_is_no_page_where_nothing_was_kept(site: Site) -> None:
    site.ask("/same", lambda _: Answer(304))
    with pytest.raises(ReadError) as raised:
        read(site, "/same")
    assert (raised.value.cause, raised.value.status) == ("status", 304)


def test_what_a_page_leads_to_by_itself_is_judged_as_any_url(site: Site) -> None:
    site.put("/app/", "<script src=/a.js></script><div id=root></div>")
    site.redirect("/app/llms.txt", "http://169.254.169.254/latest/")
    site.put("/go", "<meta http-equiv=refresh content='0;url=http://169.254.169.254/'><p>Still here.</p>")
    with pytest.raises(ReadError) as raised:
        read(site, "/app/")
    assert raised.value.cause == "javascript"
    assert read(site, "/go").markdown == "Still here."
