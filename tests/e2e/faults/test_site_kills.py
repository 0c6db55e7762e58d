"""A hub that is killed while it reads a whole site: the same command goes on, and reads no page twice."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.harness.home import Home
from tests.harness.patience import LONG
from tests.reader.site import Site, running

PAGES, KILLS = 30, 3


def furnish(site: Site) -> None:
    for number in range(PAGES):
        links = "".join(f"<li><a href=/guide/{n}>Part {n}</a>" for n in (2 * number + 1, 2 * number + 2))
        text = f"<p>{f'This is part {number} of a guide to nothing. ' * 20}"
        path = f"/guide/{number}" if number else "/guide/"
        site.put(path, f"<title>Part {number}</title><main>{text}</main>{links if number < 15 else ''}")


@pytest.mark.heavy("kills real processes, many times")
def test_a_killed_hub_reads_no_page_of_a_site_twice_and_loses_none(tmp_path: Path) -> None:
    with running() as site:
        furnish(site)
        home = Home(tmp_path)
        home.environment |= {"TABANE_READER_ALLOW": f"127.0.0.1:{site.port}"}
        command = ("read", "--site", site.url("/guide/"), "--limit", "99", "--remember")
        chance, under_way = random.Random(45), set[str]()
        for _ in range(KILLS):
            before = len(site.asked)
            assert home.run(*command, "--detach").status == 0
            until = time.monotonic() + LONG
            while len(site.asked) < before + 4:
                assert time.monotonic() < until, site.paths
                time.sleep(0.01)
            time.sleep(chance.uniform(0.0, 1.0))
            os.kill(home.run("status", "--json").json["pid"], signal.SIGKILL)
            under_way.add(site.paths[-1])
        ended = home.run(*command, "--json")
        assert ended.status == 0, ended.err
        found = ended.json
        asked = Counter(path for path in site.paths if path.startswith("/guide/"))
        try:
            # Part 30, which part 14 names, is not there.
            assert (found["new"], found["saved"], found["left"]) == (PAGES, PAGES, 0)
            assert found["continued"]
            asked.pop("/guide/sitemap.xml")
            # The answer to the last request before a kill may never have arrived.
            assert {path for path, count in asked.items() if count > 1} <= under_way
            assert len(asked) == PAGES + found["failed"]
        finally:
            home.run("stop")
