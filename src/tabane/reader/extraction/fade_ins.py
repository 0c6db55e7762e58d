"""Scripts that fade parts of a page in, and what an element is like after one of them has run.

A script counts if the page loads it or has what only it generates. A class name alone does not count: anybody
can write one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

Element = Any
Attributes = dict[str, str]

SCRIPT_TYPES = frozenset(
    ("", "text/javascript", "module", "application/javascript", "text/ecmascript", "application/x-javascript")
)
_SHOWN = "opacity:1;visibility:visible;transform:none"
_FADED = re.compile(r"(?:^|;)\s*opacity\s*:\s*0?\.?0*1?\s*(?:;|$)", re.IGNORECASE)
_MOVED = re.compile(r"(?:^|;)\s*(?:-webkit-)?transform\s*:", re.IGNORECASE)


class FadeIn(NamedTuple):
    """A script: how it is recognized, which elements it shows, and how it changes these.

    ``script`` is found in addresses or texts of scripts, or in the name of a generator; empty if any script
    will do, because the attributes are generated. An element has ``attribute`` (name, or name=value), one of
    ``classes``, and in its own style a faded opacity if ``faded`` and a transform if ``moved``. ``named``: a
    script of the page has to name it.
    """

    script: str
    attribute: str = ""
    classes: str = ""
    adds: str = ""
    drops: str = ""
    sets: str = ""
    style: str = ""
    faded: bool = False
    moved: bool = False
    named: bool = False


_TABLE = (
    FadeIn(r"(?:^|[/ ])aos(?:[.-][\w.-]+)?\.js|/aos@|\bAOS\.init\(", "data-aos", adds="aos-init aos-animate"),
    FadeIn(r"(?:^|[/ ])sal(?:\.min)?\.js|/sal\.js@|\bsal\(", "data-sal", adds="sal-animate"),
    FadeIn(r"(?:^|[/ ])wow(?:[.-][\w.-]+)?\.js|/wow\.?js@|\bnew WOW\b", classes="wow",
           adds="animated animate__animated", style="visibility:visible"),
    FadeIn("", "data-settings=animation", "elementor-invisible", "animated", "elementor-invisible"),
    FadeIn(r"/divi/|\bet_animation_data\b|\bet_pb_custom\b", classes="et-waypoint et_animated",
           adds="et-animated", style="opacity:1"),
    FadeIn(r"\bstatic\.parastorage\.com|\bwixstatic\.com|\bWix\.com", "data-motion-enter=hidden",
           sets="data-motion-enter=done"),
    FadeIn(r"\bsquarespace(?:-cdn)?\.com|\bSQUARESPACE_CONTEXT\b",
           classes="preFade preSlide preScale preFlex preClip", adds="fadeIn slideIn scaleIn flexIn clipIn"),
    FadeIn(r"(?:^|[/ ])webflow(?:[.-][\w.-]+)?\.js|\bWebflow\.require\(", "data-w-id",
           style=_SHOWN, faded=True),
    FadeIn("", "data-framer-appear-id", style=_SHOWN, faded=True, moved=True),
    FadeIn(r"\bframer-motion\b|\bframerusercontent\.com", style=_SHOWN, faded=True, moved=True),
    FadeIn(r"(?:^|[/ ])uikit(?:[.-][\w.-]+)?\.js", "uk-scrollspy-class",
           adds="uk-scrollspy-inview", style=_SHOWN),
    FadeIn(r"(?:^|[/ ])scrollreveal(?:[.-][\w.-]+)?\.js|\bScrollReveal\(", style=_SHOWN, named=True),
    FadeIn(r"(?:^|[/ ])(?:gsap|TweenMax)(?:[.-][\w.-]+)?\.js|/gsap@|\bgsap\.(?:to|from|fromTo|timeline)\(",
           style=_SHOWN, named=True),
)  # fmt: skip
_CLASSES = frozenset(name for each in _TABLE for name in each.adds.split())
_CALLS = ("gsap.", "ScrollReveal(", "TweenMax.", "sr.reveal(")
_OBSERVER = "IntersectionObserver"
_ADDED = re.compile(r"classList\s*\.\s*(?:add|toggle)\(\s*[\"'`]([\w-]{1,80})[\"'`]")
_QUOTED = re.compile(r"\"([^\"\n]{1,200})\"|'([^'\n]{1,200})'|`([^`\n]{1,200})`")
_SELECTOR = re.compile(r"[.#][\w-]+|\[[\w-]+")
_MOST_SCRIPTS, _MOST_LETTERS, _MOST_CLASSES = 500, 500_000, 12


class FadeIns:
    """The scripts of a page that fade elements in. ``classes`` are those that they may add."""

    def __init__(self, root: Element) -> None:
        self._root = root
        self._scripts = [
            script
            for script in islice(root.iter("script"), _MOST_SCRIPTS)
            if (script.get("type") or "").strip().lower() in SCRIPT_TYPES
        ]
        self._texts: list[str] = []
        left = _MOST_LETTERS
        for script in self._scripts:
            if text := (script.text or "")[:left]:
                left -= len(text)
                self._texts.append(text)
        observing = [text for text in self._texts if _OBSERVER in text]
        added = dict.fromkeys(name for text in observing for name in _ADDED.findall(text))
        self._added = list(added)[:_MOST_CLASSES]
        self.classes = _CLASSES.union(self._added)
        self._running: dict[FadeIn, bool] = {}

    @property
    def any_script(self) -> bool:
        """Whether the page has a script at all."""
        return bool(self._scripts)

    @cached_property
    def _evidence(self) -> str:
        """The addresses and texts of the scripts, and the names of the generators."""
        found = [f" {script.get('src') or ''} " for script in self._scripts]
        metas = islice(self._root.iter("meta"), _MOST_SCRIPTS)
        found += [at.get("content") or "" for at in metas if (at.get("name") or "").lower() == "generator"]
        return "\n".join((*found, *self._texts))

    @cached_property
    def _names(self) -> frozenset[str]:
        """The classes, ids and attributes that scripts which can fade something in name."""
        return frozenset(
            name
            for text in self._texts
            if _OBSERVER in text or any(call in text for call in _CALLS)
            for quoted in _QUOTED.finditer(text)
            for name in _SELECTOR.findall(quoted[quoted.lastindex or 1])
        )

    def _runs(self, script: FadeIn) -> bool:
        """Return whether the page has a script. Its whole text is searched, once for each that is asked."""
        known = self._running.get(script)
        if known is None:
            found = re.search(script.script, self._evidence, re.IGNORECASE)
            known = self._running[script] = found is not None
        return known

    def after(self, attributes: Attributes) -> Iterator[Attributes]:
        """Yield the attributes of an element as scripts leave them, if any script shows such an element."""
        if not self._scripts:
            return
        classes = (attributes.get("class") or "").split()
        style = attributes.get("style") or ""
        named = self._is_named(attributes, classes)
        for each in _TABLE:
            if each.named and not named:
                continue
            if each.attribute and not _has(attributes, each.attribute):
                continue
            if each.classes and not set(classes).intersection(each.classes.split()):
                continue
            if (each.faded and not _FADED.search(style)) or (each.moved and not _MOVED.search(style)):
                continue
            if not self._runs(each):
                continue
            changed = {**attributes, **_pair(each.sets)}
            if each.adds or each.drops:
                kept = [name for name in classes if name not in each.drops.split()]
                changed["class"] = " ".join((*kept, *each.adds.split()))
            if each.style:
                changed["style"] = f"{style};{each.style}"
            yield changed
        if named and self._added:
            yield {**attributes, "class": " ".join((*classes, *self._added))}

    def _is_named(self, attributes: Mapping[str, str], classes: list[str]) -> bool:
        names = [f".{name}" for name in classes]
        names += [f"[{name}" for name in attributes if name.startswith("data-")]
        if key := attributes.get("id"):
            names.append(f"#{key}")
        return not self._names.isdisjoint(names)


def _has(attributes: Mapping[str, str], wanted: str) -> bool:
    name, _, part = wanted.partition("=")
    return name in attributes and part in attributes[name]


def _pair(written: str) -> Attributes:
    name, sign, value = written.partition("=")
    return {name: value} if sign else {}
