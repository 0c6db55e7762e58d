"""Detection of elements that readers cannot see, which could carry instructions to models.

One walk from the root judges each element by the style sheets of the page, by its attributes, and by what it
inherits. What a person can open with the controls of the page (buttons, tabs, summaries, labels, links to an
id) stays and is listed as collapsed; what a script seems to show stays and is listed as late.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from tabane.reader.extraction.blocks import INLINE, SILENT, iterwalk
from tabane.reader.extraction.drawings import (
    Paints,
    animated,
    drawings_with_text,
    drawn_text,
    grounds_of,
    is_part,
    painted_by_attributes,
    scale_of,
    with_fill,
)
from tabane.reader.extraction.fade_ins import FadeIns
from tabane.reader.extraction.styles.declarations import declared
from tabane.reader.extraction.styles.page_styles import PageStyles
from tabane.reader.extraction.styles.shadow_trees import UNSEEN, ShadowTrees, detach_shadow_trees
from tabane.reader.extraction.styles.sheet_rules import Declarations
from tabane.reader.extraction.styles.visibility import ElementKind, Judgment, Reason, VisualState, judged
from tabane.reader.extraction.tabs import TabPane, tab_panes
from tabane.reader.markdown.elements import is_formula_image

Element = Any
_READERS_ONLY = re.compile(
    r"(?:^|\s)(?:sr-only|visually-?hidden(?:-focusable)?|screen-reader-text|screenreader|u-hiddenVisually)(?:\s|$)"
)
_SECOND_FORM = re.compile(
    r"(?:^|[\s_-])(?:katex|mathjax|mjx|mwe|icons?|material-(?:icons|symbols)|fa[srlb]?|glyphicons?|anchor"
    r"|header-?link|slick-cloned|swiper-slide-duplicate)(?:[\s_-]|$)", re.IGNORECASE
)  # fmt: skip
"""Names of formulas that are there twice, of icons, and of copies."""
_UTILITIES = re.compile(r"(?:^|\s)(?:d-none|hidden|is-hidden|w-condition-invisible|invisible)(?=\s|$)")
_SHOWN_AT_WIDTH = re.compile(
    r"(?:^|\s)(?:(?:sm|md|lg|xl|xxl|2xl|print|group-\S+|peer-\S+)(?::|-)|d-)"
    r"(?:(?:sm|md|lg|xl|xxl)-)?(?:block|flex|grid|inline|table|contents|visible|d-)"
)
_DECORATED = frozenset(
    ("font", "body", "table", "tr", "td", "th", "mark", "button", "dialog", "basefont", "details")
)
_MEDIA = ("img", "video", "picture", "canvas", "iframe", "svg", "object", "embed")
_LATE = frozenset((Reason.OPACITY, Reason.VISIBILITY, Reason.PLACE, Reason.CLIP))
_MOST_LISTINGS, _MOST_LINES = 500, 2_000
_LINE_DISPLAYS = frozenset(("block", "flex", "grid", "list-item", "table", "table-row", "flow-root"))
_LITTLE, _LEAST = 0.2, 0.1
"""Shares of its text below which a page seems to wait for a script that shows it: if it has one, and if none
is known, because scripts were removed from the page.
"""
_MUCH = 0.2
_NEVER_SEEN = frozenset((UNSEEN, "annotation", "annotation-xml", "mphantom", "noembed", "progress", "meter"))
"""Elements whose contents no browser shows."""
_UNUSUAL = frozenset(("hidden", "popover", "mathcolor", "mathsize"))
_SOURCES = ("annotation", "annotation-xml")
_MOST_FORMULAS = 20_000
_MUTE = SILENT | {"br", "wbr", "hr"}
"""Share of its text above which what is unreadable seems to be on a ground that is not known."""
_SOME, _LONG = 3, 1000
"""Parts and letters that have to be hidden then."""
_NEAR = 200
_MOST_PARTS = 100
"""Begins and ends of elements in a control that are looked at."""
_MOST_WRAPPERS = 8
_MOST_TRIALS = 10_000
_NOT_DECLARED: Declarations = ()
_UNSEEN_BY_NAME: Declarations = (("clip", "rect(0,0,0,0)", False),)


class HiddenElementDetector:
    """Detects elements of a page that are invisible and that no click makes appear.

    Text that is invisible beside visible elements is put into elements of its own, in place. Shadow trees are
    put into the page; ``shadows`` are those that were taken out of it before.
    """

    def __init__(self, root: Element, shadows: ShadowTrees | None = None) -> None:
        shadows = detach_shadow_trees(root) if shadows is None else shadows
        self.collapsed: list[Element] = []
        self.late: list[Element] = []
        self._root = root
        self._fade_ins = FadeIns(root)
        self._drawings = drawings_with_text(root)
        self._covers: dict[Element, frozenset[Element]] = {}
        drawn = bool(self._drawings)
        self._styles = PageStyles(root, shadows, self._fade_ins.classes, drawings=drawn)
        shadows.attach(root)
        self._controls = PageControls(root)
        self._scripts = self._fade_ins.any_script
        self._trials = _MOST_TRIALS
        self._letters: int | None = None
        self._names: dict[str, Declarations] = {}
        self._painted = False
        self._walk_tree(lenient=False)
        if self._styles.external and self._is_mostly_unreadable():
            self._painted = True
            self._walk_tree(lenient=False)
        if self._shows_less_than(_LITTLE if self._scripts else _LEAST):
            self._walk_tree(lenient=True)
        # What only hidden controls would open is hidden; the rest is collapsed.
        for element, controls in self._opened.items():
            if not controls or any(self._is_shown(control) for control in controls):
                self.collapsed.append(element)
            else:
                self._hidden[element] = Reason.DISPLAY
        self.late += self._waiting
        for drawing in self._drawings:
            self._write_text_of(drawing)
        self._empty_formulas()
        self._set_apart()

    @property
    def limited(self) -> bool:
        """Whether the style sheets are too large to be applied completely."""
        return self._styles.limited

    @property
    def panes(self) -> tuple[TabPane, ...]:
        """The panes of tabs."""
        return self._controls.panes

    def hides(self, element: Element) -> bool:
        """Return whether an element is hidden from readers; its ancestors are not judged."""
        return element in self._hidden

    def set_lines_of_code(self) -> None:
        """Write the style of lines of code, which a style sheet shows as blocks, to the elements.

        Only code without line breaks of its own needs it.
        """
        for listing in itertools.islice(self._root.iter("pre"), _MOST_LISTINGS):
            if len(listing) and "\n" not in "".join(listing.itertext()).strip():
                for element in itertools.islice(listing.iter("span", "code", "a", "b", "i"), _MOST_LINES):
                    display = self._styles.specified(element, dict(element.items())).get("display", "")
                    if display in _LINE_DISPLAYS:
                        element.set("style", f"display: {display}")

    def _walk_tree(self, *, lenient: bool) -> None:
        self._hidden: dict[Element, Reason] = {}
        self._silent: dict[Element, Reason] = {}
        self._opened: dict[Element, list[Element]] = {}
        self._waiting: list[Element] = []
        self._lenient = lenient
        self._alive: list[list[Element]] = []
        """All elements: lxml would make their objects again for the next walk."""
        self._states: dict[VisualState, VisualState] = {}
        self._judgments: dict[tuple[int, int, tuple[str, bool, bool]], Judgment] = {}
        todo: list[tuple[Element, VisualState]] = [(self._root, VisualState())]
        while todo:
            element, around = todo.pop()
            state = self._enter_element(element, around)
            if state is not None:
                if state.silence is not Reason.NONE:
                    self._silent[element] = state.silence
                children = list(element)
                self._alive.append(children)
                for child in children:
                    tag = child.tag
                    if tag.__class__ is str and (tag not in SILENT or child in self._drawings):
                        todo.append((child, state))

    def _enter_element(self, element: Element, around: VisualState) -> VisualState | None:
        """Return the state within an element; None if nothing in it is visible."""
        tag = element.tag
        attributes = dict(element.items())
        declarations = self._known_names(attributes["class"]) if "class" in attributes else _NOT_DECLARED
        if declarations is None or tag in _NEVER_SEEN:
            self._hidden[element] = Reason.CLIP
            return None
        if attributes.get("aria-hidden", "").lower() == "true" and not self._is_for_eyes(element, attributes):
            return self._decide(element, around, Judgment(around, Reason.DISPLAY))
        if is_part(element):
            return self._enter_drawing(element, attributes, around)
        if tag in _DECORATED or not _UNUSUAL.isdisjoint(attributes):
            declarations = (*declarations, *_declared_by_attributes(tag, attributes))
        elif not declarations and self._is_plain(attributes, around):
            return around
        judgment = self._judge(element, attributes, around, declarations)
        if tag == "details" and "open" not in attributes:
            self._opened[element] = element.findall("summary")[:1]
        if judgment is None:
            return around
        if judgment.hidden is not Reason.NONE:
            self._opened.pop(element, None)
            return self._decide(element, around, judgment)
        state = judgment.state
        if state.silence is not around.silence or state.silence is Reason.COLOR:
            state = self._silence(element, around, judgment)
        return state

    def _is_for_eyes(self, element: Element, attributes: Mapping[str, str]) -> bool:
        """Return whether an element that screen readers skip seems to be on the screen, so that it is judged
        as any other.

        Other sheets usually hide such an element, unless it is a plain part of a line of text.
        """
        names = attributes.get("class", "")
        if element.tag == "img" and is_formula_image(element):
            return True
        if _SECOND_FORM.search(names) or any(
            _SECOND_FORM.search(above.get("class") or "")
            for above in itertools.islice(element.iterancestors(), _MOST_WRAPPERS)
        ):
            return False
        if not self._styles.external:
            return True
        above = element.getparent()
        if names or "id" in attributes or element.tag not in INLINE or above is None:
            return False
        text = "".join(itertools.islice(element.itertext(), _MOST_PARTS)).strip()
        beside = itertools.chain((above.text,), (child.tail for child in itertools.islice(above, _NEAR)))
        return any(char.isalpha() for char in text) and any(each and each.strip() for each in beside)

    def _enter_drawing(
        self, element: Element, attributes: Mapping[str, str], around: VisualState
    ) -> VisualState | None:
        """Return the state within a part of a drawing; None if nothing in it is visible."""
        tag = element.tag
        outermost = tag == "svg" and not any(
            above in self._drawings for above in element.iterancestors("svg")
        )
        hints = painted_by_attributes(tag, attributes)
        specified = self._styles.specified(element, attributes, hints)
        if moving := animated(element):
            specified = {**specified, **{name: value for name, value, _ in moving}}
        if "url(" in specified.get("fill", ""):
            specified = {**specified, "fill": self._paints.color_of(specified["fill"])}
        kind = ElementKind(tag)
        judgment = judged(around, with_fill(specified, tag, first=outermost), kind, self._styles.frames)
        if judgment.hidden is not Reason.NONE:
            if outermost:
                return self._decide(element, around, judgment)
            self._hidden[element] = judgment.hidden
            return None
        state = judgment.state
        if outermost:
            grounds = grounds_of(element, state.grounds, self._fill_at)
            self._covers[element] = grounds.covers
            state = replace(state, scale=state.scale * scale_of(element), grounds=grounds.colors)
        return self._shared_state(state)

    @cached_property
    def _paints(self) -> Paints:
        return Paints(self._root)

    def _fill_at(self, element: Element) -> str | None:
        attributes = dict(element.items())
        hints = painted_by_attributes("", attributes)
        return self._styles.specified(element, attributes, hints).get("fill")

    def _write_text_of(self, drawing: Element) -> None:
        """Write the text of a drawing that is on the screen behind it, and the other text as hidden."""
        if any(above in self._drawings for above in drawing.iterancestors("svg")):
            return
        if drawing in self._hidden:
            return
        covers = self._covers.get(drawing, frozenset())
        text = drawn_text(drawing, self._hidden, self._silent, covers)
        for written, tag in ((text.hidden, UNSEEN), (text.shown, "span")):
            if written and drawing.getparent() is not None:
                line = drawing.makeelement(tag)
                line.text = written
                line.tail, drawing.tail = drawing.tail, None
                drawing.addnext(line)
                if tag == UNSEEN:
                    self._hidden[line] = Reason.DISPLAY

    def _is_plain(self, attributes: Mapping[str, str], around: VisualState) -> bool:
        """Return whether nothing can be set for an element, so that it is as what is around it."""
        if "style" in attributes or not self._styles.silent or around.silence is Reason.COLOR:
            return False
        if around.squeezed or around.flexible:
            return False
        return not (self._styles.external and self._painted) or around.grounds is None

    def _known_names(self, written: str) -> Declarations | None:
        """Return what classes with a known meaning declare; None if these are for screen readers only."""
        declarations = self._names.get(written)
        if declarations is None:
            declarations = self._names[written] = _of_names(written)
        return None if declarations is _UNSEEN_BY_NAME else declarations

    def _judge(
        self, element: Element, attributes: Mapping[str, str], around: VisualState, hints: Declarations
    ) -> Judgment | None:
        """Return the judgment of an element; None if nothing is set for it."""
        tag = element.tag
        inherits = not (around.squeezed or around.flexible)
        specified = self._styles.specified(element, attributes, hints)
        unknown = self._styles.external and ("class" in attributes or "id" in attributes)
        linked = tag == "a" and "href" in attributes and around.silence is Reason.COLOR
        if inherits and not specified and not linked and (not unknown or around.grounds is None):
            return None
        kind = (tag, linked, unknown)
        key = (id(around), id(specified), kind)
        judgment = self._judgments.get(key)
        if judgment is None:
            top = tag in ("html", "body")
            kind_of_element = ElementKind(tag, tag in INLINE, linked, unknown, self._painted, top)
            judgment = judged(around, specified, kind_of_element, self._styles.frames)
            judgment = replace(judgment, state=self._states.setdefault(judgment.state, judgment.state))
            self._judgments[key] = judgment
        return judgment

    def _shared_state(self, state: VisualState) -> VisualState:
        return self._states.setdefault(state, state)

    # What is kept although it is hidden now

    def _decide(self, element: Element, around: VisualState, judgment: Judgment) -> VisualState | None:
        """Hide an element, or keep it because it can be opened or will be shown."""
        if element.tag in ("img", "picture") and judgment.hidden in _LATE:
            return around if self._scripts else None  # it fades in when it is loaded
        state = self._kept_state(element, around, judgment)
        if state is None:
            self._hidden[element] = judgment.hidden
        return state

    def _silence(self, element: Element, around: VisualState, judgment: Judgment) -> VisualState:
        """Return the state of an element whose own text is not visible, unless it stays."""
        state = judgment.state
        if state.silence is Reason.VISIBILITY and around.silence is not Reason.VISIBILITY:
            return self._kept_state(element, around, judgment) or state
        if state.silence is Reason.COLOR and state is not around and self._is_over_a_picture(element, state):
            return self._shared_state(replace(state, grounds=None, silence=Reason.NONE))
        return state

    def _kept_state(self, element: Element, around: VisualState, judgment: Judgment) -> VisualState | None:
        """Return the state of an element that is kept although it is hidden now; None if it is not."""
        controls = self._controls.of(element)
        if controls:
            self._opened[element] = controls
        elif (shown := self._faded_in(element, around, judgment)) is not None:
            self._waiting.append(element)
            return shown
        elif (self._lenient and _reason(judgment) in _LATE) or self._is_the_page(element):
            self._waiting.append(element)
        else:
            return None
        state = replace(judgment.state, visible=True, opacity=around.opacity, silence=Reason.NONE)
        return self._shared_state(state)

    def _faded_in(self, element: Element, around: VisualState, judgment: Judgment) -> VisualState | None:
        """Return the state of an element after a script has faded it in; None if no known one does."""
        if not self._scripts or _reason(judgment) not in _LATE or not self._trials:
            return None
        before = dict(element.items())
        for after in self._fade_ins.after(before):
            self._trials -= 1
            for name, value in after.items():
                element.set(name, value)
            hints = self._known_names(after.get("class", ""))
            shown = None if hints is None else self._judge(element, after, around, hints)
            for name in after:
                if name in before:
                    element.set(name, before[name])
                else:
                    del element.attrib[name]
            if hints is not None and (shown is None or _reason(shown) is Reason.NONE):
                return around if shown is None else shown.state
        return None

    def _is_the_page(self, element: Element) -> bool:
        """Return whether it is hidden until a script has run, because it holds the page itself."""
        if len(self._waiting) > _MOST_WRAPPERS and not self._lenient:
            return False
        if element.tag in ("body", "html"):
            return True
        if element.tag != "main" and element.find(".//h1") is None and element.find(".//main") is None:
            return False
        return 3 * _letters(element) > 2 * self._all_letters()

    def _all_letters(self) -> int:
        if self._letters is None:
            self._letters = _letters(self._root)
        return self._letters

    def _shows_less_than(self, share: float) -> bool:
        """Return whether nearly all text of the page is hidden in ways that scripts undo."""
        late = [element for element, reason in self._hidden.items() if reason in _LATE]
        hidden = sum(map(_letters, late))
        for element, reason in self._silent.items():
            if reason is Reason.VISIBILITY and element.text and not element.text.isspace():
                late.append(element)
                hidden += len(element.text)
        if len(late) < _SOME or hidden < _LONG:
            return False
        return hidden > (1 - share) * self._all_letters()

    def _is_mostly_unreadable(self) -> bool:
        """Return whether much text has the color of its ground: other sheets seem to set this ground."""
        unreadable = (element for element, reason in self._silent.items() if reason is Reason.COLOR)
        letters = sum(len(element.text.strip()) for element in unreadable if element.text)
        return bool(letters) and letters > _MUCH * self._all_letters()

    def _is_over_a_picture(self, element: Element, state: VisualState) -> bool:
        """Return whether a picture may be behind a positioned element or its text, so that its ground is not
        known.
        """
        at: Element | None = element
        for _ in range(4):
            above = at.getparent() if at is not None else None
            if at is None or above is None or at.tag in ("body", "html"):
                return False
            for inner in itertools.islice(above.iter("*"), _NEAR):
                if inner.tag not in _MEDIA or at in (inner, *inner.iterancestors()):
                    continue
                if state.lifted or "position" in self._styles.specified(inner, inner.attrib):
                    return True
            at = above
        return False

    # After the walk

    def _empty_formulas(self) -> None:
        """Remove what is hidden within formulas, and the sources of these, which have it, too."""
        for math in itertools.islice(self._root.iter("math"), _MOST_FORMULAS):
            if math in self._hidden or math in self._silent or math.getparent() is None:
                continue
            gone = [
                each
                for each in math.iter("*")
                if (each in self._hidden or each in self._silent) and each.tag not in _SOURCES
            ]
            if not gone:
                continue
            gone += math.iter(*_SOURCES)
            math.attrib.pop("alttext", None)
            for each in gone:
                for inner in list(each):
                    each.remove(inner)
                each.text = None

    def _is_shown(self, control: Element) -> bool:
        """Return whether a control is on the screen, with something to click on."""
        if any(each in self._hidden for each in itertools.chain((control,), control.iterancestors())):
            return False
        if control in self._opened and control.tag != "details":
            return False  # another control would have to open it first
        if control.tag == "input":
            return control not in self._silent
        blank = True
        skip: Element | None = None
        for event, inner in itertools.islice(iterwalk(control), _MOST_PARTS):
            around, text = inner, inner.text
            if event == "end":
                skip = None if inner is skip else skip
                around, text = (inner.getparent(), inner.tail) if inner is not control else (inner, None)
            elif skip is None and (
                not isinstance(inner.tag, str) or inner in self._hidden or inner in self._opened
            ):
                skip = inner
            elif skip is None and inner.tag in _PICTURES and inner not in self._silent:
                return True
            if text and text.strip():
                blank = False
                if skip is None and around not in self._silent:
                    return True
        return blank and control.tag != "summary" and control not in self._silent

    def _set_apart(self) -> None:
        """Hide the elements whose whole text is invisible, and set apart such text of the others."""
        for element, reason in reversed(self._silent.items()):
            if element.tag in _MEDIA:
                if reason is Reason.VISIBILITY:
                    self._hidden[element] = reason
            elif all(
                not isinstance(child.tag, str) or child.tag in _MUTE or child in self._hidden
                for child in element
            ):
                if element.tag != "br":
                    self._hidden[element] = reason
            else:
                for child in list(element):
                    if child.tail and child.tail.strip():
                        wrapper = _wrap_text(element, child.tail)
                        child.tail = None
                        child.addnext(wrapper)
                        self._hidden[wrapper] = reason
                if element.text and element.text.strip():
                    wrapper = _wrap_text(element, element.text)
                    element.text = None
                    element.insert(0, wrapper)
                    self._hidden[wrapper] = reason


def _reason(judgment: Judgment) -> Reason:
    """Return why nothing is visible in an element, or its own text is not."""
    return judgment.state.silence if judgment.hidden is Reason.NONE else judgment.hidden


def _wrap_text(element: Element, text: str) -> Element:
    wrapper = element.makeelement(UNSEEN)
    wrapper.text = text
    return wrapper


def _of_names(written: str) -> Declarations:
    if _READERS_ONLY.search(written):
        return _UNSEEN_BY_NAME
    utility = _UTILITIES.search(written)
    if utility is None or _SHOWN_AT_WIDTH.search(written):
        return ()
    if utility[0].strip() == "invisible":
        return declared("visibility", "hidden")
    return declared("display", "none")


def _declared_by_attributes(tag: str, attributes: Mapping[str, str]) -> Iterator[tuple[str, str, bool]]:
    if "hidden" in attributes:
        if attributes["hidden"].lower() == "until-found":
            yield from declared("content-visibility", "hidden")
        else:
            yield from declared("display", "none")
    if "popover" in attributes:
        yield from declared("display", "none")
    if "mathcolor" in attributes:
        yield from declared("color", attributes["mathcolor"])
    if size := attributes.get("mathsize", "").strip():
        yield from declared("font-size", f"{size}px" if size == "0" else size)
    if tag not in _DECORATED:
        return
    if tag == "dialog" and "open" not in attributes:
        yield from declared("display", "none")
    elif tag == "mark":
        yield from declared("background-color", "yellow")
        yield from declared("color", "black")
    elif tag == "button":
        yield from declared("background-color", "buttonface")
        yield from declared("color", "buttontext")
    for name, what in (("bgcolor", "background-color"), ("text", "color"), ("color", "color")):
        if (value := attributes.get(name)) and (name != "color" or tag in ("font", "basefont")):
            value = value.strip()
            yield from declared(what, value) or declared(what, f"#{value}")
    if tag in ("table", "td", "th", "body", "tr") and attributes.get("background"):
        yield from declared("background-image", "url(#)")


def _letters(element: Element) -> int:
    return sum(
        len(child.text.strip())
        if child.text and isinstance(child.tag, str) and child.tag not in ("script", "style")
        else 0
        for child in element.iter()
    )


_REFERENCES = (
    "aria-controls", "data-target", "data-bs-target", "popovertarget", "commandfor", "data-tab-target",
    "data-toggle-target", "data-controls",
)  # fmt: skip
_REFERRING = "|".join(
    (
        *(f"//@{name}" for name in _REFERENCES),
        "//a/@href[starts-with(., '#')]",
        "//@role[.='tab']",
        "//button/@id",
    )
)
_ROLES = frozenset(("button", "tab", "switch", "checkbox", "radio"))
_MOST_NEIGHBORS = 12
_MOST_PANELS = 24
_LONGEST_LABEL = 60
_MOST_STYLES = 500
_MOST = 8
_PICTURES = ("img", "svg", "i", "input", "picture")
_BEHAVIOR = frozenset((
    "aria-controls", "aria-expanded", "aria-haspopup", "commandfor", "onclick", "popovertarget", "role",
))  # fmt: skip
_BOUND = ("data-", "@click", "v-on:", "x-on:", "(click)", "hx-", "on:click", "ng-click", "wire:click")
_OPENING = re.compile(
    r"\b(?:more|read|show|see|view|expand|open|details?|full|all|continue|answers?|toggle|mehr|weiter|plus"
    r"|suite|m[aá]s|ver|altro|mais)\b|[?？¿]|もっと|続き|詳し|詳細|開く|表示|すべて|全て|全文|答え|回答|展开|展開|更多|查看"
    r"|더|펼치|보기",
    re.IGNORECASE,
)
_TARGET, _HOVER = ":target", ":hover"


class PageControls:
    """Finds the controls of elements by the references to these, or by their place beside them.

    A link to an id scrolls to it and opens nothing, and a button without behavior does nothing. They count if
    something says more: attributes, a style sheet with ``:target``, words such as "Read more", or others of
    their kind. Whether a control is hidden itself is not judged.
    """

    def __init__(self, root: Element) -> None:
        self._root = root
        self._by_key: dict[str, list[Element]] | None = None
        self._tabs: dict[str, Element] = {}
        self._tab_by_pane: dict[Element, Element] | None = None
        self._targets: bool | None = None
        self._hover: bool | None = None
        self._rows: dict[Element, dict[str, list[Element]]] = {}
        self._boxes: set[Element] | None = None
        self._box_of: dict[str, Element] = {}
        self._switching = False

    def of(self, element: Element) -> list[Element]:
        """Return controls that open an element; none if nothing does."""
        controls: list[Element] = []
        if key := element.get("id"):
            controls += self._controls_by_key().get(key, ())
        if labels := element.get("aria-labelledby"):
            self._controls_by_key()
            controls += [self._tabs[label] for label in labels.split()[:4] if label in self._tabs]
        if (tab := self._tab_of(element)) is not None:
            controls.append(tab)
        controls += self._mark_of_note(element)
        controls += self._control_beside(element) or self._tabs_of(element)
        return [control for control in controls if _can_be_used(control)][:_MOST]

    @cached_property
    def panes(self) -> tuple[TabPane, ...]:
        """The panes of tabs."""
        return tuple(tab_panes(self._root))

    def _tab_of(self, pane: Element) -> Element | None:
        if self._tab_by_pane is None:
            self._tab_by_pane = {each.pane: each.tab for each in self.panes}
        return self._tab_by_pane.get(pane)

    def _mark_of_note(self, element: Element) -> list[Element]:
        """Return the mark of a note in its text, if a style sheet shows the note on hover (LaTeXML)."""
        note = element.getparent()
        if note is None or "ltx_note_" not in (element.get("class") or ""):
            return []
        note = note.getparent() if "ltx_note_outer" in (note.get("class") or "") else note
        if note is None or "ltx_note" not in (note.get("class") or "").split() or not self._has_hover():
            return []
        return [mark for mark in note.iterchildren("sup") if mark.get("class") == "ltx_note_mark"][:1]

    def _has_hover(self) -> bool:
        """Return whether a style sheet of the page shows something on hover."""
        if self._hover is None:
            styles = itertools.islice(self._root.iter("style"), _MOST_STYLES)
            self._hover = any(_HOVER in (style.text or "") for style in styles)
        return self._hover

    def _control_beside(self, element: Element) -> list[Element]:
        """Return the control in the element right before or after one, or before its parent if it is the
        first in it.
        """
        before = _sibling(element, after=False)
        above = element.getparent()
        if before is None and above is not None and above.tag not in ("body", "html"):
            before = _sibling(above, after=False)
        for neighbor in (before, _sibling(element, after=True)):
            if neighbor is not None:
                for inner in itertools.islice(neighbor.iter("*"), _MOST_NEIGHBORS):
                    if not _is_control(inner) or not _can_be_used(inner):
                        continue
                    if inner.tag == "summary" and not _has_behavior(inner):
                        continue  # it opens its details, not what a style hides in them
                    if inner.tag in ("label", "input") and "onclick" not in inner.attrib:
                        if found := self._switch(inner):
                            return found
                    elif _opens_part(inner, neighbor):
                        return [inner]
        return []

    def _switch(self, control: Element) -> list[Element]:
        """Return the box that a label or an input is about and its label; none if it can switch nothing."""
        if control.tag == "input" and control.get("type") == "button":
            return [control]
        if self._boxes is None:
            boxes = self._root.xpath("//input[@type='checkbox' or @type='radio'][not(@disabled)]")
            self._boxes = set(boxes)
            self._box_of = {key: box for box in boxes if (key := box.get("id"))}
            self._switching = self._has_switches()
        box = control
        if control.tag == "label":
            within = next(control.iter("input"), None)
            box = self._box_of.get(control.get("for") or "", within)
        return [control, box] if self._switching and box is not None and box in self._boxes else []

    def _has_switches(self) -> bool:
        """Return whether something on the page can react to a box that is checked."""
        if next(self._root.iter("script"), None) is not None:
            return True
        if any("stylesheet" in (link.get("rel") or "").lower() for link in self._root.iter("link")):
            return True
        styles = itertools.islice(self._root.iter("style"), _MOST_STYLES)
        return any(":checked" in (style.text or "") for style in styles)

    def _tabs_of(self, element: Element) -> list[Element]:
        """Return the items of a row before a group of panels, if there is one for each panel."""
        parent = element.getparent()
        name = element.get("class")
        if parent is None or not name or parent.tag in ("body", "html"):
            return []
        rows = self._rows.get(parent)
        if rows is None:
            panels: dict[str, list[Element]] = {}
            for child in parent:
                if isinstance(child.tag, str):
                    panels.setdefault(_first_class(child), []).append(child)
            groups = [
                (name, group) for name, group in panels.items() if name and 2 <= len(group) <= _MOST_PANELS
            ]
            rows = self._rows[parent] = {name: _row_before(parent, group) for name, group in groups[:_MOST]}
        return rows.get(_first_class(element), [])

    def _controls_by_key(self) -> dict[str, list[Element]]:
        if self._by_key is None:
            self._by_key = {}
            for value in self._root.xpath(_REFERRING):
                element = value.getparent()
                if (key := element.get("id")) and (element.get("role") == "tab" or element.tag == "button"):
                    self._tabs.setdefault(key, element)
                for key in self._keys_of_control(element):
                    others = self._by_key.setdefault(key, [])
                    if len(others) < _MOST and _can_be_used(element):
                        others.append(element)
        return self._by_key

    def _keys_of_control(self, element: Element) -> Iterator[str]:
        for name in _REFERENCES:
            if value := element.get(name):
                yield from value.replace("#", "").split()[:_MOST]
        href = element.get("href") or ""
        if (
            element.tag == "a"
            and href.startswith("#")
            and len(href) > 1
            and (_has_behavior(element) or _is_one_of_several(element) or self._has_targets())
        ):
            yield href[1:]

    def _has_targets(self) -> bool:
        """Return whether a style sheet of the page shows what a link leads to."""
        if self._targets is None:
            styles = itertools.islice(self._root.iter("style"), _MOST_STYLES)
            self._targets = any(_TARGET in (style.text or "") for style in styles)
        return self._targets


def _opens_part(control: Element, neighbor: Element) -> bool:
    """Return whether a control beside a part opens it. ``neighbor`` is the element beside that has it."""
    if control.tag not in ("button", "a") or _has_behavior(control):
        return True
    if _OPENING.search("".join(itertools.islice(control.itertext(), 8))[: 2 * _LONGEST_LABEL]) is not None:
        return True
    alike = (neighbor.tag, neighbor.get("class"))
    for step in (_sibling_of_a_part(neighbor, after=True), _sibling_of_a_part(neighbor, after=False)):
        if step is not None and (step.tag, step.get("class")) == alike:
            return True
    return False


def _has_behavior(element: Element) -> bool:
    return any(name in _BEHAVIOR or name.startswith(_BOUND) for name in itertools.islice(element.keys(), 50))


def _sibling_of_a_part(element: Element, *, after: bool) -> Element | None:
    part = _sibling(element, after=after)
    return _sibling(part, after=after) if part is not None else None


def _is_one_of_several(link: Element) -> bool:
    """Return whether a link is an item of a row of links to ids, such as those of tabs."""
    item = link
    while item.getparent() is not None and len(item.getparent()) == 1:
        item = item.getparent()
    for after in (True, False):
        other = _sibling(item, after=after)
        if other is not None and other.tag == item.tag and other.tag != "p":
            inner = itertools.islice(other.iter("a"), 2)
            if any((at.get("href") or "").startswith("#") for at in inner):
                return True
    return False


def _row_before(parent: Element, panels: list[Element]) -> list[Element]:
    for place in (panels[0], parent):
        before = _sibling(place, after=False)
        if before is None:
            continue
        for row in itertools.islice(before.iter("*"), _MOST_NEIGHBORS):
            items: dict[str, list[Element]] = {}
            for item in itertools.islice(row, 2 * _MOST_PANELS):
                if isinstance(item.tag, str) and item.tag != "input":
                    items.setdefault(_first_class(item), []).append(item)
            for group in items.values():
                if len(group) == len(panels) and all(map(_is_label, group)):
                    return group
    return []


def _first_class(element: Element) -> str:
    return (element.get("class") or "").partition(" ")[0]


def _is_label(element: Element) -> bool:
    texts = list(itertools.islice(element.itertext(), 8))
    return 0 < len("".join(texts).strip()) <= _LONGEST_LABEL


def _sibling(element: Element, *, after: bool) -> Element | None:
    at = element.getnext() if after else element.getprevious()
    while at is not None and not isinstance(at.tag, str):
        at = at.getnext() if after else at.getprevious()
    return at


def _is_control(element: Element) -> bool:
    tag = element.tag
    if tag in ("button", "summary"):
        return True
    attributes = element.attrib
    if not attributes:
        return False
    if "aria-expanded" in attributes or attributes.get("role") in _ROLES or "onclick" in attributes:
        return True
    if tag == "a":
        href = attributes.get("href", "#")
        return href in ("#", "") or href.lower().startswith("javascript:") or "data-toggle" in attributes
    if tag == "label":
        return True
    return tag == "input" and attributes.get("type") in ("checkbox", "radio", "button")


def _can_be_used(element: Element) -> bool:
    """Return whether a control has something to click on."""
    attributes = element.attrib
    if "hidden" in attributes or "disabled" in attributes:
        return False
    if element.tag == "input" or attributes.get("aria-label") or attributes.get("title"):
        return True
    texts = itertools.islice(element.itertext(), 20)
    return any(text.strip() for text in texts) or next(element.iter(*_PICTURES), None) is not None
