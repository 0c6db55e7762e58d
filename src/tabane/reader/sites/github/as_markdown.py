"""Layout of GitHub pages as Markdown. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from posixpath import basename
from typing import Any

from tabane.reader.formats.text import fence
from tabane.reader.page import Page
from tabane.reader.sites.github.api_objects import (
    GitHubAccount,
    GitHubChangedFile,
    GitHubComment,
    GitHubEntry,
    GitHubIssue,
    GitHubLabel,
    GitHubReactions,
)
from tabane.reader.sites.site_markdown import blocks, comments, facts

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
    lines = sorted((each.type != "dir", each.name, _line(each)) for each in entries)
    return "\n".join(line for *_, line in lines)


def _line(entry: GitHubEntry) -> str:
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
        f"- {_name(each)} ({each.status}, +{each.additions} −{each.deletions})" for each in files
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
        parts.append(f"### {_name(each)}\n\n{fence(each.patch, 'diff')}")
    return "\n\n".join(parts), missing


def _name(file: GitHubChangedFile) -> str:
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
    return f"{basename(path)} · {repository}" if path else repository
