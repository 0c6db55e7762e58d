"""Files become documents: put once, passed over when unchanged, pruned on request, never fatal."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tabane.documents.files.file_operations import DocumentFiles
from tabane.documents.files.file_updates import FileAdding
from tabane.documents.files.readable_files import (
    DocumentFolder,
    FileTextReader,
    PassOptions,
    ReadableFiles,
    ReadableRoots,
)
from tabane.documents.table import files_table
from tabane.errors import BadArguments, ModelError, ReadError
from tabane.hub.work.jobs import Jobs
from tabane.messages import Message, say
from tabane.operations import Door, OperationTable
from tabane.wire import json
from tests.documents.library import CALLER, Asked, Letters, Models, opened
from tests.harness.patience import LONG

LIMIT = LONG


@dataclass
class Page:
    """What a converter makes of a file."""

    markdown: str
    title: str | None = None


async def convert(data: bytes, name: str) -> Page:
    if b"broken" in data:
        raise ReadError(say("{name}: {detail}", name=name, detail="broken"), "broken")
    if b"scan" in data:
        return Page("")
    return Page("# Converted\n\n" + data.decode("latin-1").removeprefix("%PDF-"), "Converted")


class Told:
    """A progress that remembers."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int | None]] = []

    def tell(self, done: int, total: int | None = None, note: Message | None = None) -> None:
        self.steps.append((done, total))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    top = tmp_path / "notes"
    (top / "sub").mkdir(parents=True)
    (top / "a.md").write_text("# Apples\n\nThey are red.\n")
    (top / "sub" / "b.txt").write_bytes("吾輩は猫である。名前はまだ無い。\n".encode("cp932"))
    (top / "sub" / "c.py").write_text("def pears() -> None: ...\n")
    (top / "d.pdf").write_bytes(b"%PDF-plums")
    return top


class Shelf:
    """Documents of files in a store of their own, and the job that adds to them."""

    def __init__(self, asked: Asked, home: Path) -> None:
        self.asked = asked
        self.files = DocumentFiles(asked.documents, FileTextReader(convert), home / "watched.json")
        self.jobs = Jobs(asyncio.get_running_loop())
        self.door = Door(OperationTable([*files_table(lambda: self.files), *self.jobs.table()]), self.jobs)

    async def add(self, *paths: Path, **params: Any) -> Any:
        """The report of the job."""
        job = await self.call("add_documents", paths=[str(path) for path in paths], **params)
        async with asyncio.timeout(LIMIT):
            while job["status"] == "running":
                job = await self.call("follow_job", job=job["job"], version=job["version"])
        if job["status"] != "done":
            raise AssertionError(job)
        return job["result"]

    async def call(self, name: str, **params: Any) -> Any:
        return json.decode(json.encode(await self.door.invoke(CALLER, name, json.encode(params))))

    async def names(self) -> list[str]:
        return [document.filepath async for document in (await self.asked.documents.reading()).all()]


@asynccontextmanager
async def open_shelf(tmp_path: Path, models: Models | None = None, **more: Any) -> AsyncIterator[Shelf]:
    async with opened(models, **more) as asked:
        shelf = Shelf(asked, tmp_path)
        try:
            yield shelf
        finally:
            await shelf.files.close()
            await shelf.jobs.close()


def counts(report: dict[str, Any]) -> tuple[int, ...]:
    return tuple(report[name] for name in ("new", "changed", "unchanged", "removed", "bad"))


async def test_a_folder_is_added_whatever_its_files_are_written_in(tmp_path: Path, folder: Path) -> None:
    async with open_shelf(tmp_path) as shelf:
        assert counts(await shelf.add(folder)) == (4, 0, 0, 0, 0)
        assert await shelf.names() == [
            str(folder / name) for name in ("a.md", "d.pdf", "sub/b.txt", "sub/c.py")
        ]
        assert "吾輩は猫である" in (await shelf.asked.whole(str(folder / "sub" / "b.txt")) or "")
        assert await shelf.asked.found("plums", mode="lexical") == [str(folder / "d.pdf")]
        listed = (await shelf.asked.call("list_documents"))["documents"]
        types = {Path(row["filepath"]).name: row["file_type"] for row in listed}
        assert types == {"a.md": "markdown", "b.txt": "text", "c.py": "code", "d.pdf": "pdf"}


async def test_what_is_unchanged_is_passed_over_and_what_is_not_is_put(tmp_path: Path, folder: Path) -> None:
    model = Letters()
    async with open_shelf(tmp_path, Models(model)) as shelf:
        await shelf.add(folder)
        embedded = len(model.embedded)
        assert counts(await shelf.add(folder)) == (0, 0, 4, 0, 0)
        os.utime(folder / "a.md", (1, 1))  # its time alone
        assert counts(await shelf.add(folder)) == (0, 0, 4, 0, 0)
        assert len(model.embedded) == embedded
        (folder / "a.md").write_text("# Apples\n\nThey are green.\n")
        (folder / "new.md").write_text("new")
        assert counts(await shelf.add(folder)) == (1, 1, 3, 0, 0)
        assert "green" in (await shelf.asked.whole(str(folder / "a.md")) or "")


async def test_a_change_that_leaves_size_and_time_as_they_were_is_seen_where_it_came_at_once(
    tmp_path: Path, folder: Path
) -> None:
    async with open_shelf(tmp_path) as shelf:
        await shelf.add(folder)
        before = (folder / "a.md").stat()
        (folder / "a.md").write_text("# Apples\n\nThey are bad.\n")
        os.utime(folder / "a.md", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (folder / "a.md").stat().st_size == before.st_size
        assert counts(await shelf.add(folder)) == (0, 1, 3, 0, 0)


async def test_documents_of_files_that_are_gone_are_removed_on_request_and_no_others(
    tmp_path: Path, folder: Path
) -> None:
    async with open_shelf(tmp_path) as shelf:
        other = tmp_path / "other"
        shutil.copytree(folder, other)
        await shelf.add(folder, other)
        await shelf.asked.put(str(folder / "by hand.md"), "put by somebody")
        (folder / "a.md").unlink()
        shutil.rmtree(folder / "sub")
        assert counts(await shelf.add(folder)) == (0, 0, 1, 0, 0)
        assert counts(await shelf.add(folder, prune=True)) == (0, 0, 1, 3, 0)
        left = [str(folder / "by hand.md"), str(folder / "d.pdf")]
        left += [str(other / name) for name in ("a.md", "d.pdf", "sub/b.txt", "sub/c.py")]
        assert await shelf.names() == left


async def test_pruning_spares_what_a_relative_name_does_not_tell_apart(tmp_path: Path, folder: Path) -> None:
    async with open_shelf(tmp_path) as shelf:
        other = tmp_path / "other"
        other.mkdir()
        (other / "z.md").write_text("of the other")
        await shelf.add(folder, relative=True)
        await shelf.add(other, relative=True, prune=True)
        assert await shelf.names() == ["a.md", "d.pdf", "sub/b.txt", "sub/c.py", "z.md"]
        (other / "z.md").unlink()
        assert (await shelf.add(other, relative=True, prune=True))["removed"] == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_pruning_spares_what_could_not_be_looked_at(tmp_path: Path, folder: Path) -> None:
    async with open_shelf(tmp_path) as shelf:
        await shelf.add(folder)
        (folder / "sub").chmod(0)
        try:
            report = await shelf.add(folder, prune=True)
        finally:
            (folder / "sub").chmod(0o700)
        assert (report["removed"], report["bad"]) == (0, 1)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"relative": True}, "sub/c.py"),
        ({"relative": True, "id_prefix": "notes"}, "notes/sub/c.py"),
        ({"relative": True, "id_prefix": "notes/"}, "notes/sub/c.py"),
        ({"relative": True, "id_prefix": "wiki:"}, "wiki:sub/c.py"),
        ({"id_prefix": "home"}, "home{folder}/sub/c.py"),
        ({"id_prefix": "home:"}, "home:{folder}/sub/c.py"),
    ],
)
async def test_documents_are_called_as_was_asked(
    tmp_path: Path, folder: Path, given: dict[str, Any], named: str
) -> None:
    async with open_shelf(tmp_path) as shelf:
        await shelf.add(folder, file_type="spec", **given)
        name = named.replace("{folder}", str(folder))
        assert name in await shelf.names()
        (row,) = (await shelf.asked.call("list_documents", prefix=name))["documents"]
        assert row["file_type"] == "spec"


async def test_ids_of_semche_are_continued_where_they_are_there(tmp_path: Path, folder: Path) -> None:
    async with open_shelf(tmp_path) as shelf:
        await shelf.asked.put(f"abc:{folder}/sub/c.py", "as semche called it")
        await shelf.asked.put("rel:other.md", "from semche")
        await shelf.asked.put("mine/other.md", "never from semche")
        await shelf.asked.put("mine:other.md", "nor this alone")
        before = set(await shelf.names())
        await shelf.add(folder, id_prefix="abc")
        await shelf.add(folder, id_prefix="rel", relative=True)
        await shelf.add(folder, id_prefix="mine", relative=True)
        await shelf.add(folder, id_prefix="new", relative=True)
        added = set(await shelf.names()) - before
        assert {name for name in added if name.endswith("c.py")} == {
            "rel:sub/c.py", "mine/sub/c.py", "new/sub/c.py",
        }  # fmt: skip
        assert all(name.startswith((f"abc:{folder}/", "rel:", "mine/", "new/")) for name in added)


async def test_two_files_of_one_name_are_told_of(tmp_path: Path, folder: Path) -> None:
    async with open_shelf(tmp_path) as shelf:
        other = tmp_path / "other"
        shutil.copytree(folder, other)
        report = await shelf.add(folder, other, relative=True)
        assert counts(report) == (4, 0, 0, 0, 4)
        assert "--id-prefix" in report["problems"][0]["reason"]


async def test_what_cannot_be_used_is_listed_and_takes_nothing_along(tmp_path: Path, folder: Path) -> None:
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / "program").write_bytes(b"\x7fELF\0\0\0")
    (folder / "broken.pdf").write_bytes(b"%PDF-broken")
    (folder / "western.txt").write_bytes("Größe über Käse".encode("cp1252"))
    (folder / "empty.md").write_text(" \n")
    (folder / os.fsdecode(b"\xff.md")).write_text("nameless")
    async with open_shelf(tmp_path) as shelf:
        report = await shelf.add(folder)
        assert counts(report) == (4, 0, 0, 0, 6)
        why = {os.path.basename(row["path"]): row["reason"] for row in report["problems"]}
        assert set(why) == {"picture.png", "program", "broken.pdf", "western.txt", "empty.md", "�.md"}
        assert "UTF-8" in why["western.txt"]
        assert counts(await shelf.add(folder, encoding="cp1252")) == (1, 0, 4, 0, 5)
        assert await shelf.asked.whole(str(folder / "western.txt")) == "Größe über Käse"


async def test_a_home_of_tabane_is_left_out_and_listed_because_of_its_secrets(
    tmp_path: Path, folder: Path
) -> None:
    home = folder / "home"
    home.mkdir()
    for name in ("hub.lock", "audit.key", "secrets.env", "notes.md"):
        (home / name).write_text("KEY=secret")
    async with open_shelf(tmp_path) as shelf:
        for place, added in ((folder, 4), (home, 0)):
            report = await shelf.add(place)
            assert counts(report) == (added, 0, 0, 0, 1)
            assert [row["path"] for row in report["problems"]] == [str(home)]
            assert "Tabane" in report["problems"][0]["reason"]


async def test_a_converted_file_without_words_is_listed_though_it_is_the_only_one_that_changed(
    tmp_path: Path, folder: Path
) -> None:
    (folder / "d.pdf").write_bytes(b"%PDF-scan")
    async with open_shelf(tmp_path) as shelf:
        assert counts(await shelf.add(folder)) == (3, 0, 0, 0, 1)
        again = await shelf.add(folder)
        assert counts(again) == (0, 0, 3, 0, 1)
        assert [row["path"] for row in again["problems"]] == [str(folder / "d.pdf")]
        assert counts(await shelf.add(folder / "d.pdf")) == (0, 0, 0, 0, 1)


async def test_dates_and_patterns_narrow_what_is_added(tmp_path: Path, folder: Path) -> None:
    os.utime(folder / "a.md", (1_000_000_000, 1_000_000_000))  # 2001
    async with open_shelf(tmp_path) as shelf:
        report = await shelf.add(folder, since="2002-01-01", ignore=["*.py", "/d.pdf"])
        assert (report["new"], report["older"]) == (1, 1)
        assert await shelf.names() == [str(folder / "sub" / "b.txt")]
        with pytest.raises(AssertionError, match="soon"):
            await shelf.add(folder, since="soon")
        with pytest.raises(AssertionError, match="klingon"):
            await shelf.add(folder, encoding="klingon")


async def test_single_files_are_added_and_what_is_not_there_is_the_callers_mistake(
    tmp_path: Path, folder: Path
) -> None:
    async with open_shelf(tmp_path) as shelf:
        assert counts(await shelf.add(folder / "a.md", folder / "sub" / "c.py", relative=True))[0] == 2
        assert await shelf.names() == ["a.md", "c.py"]
        with pytest.raises(AssertionError, match=r"nothing\.md.*-32602|-32602.*nothing\.md"):
            await shelf.add(folder / "nothing.md")


async def test_a_model_that_fails_on_one_text_costs_that_one_and_one_that_fails_on_all_ends_the_job(
    tmp_path: Path, folder: Path
) -> None:
    async with open_shelf(tmp_path, Models(Letters(bad="pears")), named=True) as shelf:
        assert counts(await shelf.add(folder)) == (3, 0, 0, 0, 1)
    async with open_shelf(tmp_path, Models(Letters(away=True)), named=True) as shelf:
        adding = FileAdding(shelf.asked.documents, FileTextReader(convert))
        with pytest.raises(ModelError):
            await adding.add([DocumentFolder(str(folder))], PassOptions(), Told())


async def test_progress_is_told_up_to_the_last_file(tmp_path: Path, folder: Path) -> None:
    async with opened() as asked:
        told = Told()
        await FileAdding(asked.documents, FileTextReader(convert)).add(
            [DocumentFolder(str(folder))], PassOptions(), told
        )
        assert told.steps[-1] == (4, 4)
        assert sorted(step[0] for step in told.steps) == [step[0] for step in told.steps]


@pytest.mark.heavy("many files")
async def test_a_job_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    top, home = tmp_path / "many", tmp_path / "home"
    top.mkdir()
    home.mkdir()
    for number in range(400):
        (top / f"{number}.md").write_text(f"# {number}\n\n" + "words " * 200)
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.documents.files.test_adding", str(home), str(top)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) >= 100:
            break
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    async with opened(folder=str(home)) as asked:
        report = await FileAdding(asked.documents, FileTextReader()).add(
            [DocumentFolder(str(top))], PassOptions(), Told()
        )
        assert report.unchanged >= 100
        assert report.new == 400 - report.unchanged > 0


async def test_a_file_in_an_allowed_folder_is_put_as_it_was_read(tmp_path: Path, folder: Path) -> None:
    readable = ReadableFiles(ReadableRoots(lambda: [folder]), FileTextReader(convert))
    async with opened(files=readable.read) as asked:
        answer = await asked.call("put_file", path=str(folder / "sub" / "b.txt"))
        assert answer["status"] == "success"
        assert await asked.whole(str(folder / "sub" / "b.txt")) == "吾輩は猫である。名前はまだ無い。\n"
        answer = await asked.call("put_file", path="/etc/passwd")
        assert (answer["status"], answer["error_type"]) == ("error", "ValidationError")
        (folder / "x.bin").write_bytes(b"\0\1")
        answer = await asked.call("put_file", path=str(folder / "x.bin"))
        assert "x.bin" in answer["message"]


def test_a_name_that_can_be_none_is_refused() -> None:
    with pytest.raises(BadArguments, match="UTF-8"):
        DocumentFolder("/top").key(os.fsdecode(b"\xff"))


async def _add(home: str, top: str) -> None:
    class Printed(Told):
        def tell(self, done: int, total: int | None = None, note: Message | None = None) -> None:
            print(done, flush=True)
            if done >= 300:
                sys.stdin.read()  # whoever kills it may come late

    async with opened(folder=home) as asked:
        await FileAdding(asked.documents, FileTextReader()).add(
            [DocumentFolder(top)], PassOptions(), Printed()
        )


if __name__ == "__main__":
    asyncio.run(_add(*sys.argv[1:]))
