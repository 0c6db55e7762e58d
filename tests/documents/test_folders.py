"""Documents as a tree: folders with counts, then documents, in pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from tests.documents.library import Asked, Models, opened

NAMES = (
    "a.md", "notes/one.md", "notes/2026/01/x.md", "notes/2026/01/y.md", "notes/2026/02/z.md", "日記/一.md",
    "/home/ann/plan.txt", "/home/ann/todo/x.txt", "https://example.com/page", "https://example.org/",
)  # fmt: skip


async def put(asked: Asked, names: Iterable[str]) -> None:
    answer = await asked.call("put_documents", documents=[{"filepath": name, "text": name} for name in names])
    assert answer["status"] == "success", answer


async def level(asked: Asked, prefix: str = "", **params: Any) -> tuple[dict[str, int], list[str]]:
    """Return one level: counts of folders, and documents; read in pages."""
    folders: dict[str, int] = {}
    documents: list[str] = []
    cursor = None
    while True:
        page = await asked.call("list_document_folders", prefix=prefix, cursor=cursor, **params)
        assert page["status"] == "success", page
        assert not (page["folders"] and documents)
        folders |= {each["prefix"]: each["documents"] for each in page["folders"]}
        documents += [each["filepath"] for each in page["documents"]]
        cursor = page["next_cursor"]
        if cursor is None:
            assert (page["total_folders"], page["total"]) == (
                len(folders),
                sum(folders.values()) + len(documents),
            )
            return folders, documents


async def test_a_level_shows_folders_with_counts_and_documents() -> None:
    async with opened(Models()) as asked:
        assert await level(asked) == ({}, [])
        await put(asked, NAMES)
        folders = {"/home/ann/": 2, "https://": 2, "notes/": 4, "日記/": 1}
        assert await level(asked) == (folders, ["a.md"])
        assert await level(asked, limit=1) == (folders, ["a.md"])
        assert await level(asked, "notes/") == ({"notes/2026/": 3}, ["notes/one.md"])
        assert await level(asked, "notes/2026/") == ({"notes/2026/01/": 2, "notes/2026/02/": 1}, [])
        assert await level(asked, "https://") == ({"https://example.com/": 1, "https://example.org/": 1}, [])
        assert await level(asked, "https://example.org/") == ({}, ["https://example.org/"])
        assert await level(asked, "/home/ann/", file_type="none") == ({}, [])


async def test_changes_are_seen_at_once() -> None:
    async with opened(Models()) as asked:
        await put(asked, NAMES)
        await level(asked, "notes/")
        await asked.call("delete_document", filepath="notes/one.md")
        await put(asked, ["notes/b.md", "notes/a/b.md"])
        assert await level(asked, "notes/") == ({"notes/2026/": 3, "notes/a/": 1}, ["notes/b.md"])


async def test_a_cursor_of_another_list_is_refused() -> None:
    async with opened(Models()) as asked:
        await put(asked, NAMES)
        listed = await asked.call("list_documents", limit=1)
        refused = await asked.call("list_document_folders", cursor=listed["next_cursor"])
        assert (refused["status"], refused["error_type"]) == ("error", "ValidationError")


@settings(max_examples=25, deadline=None)
@given(some.sets(some.text("ab/", min_size=1, max_size=8), min_size=1, max_size=12), some.integers(1, 3))
async def test_every_document_is_reached_once_from_the_top(names: set[str], limit: int) -> None:
    async with opened(Models()) as asked:
        await put(asked, names)
        found: list[str] = []
        waiting = [""]
        while waiting:
            prefix = waiting.pop()
            folders, documents = await level(asked, prefix, limit=limit)
            assert all(below.startswith(prefix) and below != prefix for below in folders)
            waiting += folders
            found += documents
        assert sorted(found) == sorted(names)
