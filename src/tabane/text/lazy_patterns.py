"""Regular expressions that are compiled on first use.

A process that starts compiles none of them. Only long ones are worth it: a short one costs 0.1 ms.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _LazyPattern:
    """The methods of a compiled expression, which is compiled at the first use. Later uses cost no more."""

    __slots__ = (
        "_flags",
        "_source",
        "findall",
        "finditer",
        "flags",
        "fullmatch",
        "groupindex",
        "groups",
        "match",
        "pattern",
        "scanner",
        "search",
        "split",
        "sub",
        "subn",
    )

    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        """Compile the expression, and keep what it has here. Called while nothing has been kept."""
        if name not in self.__slots__:
            raise AttributeError(name)
        compiled = re.compile(self._source, self._flags)
        for each in self.__slots__[2:]:
            setattr(self, each, getattr(compiled, each))
        return getattr(compiled, name)


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return an expression that is compiled when it is first used. An invalid one fails only then."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(source, flags))
