"""How far a page in a browser has come: whether its content is there. Pure.

Silence alone does not say it: a page may be silent before its script has begun, and another never is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

ENOUGH = 200
"""Characters of text with which a page has content; a page of less may still be loading."""

_LEAST = 0.5  # seconds that scripts get after a page is loaded, to ask for more
_LONGEST = 4.0  # seconds after which a request is taken for one that is kept open
_CHANGES = 50  # a text that changes by less than this part of it is the same: a clock, a counter
_LOADING = re.compile(
    r"(?:now |page (?:is )?)?loading(?: (?:the )?(?:page|content|data|app|application))?"
    r"|please wait|just a (?:moment|second)"
    r"|one moment(?: please)?|initializing|starting"
    r"|(?:ただいま)?(?:読み込み中|ロード中|読込中)(?:です)?|(?:しばらく|少々)?お待ち(?:ください|下さい)",
    re.IGNORECASE,
)

GLIMPSE = """(() => {
  const body = document.body;
  if (!body) return {text: 0, nodes: 0, busy: false, words: "", height: 0};
  const every = body.getElementsByTagName("*");
  const nodes = every.length;
  const said = (nodes > 20000 ? body.textContent : body.innerText).trim();
  let text = said.length;
  if (text < 2000) {
    for (let at = 0; at < nodes && at < 3000; at++) {
      const inner = every[at].shadowRoot;
      if (inner) text += inner.textContent.trim().length;
    }
  }
  return {
    text, nodes, busy: body.querySelector('[aria-busy="true"], [role="progressbar"]') !== null,
    words: text < 200 ? said.slice(0, 200) : "", height: document.documentElement.scrollHeight,
  };
})()"""
"""The expression that looks at a page; each look takes some milliseconds, whatever the page's size."""


@dataclass(frozen=True, slots=True)
class Glimpse:
    """A look at a page: characters of its visible text, its elements, and whether it says that it loads."""

    text: int = 0
    nodes: int = 0
    loading: bool = False
    height: int = 0


def glimpse(value: dict[str, Any]) -> Glimpse:
    """Return what the expression GLIMPSE gave."""
    words = " ".join(str(value.get("words", "")).split()).strip(" .…。!")
    text = int(value.get("text", 0))
    loading = text < ENOUGH and (bool(value.get("busy")) or _LOADING.fullmatch(words) is not None)
    return Glimpse(text, int(value.get("nodes", 0)), loading, int(value.get("height", 0)))


def is_still(before: Glimpse | None, now: Glimpse) -> bool:
    """Return whether nothing that matters changed between two looks."""
    if before is None or before.loading != now.loading:
        return False
    return (
        abs(now.text - before.text) <= now.text // _CHANGES
        and abs(now.nodes - before.nodes) <= now.nodes // _CHANGES
    )


def is_there(before: Glimpse | None, now: Glimpse, waited: float, patience: float) -> bool:
    """Return whether the content of a page is there, if no request is open.

    ``waited`` are the seconds since the page and its scripts were loaded. A page with enough text is done
    once it does not change. One with little text may be waiting for more: it gets ``patience`` seconds. One
    without text, or that says it is loading, is never done.
    """
    if now.loading or not now.text or not is_still(before, now):
        return False
    return waited >= (_LEAST if now.text >= ENOUGH else patience)


class OpenRequests:
    """The requests of a page that have not ended. Times are those of a monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._begun: dict[str, float] = {}

    def begin(self, request: str, kind: str, now: float) -> None:
        """Note a request. Streams that stay open do not count."""
        if kind not in ("EventSource", "WebSocket", "Ping", "Media"):
            self._begun[request] = now

    def end(self, request: str) -> None:
        self._begun.pop(request, None)

    def clear(self) -> None:
        self._begun.clear()

    @property
    def none(self) -> bool:
        return not self._begun

    def quiet(self, now: float, since: float) -> bool:
        """Return whether none was open from ``since`` to ``now``, but for those that stay open for long.

        Newer ones do not count: a page that polls its server always has one.
        """
        return all(begun > since or now - begun > _LONGEST for begun in self._begun.values())
