"""Issues and pull requests, with their comments."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from tabane.messages import Message
from tabane.reader.formats.text import fence
from tabane.reader.page import Page
from tabane.reader.sites.github.addresses import GitHubAddress
from tabane.reader.sites.github.api import GitHubApi
from tabane.reader.sites.github.api_objects import (
    GitHubChangedFile,
    GitHubComment,
    GitHubIssue,
    GitHubPull,
    GitHubReview,
    GitHubReviewComment,
)
from tabane.reader.sites.github.as_markdown import (
    body_of,
    known_facts,
    labels,
    login,
    numbered,
    own_page,
    reacted,
)
from tabane.reader.sites.github.changes import changed
from tabane.reader.sites.site_markdown import blocks, one_line

_HUNK = 12  # lines of a diff above a comment on it
_ROLES = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})


async def issue(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return an issue and its comments. A pull request has a number of the same row, and is read as such."""
    found = await api.get(f"/repos/{place.name}/issues/{place.rest[0]}", GitHubIssue)
    if found.pull_request is not None:
        return await pull(place, api)
    comments, warnings = await _comments(place, found, api)
    known = known_facts(state=_state(found), **_known(found))
    return await asyncio.to_thread(lambda: _page(found, known, [_conversation(comments, ())], warnings))


async def pull(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return a pull request: its changes in numbers, its conversation, its reviews; at /files its patches
    too.
    """
    path = f"/repos/{place.name}/pulls/{place.rest[0]}"
    found = await api.get(path, GitHubPull)
    files, w1 = await api.pages(f"{path}/files", GitHubChangedFile, found.changed_files)
    comments, w2 = await _comments(place, found, api)
    reviews, w3 = await api.pages(f"{path}/reviews", GitHubReview)
    notes: list[GitHubReviewComment] = []
    w4: tuple[Message, ...] = ()
    if found.review_comments:
        notes, w4 = await api.pages(f"{path}/comments", GitHubReviewComment, found.review_comments)

    def laid_out() -> Page:
        detail = changed(files, patched=place.rest[1:2] in (("files",), ("changes",)))
        parts = [_conversation(comments, reviews), _reviewed(notes), detail.markdown]
        return _page(found, _pull_facts(found), parts, (*w1, *w2, *w3, *w4, *detail.warnings))

    return await asyncio.to_thread(laid_out)


async def _comments(
    place: GitHubAddress, found: GitHubIssue, api: GitHubApi
) -> tuple[list[GitHubComment], tuple[Message, ...]]:
    if not found.comments:
        return [], ()
    path = f"/repos/{place.name}/issues/{found.number}/comments"
    return await api.pages(path, GitHubComment, found.comments)


def _page(found: GitHubIssue, known: str, parts: Sequence[str], warnings: tuple[Message, ...]) -> Page:
    title = f"{one_line(found.title)} #{found.number}"
    return own_page(
        found.html_url,
        f"# {title}",
        known,
        body_of(found.body) or "*No description.*",
        *parts,
        title=title,
        author=login(found.user),
        date=found.created_at or None,
        warnings=warnings,
    )


def _known(found: GitHubIssue) -> dict[str, object]:
    return {
        "author": login(found.user),
        "opened": found.created_at,
        "closed": found.closed_at,
        "labels": labels(found),
        "assignees": ", ".join(login(each) for each in found.assignees or ()),
        "milestone": found.milestone.title if found.milestone else "",
        "reactions": reacted(found.reactions),
        "conversation": "locked" if found.locked else "",
    }


def _state(found: GitHubIssue) -> str:
    reason = (found.state_reason or "").replace("_", " ")
    return f"{found.state} ({reason})" if reason and found.state == "closed" else found.state


def _pull_facts(found: GitHubPull) -> str:
    known = _known(found)
    state = "merged" if found.merged or found.merged_at else found.state
    if found.draft and state == "open":
        state = "open (draft)"
    if found.merged_at:
        known.pop("closed")
    lines = f"+{found.additions:,} −{found.deletions:,}"
    return known_facts(
        state=state,
        **known,
        merged=found.merged_at and f"{found.merged_at} by {login(found.merged_by)}",
        branches=f"{_branch(found.head)} → {_branch(found.base)}",
        changes=f"{numbered(found.commits, 'commit')}, {numbered(found.changed_files, 'file')}, {lines}",
    )


def _branch(branch: object) -> str:
    label = getattr(branch, "label", None) or getattr(branch, "ref", "")
    return f"`{label}`" if label else "(gone)"


def _conversation(comments: Sequence[GitHubComment], reviews: Sequence[GitHubReview]) -> str:
    """Comments and the words of reviews, in order of time."""
    said = [(each.created_at, _comment(each)) for each in comments]
    said += [
        (each.submitted_at or "", _review(each)) for each in reviews if each.body or each.state in _VERDICTS
    ]
    if not said:
        return ""
    said.sort(key=lambda each: each[0])
    return blocks(f"## Comments ({len(said)})", *(text for _, text in said))


_VERDICTS = {
    "APPROVED": "approved",
    "CHANGES_REQUESTED": "asked for changes",
    "DISMISSED": "review dismissed",
    "COMMENTED": "reviewed",
}


def _comment(each: GitHubComment, level: str = "###") -> str:
    role = each.author_association
    marks = (each.created_at, role.lower() if role in _ROLES else "", reacted(each.reactions))
    return blocks(f"{level} {' · '.join((login(each.user), *filter(None, marks)))}", _body(each))


def _review(each: GitHubReview) -> str:
    verdict = _VERDICTS.get(each.state, each.state.lower())
    head = " · ".join(filter(None, (login(each.user), each.submitted_at, verdict)))
    return blocks(f"### {head}", _body(each) if each.body else "")


def _body(each: GitHubComment | GitHubReview) -> str:
    return body_of(each.body) or "*(empty)*"


def _reviewed(notes: Sequence[GitHubReviewComment]) -> str:
    """Comments on lines: each thread below the lines that it is about."""
    if not notes:
        return ""
    threads: defaultdict[int, list[GitHubReviewComment]] = defaultdict(list)
    for each in notes:
        threads[each.in_reply_to_id or each.id].append(each)
    return blocks(f"## Review comments ({len(notes)})", *(_thread(each) for each in threads.values()))


def _thread(notes: Sequence[GitHubReviewComment]) -> str:
    first = notes[0]
    line = first.line or first.original_line
    outdated = " (outdated)" if first.line is None and first.original_line else ""
    where = f"`{first.path}`" + (f" line {line}{outdated}" if line else "")
    hunk = "\n".join(first.diff_hunk.split("\n")[-_HUNK:])
    listing = fence(hunk, "diff") if hunk.strip() else ""
    return blocks(f"### {where}", listing, *(_comment(each, "####") for each in notes))
