"""Issues and pull requests of GitHub."""

from __future__ import annotations

from typing import Any

from tests.reader.site import Answer, Site
from tests.reader.sites.github.hub import REPO, changed, comment, issue, pull, user, way
from tests.reader.sites.service import pages, read, said, tell

ISSUE = "https://github.com/octo/demo/issues/7"
PULL = "https://github.com/octo/demo/pull/8"


def test_an_issue_is_its_facts_its_body_and_its_comments(site: Site) -> None:
    tell(
        site,
        f"{REPO}/issues/7",
        issue(
            state="closed",
            state_reason="not_planned",
            comments=2,
            closed_at="2026-01-09T00:00:00Z",
            assignees=[user("bob")],
            milestone={"title": "2.0"},
            reactions={"total_count": 4, "+1": 3, "-1": 1},
        ),
    )
    pages(
        site,
        f"{REPO}/issues/7/comments",
        [
            comment("bob", "I see it too.", author_association="MEMBER"),
            comment("gone", "Me too", 3) | {"user": None},
        ],
    )
    page = read(site, f"{ISSUE}#issuecomment-1", way(site))
    assert page.markdown == (
        "# It breaks #7\n\n- State: closed (not planned)\n- Author: ann\n- Opened: 2026-01-01T00:00:00Z\n"
        "- Closed: 2026-01-09T00:00:00Z\n- Labels: bug, help wanted\n- Assignees: bob\n- Milestone: 2.0\n"
        "- Reactions: 👍 3 👎 1\n\n"
        "When I call it:\n\n```python\nx = 1\n```\n\n"
        "## Comments (2)\n\n### bob · 2026-01-02T00:00:00Z · member\n\nI see it too.\n\n"
        "### ghost · 2026-01-03T00:00:00Z\n\nMe too"
    )
    assert (page.title, page.author, page.date) == ("It breaks #7", "ann", "2026-01-01T00:00:00Z")


def test_an_issue_without_comments_is_one_request(site: Site) -> None:
    tell(site, f"{REPO}/issues/7", issue(body=None))
    page = read(site, ISSUE, way(site))
    assert page.markdown.endswith("*No description.*")
    assert site.paths == [f"{REPO}/issues/7"]


def test_every_comment_is_read_page_by_page(site: Site) -> None:
    tell(site, f"{REPO}/issues/7", issue(comments=250))
    pages(site, f"{REPO}/issues/7/comments", [comment("bob", f"number {n}.") for n in range(250)])
    page = read(site, ISSUE, way(site))
    assert "number 249." in page.markdown
    assert not page.warnings
    assert len(site.asked) == 4


def test_no_page_is_asked_for_beyond_the_last(site: Site) -> None:
    tell(site, f"{REPO}/issues/7", issue(comments=200))
    pages(site, f"{REPO}/issues/7/comments", [comment("bob", f"number {n}.") for n in range(200)])
    assert "number 199." in read(site, ISSUE, way(site)).markdown
    assert len(site.asked) == 3


def test_more_comments_than_are_read_are_named(site: Site) -> None:
    tell(site, f"{REPO}/issues/7", issue(comments=1500))
    pages(site, f"{REPO}/issues/7/comments", [comment("bob", f"number {n}.") for n in range(1500)])
    page = read(site, ISSUE, way(site))
    assert "number 999." in page.markdown
    assert "number 1000." not in page.markdown
    assert "first 1000 of 1500" in said(page)


def test_comments_that_fail_half_way_leave_those_before(site: Site) -> None:
    tell(site, f"{REPO}/issues/7", issue(comments=150))
    path = f"{REPO}/issues/7/comments"
    pages(site, path, [comment("bob", f"number {n}.") for n in range(150)])
    limits = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9999999999"}
    site.ask(f"{path}?per_page=100&page=2", lambda _: Answer(403, b"{}", "application/json", limits))
    page = read(site, ISSUE, way(site))
    assert "number 99." in page.markdown
    assert "GITHUB_TOKEN" in said(page)


def test_a_pull_request_has_its_changes_reviews_and_comments_on_lines(site: Site) -> None:
    tell(
        site,
        f"{REPO}/pulls/8",
        pull(
            state="closed",
            merged=True,
            merged_at="2026-01-05T00:00:00Z",
            merged_by=user("octo"),
            closed_at="2026-01-05T00:00:00Z",
            comments=1,
            review_comments=2,
            body="Mends #7.",
        ),
    )
    pages(site, f"{REPO}/pulls/8/files", [changed("a.py", additions=12, deletions=3)])
    pages(site, f"{REPO}/issues/8/comments", [comment("bob", "Nice.", 4)])
    pages(
        site,
        f"{REPO}/pulls/8/reviews",
        [
            {
                "user": user("cat"),
                "body": "Please rename.",
                "state": "CHANGES_REQUESTED",
                "submitted_at": "2026-01-03T00:00:00Z",
            },
            {"user": user("cat"), "body": "", "state": "APPROVED", "submitted_at": "2026-01-04T12:00:00Z"},
            {"user": user("cat"), "body": "", "state": "PENDING", "submitted_at": None},
        ],
    )
    line: dict[str, Any] = {
        "path": "a.py",
        "line": 3,
        "original_line": 2,
        "diff_hunk": "@@ -1,3 +1,3 @@\n-x\n+y",
    }
    pages(
        site,
        f"{REPO}/pulls/8/comments",
        [
            comment("cat", "Why y?", id=1, **line),
            comment("ann", "Shorter.", 3, id=2, in_reply_to_id=1, **line),
        ],
    )
    page = read(site, PULL, way(site))
    assert page.markdown == (
        "# Mend it #8\n\n- State: merged\n- Author: ann\n"
        "- Opened: 2026-01-01T00:00:00Z\n- Labels: bug, help wanted\n"
        "- Merged: 2026-01-05T00:00:00Z by octo\n- Branches: `ann:fix` → `octo:main`\n"
        "- Changes: 2 commits, 1 file, +12 −3\n\nMends #7.\n\n"
        "## Comments (3)\n\n### cat · 2026-01-03T00:00:00Z · asked for changes\n\nPlease rename.\n\n"
        "### bob · 2026-01-04T00:00:00Z\n\nNice.\n\n### cat · 2026-01-04T12:00:00Z · approved\n\n"
        "## Review comments (2)\n\n### `a.py` line 3\n\n```diff\n@@ -1,3 +1,3 @@\n-x\n+y\n```\n\n"
        "#### cat · 2026-01-02T00:00:00Z\n\nWhy y?\n\n#### ann · 2026-01-03T00:00:00Z\n\nShorter.\n\n"
        "## Files (1)\n\n- `a.py` (modified, +12 −3)"
    )


def test_the_files_of_a_pull_request_come_with_their_patches(site: Site) -> None:
    tell(site, f"{REPO}/pulls/8", pull(draft=True, changed_files=2))
    pages(
        site,
        f"{REPO}/pulls/8/files",
        [
            changed("b.py", previous_filename="a.py"),
            changed("x.png", None),
            changed("huge", "+x\n" * 100_000),
        ],
    )
    pages(site, f"{REPO}/pulls/8/reviews", [])
    page = read(site, f"{PULL}/files", way(site))
    assert "- State: open (draft)" in page.markdown
    assert "### `a.py` → `b.py`\n\n```diff\n@@ -1 +1 @@\n-a\n+b\n```" in page.markdown
    assert "1 file are left out" in said(page)
    assert "```diff" not in read(site, PULL, way(site)).markdown


def test_an_issue_that_is_a_pull_request_is_read_as_one(site: Site) -> None:
    tell(site, f"{REPO}/issues/8", issue(8, pull_request={"url": "…"}))
    tell(site, f"{REPO}/pulls/8", pull())
    pages(site, f"{REPO}/pulls/8/files", [changed("a.py")])
    pages(site, f"{REPO}/pulls/8/reviews", [])
    assert "- Branches:" in read(site, "https://github.com/octo/demo/issues/8", way(site)).markdown
