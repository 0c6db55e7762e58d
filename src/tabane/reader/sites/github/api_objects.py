"""Responses of GitHub's API, as far as they are used here.

Shapes: https://docs.github.com/en/rest. Fields that are sometimes missing have defaults.
"""

from __future__ import annotations

from msgspec import Struct


class GitHubAccount(Struct, frozen=True, gc=False):
    login: str = ""


class GitHubRepository(Struct, frozen=True):
    full_name: str
    html_url: str = ""
    description: str | None = None
    default_branch: str = "HEAD"
    archived: bool = False
    pushed_at: str | None = None
    owner: GitHubAccount | None = None


class GitHubEntry(Struct, frozen=True):
    """A file, folder, link or submodule; a file requested alone comes with its content."""

    name: str
    path: str
    type: str
    size: int = 0
    sha: str = ""
    download_url: str | None = None
    target: str | None = None
    encoding: str | None = None
    content: str | None = None
    submodule_git_url: str | None = None


class GitHubRef(Struct, frozen=True):
    ref: str


class GitHubLabel(Struct, frozen=True):
    name: str | None = None


class GitHubMilestone(Struct, frozen=True):
    title: str = ""


class GitHubReactions(Struct, frozen=True, gc=False, rename={"up": "+1", "down": "-1"}):
    total_count: int = 0
    up: int = 0
    down: int = 0


class GitHubIssue(Struct, frozen=True):
    number: int
    title: str
    state: str = "open"
    state_reason: str | None = None
    html_url: str = ""
    user: GitHubAccount | None = None
    body: str | None = None
    labels: list[GitHubLabel | str] = []
    assignees: list[GitHubAccount] | None = None
    milestone: GitHubMilestone | None = None
    comments: int = 0
    created_at: str = ""
    closed_at: str | None = None
    updated_at: str | None = None
    locked: bool = False
    reactions: GitHubReactions | None = None
    pull_request: dict[str, object] | None = None


class GitHubBranch(Struct, frozen=True):
    label: str | None = None
    ref: str = ""
    sha: str = ""


class GitHubPull(GitHubIssue, frozen=True):
    draft: bool = False
    merged: bool = False
    merged_at: str | None = None
    merged_by: GitHubAccount | None = None
    head: GitHubBranch | None = None
    base: GitHubBranch | None = None
    review_comments: int = 0
    commits: int = 0
    additions: int = 0
    deletions: int = 0
    changed_files: int = 0


class GitHubComment(Struct, frozen=True, gc=False):
    user: GitHubAccount | None = None
    body: str | None = None
    created_at: str = ""
    author_association: str = ""
    reactions: GitHubReactions | None = None


class GitHubReviewComment(GitHubComment, frozen=True, gc=False):
    id: int = 0
    in_reply_to_id: int | None = None
    path: str = ""
    line: int | None = None
    original_line: int | None = None
    start_line: int | None = None
    diff_hunk: str = ""


class GitHubReview(Struct, frozen=True):
    user: GitHubAccount | None = None
    body: str | None = None
    state: str = ""
    submitted_at: str | None = None


class GitHubChangedFile(Struct, frozen=True):
    """A file as a commit, a comparison or a pull request changes it."""

    filename: str
    status: str = ""
    additions: int = 0
    deletions: int = 0
    patch: str | None = None
    previous_filename: str | None = None


class GitHubSignature(Struct, frozen=True):
    name: str | None = None
    date: str | None = None


class GitHubCommitText(Struct, frozen=True):
    message: str = ""
    author: GitHubSignature | None = None
    committer: GitHubSignature | None = None
    comment_count: int = 0


class GitHubStats(Struct, frozen=True):
    additions: int = 0
    deletions: int = 0


class GitHubParent(Struct, frozen=True):
    sha: str


class GitHubCommit(Struct, frozen=True):
    sha: str
    commit: GitHubCommitText
    html_url: str = ""
    author: GitHubAccount | None = None
    parents: list[GitHubParent] = []
    stats: GitHubStats | None = None
    files: list[GitHubChangedFile] | None = None


class GitHubComparison(Struct, frozen=True, kw_only=True):
    html_url: str = ""
    status: str
    ahead_by: int = 0
    behind_by: int = 0
    total_commits: int
    commits: list[GitHubCommit]
    files: list[GitHubChangedFile] | None = None


class GitHubAsset(Struct, frozen=True):
    name: str
    size: int = 0
    download_count: int = 0
    browser_download_url: str = ""


class GitHubRelease(Struct, frozen=True):
    tag_name: str
    name: str | None = None
    body: str | None = None
    html_url: str = ""
    draft: bool = False
    prerelease: bool = False
    published_at: str | None = None
    created_at: str | None = None
    author: GitHubAccount | None = None
    assets: list[GitHubAsset] = []


class GitHubTag(Struct, frozen=True):
    name: str
    commit: GitHubParent


class GitHubSearchPage(Struct, frozen=True):
    total_count: int
    items: list[GitHubIssue]


class GistFile(Struct, frozen=True):
    filename: str | None = None
    size: int = 0
    raw_url: str = ""
    language: str | None = None
    truncated: bool = False
    content: str | None = None


class Gist(Struct, frozen=True):
    id: str
    html_url: str = ""
    description: str | None = None
    owner: GitHubAccount | None = None
    created_at: str = ""
    updated_at: str = ""
    files: dict[str, GistFile | None] = {}
    comments: int = 0
    truncated: bool = False
