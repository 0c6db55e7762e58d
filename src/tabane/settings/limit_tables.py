"""The tables ``[tiers.NAME]`` and ``[limits]`` of tabane.toml.

Limits are not warnings: whatever is wrong in them is an error, because a limit that is ignored is no limit.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, Literal, NoReturn, cast

from tabane.errors import ConfigurationError
from tabane.messages import Message, say
from tabane.settings.limit_rules import (
    DEFAULT_TIER,
    KIB,
    MIB,
    TIERS,
    CallCap,
    CallRate,
    LimitRules,
    TierLimits,
)

MOST_TIERS, MOST_CAPS = 100, 1000
LONGEST_NAME = 200
"""Characters of a pattern."""

MOST_BURST, MOST_RATE, LEAST_RATE = 1_000_000_000, 1_000_000.0, 1 / 86_400
MOST_CONCURRENCY, MOST_QUEUE, LONGEST_WAIT = 100_000, 100_000, 600.0
LEAST_RESULT, MOST_RESULT = 4 * KIB, 1024 * MIB

UNLIMITED = "unlimited"

_TIER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:/|per\s)\s*([a-z]+)\s*")
_SECONDS = {
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hour"), 3600),
    **dict.fromkeys(("d", "day"), 86_400),
}
_SIZE = re.compile(r"\s*(\d+)\s*(B|KiB|MiB|GiB)\s*", re.IGNORECASE)
_SIZES = {"b": 1, "kib": KIB, "mib": MIB, "gib": 1024 * MIB}

Keys = tuple[str, ...]


class LimitTables:
    """Reads the tables of one file. ``path`` and ``text`` are for errors, which name the line."""

    def __init__(self, path: object, text: str) -> None:
        self._path, self._text = path, text

    def rules(self, values: Mapping[str, Any]) -> LimitRules:
        """Return the limits that the file gives, over the defaults. Raises ConfigurationError."""
        tiers = dict(TIERS)
        for name, table in self._table(values.get("tiers", {}), ("tiers",)).items():
            tiers[name] = self._tier(name, table)
        if len(tiers) > MOST_TIERS:
            self._fail(("tiers",), say("at most {count} {count:tier|tiers}", count=MOST_TIERS), len(tiers))
        limits = self._table(values.get("limits", {}), ("limits",), ("tools", "servers"))
        tools = self._caps("tool", limits.get("tools", {}), ("limits", "tools"))
        servers = self._caps("server", limits.get("servers", {}), ("limits", "servers"))
        return LimitRules(tiers, (*tools, *servers))

    # -- tiers -----------------------------------------------------------------------------------

    def _tier(self, name: str, given: object) -> TierLimits:
        at = ("tiers", name)
        if not _TIER_NAME.fullmatch(name):
            self._fail(at, say("a name of letters, digits, - and _"), name)
        base = TIERS.get(name) or TIERS[DEFAULT_TIER]
        table = self._table(given, at, (*_TIER_KEYS, "burst", "rate"))
        found = {key: read(self, table[key], (*at, key)) for key, read in _TIER_KEYS.items() if key in table}
        return base._replace(calls=self._calls(table, at, base.calls), **found)

    # -- tools and servers -----------------------------------------------------------------------

    def _caps(self, kind: Literal["tool", "server"], given: object, at: Keys) -> list[CallCap]:
        table = self._table(given, at)
        if len(table) > MOST_CAPS:
            self._fail(at, say("at most {count} {count:name|names}", count=MOST_CAPS), len(table))
        return [self._cap(kind, pattern, value, (*at, pattern)) for pattern, value in table.items()]

    def _cap(self, kind: Literal["tool", "server"], pattern: str, given: object, at: Keys) -> CallCap:
        if not pattern or len(pattern) > LONGEST_NAME or not pattern.isprintable():
            self._fail(at, say("a name or a pattern such as {example}", example='"github__*"'), pattern)
        if not isinstance(given, dict):
            given = {"rate": given}
        table = self._table(given, at, ("burst", "rate", "concurrency", "per"))
        places = (
            self._concurrency(table["concurrency"], (*at, "concurrency")) if "concurrency" in table else None
        )
        calls = self._calls(table, at, None)
        if calls is None and places is None:
            self._fail(at, say("a table with rate, burst or concurrency"), dict(table))
        per = table.get("per", "hub")
        if per not in ("hub", "key"):
            self._fail((*at, "per"), say("one of {choices}", choices="hub, key"), per)
        return CallCap(kind, pattern, calls, places, cast("Literal['hub', 'key']", per))

    # -- values ----------------------------------------------------------------------------------

    def _calls(self, table: Mapping[str, Any], at: Keys, base: CallRate | None) -> CallRate | None:
        """Return the bucket. If only a rate is given, and there is no ``base``, it is the burst as well."""
        if "rate" not in table and "burst" not in table:
            return base
        if UNLIMITED in (table.get("rate"), table.get("burst")):
            return None
        usual = base.burst if base else 0
        rate, several = base.rate if base else 0.0, 0
        if "rate" in table:
            rate, several = self._rate(table["rate"], (*at, "rate"))
        elif base is None:
            self._fail(
                (*at, "burst"),
                say("used together with rate, because otherwise no token comes back"),
                table["burst"],
            )
        burst = self._whole(table["burst"], (*at, "burst"), 1, MOST_BURST) if "burst" in table else 0
        return CallRate(burst or usual or several, rate)

    def _rate(self, given: object, at: Keys) -> tuple[float, int]:
        """Return the calls a second, and the calls in the period that was named."""
        count, seconds = given, 1
        if isinstance(given, str):
            found = _RATE.fullmatch(given.lower())
            if found and found[2] in _SECONDS:
                count, seconds = float(found[1]), _SECONDS[found[2]]
        if isinstance(count, bool) or not isinstance(count, int | float):
            self._fail(at, _rate_said(), given)
        rate = count / seconds
        if not LEAST_RATE * 0.999 <= rate <= MOST_RATE:
            self._fail(at, _rate_said(), given)
        return rate, max(1, math.ceil(count))

    def _concurrency(self, given: object, at: Keys) -> int | None:
        return None if given == UNLIMITED else self._whole(given, at, 1, MOST_CONCURRENCY)

    def _queue(self, given: object, at: Keys) -> int:
        return self._whole(given, at, 0, MOST_QUEUE)

    def _wait(self, given: object, at: Keys) -> float:
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0.1 <= given <= LONGEST_WAIT:
            self._fail(at, say("a number of seconds from 0.1 to {most}", most=f"{LONGEST_WAIT:g}"), given)
        return float(given)

    def _result_size(self, given: object, at: Keys) -> int | None:
        if given == UNLIMITED:
            return None
        if isinstance(given, str) and (found := _SIZE.fullmatch(given)):
            given = int(found[1]) * _SIZES[found[2].lower()]
        if isinstance(given, bool) or not isinstance(given, int) or not LEAST_RESULT <= given <= MOST_RESULT:
            self._fail(at, say("a size from 4 KiB to 1 GiB, or unlimited"), given)
        return given

    def _whole(self, given: object, at: Keys, lowest: int, highest: int) -> int:
        if isinstance(given, bool) or not isinstance(given, int) or not lowest <= given <= highest:
            self._fail(
                at, say("a whole number from {lowest} to {highest}", lowest=lowest, highest=highest), given
            )
        return given

    # -- tables and errors -----------------------------------------------------------------------

    def _table(self, given: object, at: Keys, known: Keys | None = None) -> dict[str, Any]:
        if not isinstance(given, dict):
            self._fail(at, say("a table"), given)
        for key in given:
            if known is not None and key not in known:
                raise ConfigurationError(
                    say(
                        "{where}: {name} has no key {key}. It has: {known}.",
                        where=self._where((*at, key)),
                        name=".".join(at),
                        key=key,
                        known=", ".join(known),
                    )
                )
        return given

    def _fail(self, at: Keys, allowed: Message, given: object) -> NoReturn:
        said = {
            "where": self._where(at),
            "name": ".".join(at),
            "allowed": allowed,
            "given": repr(given)[:200],
            "value": f'"{UNLIMITED}"',
        }
        if given == 0 and not isinstance(given, bool):
            raise ConfigurationError(
                say(
                    "{where}: {name} must be {allowed}, not {given}: this limit would refuse every call. "
                    "To forbid tools, use deny in a profile, a key or the servers file. For no limit: "
                    "{value}.",
                    **said,
                )
            )
        raise ConfigurationError(say("{where}: {name} must be {allowed}, not {given}.", **said))

    def _where(self, at: Keys) -> str:
        line = line_of(self._text, at)
        return f"{self._path}:{line}" if line else str(self._path)


_TIER_KEYS: Mapping[str, Callable[[LimitTables, Any, Keys], Any]] = {
    "concurrency": LimitTables._concurrency,
    "server_concurrency": LimitTables._concurrency,
    "queue": LimitTables._queue,
    "wait": LimitTables._wait,
    "result_size": LimitTables._result_size,
}


def _rate_said() -> Message:
    return say(
        "a number of calls a second greater than 0, or a text such as {example}", example='"30/minute"'
    )


def line_of(text: str, keys: Keys) -> int | None:
    """Return the line of a TOML file on which a key, or the table around it, begins; None if unknown."""
    table: Keys = ()
    best: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("["):
            table = _keys_in(line)
            here = table
        else:
            name, equals, _ = line.partition("=")
            here = (*table, *_keys_in(f"{name}=0")) if equals else ()
        if here and keys[: len(here)] == here and (best is None or len(here) > best[0]):
            best = len(here), number
    return best[1] if best else None


def _keys_in(toml: str) -> Keys:
    """Return the keys that lead to the one value, or table, of a line of TOML; none if it is not one."""
    try:
        value: Any = tomllib.loads(toml)
    except tomllib.TOMLDecodeError:
        return ()
    found: list[str] = []
    while isinstance(value, dict) and len(value) == 1:
        ((key, value),) = value.items()
        found.append(key)
    return tuple(found)
