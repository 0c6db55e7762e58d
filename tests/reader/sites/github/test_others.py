"""Commits, comparisons, releases, gists and lists of GitHub; what is asked with, and what goes wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tabane.errors import ReadError
from tests.reader.site import Answer, Site
from tests.reader.sites.github.hub import (
    REPO,
    changed,
    comment,
    commit,
    entry,
    issue,
    missing,
    repository,
    user,
    way,
)
from tests.reader.sites.service import pages, read, said, tell

HUB = "https://github.com/octo/demo"


def test_a_commit_is_its_message_and_patch(site: Site) -> None:
    found = commit(stats={"additions": 1, "deletions": 1, "total": 2}, files=[changed("a.py")])
    found["commit"]["comment_count"] = 1
    tell(site, f"{REPO}/commits/ccc", found)
    pages(site, f"{REPO}/commits/ccc/comments", [comment("bob", "Good.")])
    page = read(site, f"{HUB}/commit/ccc", way(site))
    assert page.markdown == (
        f"# Say why\n\n- Commit: {'c' * 40}\n- Author: ann\n- Date: 2026-01-03T00:00:00Z\n"
        "- Parents: ddddddd\n"
        "- Changes: 1 file, +1 −1\n\nBecause.\n\n## Files (1)\n\n- `a.py` (modified, +1 −1)\n\n"
        "### `a.py`\n\n```diff\n@@ -1 +1 @@\n-a\n+b\n```\n\n"
        "## Comments (1)\n\n### bob · 2026-01-02T00:00:00Z\n\nGood."
    )
    assert page.title == "Say why · octo/demo@ccccccc"


def test_commits_of_a_path_on_a_branch_with_slashes_are_listed(site: Site) -> None:
    site.ask(f"{REPO}/commits", lambda asked: _commits(asked.target))
    tell(site, f"{REPO}/git/matching-refs/heads/feature/x", [{"ref": "refs/heads/feature/x"}])
    page = read(site, f"{HUB}/commits/feature/x/src", way(site))
    assert "# Commits of octo/demo feature/x/src\n\n- `ccccccc` Say why (ann, 2026-01-03)" in page.markdown


def _commits(target: str) -> Answer:
    import json

    good = "sha=feature%2Fx&path=src" in target
    value: Any = [commit()] if good else {"message": "Not Found"}
    return Answer(200 if good else 404, json.dumps(value).encode(), "application/json")


def test_a_comparison_has_its_commits_and_patches(site: Site) -> None:
    tell(
        site,
        f"{REPO}/compare/main...fix",
        {
            "html_url": f"{HUB}/compare/main...fix",
            "status": "ahead",
            "ahead_by": 3,
            "behind_by": 0,
            "total_commits": 3,
            "commits": [commit()],
            "files": [changed("a.py")],
        },
    )
    for span in ("main...fix", "main..fix"):
        page = read(site, f"{HUB}/compare/{span}", way(site))
        assert "- Difference: 3 commits ahead, 0 behind" in page.markdown
        assert "## Commits (3)\n\n- `ccccccc` Say why" in page.markdown
        assert "```diff" in page.markdown
        assert "first 1 of 3" in said(page)


def release(tag: str = "v1/a", **changes: Any) -> dict[str, Any]:
    known = {
        "tag_name": tag,
        "name": "One",
        "body": "## New\r\n\n- it",
        "html_url": f"{HUB}/releases/tag/{tag}",
        "draft": False,
        "prerelease": True,
        "published_at": "2026-02-01T00:00:00Z",
        "author": user("ann"),
        "assets": [
            {"name": "a.tgz", "size": 2048, "download_count": 5, "browser_download_url": f"{HUB}/a.tgz"}
        ],
    }
    return known | changes


def test_a_release_is_its_notes_and_its_files(site: Site) -> None:
    tell(site, f"{REPO}/releases/tags/v1%2Fa", release())
    tell(site, f"{REPO}/releases/latest", release())
    for url in (f"{HUB}/releases/tag/v1/a", f"{HUB}/releases/latest"):
        assert read(site, url, way(site)).markdown == (
            "# One · octo/demo\n\n- Tag: `v1/a`\n- Author: ann\n"
            "- Date: 2026-02-01T00:00:00Z\n- Kind: pre-release\n\n"
            f"## New\n\n- it\n\n## Assets\n\n- [a.tgz]({HUB}/a.tgz) (2.0 KB, 5 downloads)"
        )


def test_releases_are_listed_with_their_notes(site: Site) -> None:
    tell(site, f"{REPO}/releases", [release("v2", name=None), release("v1")])
    page = read(site, f"{HUB}/releases", way(site))
    assert page.markdown.startswith("# Releases of octo/demo\n\n## v2\n\n- Tag: `v2`")
    assert "## One" in page.markdown


def test_tags_are_listed_and_stand_in_for_releases(site: Site) -> None:
    tell(site, f"{REPO}/releases", [])
    tell(site, f"{REPO}/tags", [{"name": "v2", "commit": {"sha": "e" * 40}}])
    for url in (f"{HUB}/tags", f"{HUB}/releases"):
        page = read(site, url, way(site))
        assert page.markdown == "# Tags of octo/demo\n\n- v2 (`eeeeeee`)"


def gist(**changes: Any) -> dict[str, Any]:
    files = {
        "a.py": {"filename": "a.py", "size": 6, "language": "Python", "content": "x = 1\n"},
        "b.md": {"filename": "b.md", "size": 6, "language": "Markdown", "content": "# B\n"},
    }
    known: dict[str, Any] = {
        "id": "abcdef0123",
        "html_url": "https://gist.github.com/ann/abcdef0123",
        "description": "Two files",
        "owner": user("ann"),
        "updated_at": "2026-01-01T00:00:00Z",
        "files": files,
        "comments": 1,
        "truncated": False,
    }
    return known | changes


def test_a_gist_is_its_files_and_comments(site: Site) -> None:
    tell(site, "/api/gists/abcdef0123", gist())
    pages(site, "/api/gists/abcdef0123/comments", [comment("bob", "Thanks.")])
    for url in ("https://gist.github.com/ann/abcdef0123", "https://gist.github.com/abcdef0123#file-a-py"):
        page = read(site, url, way(site))
        assert page.markdown == (
            "<gist>\nann/abcdef0123\n</gist>\n\n<description>\nTwo files\n</description>\n\n"
            "<path>\na.py\n</path>\n\n<content>\n\n```python\nx = 1\n```\n\n</content>\n\n"
            "<path>\nb.md\n</path>\n\n<content>\n\n# B\n\n</content>\n\n"
            "## Comments (1)\n\n### bob · 2026-01-02T00:00:00Z\n\nThanks."
        )


def test_a_long_file_of_a_gist_is_fetched_without_the_token(site: Site) -> None:
    raw = site.url("/long.txt")
    tell(
        site,
        "/api/gists/abcdef0123",
        gist(comments=0, files={"long.txt": {"size": 5, "truncated": True, "content": "be", "raw_url": raw}}),
    )
    site.put("/long.txt", "begin … end", "text/plain")
    page = read(site, "https://gist.github.com/ann/abcdef0123", way(site, "secret"))
    assert "begin … end" in page.markdown
    tokens = {asked.path: asked.headers.get("authorization") for asked in site.asked}
    assert tokens == {"/api/gists/abcdef0123": "Bearer secret", "/long.txt": None}


def test_lists_of_issues_are_what_their_query_finds(site: Site) -> None:
    tell(site, "/api/search/issues", {"total_count": 120, "items": [issue(comments=3)]})
    page = read(site, f"{HUB}/issues?q=is%3Aissue+label%3Abug+repo%3Aevil%2Fone&page=2", way(site))
    assert (
        "- [#7 It breaks](https://github.com/octo/demo/issues/7) "
        "(open · ann · 2026-01-01 · 3 comments · bug, help" in page.markdown
    )
    assert "1 of 120" in said(page)
    assert "q=repo%3Aocto%2Fdemo+is%3Aissue+label%3Abug&" in site.paths[-1]
    read(site, f"{HUB}/pulls", way(site))
    assert "q=repo%3Aocto%2Fdemo+is%3Apr+is%3Aopen&" in site.paths[-1]


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/octo",
        "https://github.com/",
        "https://github.com/topics/python",
        f"{HUB}/discussions/5",
        f"{HUB}/wiki/Home",
        f"{HUB}/actions",
        f"{HUB}/pull/8.diff",
        f"{HUB}/issues/new",
        f"{HUB}/commit/abc.patch",
        "https://github.com/orgs/octo/projects",
        "https://gist.github.com/ann",
        "https://github.io/octo/demo",
        "https://example.com/github.com/octo/demo",
        "https://api.github.com/repos/o/r",
        "https://github.com/octo/%2e%2e",
        "https://github.com/octo/demo/blob/main/../../x",
        "http://[::1",
    ],
)
def test_what_the_api_has_not_is_left_to_the_general_way(site: Site, url: str) -> None:
    assert not way(site).takes(url)


def failure(site: Site, url: str, token: str | None = None) -> ReadError:
    with pytest.raises(ReadError) as raised:
        read(site, url, way(site, token))
    return raised.value


def test_the_token_goes_to_github_alone(site: Site) -> None:
    tell(site, REPO, repository())
    tell(site, f"{REPO}/contents", [entry("README.md")])
    site.put("/raw/octo/demo/HEAD/README.md", "# Demo", "text/plain")
    read(site, HUB, way(site, "secret"))
    assert {asked.headers.get("authorization") for asked in site.asked} == {"Bearer secret"}
    assert {asked.headers.get("x-github-api-version") for asked in site.asked if "/api" in asked.path} == {
        "2022-11-28"
    }


def test_no_token_is_no_header(site: Site) -> None:
    tell(site, f"{REPO}/issues/7", issue())
    for token in (None, ""):
        read(site, f"{HUB}/issues/7", way(site, token))
    assert all("authorization" not in asked.headers for asked in site.asked)


def test_what_is_private_or_missing_says_what_may_help(site: Site) -> None:
    missing(site, REPO)
    error = failure(site, HUB)
    assert (error.cause, error.status) == ("status", 404)
    assert "private" in str(error)
    assert "GITHUB_TOKEN" in str(error)
    assert "has no access to it" in str(failure(site, HUB, "secret"))


def test_a_spent_limit_says_until_when_and_that_a_token_raises_it(site: Site) -> None:
    import time

    reset = str(int(time.time()) + 1800)
    limits = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
    site.ask(REPO, lambda _: Answer(403, b"{}", "application/json", limits))
    error = failure(site, HUB)
    assert error.cause == "rate"
    assert error.wait is not None
    assert 1700 < error.wait <= 1800
    assert "until 08:" in str(error) or "30 min" in str(error)
    assert "GITHUB_TOKEN" in str(error)
    assert "GITHUB_TOKEN" not in str(failure(site, HUB, "secret"))


def test_a_second_limit_says_how_long_to_wait(site: Site) -> None:
    site.ask(REPO, lambda _: Answer(403, b"{}", "application/json", {"Retry-After": "60"}))
    error = failure(site, HUB)
    assert (error.cause, error.wait) == ("rate", 60.0)
    assert "1 min from now" in str(error)
    site.ask(REPO, lambda _: Answer(403, b'{"message": "secondary rate limit"}', "application/json"))
    assert "minute" in str(failure(site, HUB))


def test_a_token_that_is_not_accepted_is_named_as_the_cause(site: Site) -> None:
    tell(site, REPO, {"message": "Bad credentials"}, 401)
    error = failure(site, HUB, "old")
    assert error.cause == "key"
    assert "GITHUB_TOKEN" in str(error)
    assert "old" not in str(error).split()


def test_an_answer_of_another_form_is_broken_and_no_crash(site: Site) -> None:
    values: list[Any] = [[], {"full_name": 3}, "x", None]
    for value in values:
        tell(site, REPO, value)
        error = failure(site, HUB)
        assert "unknown form" in str(error)


def test_a_failed_way_leaves_its_cause_to_the_general_one(site: Site) -> None:
    site.put("/api/repos/octo/demo", "{}", "application/json", status=500)
    error = failure(site, HUB)
    assert "HTTP 500" in str(error)
