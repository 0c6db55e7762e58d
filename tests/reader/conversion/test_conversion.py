"""Pages are made in another process, and whatever happens to it, the hub gets an answer."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from io import BytesIO

import psutil
import pytest

from tabane.errors import ReadError
from tabane.messages import Message
from tabane.reader.conversion import PageConverter
from tabane.reader.page import Page
from tabane.reader.url_reader import shown
from tabane.workers.pool import Budget
from tests.harness.patience import LONG, until

URL = "https://example.org/a"


@asynccontextmanager
async def converting(**settings: float) -> AsyncIterator[PageConverter]:
    """A converter, whose processes have ended and have been waited for at the end."""
    before = zombies()
    conversion = PageConverter(dict(os.environ), **settings)  # type: ignore[arg-type]
    try:
        yield conversion
    finally:
        await conversion.close()
        assert conversion.pids == []
    assert zombies() <= before


def zombies() -> set[int]:
    """Return children of this process that have ended, and that nobody has waited for."""
    return {each.pid for each in psutil.Process().children() if each.status() == psutil.STATUS_ZOMBIE}


@cache
def slow_page(seconds: float) -> bytes:
    """A PNG whose pixels take some time to be decompressed and scaled down: about 15 million a second."""
    from PIL import Image

    side = int((seconds * 15_000_000) ** 0.5)
    file = BytesIO()
    Image.effect_noise((min(side, 7000), min(side, 7000)), 90).save(file, "PNG", compress_level=1)
    return file.getvalue()


def pid(conversion: PageConverter) -> int | None:
    return next(iter(conversion.pids), None)


def busy(conversion: PageConverter) -> bool:
    """Return whether a page has been in work for a while."""
    return any(_seconds(each) > 0.5 for each in conversion.busy)


def _seconds(process: int) -> float:
    try:
        return sum(psutil.Process(process).cpu_times()[:2])
    except psutil.NoSuchProcess:
        return 0.0


async def test_a_page_comes_back_whole() -> None:
    async with converting() as conversion:
        assert pid(conversion) is None
        page = await conversion.page(
            b"---\ntitle: T\n---\n# A\n\ntext", URL, "text/markdown", "utf-8", name="a.md"
        )
        assert page == Page(URL, "# A\n\ntext", title="T", way="markdown", media_type="text/markdown")


async def test_the_same_process_makes_the_next_page() -> None:
    async with converting() as conversion:
        await conversion.page(b"one", URL)
        first = pid(conversion)
        pages = await asyncio.gather(*(conversion.page(f"{nth}".encode(), URL) for nth in range(20)))
        assert [page.markdown for page in pages] == [str(nth) for nth in range(20)]
        assert first in conversion.pids


async def test_a_page_is_cleaned_there_too() -> None:
    async with converting() as conversion:
        for length in (10, 100_000):
            text = "a\u200bb <!-- c -->" + "d" * length
            page = Page(URL, text, title="T\u202e", warnings=(Message("W {a}", a="x"),))
            assert await conversion.shown(page) == shown(page)
            assert await conversion.shown(page, raw=True) == shown(page, raw=True)
        assert len(conversion.pids) == 1


async def test_warnings_and_pictures_come_too() -> None:
    async with converting() as conversion:
        page = await conversion.page(b"{oops", URL, "application/json")
        assert [str(warning)[:25] for warning in page.warnings] == ["This is not valid JSON: E"]
        assert page.warnings[0].render("ja") != page.warnings[0].render("en")
        image = await conversion.page(slow_page(0.01), URL, "image/png")
        assert image.pictures[0].media_type == "image/png"


async def test_the_reason_of_a_failure_comes_back() -> None:
    async with converting() as conversion:
        with pytest.raises(ReadError, match="application/zip") as raised:
            await conversion.page(b"PK\x03\x04 nothing", URL)
        assert raised.value.cause == "type"
        with pytest.raises(ReadError) as broken:
            await conversion.page(b"%PDF-1.7 nothing", URL)
        assert broken.value.cause == "broken"
        first = pid(conversion)
        assert (await conversion.page(b"next", URL)).markdown == "next"
        assert pid(conversion) == first


async def test_a_process_that_is_killed_at_rest_is_replaced() -> None:
    async with converting() as conversion:
        await conversion.page(b"one", URL)
        first = pid(conversion)
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert (await conversion.page(b"two", URL)).markdown == "two"
        assert pid(conversion) != first


@pytest.mark.heavy("conversion in real processes")
async def test_a_page_whose_process_is_killed_is_made_by_the_next() -> None:
    async with converting() as conversion:
        making = asyncio.create_task(conversion.page(slow_page(2), URL, "image/png"))
        await until(lambda: busy(conversion))
        first = pid(conversion)
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert (await making).pictures
        assert first not in conversion.pids


@pytest.mark.heavy("conversion in real processes")
async def test_a_page_that_kills_twice_is_given_up_and_the_next_is_made() -> None:
    async with converting() as conversion:
        making = asyncio.create_task(conversion.page(slow_page(2), URL, "image/png"))
        waiting = asyncio.create_task(conversion.page(b"next", URL))
        seen: set[int | None] = {None}
        for _ in range(2):
            await until(lambda: pid(conversion) not in seen and busy(conversion))
            first = pid(conversion)
            assert first is not None
            seen.add(first)
            os.kill(first, signal.SIGKILL)
        with pytest.raises(ReadError, match="twice") as raised:
            await making
        assert raised.value.cause == "broken"
        assert (await waiting).markdown == "next"


async def test_a_page_whose_process_hangs_is_given_up_with_it() -> None:
    async with converting(deadline=LONG) as conversion:
        image = slow_page(0.01)
        await conversion.page(b"one", URL)
        first = pid(conversion)
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        patient = conversion._whole
        conversion._whole = Budget(deadline=0.2)  # for this page alone: others need the time that they need
        with pytest.raises(ReadError, match="did not finish") as raised:
            await conversion.page(image, URL, "image/png")
        conversion._whole = patient
        assert raised.value.cause == "broken"
        assert not psutil.pid_exists(first)
        assert (await conversion.page(b"three", URL)).markdown == "three"


@pytest.mark.heavy("conversion in real processes")
@pytest.mark.skipif(
    sys.platform != "linux", reason="other systems do not hold a process to its address space"
)
async def test_a_page_that_needs_too_much_memory_is_refused() -> None:
    async with converting(memory=150_000_000) as conversion:
        with pytest.raises(ReadError) as raised:
            await conversion.page(slow_page(2), URL, "image/png")
        assert raised.value.cause == "large"
        assert (await conversion.page(b"next", URL)).markdown == "next"


async def test_a_process_without_work_ends() -> None:
    async with converting(idle=0.05) as conversion:
        await conversion.page(b"one", URL)
        first = pid(conversion)
        assert first is not None
        await until(lambda: not psutil.pid_exists(first))
        assert pid(conversion) is None
        assert (await conversion.page(b"two", URL)).markdown == "two"


@pytest.mark.heavy("conversion in real processes")
async def test_a_reader_that_goes_away_leaves_the_next_page_right() -> None:
    async with converting() as conversion:
        making = asyncio.create_task(conversion.page(slow_page(2), URL, "image/png"))
        await until(lambda: busy(conversion))
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        assert (await conversion.page(b"next", URL)).markdown == "next"


async def test_a_body_that_is_too_large_is_refused() -> None:
    async with converting() as conversion:
        with pytest.raises(ReadError) as raised:
            await conversion.page(bytes(64_000_001), URL)
        assert raised.value.cause == "large"
        assert pid(conversion) is None


@pytest.mark.heavy("conversion in real processes")
async def test_too_much_that_waits_is_refused() -> None:
    async with converting() as conversion:
        body = b"x " * 30_000_000
        results = await asyncio.gather(
            *(conversion.page(body, URL) for _ in range(6)), return_exceptions=True
        )
        refused = [result for result in results if isinstance(result, ReadError) and result.cause == "rate"]
        assert len(refused) == 2


async def test_closing_ends_what_is_being_made() -> None:
    conversion = PageConverter(dict(os.environ))
    making = asyncio.create_task(conversion.page(slow_page(2), URL, "image/png"))
    await until(lambda: busy(conversion))
    first = pid(conversion)
    await conversion.close()
    with pytest.raises(ReadError):
        await making
    assert first is not None
    assert not psutil.pid_exists(first)
    with pytest.raises(ReadError):
        await conversion.page(b"more", URL)


async def test_the_process_ends_with_its_parent() -> None:
    script = (
        "import asyncio, os\n"
        "from tabane.reader.conversion import PageConverter\n"
        "async def main():\n"
        "    conversion = PageConverter(dict(os.environ))\n"
        "    await conversion.page(b'one', 'https://example.org/')\n"
        "    print(*conversion.pids, flush=True)\n"
        "    os._exit(1)\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await parent.communicate()
    pid = int(out)
    await until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_what_libraries_print_goes_to_the_errors() -> None:
    async def whole(errors: int) -> None:
        conversion = PageConverter(dict(os.environ), errors=errors)
        with pytest.raises(ReadError, match="cannot be converted"):
            await conversion.page(b"x", "http://[", "text/plain")
        await conversion.close()

    with tempfile.TemporaryFile() as file:
        asyncio.run(asyncio.wait_for(whole(file.fileno()), LONG))
        file.seek(0)
        assert b"http://[" in file.read()


async def test_the_hub_that_asks_loads_no_parser() -> None:
    script = (
        "import sys, tabane.reader.conversion\n"
        "heavy = {'lxml', 'PIL', 'pypdfium2', 'cchardet', 'trafilatura'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert (await child.communicate())[0] == b"[]\n"


async def test_the_process_is_told_no_keys() -> None:
    conversion = PageConverter({**os.environ, "GITHUB_TOKEN": "secret-one", "NOTION_API_KEY": "secret-two"})
    try:
        await conversion.page(b"<p>Text.</p>", "https://a.test/", "text/html")
        told = psutil.Process(pid(conversion)).environ()
    finally:
        await conversion.close()
    assert "PATH" in told
    assert not {"GITHUB_TOKEN", "NOTION_API_KEY"} & told.keys()
