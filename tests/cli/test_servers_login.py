"""`tabane servers login` and `logout`, as processes, in front of a site that requires a login."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.harness.login_site import LoginSite, login_site
from tests.harness.patience import LONG, until
from tests.harness.running_hub import configured

BROWSER = """
import sys, urllib.request
page = urllib.request.urlopen(sys.argv[1]).read().decode()
open(sys.argv[0] + ".page", "w").write(page)
"""


class Terminal:
    """A user's terminal: commands of tabane in a home of its own."""

    def __init__(self, folder: Path, site: LoginSite) -> None:
        self.folder = folder
        configured(folder, {"up": {"url": site.url}})
        kept = ("PATH", "LANG", "PYTHONPATH", "COVERAGE_PROCESS_START")
        self.environment = {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "HOME": str(folder), "TABANE_HOME": str(folder), "TABANE_MODEL": "none", "TABANE_HTTP": "false",
            "TABANE_SERVERS": str(folder / "mcp-servers.json"),
        }  # fmt: skip

    def with_browser(self) -> Path:
        program = self.folder / "browser.py"
        program.write_text(BROWSER)
        self.environment["BROWSER"] = f"{sys.executable} {program} %s"
        return Path(f"{program}.page")

    async def start(self, *words: str, **environment: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tabane", *words, env=self.environment | environment,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip

    async def run(self, *words: str) -> tuple[int, str, str]:
        process = await self.start(*words)
        out, err = await asyncio.wait_for(process.communicate(), LONG)
        return process.returncode or 0, out.decode(), err.decode()


@asynccontextmanager
async def terminal(folder: Path, site: LoginSite) -> AsyncIterator[Terminal]:
    user = Terminal(folder, site)
    try:
        yield user
    finally:
        await user.run("stop")


async def _line_with(stream: asyncio.StreamReader | None, words: str) -> str:
    assert stream is not None
    while line := (await asyncio.wait_for(stream.readline(), LONG)).decode():
        if words in line:
            return line.strip()
    raise AssertionError(f"nothing has {words}")


@pytest.mark.heavy("real commands, a hub and servers")
async def test_a_login_in_the_browser_and_a_logout(tmp_path: Path) -> None:
    async with login_site() as site, terminal(tmp_path, site) as user:
        page = user.with_browser()
        status, out, err = await user.run("servers", "login", "up")
        assert status == 0, err
        assert "Logged in at up." in out
        assert "2 tools are available." in out
        await until(page.exists, "the browser shows the page")
        status, out, _ = await user.run("servers", "show", "up", "--json")
        assert json.loads(out)["login"]["state"] == "signed_in"
        assert not [secret for secret in site.secrets() if secret in out]
        status, out, _ = await user.run("servers", "logout", "up")
        assert (status, out.strip()) == (0, "Logged out at up. Its tokens were revoked.")
        assert not site.access


async def test_over_ssh_the_url_is_printed_and_the_return_can_be_pasted(tmp_path: Path) -> None:
    async with login_site() as site, terminal(tmp_path, site) as user:
        process = await user.start(
            "servers", "login", "up", SSH_CONNECTION="1.2.3.4 5 6.7.8.9 22", DISPLAY=":0"
        )
        url = await _line_with(process.stderr, "/as/authorize?")
        landed = await site.browse(url, stop=True)
        out, err = await asyncio.wait_for(process.communicate(f"{landed}\n".encode()), LONG)
        assert process.returncode == 0, err
        assert b"Logged in at up." in out


async def test_a_declined_login_is_an_error(tmp_path: Path) -> None:
    async with login_site(declines=True) as site, terminal(tmp_path, site) as user:
        process = await user.start("servers", "login", "up", "--no-browser")
        await site.browse(await _line_with(process.stderr, "/as/authorize?"))
        _, err = await asyncio.wait_for(process.communicate(), LONG)
        assert process.returncode == 1
        assert b"declined" in err


async def test_a_hub_that_was_killed_during_a_login_lets_it_begin_again(tmp_path: Path) -> None:
    async with login_site() as site, terminal(tmp_path, site) as user:
        process = await user.start("servers", "login", "up", "--no-browser")
        await _line_with(process.stderr, "/as/authorize?")
        _, out, _ = await user.run("status", "--json")
        os.kill(json.loads(out)["pid"], 9)
        await asyncio.wait_for(process.communicate(), LONG)
        assert process.returncode
        again = await user.start("servers", "login", "up", "--no-browser")
        await site.browse(await _line_with(again.stderr, "/as/authorize?"))
        out_again, err = await asyncio.wait_for(again.communicate(), LONG)
        assert again.returncode == 0, err
        assert b"Logged in at up." in out_again


async def test_a_hub_that_was_killed_during_a_renewal_keeps_a_usable_login(tmp_path: Path) -> None:
    async with login_site() as site, terminal(tmp_path, site) as user:
        user.with_browser()
        assert (await user.run("servers", "login", "up"))[0] == 0
        site.expire()
        site.token_gate.clear()
        call = await user.start("tools", "call", "up__echo", "--args", '{"text": "still here"}')
        await until(lambda: site.forms("/as/token", "refresh_token"), "the token is being renewed")
        _, out, _ = await user.run("status", "--json")
        os.kill(json.loads(out)["pid"], 9)
        await asyncio.wait_for(call.communicate(), LONG)
        site.token_gate.set()
        status, out, err = await user.run("tools", "call", "up__echo", "--args", '{"text": "still here"}')
        assert status == 0, err
        assert "still here" in out
