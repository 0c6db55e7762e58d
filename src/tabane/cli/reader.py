"""`tabane reader cookies`: cookies that a person imports, so that pages behind a login can be read.

The files are written here and not by the hub: values of cookies go through no operation, so they cannot be in
the audit log, and no program that talks to the hub can read or replace them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from tabane.cli.options import option, with_json
from tabane.cli.output import Command, Group, Terminal, examples, local_minute, local_time
from tabane.cli.passphrase import check_passphrase
from tabane.errors import BadArguments, ReadError, UnknownName
from tabane.messages import Message, say
from tabane.reader.cookies import (
    LARGEST_FILE,
    MOST_COOKIES,
    CookieChoice,
    CookieFolder,
    CookieJar,
    authority,
    choose,
    host_of,
    parse_cookies,
)
from tabane.reader.guard import Target
from tabane.settings import load_settings
from tabane.text.nearest_names import nearest

_STDIN = "-"
_NAMED = 10  # domains of a file that an error names


@click.group("reader", cls=Group, help=say("Import cookies for pages that need a login."))
def reader() -> None: ...


def _hosts(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete an imported host for the shell."""
    jars = CookieFolder(load_settings({}, os.environ).home).jars()
    return [jar.authority for jar in jars if jar.authority.startswith(incomplete)]


@reader.command(
    "cookies",
    cls=Command,
    help=say(
        "Import the cookies of one host from FILE, so that its pages are read as you see them. FILE is a "
        "cookies.txt or a JSON file that a browser extension exported; - is standard input. Cookies of other "
        "hosts in FILE are ignored. The cookies are sent only to HOST, and only over HTTPS. Pages that are "
        "read with them are marked as private and are not cached. Without FILE: show what is imported for "
        "HOST. Without HOST: list all hosts. Values are not shown."
    ),
    epilog=examples(
        "tabane reader cookies example.com cookies.txt",
        "tabane reader cookies",
        "tabane reader cookies example.com --remove",
    ),
)
@click.argument("host", metavar="[HOST]", required=False, shell_complete=_hosts)
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(allow_dash=True))
@option("--remove", is_flag=True, help=say("Remove the cookies of HOST."))
@with_json
def cookies(terminal: Terminal, host: str | None, file: str | None, remove: bool) -> None:
    home = load_settings({"config": terminal.config}, os.environ).home
    folder = CookieFolder(home)
    if host is None:
        if remove:
            raise click.UsageError(say("Give the host whose cookies are to be removed.").render())
        _list(terminal, folder.jars())
    elif remove:
        if file is not None:
            raise click.UsageError(say("Give either FILE or --remove.").render())
        check_passphrase(terminal, home)
        at = _host(host)
        if not folder.remove(at.host, at.port):
            raise _unknown(at, folder.jars())
        name = authority(at.host, at.port)
        done = say("The cookies of {host} were removed.", host=name)
        terminal.show({"host": name, "status": "removed"}, done)
    elif file is None:
        _list(terminal, [_imported(folder, _host(host))])
    else:
        at = _host(host)
        choice, unusable = _chosen(file, at, time.time())
        check_passphrase(terminal, home)
        now = time.time()
        jar = CookieJar(at.host, at.port, choice.taken, now)
        folder.keep(jar)
        expires = jar.first_expiry(now)
        result = {
            "host": jar.authority,
            "cookies": len(choice.taken),
            "ignored": choice.ignored,
            "expired": choice.expired,
            "unusable": unusable,
            "first_expiry": _iso(expires),
        }
        if not terminal.show_json(result):
            for message in _report(jar, choice, unusable, expires):
                terminal.say(message)


def _host(text: str) -> Target:
    """Raises BadArguments if it is not a host."""
    try:
        return host_of(text)
    except ReadError:
        raise BadArguments(
            say("{host} is not a host. Write a name such as example.com, with :port if it is not 443.",
                host=text[:200]),
            "host",
        ) from None  # fmt: skip


def _report(jar: CookieJar, choice: CookieChoice, unusable: int, expires: float | None) -> Iterable[Message]:
    yield say(
        "Imported {count} {count:cookie|cookies} of {host}.", count=len(jar.cookies), host=jar.authority
    )
    if choice.ignored:
        yield say("Ignored {count} {count:cookie|cookies} of other hosts.", count=choice.ignored)
    if choice.expired:
        yield say("Ignored {count} {count:cookie that has|cookies that have} expired.", count=choice.expired)
    if unusable:
        yield say("Ignored {count} {count:line that is|lines that are} not a cookie.", count=unusable)
    if expires is None:
        yield say("They have no expiry date. They work until the site ends the session.")
    else:
        yield say("The first of them expires at {time}.", time=local_minute(expires) or "")
    yield say("To remove them: tabane reader cookies {host} --remove", host=jar.authority)


def _list(terminal: Terminal, jars: list[CookieJar]) -> None:
    now = time.time()
    rows = [_row(jar, now) for jar in jars]
    if terminal.show_json({"results": rows}):
        return
    if not rows:
        terminal.note(say("No cookies are imported. Import some with: tabane reader cookies HOST FILE"))
    headers = [say("host"), say("cookies"), say("expired"), say("first expiry"), say("imported")]
    terminal.table(
        headers,
        [
            (
                jar.authority, row["cookies"], row["expired"], local_minute(jar.first_expiry(now)),
                local_minute(jar.imported),
            )
            for jar, row in zip(jars, rows, strict=True)
        ],
    )  # fmt: skip


def _row(jar: CookieJar, now: float) -> dict[str, Any]:
    valid = jar.valid(now)
    return {
        "host": jar.authority,
        "cookies": len(valid),
        "expired": len(jar.cookies) - len(valid),
        "first_expiry": _iso(jar.first_expiry(now)),
        "imported": _iso(jar.imported),
    }


def _imported(folder: CookieFolder, at: Target) -> CookieJar:
    jars = folder.jars()
    found = next((jar for jar in jars if (jar.host, jar.port) == (at.host, at.port)), None)
    if found is None:
        raise _unknown(at, jars)
    return found


def _unknown(at: Target, jars: list[CookieJar]) -> UnknownName:
    name = authority(at.host, at.port)
    near = nearest(name, [jar.authority for jar in jars])
    if near:
        return UnknownName(
            say("No cookies are imported for {host}. Did you mean {near}?", host=name, near=", ".join(near)),
            near,
        )
    return UnknownName(
        say("No cookies are imported for {host}. List all hosts with: tabane reader cookies", host=name)
    )


def _chosen(file: str, at: Target, now: float) -> tuple[CookieChoice, int]:
    """Return the cookies for the host, and the number of lines that are none.

    Raises BadArguments. No error quotes the file.
    """
    parsed = parse_cookies(_text(file))
    if parsed is None:
        raise _bad(
            say(
                "{file} is not a file of cookies. Export a cookies.txt (Netscape format) or JSON with an "
                "extension of your browser.",
                file=_name(file),
            )
        )
    choice = choose(parsed.cookies, at, now)
    name = authority(at.host, at.port)
    if not choice.taken and choice.expired:
        raise _bad(
            say(
                "Nothing was imported: {count} {count:cookie|cookies} of {host} in {file} {count:has|have} "
                "expired. Sign in to the site with your browser, and export them again.",
                count=choice.expired, host=name, file=_name(file),
            )
        )  # fmt: skip
    if not choice.taken:
        raise _bad(_none(choice, name, _name(file)))
    if len(choice.taken) > MOST_COOKIES:
        raise _bad(
            say(
                "{file} has {count:,} {count:cookie|cookies} of {host}, more than a browser keeps. At most "
                "{most} can be imported.",
                file=_name(file), count=len(choice.taken), host=name, most=MOST_COOKIES,
            )
        )  # fmt: skip
    return choice, parsed.unusable


def _none(choice: CookieChoice, host: str, file: Message | str) -> Message:
    if not choice.domains:
        return say("{file} has no cookies.", file=file)
    shown = ", ".join(sorted(choice.domains[:_NAMED]))
    if len(choice.domains) > _NAMED:
        shown += ", …"
    return say("{file} has no cookie for {host}. It has cookies of: {domains}.",
               file=file, host=host, domains=shown)  # fmt: skip


def _text(file: str) -> str:
    data = _bytes(file)
    if len(data) > LARGEST_FILE:
        raise _bad(
            say("{file} is larger than {size} MB, so it is not a file of cookies.",
                file=_name(file), size=LARGEST_FILE >> 20)
        )  # fmt: skip
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise _bad(say("{file} is not UTF-8 text.", file=_name(file))) from None


def _bytes(file: str) -> bytes:
    try:
        if file == _STDIN:
            return sys.stdin.buffer.read(LARGEST_FILE + 1)
        with Path(file).open("rb") as opened:
            return opened.read(LARGEST_FILE + 1)
    except OSError as error:
        raise _bad(
            say("{path} cannot be read: {reason}.", path=_name(file), reason=error.strerror or "")
        ) from None


def _name(file: str) -> Message | str:
    return say("standard input") if file == _STDIN else file


def _bad(message: Message) -> BadArguments:
    return BadArguments(message, "file")


def _iso(seconds: float | None) -> str | None:
    local = local_time(seconds)
    return local.isoformat(timespec="seconds") if local else None
