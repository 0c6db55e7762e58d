"""What GitHub's API answers, as far as it is read here.

Shapes: https://docs.github.com/en/rest. What may be missing has a default, since it sometimes is.
"""

from __future__ import annotations

from msgspec import Struct


class Account(Struct, frozen=True):
    login: str = ""


class License(Struct, frozen=True):
    spdx_id: str | None = None


class Repository(Struct, frozen=True):
    full_name: str
    html_url: str = ""
    description: str | None = None
    default_branch: str = "HEAD"
    archived: bool = False
    pushed_at: str | None = None
    owner: Account | None = None


class Entry(Struct, frozen=True):
    """A file, folder, link or submodule; a file that was asked for alone comes with its content."""

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


class Ref(Struct, frozen=True):
    ref: str


class Label(Struct, frozen=True):
    name: str | None = None


class Milestone(Struct, frozen=True):
    title: str = ""


class Reactions(Struct, frozen=True, rename={"up": "+1", "down": "-1"}):
    total_count: int = 0
    up: int = 0
    down: int = 0


class Issue(Struct, frozen=True):
    number: int
    title: str
    state: str = "open"
    state_reason: str | None = None
    html_url: str = ""
    user: Account | None = None
    body: str | None = None
    labels: list[Label | str] = []
    assignees: list[Account] | None = None
    milestone: Milestone | None = None
    comments: int = 0
    created_at: str = ""
    closed_at: str | None = None
    updated_at: str | None = None
    locked: bool = False
    reactions: Reactions | None = None
    pull_request: dict[str, object] | None = None


class Branch(Struct, frozen=True):
    label: str | None = None
    ref: str = ""
    sha: str = ""


class Pull(Issue, frozen=True):
    draft: bool = False
    merged: bool = False
    merged_at: str | None = None
    merged_by: Account | None = None
    head: Branch | None = None
    base: Branch | None = None
    review_comments: int = 0
    commits: int = 0
    additions: int = 0
    deletions: int = 0
    changed_files: int = 0


class Comment(Struct, frozen=True):
    user: Account | None = None
    body: str | None = None
    created_at: str = ""
    author_association: str = ""
    reactions: Reactions | None = None


class ReviewComment(Comment, frozen=True):
    id: int = 0
    in_reply_to_id: int | None = None
    path: str = ""
    line: int | None = None
    original_line: int | None = None
    start_line: int | None = None
    diff_hunk: str = ""


class Review(Struct, frozen=True):
    user: Account | None = None
    body: str | None = None
    state: str = ""
    submitted_at: str | None = None


class Changed(Struct, frozen=True):
    """A file as a commit, a comparison or a pull request changes it."""

    filename: str
    status: str = ""
    additions: int = 0
    deletions: int = 0
    patch: str | None = None
    previous_filename: str | None = None


class Signature(Struct, frozen=True):
    name: str | None = None
    date: str | None = None


class CommitText(Struct, frozen=True):
    message: str = ""
    author: Signature | None = None
    committer: Signature | None = None
    comment_count: int = 0


class Stats(Struct, frozen=True):
    additions: int = 0
    deletions: int = 0


class Parent(Struct, frozen=True):
    sha: str


class Commit(Struct, frozen=True):
    sha: str
    commit: CommitText
    html_url: str = ""
    author: Account | None = None
    parents: list[Parent] = []
    stats: Stats | None = None
    files: list[Changed] | None = None


class Comparison(Struct, frozen=True):
    html_url: str = ""
    status: str = ""
    ahead_by: int = 0
    behind_by: int = 0
    total_commits: int = 0
    commits: list[Commit] = []
    files: list[Changed] | None = None


class Asset(Struct, frozen=True):
    name: str
    size: int = 0
    download_count: int = 0
    browser_download_url: str = ""


class Release(Struct, frozen=True):
    tag_name: str
    name: str | None = None
    body: str | None = None
    html_url: str = ""
    draft: bool = False
    prerelease: bool = False
    published_at: str | None = None
    created_at: str | None = None
    author: Account | None = None
    assets: list[Asset] = []


class Tag(Struct, frozen=True):
    name: str
    commit: Parent


class Found(Struct, frozen=True):
    total_count: int
    items: list[Issue]


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
    owner: Account | None = None
    created_at: str = ""
    updated_at: str = ""
    files: dict[str, GistFile | None] = {}
    comments: int = 0
    truncated: bool = False
