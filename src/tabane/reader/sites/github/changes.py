"""Commits, lists of commits, and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.page import Page
from tabane.reader.sites.github.addresses import GitHubAddress
from tabane.reader.sites.github.api import GitHubApi
from tabane.reader.sites.github.api_objects import (
    GitHubChangedFile,
    GitHubComment,
    GitHubCommit,
    GitHubComparison,
)
from tabane.reader.sites.github.as_markdown import (
    blocks,
    facts,
    github_page,
    login,
    numbered,
    patches,
    stat,
)

LISTED = 100
"""Commits of a list."""


@dataclass(frozen=True, slots=True)
class GitHubFileChanges:
    """Files that are changed, as Markdown."""

    markdown: str
    warnings: tuple[Message, ...] = ()


def changed(files: Sequence[GitHubChangedFile], *, patched: bool) -> GitHubFileChanges:
    """Return the changes of files, and with ``patched`` their patches."""
    if not files:
        return GitHubFileChanges("")
    listed = blocks(f"## Files ({len(files)})", stat(files))
    if not patched:
        return GitHubFileChanges(listed)
    text, missing = patches(files)
    warning = say(
        "The patches of {count} {count:file|files} are left out because they are too long.", count=missing
    )
    return GitHubFileChanges(blocks(listed, text), (warning,) if missing else ())


async def commit(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return one commit with its message and patch."""
    path = f"/repos/{place.name}/commits/{quote(place.rest[0], safe='')}"
    found = await api.get(path, GitHubCommit)
    comments: list[GitHubComment] = []
    warnings: tuple[Message, ...] = ()
    if found.commit.comment_count:
        comments, warnings = await api.pages(f"{path}/comments", GitHubComment, found.commit.comment_count)
    subject, _, body = found.commit.message.partition("\n")
    detail = changed(found.files or (), patched=True)
    return github_page(
        found.html_url,
        blocks(
            f"# {subject}",
            facts(
                commit=found.sha,
                author=_author(found),
                date=_date(found),
                parents=", ".join(each.sha[:7] for each in found.parents),
                changes=_counted(found),
            ),
            body.strip(),
            detail.markdown,
            *_said(comments),
        ),
        title=f"{subject} · {place.name}@{found.sha[:7]}",
        author=_author(found),
        date=_date(found) or None,
        canonical=found.html_url or None,
        warnings=(*warnings, *detail.warnings),
    )


async def commits(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return the last commits of a branch, or of a path on it."""
    ref, path, found = await _listed(place, api)
    where = "/".join(filter(None, (ref, path)))
    warnings = (
        (say("Only the last {count} {count:commit is|commits are} shown.", count=LISTED),)
        if len(found) >= LISTED
        else ()
    )
    return github_page(
        f"{api.endpoints.site}/{place.name}/commits/{quote(where, safe='/')}".removesuffix("/"),
        blocks(f"# Commits of {place.name} {where}".rstrip(), "\n".join(_line(each) for each in found)),
        title=f"Commits · {place.name} {where}".rstrip(),
        date=_date(found[0]) if found else None,
        warnings=warnings,
    )


async def compare(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return the commits and changes of one branch that another does not have."""
    span = place.rest[0]
    if "..." not in span:
        span = span.replace("..", "...", 1) if ".." in span else f"HEAD...{span}"
    found = await api.get(
        f"/repos/{place.name}/compare/{quote(span, safe='.:')}", GitHubComparison, per_page=LISTED
    )
    detail = changed(found.files or (), patched=True)
    counted = f"{numbered(found.ahead_by, 'commit')} ahead, {found.behind_by:,} behind"
    warnings = detail.warnings
    if found.total_commits > len(found.commits):
        shown, all_ = len(found.commits), found.total_commits
        warnings = (
            say("Only the first {shown} of {all} {all:commit is|commits are} shown.", shown=shown, all=all_),
            *warnings,
        )
    return github_page(
        found.html_url,
        blocks(
            f"# {span} · {place.name}",
            facts(state=found.status, difference=counted),
            f"## Commits ({found.total_commits})" if found.commits else "",
            "\n".join(_line(each) for each in found.commits),
            detail.markdown,
        ),
        title=f"{span} · {place.name}",
        canonical=found.html_url or None,
        warnings=warnings,
    )


async def _listed(place: GitHubAddress, api: GitHubApi) -> tuple[str, str, list[GitHubCommit]]:
    where, rest = f"/repos/{place.name}/commits", place.rest
    if not rest:
        return "", "", await api.get(where, list[GitHubCommit], per_page=LISTED)
    ref, path = rest[0], "/".join(rest[1:])
    try:
        found = await api.get(where, list[GitHubCommit], sha=ref, path=path or None, per_page=LISTED)
    except ReadError as error:
        longer = await api.ref(place.name, rest) if error.status == 404 and path else None
        if longer is None:
            raise
        ref, path = longer, "/".join(rest)[len(longer) + 1 :]
        found = await api.get(where, list[GitHubCommit], sha=ref, path=path or None, per_page=LISTED)
    return ref, path, found


def _line(each: GitHubCommit) -> str:
    subject = each.commit.message.partition("\n")[0]
    return f"- `{each.sha[:7]}` {subject} ({_author(each)}, {_date(each)[:10]})"


def _author(each: GitHubCommit) -> str:
    if each.author and each.author.login:
        return each.author.login
    return (each.commit.author.name if each.commit.author else None) or login(None)


def _date(each: GitHubCommit) -> str:
    signature = each.commit.committer or each.commit.author
    return (signature.date if signature else None) or ""


def _counted(each: GitHubCommit) -> str:
    if each.stats is None:
        return ""
    return f"{numbered(len(each.files or ()), 'file')}, +{each.stats.additions:,} −{each.stats.deletions:,}"


def _said(comments: Sequence[GitHubComment]) -> list[str]:
    if not comments:
        return []
    said = (blocks(f"### {login(each.user)} · {each.created_at}", each.body or "") for each in comments)
    return [f"## Comments ({len(comments)})", *said]
