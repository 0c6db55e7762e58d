"""Calls that read the page at an address, and give nothing else away than that address."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from tabane.guard.flows.addresses import plain_address
from tabane.guard.flows.own_labels import FETCHING
from tabane.operations import CallTarget
from tabane.servers.labels import DESTRUCTIVE, EXTERNAL, UNTRUSTED

LONGEST = 1 << 14
"""Bytes of arguments with addresses. Longer ones are taken for something else."""

MOST_ADDRESSES = 5
MOST_OPTIONS = 4

_OPTION = re.compile(r"[A-Za-z][a-z_-]{0,11}")
_SENDING = re.compile(
    r"post|put|patch|delete|fill|type|upload|submit|evaluate|run_code|execute|\bact\b|agent", re.IGNORECASE
)


class Fetch(NamedTuple):
    """``addresses`` are those that are read; none if what is given is no address, so that nothing is read.

    ``again``: the call goes on with a page that was read. ``fresh``: no copy of a page will do, so that each
    call is a request to the site.
    """

    addresses: tuple[str, ...]
    again: bool = False
    fresh: bool = True


def fetch_of(target: CallTarget, labels: int, arguments: bytes, sent: Callable[[str], str]) -> Fetch | None:
    """Return what a call fetches; None if it does something else, or gives more away than addresses.

    ``sent`` returns an address as Tabane's own reader sends it; empty if it reads no such address.
    """
    own = not target.server and target.name in FETCHING
    fetching = target.kind == "tool" and labels & UNTRUSTED and labels & EXTERNAL and not labels & DESTRUCTIVE
    if not (own or (target.server and fetching)) or len(arguments) > LONGEST:
        return None
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    if not isinstance(given, dict):
        return None
    if own:
        address = given.get("url")
        found = sent(address) if isinstance(address, str) else ""
        fresh = bool(given.get("refresh"))
        return Fetch((found,) if found else (), bool(given.get("cursor")) and not fresh, fresh)
    if _SENDING.search(target.name.removeprefix(f"{target.server}__")):
        return None
    addresses = _only_addresses(given)
    return Fetch(addresses) if addresses else None


def _only_addresses(given: dict[str, object]) -> tuple[str, ...]:
    """Return the addresses among arguments; none if there are other texts than a few short options."""
    values = [
        each for value in given.values() for each in (value if isinstance(value, list) else [value])
    ]  # fmt: skip
    addresses: list[str] = []
    options = 0
    for value in values:
        if isinstance(value, str):
            if address := plain_address(value.strip()):
                addresses.append(address)
                continue
            if not _OPTION.fullmatch(value):
                return ()  # also a path of this machine: servers upload some
        elif isinstance(value, bool) or value is None:
            continue
        elif not isinstance(value, int | float) or abs(value) >= 10**6:
            return ()
        options += 1
    return tuple(addresses) if len(addresses) <= MOST_ADDRESSES and options <= MOST_OPTIONS else ()
