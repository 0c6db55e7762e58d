"""Pages of jobs: what runs with units, what ended in order of its end, filters, and a way to try again."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from tabane.errors import HubError
from tabane.messages import say
from tabane.operations import Progress
from tests.harness.http_hub import HttpHub
from tests.harness.patience import until
from tests.web.visitor import text, visitor, web_hub


class JobWork:
    """Work of a job that tells its progress, and ends when the test says so."""

    def __init__(self, result: Any = None, done: int = 0, total: int | None = None) -> None:
        self.result, self.done, self.total = result, done, total
        self.may_end = asyncio.Event()

    async def __call__(self, progress: Progress) -> Any:
        progress.tell(self.done, self.total)
        await self.may_end.wait()
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


REPORT = {"new": 1200, "changed": 0, "unchanged": 7, "removed": 0, "bad": 1}


async def ended(here: HttpHub, operation: str, title: str, result: Any) -> str:
    work = JobWork(result)
    job = here.hub.jobs.start(operation, say("{title}", title=title), work)
    work.may_end.set()
    await until(lambda: job.status != "running", "the job ended")
    return job.key


async def test_jobs_run_with_units_and_end_in_order_with_a_way_to_try_again(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {}) as here:
        page = await visitor(here)
        await page.sign_in()
        assert "No jobs" in text(await page.content("/jobs"))
        long = JobWork(REPORT)
        first = here.hub.jobs.start("import_posts", say("the long one"), long)
        await ended(here, "add_documents", "the short one", REPORT | {"new": 3, "bad": 0})
        await ended(here, "import_posts", "the bad one", HubError(say("the disk is full")))
        running = JobWork(done=5_000_000, total=20_000_000)
        here.hub.jobs.start("import_posts", say("the running one"), running)
        long.may_end.set()
        await until(lambda: first.status == "done", "the long one ended")
        shown = text(await page.content("/jobs"))
        assert "25% · 5.0 MB / 20 MB" in shown
        titles = re.findall(r'<a [^>]*href="/jobs/\w+">(the [^<]+)</a>', shown)
        assert titles == ["the running one", "the long one", "the bad one", "the short one"]
        assert "1,200 new · 7 already there · 1 could not be read" in shown
        assert "the disk is full" in shown
        assert '<a class="btn small" href="/posts/import">Import again</a>' in shown
        failed = text(await page.content("/jobs?state=failed"))
        assert re.findall(r"(the \w+ one)</a>", failed) == ["the bad one"]
        kind = text(await page.content("/jobs?kind=Files%20to%20documents"))
        assert re.findall(r"(the \w+ one)</a>", kind) == ["the short one"]
        one = text(await page.content(f"/jobs/{first.key}"))
        assert "1,200 new · 7 already there · 1 could not be read" in one
        running.may_end.set()


async def test_a_site_that_was_read_shows_which_pages_failed_and_why(tmp_path: Path) -> None:
    lost = {"url": "https://docs.test/guide/lost", "reason": "docs.test has nothing at this URL."}
    report = {
        "new": 2, "changed": 0, "unchanged": 7, "failed": 1, "gone": 0, "left": 3, "saved": 9,
        "pages": {"failed": [lost]},
    }  # fmt: skip
    async with web_hub(tmp_path, {}) as here:
        page = await visitor(here)
        await page.sign_in()
        key = await ended(here, "remember_site", "the site", report)
        shown = text(await page.content(f"/jobs/{key}"))
        assert "2 new · 7 unchanged · 1 could not be read" in shown
        assert "Saved as documents: 9 pages." in shown
        assert "3 more pages are known" in shown
        assert f"{lost['url']}: {lost['reason']}" in shown
