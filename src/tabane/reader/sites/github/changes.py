"""Commits, lists of commits, and comparisons."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

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
    commented,
    github_page,
    known_facts,
    login,
    numbered,
    own_page,
    patches,
    stat,
)
from tabane.reader.sites.site_markdown import blocks

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
    said: list[GitHubComment] = []
    warnings: tuple[Message, ...] = ()
    if found.commit.comment_count:
        said, warnings = await api.pages(f"{path}/comments", GitHubComment, found.commit.comment_count)
    detail = await asyncio.to_thread(changed, found.files or (), patched=True)
    subject, _, body = found.commit.message.partition("\n")
    known = known_facts(
        commit=found.sha,
        author=_author(found),
        date=_date(found),
        parents=", ".join(each.sha[:7] for each in found.parents),
        changes=_counted(found),
    )
    return own_page(
        found.html_url,
        f"# {subject}",
        known,
        body.strip(),
        detail.markdown,
        commented(said),
        title=f"{subject} · {place.name}@{found.sha[:7]}",
        author=_author(found),
        date=_date(found) or None,
        warnings=(*warnings, *detail.warnings),
    )


async def commits(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return the last commits of a branch, or of a path on it."""

    async def listed(ref: str | None, path: str) -> list[GitHubCommit]:
        where = f"/repos/{place.name}/commits"
        return await api.get(where, list[GitHubCommit], sha=ref, path=path or None, per_page=LISTED)

    if place.rest:
        ref, path, found = await api.at_ref(place.name, place.rest, listed)
    else:
        ref, path, found = "", "", await listed(None, "")
    where = "/".join(filter(None, (ref, path)))
    last = say("Only the last {count} {count:commit is|commits are} shown.", count=LISTED)
    return github_page(
        f"{api.endpoints.site}/{place.name}/commits/{quote(where, safe='/')}".removesuffix("/"),
        f"# Commits of {place.name} {where}".rstrip(),
        "\n".join(_line(each) for each in found),
        title=f"Commits · {place.name} {where}".rstrip(),
        date=_date(found[0]) if found else None,
        warnings=(last,) if len(found) >= LISTED else (),
    )


async def compare(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return the commits and changes of one branch that another does not have."""
    span = place.rest[0]
    if "..." not in span:
        span = span.replace("..", "...", 1) if ".." in span else f"HEAD...{span}"
    path = f"/repos/{place.name}/compare/{quote(span, safe='.:')}"
    found = await api.get(path, GitHubComparison, per_page=LISTED)
    detail = await asyncio.to_thread(changed, found.files or (), patched=True)
    title = f"{span} · {place.name}"
    counted = f"{numbered(found.ahead_by, 'commit')} ahead, {found.behind_by:,} behind"
    shown, all_ = len(found.commits), found.total_commits
    first = say("Only the first {shown} of {all} {all:commit is|commits are} shown.", shown=shown, all=all_)
    return own_page(
        found.html_url,
        f"# {title}",
        known_facts(state=found.status, difference=counted),
        f"## Commits ({all_})" if found.commits else "",
        "\n".join(_line(each) for each in found.commits),
        detail.markdown,
        title=title,
        warnings=((first,) if all_ > shown else ()) + detail.warnings,
    )


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
