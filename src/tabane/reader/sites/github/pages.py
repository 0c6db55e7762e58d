"""Pages of repositories as Markdown: folders, issues, pull requests, commits, comparisons, releases."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from posixpath import basename, dirname
from typing import Any
from urllib.parse import parse_qs, quote

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.formats.text import bounded, fence, unix
from tabane.reader.page import Page
from tabane.reader.sites.github.api import (
    PAGE,
    RAW,
    GitHubAccount,
    GitHubAddress,
    GitHubApi,
    GitHubAsset,
    GitHubChangedFile,
    GitHubComment,
    GitHubCommit,
    GitHubComparison,
    GitHubEntry,
    GitHubIssue,
    GitHubLabel,
    GitHubPull,
    GitHubReactions,
    GitHubRelease,
    GitHubRepository,
    GitHubReview,
    GitHubReviewComment,
    GitHubSearchPage,
    GitHubTag,
    linked,
    only_first,
)
from tabane.reader.sites.site_adapter import blocks, comments, facts, one_line
from tabane.text.encodings import decode_leniently

_WHERE = re.compile(r"\b(?:repo|org|user):\S+")


async def issues(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return the open ones, newest first, or those that the URL's own query asks for: at most a hundred."""
    kind = "pr" if place.rest == ("pulls",) else "issue"
    asked = parse_qs(place.query)
    wanted = _WHERE.sub("", asked.get("q", [""])[0]).strip()[:200] or f"is:{kind} is:open"
    if not re.search(r"\b(?:is|type):(?:issue|pr)\b", wanted):
        wanted = f"is:{kind} {wanted}"
    number = asked.get("page", ["1"])[0]
    number = number if re.fullmatch(r"[1-9]\d?", number) else "1"
    found = await api.get(
        "/search/issues", GitHubSearchPage, q=f"repo:{place.name} {wanted}", per_page=PAGE, page=number
    )
    what = "pulls" if kind == "pr" else "issues"
    shown, all_ = len(found.items), found.total_count
    some = say("Only {shown} of {all} {all:entry is|entries are} shown.", shown=shown, all=all_)
    return github_page(
        f"{api.endpoints.site}/{place.name}/{what}" + (f"?{place.query}" if place.query else ""),
        f"# {what.capitalize()} of {place.name}",
        f"{numbered(all_, 'result')} for `{wanted}`",
        "\n".join(_issue_line(each) for each in found.items),
        title=f"{what.capitalize()} · {place.name}",
        warnings=(some,) if all_ > shown else (),
    )


def _issue_line(each: GitHubIssue) -> str:
    said = numbered(each.comments, "comment")
    marks = [each.state, login(each.user), each.created_at[:10], said, labels(each)]
    return f"- [#{each.number} {one_line(each.title)}]({each.html_url}) ({' · '.join(filter(None, marks))})"


RELEASES = 30
"""Releases of a list."""

_NOTES = 20_000  # characters of the notes of one release in a list


async def release(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return one release, by its tag or the latest."""
    which = f"tags/{quote(place.rest[0], safe='')}" if place.rest else "latest"
    found = await api.get(f"/repos/{place.name}/releases/{which}", GitHubRelease)
    title = f"{_release_name(found)} · {place.name}"
    return own_page(
        found.html_url,
        f"# {title}",
        _release_facts(found),
        body_of(found.body),
        _asset_list(found.assets),
        title=title,
        author=login(found.author),
        date=found.published_at or found.created_at,
    )


async def releases(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return the last releases with their notes; if there are none, the tags."""
    found = await api.get(f"/repos/{place.name}/releases", list[GitHubRelease], per_page=RELEASES)
    if not found:
        return await tags(place, api)
    parts = [
        blocks(f"## {_release_name(each)}", _release_facts(each), body_of(each.body)[:_NOTES])
        for each in found
    ]
    last = say("Only the last {count} {count:release is|releases are} shown.", count=RELEASES)
    return github_page(
        f"{api.endpoints.site}/{place.name}/releases",
        f"# Releases of {place.name}",
        *parts,
        title=f"Releases · {place.name}",
        date=found[0].published_at,
        warnings=(last,) if len(found) >= RELEASES else (),
    )


async def tags(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return the last tags, each with the commit that it is on."""
    found = await api.get(f"/repos/{place.name}/tags", list[GitHubTag], per_page=PAGE)
    lines = "\n".join(f"- {each.name} (`{each.commit.sha[:7]}`)" for each in found)
    return github_page(
        f"{api.endpoints.site}/{place.name}/tags",
        f"# Tags of {place.name}",
        lines or "*None.*",
        title=f"Tags · {place.name}",
        warnings=(only_first(PAGE),) if len(found) >= PAGE else (),
    )


def _release_name(found: GitHubRelease) -> str:
    return one_line(found.name or found.tag_name)


def _release_facts(found: GitHubRelease) -> str:
    kind = "draft" if found.draft else "pre-release" if found.prerelease else ""
    return known_facts(
        tag=f"`{found.tag_name}`", author=login(found.author), date=found.published_at, kind=kind
    )


def _asset_list(assets: list[GitHubAsset]) -> str:
    if not assets:
        return ""
    lines = (
        f"- [{each.name}]({each.browser_download_url}) ({size(each.size)}, {each.download_count:,} downloads)"
        for each in assets
    )
    return blocks("## Assets", "\n".join(lines))


FULL = 1000
"""Entries of a folder that GitHub lists at most."""

_WITH_README = frozenset({".github", "docs"})


async def repository(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return the root of a repository at its default branch: two requests, and one for its README."""
    about = await api.get(f"/repos/{place.name}", GitHubRepository)
    entries, warnings = await _root_entries(place, api)
    readme, more = await _readme_section(about.full_name, "HEAD", "", entries, api)
    if about.archived:
        more = (say("The repository is archived and no longer maintained."), *more)
    description = (about.description or "").strip()
    return github_page(
        about.html_url or f"{api.endpoints.site}/{about.full_name}",
        element("repository", about.full_name),
        element("description", description) if description else "",
        element("files", listing(entries)),
        readme,
        title=f"{about.full_name}: {description}" if description else about.full_name,
        author=about.owner.login if about.owner else None,
        date=about.pushed_at,
        canonical=about.html_url or None,
        warnings=(*warnings, *more),
    )


async def of_entries(
    place: GitHubAddress, ref: str, path: str, entries: list[GitHubEntry], api: GitHubApi
) -> Page:
    """Return the page of a folder that is at hand."""
    readme, warnings = await _readme_section(place.name, ref, path, entries, api)
    if len(entries) >= FULL:
        warnings = (
            say("GitHub lists only the first {count} {count:entry|entries} of a folder.", count=FULL),
            *warnings,
        )
    where = quote(f"{ref}/{path}".rstrip("/"), safe="/")
    return github_page(
        f"{api.endpoints.site}/{place.name}/tree/{where}",
        *at_place(place.name, ref, path or "/"),
        element("files", listing(entries)),
        readme,
        title=title_of_path(place.name, path),
        warnings=warnings,
    )


async def _root_entries(
    place: GitHubAddress, api: GitHubApi
) -> tuple[list[GitHubEntry], tuple[Message, ...]]:
    try:
        found = await api.contents(place.name, "", None)
    except ReadError as error:
        if error.status != 404:
            raise
        return [], (say("The repository is empty."),)
    return (found if isinstance(found, list) else [found]), ()


async def _readme_section(
    repository: str, ref: str, path: str, entries: list[GitHubEntry], api: GitHubApi
) -> tuple[str, tuple[Message, ...]]:
    """Return the README as a section, "" if there is none."""
    entry = readme_of(entries)
    if entry is not None:
        where = f"{api.endpoints.raw}/{repository}/{quote(ref, safe='/')}/{quote(entry.path, safe='/')}"
        accept, name = None, entry.path
    elif not path and any(each.type == "dir" and each.name in _WITH_README for each in entries):
        where, accept, name = f"{api.endpoints.api}/repos/{repository}/readme", RAW, "README.md"
    else:
        return "", ()
    try:
        fetched = await api.fetch(where, accept)
    except ReadError as error:
        if entry is None and error.status == 404:
            return "", ()
        return "", (say("The README could not be read: {reason}", reason=error.message),)
    text = unix(await asyncio.to_thread(decode_leniently, fetched.body, fetched.charset, "text/markdown"))
    text, warnings = bounded(text)
    if name.lower().endswith((".md", ".markdown", ".mdown")):
        text = await asyncio.to_thread(linked, text, repository, ref, dirname(name), api.endpoints.site)
    return (section("readme", text) if text.strip() else ""), warnings


_HUNK = 12  # lines of a diff above a comment on it
_ROLES = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})


async def issue(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return an issue and its comments. A pull request has a number of the same row, and is read as such."""
    found = await api.get(f"/repos/{place.name}/issues/{place.rest[0]}", GitHubIssue)
    if found.pull_request is not None:
        return await pull(place, api)
    comments, warnings = await _read_comments(place, found, api)
    reason = (found.state_reason or "").replace("_", " ")
    state = f"{found.state} ({reason})" if reason and found.state == "closed" else found.state
    known = known_facts(state=state, **_issue_facts(found))
    return await asyncio.to_thread(
        lambda: _issue_page(found, known, [_conversation_section(comments, ())], warnings)
    )


async def pull(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return a pull request: its changes in numbers, its conversation, its reviews; at /files its patches
    too.
    """
    path = f"/repos/{place.name}/pulls/{place.rest[0]}"
    found = await api.get(path, GitHubPull)
    files, w1 = await api.pages(f"{path}/files", GitHubChangedFile, found.changed_files)
    comments, w2 = await _read_comments(place, found, api)
    reviews, w3 = await api.pages(f"{path}/reviews", GitHubReview)
    notes: list[GitHubReviewComment] = []
    w4: tuple[Message, ...] = ()
    if found.review_comments:
        notes, w4 = await api.pages(f"{path}/comments", GitHubReviewComment, found.review_comments)

    def laid_out() -> Page:
        detail = changed(files, patched=place.rest[1:2] in (("files",), ("changes",)))
        threads: defaultdict[int, list[GitHubReviewComment]] = defaultdict(list)
        for each in notes:
            threads[each.in_reply_to_id or each.id].append(each)
        title = f"## Review comments ({len(notes)})"
        reviewed = blocks(title, *map(_review_thread, threads.values())) if notes else ""
        parts = [_conversation_section(comments, reviews), reviewed, detail.markdown]
        known = _issue_facts(found)
        state = "merged" if found.merged or found.merged_at else found.state
        if found.draft and state == "open":
            state = "open (draft)"
        if found.merged_at:
            known.pop("closed")
        lines = f"+{found.additions:,} −{found.deletions:,}"
        size = f"{numbered(found.commits, 'commit')}, {numbered(found.changed_files, 'file')}, {lines}"
        listed = known_facts(
            state=state,
            **known,
            merged=found.merged_at and f"{found.merged_at} by {login(found.merged_by)}",
            branches=f"{_branch_name(found.head)} → {_branch_name(found.base)}",
            changes=size,
        )
        return _issue_page(found, listed, parts, (*w1, *w2, *w3, *w4, *detail.warnings))

    return await asyncio.to_thread(laid_out)


async def _read_comments(
    place: GitHubAddress, found: GitHubIssue, api: GitHubApi
) -> tuple[list[GitHubComment], tuple[Message, ...]]:
    if not found.comments:
        return [], ()
    path = f"/repos/{place.name}/issues/{found.number}/comments"
    return await api.pages(path, GitHubComment, found.comments)


def _issue_page(found: GitHubIssue, known: str, parts: Sequence[str], warnings: tuple[Message, ...]) -> Page:
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


def _issue_facts(found: GitHubIssue) -> dict[str, object]:
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


def _branch_name(branch: object) -> str:
    label = getattr(branch, "label", None) or getattr(branch, "ref", "")
    return f"`{label}`" if label else "(gone)"


def _conversation_section(comments: Sequence[GitHubComment], reviews: Sequence[GitHubReview]) -> str:
    """Comments and the words of reviews, in order of time."""
    said = [(each.created_at, _comment_block(each)) for each in comments]
    said += [
        (each.submitted_at or "", _review_block(each))
        for each in reviews
        if each.body or each.state in _VERDICTS
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


def _comment_block(each: GitHubComment, level: str = "###") -> str:
    role = each.author_association
    marks = (each.created_at, role.lower() if role in _ROLES else "", reacted(each.reactions))
    return blocks(f"{level} {' · '.join((login(each.user), *filter(None, marks)))}", _comment_body(each))


def _review_block(each: GitHubReview) -> str:
    verdict = _VERDICTS.get(each.state, each.state.lower())
    head = " · ".join(filter(None, (login(each.user), each.submitted_at, verdict)))
    return blocks(f"### {head}", _comment_body(each) if each.body else "")


def _comment_body(each: GitHubComment | GitHubReview) -> str:
    return body_of(each.body) or "*(empty)*"


def _review_thread(notes: Sequence[GitHubReviewComment]) -> str:
    first = notes[0]
    line = first.line or first.original_line
    outdated = " (outdated)" if first.line is None and first.original_line else ""
    where = f"`{first.path}`" + (f" line {line}{outdated}" if line else "")
    hunk = "\n".join(first.diff_hunk.split("\n")[-_HUNK:])
    listing = fence(hunk, "diff") if hunk.strip() else ""
    return blocks(f"### {where}", listing, *(_comment_block(each, "####") for each in notes))


COMMITS = 100
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
    size, stats = numbered(len(found.files or ()), "file"), found.stats
    known = known_facts(
        commit=found.sha,
        author=_commit_author(found),
        date=_commit_date(found),
        parents=", ".join(each.sha[:7] for each in found.parents),
        changes=f"{size}, +{stats.additions:,} −{stats.deletions:,}" if stats is not None else "",
    )
    return own_page(
        found.html_url,
        f"# {subject}",
        known,
        body.strip(),
        detail.markdown,
        commented(said),
        title=f"{subject} · {place.name}@{found.sha[:7]}",
        author=_commit_author(found),
        date=_commit_date(found) or None,
        warnings=(*warnings, *detail.warnings),
    )


async def commits(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return the last commits of a branch, or of a path on it."""

    async def listed(ref: str | None, path: str) -> list[GitHubCommit]:
        where = f"/repos/{place.name}/commits"
        return await api.get(where, list[GitHubCommit], sha=ref, path=path or None, per_page=COMMITS)

    if place.rest:
        ref, path, found = await api.at_ref(place.name, place.rest, listed)
    else:
        ref, path, found = "", "", await listed(None, "")
    where = "/".join(filter(None, (ref, path)))
    last = say("Only the last {count} {count:commit is|commits are} shown.", count=COMMITS)
    return github_page(
        f"{api.endpoints.site}/{place.name}/commits/{quote(where, safe='/')}".removesuffix("/"),
        f"# Commits of {place.name} {where}".rstrip(),
        "\n".join(_commit_line(each) for each in found),
        title=f"Commits · {place.name} {where}".rstrip(),
        date=_commit_date(found[0]) if found else None,
        warnings=(last,) if len(found) >= COMMITS else (),
    )


async def compare(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return the commits and changes of one branch that another does not have."""
    span = place.rest[0]
    if "..." not in span:
        span = span.replace("..", "...", 1) if ".." in span else f"HEAD...{span}"
    path = f"/repos/{place.name}/compare/{quote(span, safe='.:')}"
    found = await api.get(path, GitHubComparison, per_page=COMMITS)
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
        "\n".join(_commit_line(each) for each in found.commits),
        detail.markdown,
        title=title,
        warnings=((first,) if all_ > shown else ()) + detail.warnings,
    )


def _commit_line(each: GitHubCommit) -> str:
    subject = each.commit.message.partition("\n")[0]
    return f"- `{each.sha[:7]}` {subject} ({_commit_author(each)}, {_commit_date(each)[:10]})"


def _commit_author(each: GitHubCommit) -> str:
    if each.author and each.author.login:
        return each.author.login
    return (each.commit.author.name if each.commit.author else None) or login(None)


def _commit_date(each: GitHubCommit) -> str:
    signature = each.commit.committer or each.commit.author
    return (signature.date if signature else None) or ""


PATCHES = 200_000
"""Characters of patches that are shown together."""

SITE = "GitHub"

_README = re.compile(r"readme(?:\.(?:md|markdown|mdown|rst|adoc|asciidoc|org|txt))?", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def github_page(url: str, *parts: str, site: str = SITE, **known: Any) -> Page:
    """Return a page of these parts, one below the other; ``known`` are other fields of it."""
    return Page(url, blocks(*parts), site=site, way="github", share=1.0, **known)


def own_page(url: str, *parts: str, **known: Any) -> Page:
    """Return the page of an object, whose URL the API gives."""
    return github_page(url, *parts, canonical=url or None, **known)


def element(name: str, text: str) -> str:
    """Return lines within a tag."""
    return f"<{name}>\n{text}\n</{name}>"


def section(name: str, markdown: str) -> str:
    """Return Markdown within a tag: the empty lines are needed for it to be read as Markdown."""
    return f"<{name}>\n\n{markdown.strip(chr(10))}\n\n</{name}>"


def size(count: int) -> str:
    """Return bytes as 512 B, 1.2 KB, 3.4 MB: units are of 1024."""
    if count < 1024:
        return f"{count} B"
    for unit, whole in (("KB", 1 << 10), ("MB", 1 << 20)):
        if count < whole * 1024:
            return f"{count / whole:.1f} {unit}"
    return f"{count / (1 << 30):.1f} GB"


def listing(entries: Iterable[GitHubEntry]) -> str:
    """Sort entries: folders first, each group by name."""
    lines = sorted((each.type != "dir", each.name, _entry_line(each)) for each in entries)
    return "\n".join(line for *_, line in lines)


def _entry_line(entry: GitHubEntry) -> str:
    name = _CONTROL.sub("�", entry.name)
    if entry.type == "dir":
        return f"📁 {name}/"
    if entry.type == "submodule" or (entry.type == "file" and entry.size == 0 and entry.download_url is None):
        return f"📦 {name} @ {entry.sha[:7]} (submodule)"
    if entry.type == "symlink":
        return f"🔗 {name}" + (f" → {entry.target}" if entry.target else "")
    return f"📄 {name} ({size(entry.size)})"


def readme_of(entries: Sequence[GitHubEntry]) -> GitHubEntry | None:
    """Return the README that GitHub would show of a folder: Markdown before others."""
    found = [each for each in entries if each.type == "file" and _README.fullmatch(each.name)]
    return min(
        found, key=lambda each: (not each.name.lower().endswith(("md", "markdown")), each.name), default=None
    )


def login(account: GitHubAccount | None) -> str:
    """Return who it is; accounts that are gone are GitHub's ghost."""
    return account.login if account and account.login else "ghost"


def known_facts(**known: object) -> str:
    """Return metadata as a list: names have underscores for spaces; empty values are skipped."""
    return facts({name.replace("_", " ").capitalize(): value for name, value in known.items()})


def labels(issue: GitHubIssue) -> str:
    """Return the names of the labels of an issue, separated by commas."""
    names = (each.name if isinstance(each, GitHubLabel) else each for each in issue.labels)
    return ", ".join(name for name in names if name)


def body_of(text: str | None) -> str:
    """Return text that a person wrote, with the line ends of Markdown."""
    return (text or "").replace("\r\n", "\n").strip()


def commented(said: Sequence[GitHubComment]) -> str:
    """Return comments on a commit or a gist."""
    return comments([(f"{login(each.user)} · {each.created_at}", each.body or "") for each in said])


def reacted(reactions: GitHubReactions | None) -> str:
    """👍 and 👎 if there are some."""
    if reactions is None or not (reactions.up or reactions.down):
        return ""
    return " ".join(
        f"{mark} {count}" for mark, count in (("👍", reactions.up), ("👎", reactions.down)) if count
    )


def stat(files: Sequence[GitHubChangedFile]) -> str:
    """Return one line for each file: its change, and the numbers of added and removed lines."""
    return "\n".join(
        f"- {_file_name(each)} ({each.status}, +{each.additions} −{each.deletions})" for each in files
    )


def patches(files: Sequence[GitHubChangedFile], left: int = PATCHES) -> tuple[str, int]:
    """Return the patches of files as listings, and how many files had to go without theirs for want of
    room.
    """
    parts: list[str] = []
    missing = 0
    for each in files:
        if each.patch is None:
            continue
        if len(each.patch) > left:
            missing += 1
            continue
        left -= len(each.patch)
        parts.append(f"### {_file_name(each)}\n\n{fence(each.patch, 'diff')}")
    return "\n\n".join(parts), missing


def _file_name(file: GitHubChangedFile) -> str:
    if file.previous_filename:
        return f"`{file.previous_filename}` → `{file.filename}`"
    return f"`{file.filename}`"


def numbered(count: int, what: str) -> str:
    """3 files, 1 file."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def at_place(repository: str, ref: str, path: str) -> tuple[str, ...]:
    """Return the head of a file or folder: where it is."""
    return element("repository", repository), element("ref", ref), element("path", path)


def title_of_path(repository: str, path: str) -> str:
    """Return the title of the page of a path: its last part and the repository."""
    return f"{basename(path)} · {repository}" if path else repository
