"""Changes below a watched folder become searchable, however they are made."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tabane.documents.files.file_updates import (
    ChangeNotices,
    FileAdding,
    FolderWatch,
    PollingNotices,
    change_notices,
    is_silent_filesystem,
)
from tabane.documents.files.readable_files import DocumentFolder, FileTextReader
from tests.documents.files.test_adding import Shelf, open_shelf
from tests.documents.library import Asked, Models, opened
from tests.harness.patience import LONG

LIMIT = LONG

Gives = Callable[[Sequence[str]], ChangeNotices]


async def until(true: Callable[[], Awaitable[bool]], limit: float = LIMIT) -> float:
    """Wait until that is so; the seconds it took."""
    began = time.monotonic()
    async with asyncio.timeout(limit):
        while not await true():  # noqa: ASYNC110 - some of it is on the disk
            await asyncio.sleep(0.02)
    return time.monotonic() - began


class Watched:
    """A folder that is watched, and its documents."""

    def __init__(self, asked: Asked, top: Path, watch: FolderWatch) -> None:
        self.asked, self.top, self.watch = asked, top, watch

    async def says(self, name: str) -> str | None:
        found = await (await self.asked.documents.reading()).text(str(self.top / name))
        return found[1] if found else None

    async def becomes(self, name: str, text: str | None) -> float:
        async def is_so() -> bool:
            return await self.says(name) == text

        return await until(is_so)

    async def names(self) -> set[str]:
        return {
            d.filepath.removeprefix(f"{self.top}/")
            async for d in (await self.asked.documents.reading()).all()
        }

    async def are(self, *names: str) -> float:
        async def are_so() -> bool:
            return await self.names() == set(names)

        return await until(are_so)

    async def stands(self, state: str) -> None:
        async def does() -> bool:
            return self.watch.state == state

        await until(does)


@asynccontextmanager
async def watch_folder(top: Path, *ignore: str, gives: Gives = change_notices) -> AsyncIterator[Watched]:
    folder = DocumentFolder(str(top), ignore=ignore)
    async with opened(Models()) as asked:
        watch = FolderWatch(folder, FileAdding(asked.documents, FileTextReader()), noticed=gives)
        task = asyncio.create_task(watch.run())
        try:
            async with asyncio.timeout(LIMIT):
                await watch.first
            yield Watched(asked, top, watch)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "top"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.md").write_text("one")
    (folder / "sub" / "b.md").write_text("two")
    return folder


@pytest.mark.parametrize("gives", [change_notices, lambda folders: PollingNotices()])
async def test_changes_are_searchable_soon(top: Path, gives: Gives) -> None:
    async with watch_folder(top, gives=gives) as watched:
        assert await watched.names() == {"a.md", "sub/b.md"}
        (top / "a.md").write_text("one more")
        await watched.becomes("a.md", "one more")
        (top / "c.md").write_text("three")
        await watched.becomes("c.md", "three")
        (top / "a.md").unlink()
        await watched.becomes("a.md", None)
        os.rename(top / "c.md", top / "sub" / "d.md")
        await watched.are("sub/b.md", "sub/d.md")


async def test_editors_that_save_by_renaming_leave_one_document(top: Path) -> None:
    async with watch_folder(top) as watched:
        for number in range(3):
            (top / "4913").write_text("")
            (top / "4913").unlink()
            os.rename(top / "a.md", top / "a.md~")
            (top / ".a.md.swp").write_text("swap")
            (top / "a.md.part").write_text(f"save {number}")
            os.rename(top / "a.md.part", top / "a.md")
        await watched.becomes("a.md", "save 2")
        await watched.are("a.md", "sub/b.md")


async def test_folders_that_come_move_and_go_take_their_documents_along(top: Path) -> None:
    async with watch_folder(top) as watched:
        (top / "new" / "deep").mkdir(parents=True)
        (top / "new" / "deep" / "x.md").write_text("deep")
        await watched.becomes("new/deep/x.md", "deep")
        (top / "new" / "deep" / "y.md").write_text("later")
        await watched.becomes("new/deep/y.md", "later")
        os.rename(top / "new", top / "moved")
        await watched.are("a.md", "sub/b.md", "moved/deep/x.md", "moved/deep/y.md")
        shutil.rmtree(top / "moved")
        await watched.are("a.md", "sub/b.md")
        shutil.rmtree(top / "sub")
        (top / "sub").mkdir()
        (top / "sub" / "again.md").write_text("another folder of that name")
        await watched.are("a.md", "sub/again.md")
        (top / "sub" / "more.md").write_text("and it is watched")
        await watched.becomes("sub/more.md", "and it is watched")


RENAMED = {
    "NFC to NFD": ("\u3071\u3093.md", "\u306f\u309a\u3093.md"),
    "NFD to NFC": ("cafe\u0301.md", "caf\xe9.md"),
    "a Hangul name": ("\ud55c.md", "\u1112\u1161\u11ab.md"),
    "a folder": ("\u304c/x.md", "\u304b\u3099/x.md"),
    "a folder above folders": ("\u304c/in/x.md", "\u304b\u3099/in/x.md"),
    "case alone": ("Notes.md", "notes.md"),
    "case of a folder": ("Sub2/x.md", "sub2/x.md"),
    "another folder": ("sub/b2.md", "b2.md"),
}


@pytest.mark.parametrize("gives", [change_notices, lambda folders: PollingNotices()], ids=["told", "polled"])
@pytest.mark.parametrize("case", RENAMED)
async def test_a_renamed_file_keeps_its_document(case: str, gives: Gives, top: Path) -> None:
    before, after = RENAMED[case]
    (top / before).parent.mkdir(parents=True, exist_ok=True)
    (top / before).write_text("the text")
    moved = (
        [before.split("/")[0], after.split("/")[0]]
        if before.count("/") == after.count("/")
        else [before, after]
    )
    name = unicodedata.normalize("NFC", after)
    async with watch_folder(top, gives=gives) as watched:
        for step in range(3):  # there, back and there again
            first, second = moved if step % 2 == 0 else reversed(moved)
            os.rename(top / first, top / second)
            (top / "marker.md").write_text(f"{step}")
            await watched.becomes("marker.md", f"{step}")
        await watched.are("a.md", "sub/b.md", "marker.md", name)
        assert await watched.says(name) == "the text"
        (top / after).unlink()
        await watched.are("a.md", "sub/b.md", "marker.md")


async def test_a_file_that_was_renamed_while_nobody_watched_can_be_deleted_later(top: Path) -> None:
    composed, decomposed = RENAMED["NFC to NFD"]
    (top / composed).write_text("the text")
    async with opened(Models()) as asked:
        for name in (composed, decomposed):
            if name == decomposed:
                os.rename(top / composed, top / decomposed)
            watch = FolderWatch(DocumentFolder(str(top)), FileAdding(asked.documents, FileTextReader()))
            task = asyncio.create_task(watch.run())
            await watch.first
            if name == decomposed:
                watched = Watched(asked, top, watch)
                (top / decomposed).unlink()
                await watched.are("a.md", "sub/b.md")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_of_two_forms_of_a_name_the_one_that_stays_takes_over(top: Path) -> None:
    composed, decomposed = RENAMED["NFC to NFD"]
    (top / composed).write_text("composed")
    async with watch_folder(top) as watched:
        (top / decomposed).write_text("decomposed")
        (top / "marker.md").write_text("there")
        await watched.becomes("marker.md", "there")
        (top / composed).unlink()
        await watched.becomes(composed, "decomposed")


async def test_a_gitignore_that_changes_takes_documents_out_and_brings_them_back(top: Path) -> None:
    async with watch_folder(top) as watched:
        (top / ".gitignore").write_text("sub/\n")
        await watched.are("a.md")
        (top / "sub" / "c.md").write_text("unseen")
        (top / ".gitignore").write_text("*.log\n")
        await watched.are("a.md", "sub/b.md", "sub/c.md")
        (top / ".gitignore").unlink()
        (top / "x.log").write_text("log")
        await watched.becomes("x.log", "log")


async def test_a_folder_that_goes_away_keeps_its_documents_and_is_brought_in_step_when_it_is_back(
    top: Path,
) -> None:
    async with watch_folder(top) as watched:
        away = top.with_name("away")
        os.rename(top, away)
        await watched.stands("away")
        assert await watched.names() == {"a.md", "sub/b.md"}
        assert "does not exist" in str(watched.watch.plain("en")["problem"])
        (away / "sub" / "b.md").unlink()
        (away / "c.md").write_text("meanwhile")
        os.rename(away, top)
        await watched.are("a.md", "c.md")
        await watched.stands("watching")
        (top / "c.md").write_text("and after")
        await watched.becomes("c.md", "and after")


async def test_many_changes_at_once_are_all_taken_in(top: Path) -> None:
    async with watch_folder(top) as watched:
        for number in range(200):
            folder = top / f"d{number % 10}"
            folder.mkdir(exist_ok=True)
            (folder / f"{number}.md").write_text(f"text {number}")

        async def all_there() -> bool:
            return len(await watched.names()) == 202

        await until(all_there)


async def test_what_is_left_out_is_not_even_watched(top: Path) -> None:
    seen: list[Sequence[str]] = []

    def gives(folders: Sequence[str]) -> ChangeNotices:
        seen.append(folders)
        return change_notices(folders)

    for name in ("node_modules/x", ".git/objects", "ignored/deep"):
        (top / name).mkdir(parents=True)
    (top / "cache").mkdir()
    (top / "cache" / "CACHEDIR.TAG").touch()
    async with watch_folder(top, "ignored/", gives=gives):
        assert set(seen[-1]) <= {str(top), str(top / "sub"), str(top / "cache")}


async def test_a_folder_that_goes_just_as_it_is_to_be_watched_does_no_harm(top: Path) -> None:
    given: list[ChangeNotices] = []

    def gives(folders: Sequence[str]) -> ChangeNotices:
        if not given:
            shutil.rmtree(top / "sub", ignore_errors=True)
        given.append(change_notices(folders))
        return given[-1]

    async with watch_folder(top, gives=gives) as watched:
        assert await watched.names() == {"a.md"}
        assert watched.watch.plain("en")["by"] == "system"
        (top / "a.md").write_text("followed")
        await watched.becomes("a.md", "followed")


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/alice/local ext4 rw 0 0
host /mnt/my\\040share 9p rw 0 0
x /mnt/remote fuse.sshfs rw 0 0
""".splitlines()


@pytest.mark.parametrize(
    ("path", "silent"),
    [
        ("/srv/notes", False),
        ("/home/bob/notes", True),
        ("/home", True),
        ("/homework", False),
        ("/home/alice/local/notes", False),
        ("/mnt/my share/notes", True),
        ("/mnt/remote", True),
    ],
)
def test_what_others_change_on_a_network_is_looked_for(path: str, silent: bool) -> None:
    assert is_silent_filesystem(path, MOUNTS) is silent


# As operations


async def settled(shelf: Shelf, job: Any) -> Any:
    async with asyncio.timeout(LIMIT):
        while job["status"] == "running":
            job = await shelf.call("follow_job", job=job["job"], version=job["version"])
    return job


async def test_watched_folders_are_remembered_listed_and_forgotten(tmp_path: Path, top: Path) -> None:
    async with open_shelf(tmp_path) as shelf:
        job = await settled(
            shelf, await shelf.call("watch_documents", path=str(top), relative=True, id_prefix="top")
        )
        assert job["status"] == "done", job
        assert job["result"]["new"] == 2
        (row,) = (await shelf.call("list_watched"))["results"]
        assert (row["path"], row["state"], row["files"], row["id_prefix"]) == (str(top), "watching", 2, "top")
        for inside in (top / "sub", top.parent):
            refused = await settled(shelf, await shelf.call("watch_documents", path=str(inside)))
            assert refused["error"]["code"] == -32602, refused
    async with open_shelf(tmp_path) as restarted:
        (top / "while away.md").write_text("three")
        await restarted.files.start()

        async def there() -> bool:
            return "top/while away.md" in await restarted.names()

        await until(there)
        answer = await restarted.call("unwatch_documents", path=str(top), remove=True)
        assert answer == {"path": str(top), "removed": 3}
        assert await restarted.names() == []
    async with open_shelf(tmp_path) as forgetful:
        await forgetful.files.start()
        assert not forgetful.files.watched
    assert (tmp_path / "watched.json").stat().st_mode & 0o777 == 0o600


async def test_a_list_that_is_damaged_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "watched.json").write_text("{")
    async with open_shelf(tmp_path) as shelf:
        await shelf.files.start()
        assert not shelf.files.watched
    assert (tmp_path / "watched.broken").exists()
