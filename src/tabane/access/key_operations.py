"""Operations on API keys: their handlers, and times at which keys expire."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tabane.access.key_store import PREFIX, KeyPage, KeyRecord, hash_of, id_in, new_secret, revoked
from tabane.access.keys import KeyRing
from tabane.access.permissions import EVERY_TOOL, PermissionPatterns, unmatched
from tabane.access.profiles import Profiles
from tabane.access.table import CreateKey, ListKeys, OneKey, UpdateKey
from tabane.errors import BadArguments, StoreError, UnknownName
from tabane.messages import Lang, say
from tabane.operations.caller import Caller, CallTarget
from tabane.text.nearest_names import nearest

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 365 * 86_400}
_duration = re.compile(r"([0-9]{1,6})\s*([mhdwy])").fullmatch

FURTHEST = 100 * _SECONDS["y"]
"""Seconds until the latest expiry."""


def expiry_of(text: str, now: float) -> float | None:
    """Return the time at which a key expires, in Unix seconds; None for ``never``.

    A date without a time is its end in UTC. Raises BadArguments.
    """
    given = text.strip().lower()
    if given == "never":
        return None
    duration = _duration(given)
    when = now + int(duration[1]) * _SECONDS[duration[2]] if duration else _expiry_date(text.strip())
    if when <= now:
        raise BadArguments(say("expires: {given} is in the past.", given=text[:50]), "expires")
    if when > now + FURTHEST:
        raise BadArguments(
            say("expires: {given} is more than 100 years away. Use never.", given=text[:50]), "expires"
        )
    return float(when)


def _expiry_date(text: str) -> float:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise BadArguments(
            say(
                "expires: {given} is not understood. Write 90d, 12h, 2w, 1y, a date such as 2027-01-31, "
                "or never.",
                given=ascii(text[:50]),
            ),
            "expires",
        ) from None
    if len(text) <= len("2027-01-31"):
        when = when.replace(hour=23, minute=59, second=59)
    try:
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (OverflowError, ValueError):
        return float("-inf") if when.year < 1970 else float("inf")


def iso(time: float | None) -> str | None:
    """Return a Unix time as ISO 8601 in UTC, to the second."""
    if time is None:
        return None
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


MOST_COMPARED = 5_000
"""Names that are compared with one that does not exist."""

_ATTEMPTS = 5
_is_id = re.compile(r"[0-9a-z]{8}").fullmatch
_is_prefix = re.compile(r"[0-9a-z]{4,8}").fullmatch


class KeyOperations:
    """Creates, lists, changes and revokes keys.

    ``tiers`` returns the names of the tiers, and ``known`` what can be called now, for warnings about
    patterns that match nothing.
    """

    def __init__(
        self,
        ring: KeyRing,
        profiles: Profiles,
        tiers: Callable[[], Iterable[str]],
        known: Callable[[], Iterable[CallTarget]],
    ) -> None:
        self._ring, self._profiles, self._tiers, self._known = ring, profiles, tiers, known

    async def create(self, caller: Caller, params: CreateKey) -> dict[str, Any]:
        """Create a key. Its secret is in this result and nowhere else."""
        now = self._ring.clock()
        if not params.allow and not params.profile:
            raise BadArguments(
                say(
                    "allow: say what the key may use, such as github__* or @posts; * is every tool and "
                    "source, without administration."
                ),
                "allow",
            )
        patterns = PermissionPatterns.checked(
            params.allow or [EVERY_TOOL], params.deny, read_only=params.read_only
        )
        self._check_profile(params.profile)
        self._check_tier(params.tier)
        expires = expiry_of(params.expires, now)
        name, person = _checked_name(params.name), _checked_person(params.person)
        for _ in range(_ATTEMPTS):
            secret = new_secret()
            id = id_in(secret)
            assert id is not None
            record = KeyRecord(
                id, hash_of(secret), name, patterns, params.profile, params.tier, now, expires, person=person
            )
            if await self._ring.add(record):
                return {
                    **self._key_row(record),
                    "secret": secret,
                    **self._pattern_warnings(patterns, caller.lang),
                }
        raise StoreError(say("No free id for a key was found. Try again."))

    async def keys(self, caller: Caller, params: ListKeys) -> dict[str, Any]:
        """List keys, by name."""
        page = await self._ring.read(
            lambda store: store.page(params.limit, params.after, revoked=params.revoked),
            KeyPage([], 0, False),
        )
        return {
            "results": [self._key_row(record) for record in page.records],
            "total": page.total,
            "next": page.records[-1].id if page.more else None,
        }

    async def show(self, caller: Caller, params: OneKey) -> dict[str, Any]:
        """Return one key, and warnings about its patterns."""
        record = await self._find_key(params.key)
        return {**self._key_row(record), **self._pattern_warnings(record.patterns, caller.lang)}

    async def find(self, given: str) -> tuple[KeyRecord, str]:
        """Return the key of that name or id, and its state. Raises UnknownName."""
        record = await self._find_key(given)
        return record, record.state(self._ring.clock())

    async def revoke(self, caller: Caller, params: OneKey) -> dict[str, Any]:
        """Revoke a key at once. To revoke a revoked key again changes nothing."""
        record = await self._find_key(params.key)
        if record.revoked is None:
            record = await self._ring.change(revoked(record, self._ring.clock()))
        return self._key_row(record)

    async def update(self, caller: Caller, params: UpdateKey) -> dict[str, Any]:
        """Change what is given. It applies at once, in open sessions too."""
        record = await self._find_key(params.key)
        if record.revoked is not None:
            raise BadArguments(
                say(
                    "{name} is revoked, which cannot be undone. Create another key with: tabane keys create",
                    name=record.name,
                ),
                "key",
            )
        changed = await self._ring.change(self._change_record(record, params))
        return {**self._key_row(changed), **self._pattern_warnings(changed.patterns, caller.lang)}

    # -- checks ----------------------------------------------------------------------------------

    def _change_record(self, record: KeyRecord, params: UpdateKey) -> KeyRecord:
        old = record.patterns
        patterns = PermissionPatterns.checked(
            old.allow if params.allow is None else params.allow,
            old.deny if params.deny is None else params.deny,
            read_only=old.read_only if params.read_only is None else params.read_only,
        )
        if params.profile is not None:
            self._check_profile(params.profile)
        if params.tier is not None:
            self._check_tier(params.tier)
        expires = record.expires if params.expires is None else expiry_of(params.expires, self._ring.clock())
        return replace(
            record,
            patterns=patterns,
            profile=record.profile if params.profile is None else params.profile,
            tier=params.tier or record.tier,
            expires=expires,
            person=record.person if params.person is None else _checked_person(params.person),
        )

    def _check_profile(self, name: str) -> None:
        if name:
            self._profiles.get(name)

    def _check_tier(self, tier: str) -> None:
        known = list(self._tiers())
        if tier in known:
            return
        near = nearest(tier, known, 1)
        if near:
            raise BadArguments(
                say("tier: there is no tier {tier}. Did you mean {near}?", tier=tier, near=near[0]), "tier"
            )
        raise BadArguments(
            say("tier: there is no tier {tier}. The tiers are {tiers}.", tier=tier, tiers=", ".join(known)),
            "tier",
        )

    async def _find_key(self, given: str) -> KeyRecord:
        """Return the key that a name, an id, ``tbn_`` and the beginning of an id, or a secret names."""
        named = None
        if not given.startswith(PREFIX):
            named = await self._ring.read(lambda store: store.named(given), None)
            if named is not None and named.revoked is None:
                return named
        id = id_in(given) or given.removeprefix(PREFIX).partition("_")[0]
        # Without tbn_ only a whole id counts: a mistyped name must not revoke another key.
        fits = _is_prefix(id) if given.startswith(PREFIX) else _is_id(id)
        found: list[KeyRecord] = []
        if fits:
            found = await self._ring.read(lambda store: store.beginning(id, 4), found)
        if len(found) > 1:
            raise BadArguments(
                say(
                    "{given} is the beginning of several keys: {ids}. Give more characters.",
                    given=f"{PREFIX}{id}",
                    ids=", ".join(f"{PREFIX}{each.id}" for each in found),
                ),
                "key",
            )
        record = found[0] if found else named
        if record is None:
            # A secret that is mistyped must not be in an error.
            raise await self._unknown_key(f"{PREFIX}{id[:8]}" if given.startswith(PREFIX) else given)
        return record

    async def _unknown_key(self, given: str) -> UnknownName:
        none: list[str] = []
        near = nearest(given, await self._ring.read(lambda store: store.names(MOST_COMPARED), none))
        if near:
            return UnknownName(
                say("There is no key {given}. Did you mean {near}?", given=given, near=", ".join(near)), near
            )
        return UnknownName(say("There is no key {given}. List the keys with: tabane keys list", given=given))

    # -- results ---------------------------------------------------------------------------------

    def _key_row(self, record: KeyRecord) -> dict[str, Any]:
        return {
            "id": record.id,
            "prefix": f"{PREFIX}{record.id}",
            "name": record.name,
            "person": record.person or None,
            "state": record.state(self._ring.clock()),
            "allow": list(record.patterns.allow),
            "deny": list(record.patterns.deny),
            "read_only": record.patterns.read_only,
            "profile": record.profile or None,
            "tier": record.tier,
            "created": iso(record.created),
            "expires": iso(record.expires),
            "last_used": iso(record.used),
            "revoked": iso(record.revoked),
        }

    def _pattern_warnings(self, patterns: PermissionPatterns, lang: Lang) -> dict[str, list[str]]:
        return {
            "warnings": [
                say("{pattern} matches no tool or source that is currently known.", pattern=one).render(lang)
                for one in unmatched(patterns, self._known())
            ]
        }


def _checked_name(name: str) -> str:
    """Return the name without spaces around it. Raises BadArguments for one that a table cannot show."""
    name = unicodedata.normalize("NFC", name).strip()
    if not name or name.startswith(PREFIX) or any(unicodedata.category(each)[0] in "CZ" for each in name):
        raise BadArguments(
            say("name: use letters, digits and punctuation, no spaces, and do not begin with tbn_."), "name"
        )
    return name


def _checked_person(person: str) -> str:
    """Return the name without spaces around it. Raises BadArguments for one that a table cannot show."""
    person = unicodedata.normalize("NFC", person).strip()
    if any(unicodedata.category(each)[0] in "CZ" and each not in _SPACES for each in person):
        raise BadArguments(say("person: write a name in one line, without control characters."), "person")
    return person


_SPACES = (" ", "\u3000")  # that of Japanese names is a wide one
