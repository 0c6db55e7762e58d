"""The sample archive is complete, and contains every kind of data that an archive may contain."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from zoneinfo import ZoneInfo

from tabane.posts.post import BOOKMARK, LIKE, POST
from tests.posts.importing.archives import do_import, posts_in


def test_the_sample_archive_is_imported_without_a_bad_row(tmp_path: Path) -> None:
    with resources.as_file(resources.files("tabane.posts") / "sample") as folder:
        sources = [str(folder / "twilog.csv"), str(folder / "results.jsonl")]
        report = do_import(tmp_path / "home", sources, zone=ZoneInfo("Asia/Tokyo"))
    assert (report.new, report.duplicates, report.bad) == (298, 1, 0)
    found = posts_in(tmp_path / "home").values()
    assert {post.log_type for post in found} == {POST, LIKE, BOOKMARK}
    assert len({post.user for post in found}) == 7
    assert {post.timestamp[:4] for post in found} == {"2023", "2024", "2025", "2026"}
    assert sum(bool(post.reasoning and post.summary and post.tags) for post in found) > 270
    assert any("\n" in post.content for post in found)
    assert any("<180cm>" in post.content and "&" not in post.content for post in found)
    assert all(post.at is not None and post.content for post in found)
    assert len({(post.user, post.content) for post in found}) == len(found) - 1  # one was written twice
