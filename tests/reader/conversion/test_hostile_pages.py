"""Expensive pages are returned as their text, and other pages are read meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import psutil
import pytest

from tabane.errors import ReadError
from tabane.reader.conversion import PageConverter
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import ReadingTools
from tabane.reader.url_reader import UrlReader
from tests.harness.patience import until
from tests.reader.conversion.test_conversion import busy, converting, slow_page
from tests.reader.fakes import FakeFetcher, answer

BAD, GOOD = "https://bad.test/", "https://good.test/"
NORMAL = b"<title>T</title><body><main><h1>News</h1><p>" + b"Something happened today. " * 30 + b"</p></main>"
UNSEEN = (
    b"<script>var secret = 1</script><style>.secret{}</style><!-- secret --><template>secret</template>"
    b"<noscript>secret</noscript><div hidden>secret <div>secret</div> secret</div>"
    b"<p style='display:none'>secret</p>"
    b'<div title="a > b" class="sr-only">secret</div>'
)


def _attributes(count: int) -> bytes:
    return b" ".join(b"a%d=x" % n for n in range(count))


EXPENSIVE: dict[str, bytes] = {
    "attributes": b"<div %s>Seen.</div>" % _attributes(1_000_000),
    "many elements": b"<p>Seen.</p>" + b"<i a=b></i>" * 1_000_000,
    "styles": b"<p>Seen.</p>" + b"<b style='color:red;font-size:12px' class='tab panel'>x</b>" * 200_000,
    "links": b"<p>Seen.</p>" + b"<a href='/x?%s'>l</a>" % (b"y" * 20) * 300_000,
    "table": b"<p>Seen.</p><table>" + b"<tr>" + b"<td>x" * 500_000 + b"</table>",
    "large": b"<p>Seen.</p>" + b"<p class=c>Some text <a href=/x>link</a> and more.</p>\n" * 350_000,
}


def page_of(name: str) -> bytes:
    return b"<title>Its name</title><body>" + UNSEEN + EXPENSIVE[name]


async def reads(conversion: PageConverter, url: str) -> Page:
    """Read a page in the general way, from a network with the hostile page and a normal one."""
    fetcher = FakeFetcher(
        {
            BAD: answer(BAD, page_of("attributes").decode()),
            **{f"{GOOD}{n}": answer(f"{GOOD}{n}", NORMAL.decode()) for n in range(5)},
        }
    )
    return await UrlReader(ReadingTools(fetcher, conversion)).read(url)


async def test_others_are_read_while_a_hostile_page_is_pending() -> None:
    async with converting(seconds=600, deadline=600) as conversion:
        hostile = asyncio.create_task(reads(conversion, BAD))
        await until(lambda: bool(conversion.busy))
        first = conversion.busy[0]
        os.kill(first, signal.SIGSTOP)  # so that it is pending for as long as this takes, however fast it is
        for number in range(5):
            page = await reads(conversion, f"{GOOD}{number}")
            assert "Something happened" in page.markdown
            assert page.title == "T"
        assert not hostile.done()
        assert len(conversion.pids) == 2
        hostile.cancel()


@pytest.mark.heavy("input that is expensive on purpose")
@pytest.mark.parametrize("name", EXPENSIVE)
async def test_a_page_beyond_its_budget_comes_as_what_it_shows(name: str) -> None:
    async with converting(seconds=0.05, deadline=150) as conversion:
        page = await conversion.page(page_of(name), BAD, "text/html")
        assert "Seen." in page.markdown
        assert "secret" not in page.markdown
        assert page.title == "Its name"
        assert page.way == "plain"
        assert any("without structure" in str(warning) for warning in page.warnings)
        assert "構造" in page.warnings[0].render("ja")


async def test_other_texts_come_as_they_are() -> None:
    async with converting(seconds=0.05, deadline=150) as conversion:
        json = b"[" + b'{"a": [1, 2, 3]}, ' * 200_000 + b"1]"
        page = await conversion.page(json, BAD, "application/json")
        assert page.markdown.startswith('[{"a": [1, 2, 3]}, ')
        assert any("without structure" in str(warning) for warning in page.warnings)


@pytest.mark.heavy("input that is expensive on purpose")
async def test_what_is_no_text_is_an_error() -> None:
    async with converting(seconds=0.1, deadline=150) as conversion:
        with pytest.raises(ReadError, match="CPU time") as raised:
            await conversion.page(slow_page(2), BAD, "image/png")
        assert raised.value.cause == "broken"


@pytest.mark.heavy("input that is expensive on purpose")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold a process to its memory")
async def test_a_page_that_needs_too_much_memory_comes_as_its_text() -> None:
    async with converting(memory=400_000_000, seconds=100, deadline=150) as conversion:
        page = await conversion.page(page_of("many elements"), BAD, "text/html")
        assert "Seen." in page.markdown
        assert "secret" not in page.markdown


@pytest.mark.heavy("input that is expensive on purpose")
async def test_a_page_that_kills_its_process_costs_nobody_else() -> None:
    async with converting(seconds=600, deadline=600) as conversion:
        hostile = asyncio.create_task(conversion.page(page_of("links"), BAD, "text/html"))
        killed: set[int] = set()
        for number in range(2):
            await until(lambda: bool({*conversion.busy} - killed) and busy(conversion))
            (pid,) = {*conversion.busy} - killed
            killed.add(pid)
            os.kill(pid, signal.SIGKILL)
            page = await conversion.page(NORMAL, f"{GOOD}{number}", "text/html")
            assert page.markdown.startswith("# News")
        page = await hostile
        assert "Seen." in page.markdown
        assert any("twice" in str(warning) for warning in page.warnings)


@pytest.mark.heavy("input that is expensive on purpose")
async def test_hostile_pages_of_many_sites_have_three_processes_at_most() -> None:
    async with converting(seconds=0.2, deadline=150) as conversion:
        body = page_of("styles")
        pages = [
            asyncio.create_task(conversion.page(body, f"https://{n}.test/", "text/html")) for n in range(6)
        ]
        most = 0
        while not all(page.done() for page in pages):
            most = max(most, len([pid for pid in conversion.pids if psutil.pid_exists(pid)]))
            await asyncio.sleep(0.01)
        assert 0 < most <= 3
        assert all("Seen." in page.result().markdown for page in pages)
