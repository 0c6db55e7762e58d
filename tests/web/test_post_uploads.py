"""Files of posts that a browser sends: what is accepted, and that nothing is left of what is not imported."""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from tabane.hub.sources import post_uploads
from tests.harness.http_hub import Answer, HttpHub
from tests.harness.identities import GivenAccess, GivenKeys, identities
from tests.harness.patience import until
from tests.web.visitor import WebVisitor, visitor, web_hub

UPLOAD = "/posts/import/upload"
ROW = b'"%d","https://x.com/mai/status/%d","2024-05-01 10:00:00","post %d",1\n'
ROWS = b"".join(ROW % (n, n, n) for n in range(1, 4))


def body(*files: tuple[str, bytes]) -> bytes:
    head = json.dumps([[name, len(data)] for name, data in files]).encode()
    return head + b"\n" + b"".join(data for _, data in files)


async def person(here: HttpHub) -> WebVisitor:
    page = await visitor(here)
    await page.sign_in()
    return page


async def send(page: WebVisitor, data: bytes) -> Answer:
    return await page.ask("POST", UPLOAD, data, accept="application/json")


async def problem(page: WebVisitor, size: int) -> str:
    """Return why so many bytes are not accepted now."""
    answer = await page.ask("GET", f"{UPLOAD}?size={size}", accept="application/json")
    return str(answer.json["problem"])


async def ended(page: WebVisitor, sent: Answer) -> str:
    """Return the page of an import when it has ended."""
    shown = ""

    async def over() -> bool:
        nonlocal shown
        answer = await page.content(f"/posts/import/progress?job={sent.json['job']}")
        shown = answer.body.decode()
        return "hx-trigger" not in shown

    await until(over, "the import has ended")
    return shown


def left(folder: Path) -> list[Path]:
    return list(folder.rglob("uploads/*"))


async def test_files_are_private_while_they_are_imported_and_gone_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    paths = post_uploads.PostUploads.paths

    def looked(self: post_uploads.PostUploads, upload: str, names: Sequence[str]) -> list[str]:
        found = paths(self, upload, names)
        folders = [self.folder(upload).parent, self.folder(upload), *map(Path, found)]
        seen.extend(stat.S_IMODE(each.stat().st_mode) for each in folders)
        return found

    monkeypatch.setattr(post_uploads.PostUploads, "paths", looked)
    async with web_hub(tmp_path, {}) as here:
        page = await person(here)
        sent = await send(page, body(("a.csv", ROWS), ("tweets.js", TWEETS)))
        assert sent.status == 200
        assert "4 new posts were imported." in await ended(page, sent)
        assert left(tmp_path) == []
    assert seen == [0o700, 0o700, 0o600, 0o700]


TWEETS = b'window.YTD.tweets.part0 = [{"tweet": {"id_str": "1700000000000000009", "full_text": "of X"}}]'

REFUSED = {
    "no list of files": b"nothing\n",
    "no files": b"[]\n",
    "two of one name": body(("a.csv", ROWS), ("a.csv", ROWS)),
    "a path": body(("../a.csv", ROWS)),
    "a path of another system": body(("..\\a.csv", ROWS)),
    "a hidden file": body((".a.csv", ROWS)),
    "fewer bytes than named": body(("a.csv", ROWS))[:-10],
    "more bytes than named": body(("a.csv", ROWS)) + b"more",
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_no_upload_is_refused_and_nothing_is_left(tmp_path: Path, name: str) -> None:
    async with web_hub(tmp_path, {}) as here:
        page = await person(here)
        answer = await send(page, REFUSED[name])
        assert answer.status == 422
        assert answer.json["error"]
        assert left(tmp_path) == []
        sent = await send(page, body(("a.csv", ROWS)))
        assert "3 new posts were imported." in await ended(page, sent)


async def test_a_connection_that_is_lost_leaves_nothing_and_one_upload_waits_for_another(
    tmp_path: Path,
) -> None:
    async with web_hub(tmp_path, {}) as here:
        first, second = await person(here), await person(here)
        data = body(("a.csv", ROWS))
        headers = {"origin": first.origin, "cookie": first.cookie, "tabane-page": first.page}
        first.client.send("POST", UPLOAD, {**headers, "content-length": str(len(data))}, data[:-10])
        await until(lambda: left(tmp_path), "the first upload began")
        refused = await send(second, data)
        assert (refused.status, refused.json["error"]) == (
            422,
            "Another upload is under way. Try again when it has ended.",
        )
        assert await problem(second, 10) == refused.json["error"]
        first.client.abort()

        async def free() -> bool:
            return not await problem(second, 10)

        await until(free, "the first upload ended")
        assert left(tmp_path) == []
        assert "3 new posts were imported." in await ended(second, await send(second, data))


async def test_too_large_files_and_a_full_disk_are_said_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web_hub(tmp_path, {}) as here:
        page = await person(here)
        assert await problem(page, 10) == ""
        assert "at most 20 GB are accepted" in await problem(page, 2 * post_uploads.MOST)
        monkeypatch.setattr(post_uploads, "RESERVE", 1 << 60)
        assert (await problem(page, 10)).startswith("The disk of the hub has too little space")
        assert (await send(page, body(("a.csv", ROWS)))).status == 502
        assert left(tmp_path) == []


async def test_what_a_hub_left_that_died_is_removed_at_the_next_start(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {}) as here:
        home = here.hub.settings.home
    (home / "uploads" / ("0" * 32)).mkdir(parents=True)
    (home / "uploads" / ("0" * 32) / "a.csv").write_bytes(ROWS)
    async with web_hub(tmp_path, {}) as here:
        assert here.hub.settings.home == home
        assert left(tmp_path) == []


async def test_somebody_who_may_not_import_sends_nothing(tmp_path: Path) -> None:
    access = GivenAccess("key:reader", "*")
    known = identities(GivenKeys(reader=access), restored=access)
    async with web_hub(tmp_path, {}, identities=known) as here:
        page = await visitor(here)
        assert (await page.sign_in(key="tbn_reader")).status == 200
        assert (
            "An administrator of this hub can import posts." in (await page.content("/posts")).body.decode()
        )
        assert (await send(page, body(("a.csv", ROWS)))).status == 403
        asked = await page.ask("GET", f"{UPLOAD}?size=10", accept="application/json")
        assert asked.status == 403
        assert left(tmp_path) == []


async def test_an_upload_that_is_named_by_a_program_has_only_its_own_files(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {}) as here:
        page = await person(here)
        sent = await send(page, body(("a.csv", ROWS)))
        await ended(page, sent)
        secret = tmp_path / "secret.csv"
        secret.write_bytes(ROWS)
        uploads = here.hub.posts.uploads
        for names in (["a.csv"], [str(secret)], ["../secret.csv"], []):
            with pytest.raises(Exception, match="no longer there"):
                uploads.paths("0" * 32, names)
