"""Limits of a rendered page, and cleanup of everything it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tabane.errors import ReadError
from tests.harness.patience import LONG, wait_until
from tests.harness.process_list import command
from tests.reader.rendering.conftest import Show, rendering
from tests.reader.site import Site, endless, hang

PATIENCE = LONG
"""Seconds for what has to happen, on a machine that has other things to do."""

BRIEF: dict[str, Any] = {"settle": 5.0}


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where profiles are made, and whoever runs the browser may go."""
    with tempfile.TemporaryDirectory(prefix="pages-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setattr("tempfile.tempdir", folder)
        yield Path(folder)


def left(folder: Path) -> list[Any]:
    """Profiles that are there, and processes that use one."""
    marks = f"{folder}/tabane-page-"
    running = (
        process
        for process in psutil.process_iter(["cmdline"])
        if any(marks in word for word in process.info["cmdline"] or ())
    )
    return [*folder.glob("tabane-page-*"), *running]


@pytest.mark.parametrize(
    "program",
    [
        "while (true);",
        "while (true) alert('Hello');",
        "const more = () => { document.title += 'x'; setTimeout(more) }; more(); fetch('/hang');",
    ],
)
def test_a_page_that_is_never_done_is_taken_as_it_is(
    site: Site, show: Show, folder: Path, program: str
) -> None:
    site.wild("/hang", hang)
    site.put("/", f"<p>First words.</p><script>{program}</script>")
    fetched = show(site.url("/"), limits=BRIEF)
    assert "First words." in fetched.body.decode()
    assert "was not complete after 5 s" in str(fetched.warnings[-1])
    assert not left(folder)


def test_what_opens_asks_and_saves_does_not_hold_a_page_up(site: Site, show: Show, folder: Path) -> None:
    site.put("/saved", b"PK" * 500, "application/zip", headers={"Content-Disposition": "attachment"})
    site.put("/window", "<script>opener.document.body.append('the window was there')</script>")
    site.put(
        "/",
        """<p id=it>Begun</p><a id=save href=/saved download>x</a><script>
        addEventListener("beforeunload", event => event.preventDefault());
        const said = [confirm("Sure?"), prompt("Who?"), open("/window") === null];
        const asked = navigator.permissions.query({name: "geolocation"}).then(told => told.state);
        const {geolocation} = navigator;
        const place = new Promise(done => geolocation.getCurrentPosition(done, no => done(no.code)));
        Promise.all([asked, place]).then(told => {
          it.textContent = JSON.stringify([...said, ...told]); save.click(); print(); location = "/saved"; });
        </script>""",
    )
    fetched = show(site.url("/"))
    text = fetched.body.decode()
    assert '[false,null,true,"denied",1]' in text
    assert "the window was there" not in text
    assert not left(folder)


def test_a_page_that_asks_whether_to_leave_is_left(site: Site, show: Show) -> None:
    site.put("/next", "<p>Next</p>")
    site.put("/", "<script>onbeforeunload = () => 'Stay'; location = '/next'</script>")
    assert "Next" in show(site.url("/")).body.decode()


@pytest.mark.parametrize(
    ("program", "limits"),
    [
        ("for (let n = 0; n < 9; n++) document.body.append('x'.repeat(20000))", {"html": 100_000}),
        ("for (let n = 0; n < 9000; n++) document.body.append(document.createElement('b'))", {"nodes": 5000}),
        ("let n = 0; const more = []; while (true) more.push(new Uint8Array(5e7).fill(++n))",
         {"memory": 700_000_000}),
        ("const more = []; while (true) more.push(new Array(1e6).fill(more.length))", {}),
    ],
)  # fmt: skip
def test_a_page_that_takes_too_much_is_given_up(
    site: Site, show: Show, folder: Path, program: str, limits: dict[str, Any]
) -> None:
    site.put("/", f"<body><p>Here</p><script>{program}</script>")
    with pytest.raises(ReadError) as raised:
        show(site.url("/"), limits=limits)
    assert raised.value.cause in ("large", "broken")
    assert not left(folder)


def test_a_page_gets_so_much_from_the_network_and_no_more(site: Site, show: Show) -> None:
    site.wild("/endless", endless)
    site.put("/", "<p>Here</p><script>fetch('/endless').then(a => a.text()).catch(() => 0)</script>")
    fetched = show(site.url("/"), limits={"traffic": 2_000_000, "settle": 20.0})
    assert len(fetched.warnings) == 1  # and none of them that it was never done
    assert "made more requests than are allowed for one page" in str(fetched.warnings[0])

    site.put(
        "/", "<p>Here</p><script>for (let n = 0; n < 100; n++) fetch('/quick?' + n).catch(() => 0)</script>"
    )
    fetched = show(site.url("/"), limits={"requests": 20})
    assert "made more requests than are allowed for one page" in str(fetched.warnings[0])
    assert sum(path.startswith("/quick") for path in site.paths) < 20
    site.asked.clear()
    fetched = show(site.url("/"), limits={"connections": 10})
    assert "made more requests than are allowed for one page" in str(fetched.warnings[0])
    assert len(site.paths) <= 10


def test_a_page_that_does_not_come_is_given_up(site: Site, show: Show, folder: Path) -> None:
    site.wild("/hang", hang)
    for limits in (BRIEF, {"seconds": 4.0}):
        with pytest.raises(ReadError) as raised:
            show(site.url("/hang"), limits=limits)
        assert raised.value.cause == "timeout"
    assert not left(folder)


async def test_a_browser_that_is_killed_is_an_error_and_the_next_page_is_shown(
    site: Site, browser: str, folder: Path
) -> None:
    site.wild("/hang", hang)
    site.put("/", "<p>Here</p><script>fetch('/hang')</script>")
    site.put("/fine", "<p>Fine</p>")
    it = rendering(site, browser)
    showing = asyncio.create_task(it.render(site.url("/")))
    await asyncio.to_thread(wait_until, lambda: "/hang" in site.paths or showing.done())
    for process in left(folder):
        if isinstance(process, psutil.Process) and not any("--type=" in x for x in command(process)):
            with contextlib.suppress(psutil.NoSuchProcess):  # it ended with its parent
                process.kill()
    with pytest.raises(ReadError) as raised:
        await showing
    assert raised.value.cause == "broken"
    fetched = await it.render(site.url("/fine"))
    assert fetched is not None
    assert "Fine" in fetched.body.decode()
    await it.close()
    assert not left(folder)


async def test_nothing_is_left_where_nobody_waits_or_the_reader_is_ended(
    site: Site, browser: str, folder: Path
) -> None:
    site.wild("/hang", hang)
    site.put("/", "<p>Here</p><script>fetch('/hang')</script>")
    it = rendering(site, browser)
    showing = asyncio.create_task(it.render(site.url("/")))
    await asyncio.to_thread(wait_until, lambda: "/hang" in site.paths or showing.done())
    showing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await showing
    assert not left(folder)
    site.asked.clear()
    showing = asyncio.create_task(it.render(site.url("/")))
    await asyncio.to_thread(wait_until, lambda: "/hang" in site.paths or showing.done())
    await it.close()
    with pytest.raises(ReadError):
        await showing
    with pytest.raises(ReadError):
        await it.render(site.url("/"))
    assert not left(folder)


HUB = """
import asyncio, os, sys, tempfile
from tabane.reader.fetching import Policy
from tabane.reader.rendering import BrowserChoice, PageRenderer
tempfile.tempdir, url, browser, allowed = sys.argv[1:]
it = PageRenderer(lambda: Policy(allowed=(allowed,)), lambda: BrowserChoice(browser), os.environ)
asyncio.run(it.render(url))
"""


@pytest.mark.parametrize(
    "program", ["fetch('/hang')", "fetch('/hang'); setTimeout(() => { while (true); }, 50)"]
)
def test_nothing_is_left_of_a_hub_that_is_killed(
    site: Site, browser: str, folder: Path, program: str
) -> None:
    site.wild("/hang", hang)
    site.put("/", f"<p>Here</p><script>{program}</script>")
    hub = subprocess.Popen(
        [sys.executable, "-c", HUB, str(folder), site.url("/"), browser, f"127.0.0.1:{site.port}"]
    )
    wait_until(lambda: "/hang" in site.paths)
    assert left(folder)
    hub.send_signal(signal.SIGKILL)
    hub.wait()
    wait_until(lambda: not left(folder))


async def test_one_page_is_shown_at_a_time_and_few_wait(site: Site, browser: str) -> None:
    order: list[str] = []

    async def asked(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        order.append("asked")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 8\r\n\r\n<p>Here.")

    site.wild("/page", asked)
    it = rendering(site, browser, {"waiting": 1}, begin=lambda: order.append("begun"))
    found = await asyncio.gather(*(it.render(site.url("/page")) for _ in range(3)), return_exceptions=True)
    await it.close()
    assert order == ["begun", "asked"] * 2, "the second one begins when the first one is done"
    assert sorted(getattr(one, "cause", "shown") for one in found) == ["rate", "shown", "shown"]


async def test_the_browser_has_its_sandbox_and_no_root(site: Site, browser: str, folder: Path) -> None:
    site.wild("/hang", hang)
    site.put("/", "<p>Here</p><script>fetch('/hang')</script>")
    it = rendering(site, browser)
    showing = asyncio.create_task(it.render(site.url("/")))
    await asyncio.to_thread(wait_until, lambda: "/hang" in site.paths or showing.done())
    running = [one for one in left(folder) if isinstance(one, psutil.Process)]
    found = [(command(one), one.uids().real) for one in running]
    showing.cancel()
    await asyncio.gather(showing, return_exceptions=True)
    assert found
    assert not any("--no-sandbox" in words for words, _ in found)
    assert 0 not in [user for _, user in found]
    assert os.geteuid() != 0 or {user for _, user in found}.isdisjoint({os.getuid(), 65534})
