"""Declarative shadow roots: trees of their own, and the page as it is shown with them.

A ``<template shadowrootmode>`` holds the tree that is shown in place of the contents of its parent, the host.
These contents appear in the slots of the tree (HTML Standard, 4.12.4; DOM Standard, 4.2.2.3). Selectors match
in the tree that they are in, so trees are detached before and attached after they are matched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Element = Any
UNSEEN = "unseen-text"
"""Tag of elements around what is in the page and not on the screen."""
_MOST_TREES = 2_000
_MOST_LOOKED = 5_000
_MOST_ASSIGNED = 100_000
_DEEPEST = 2_000
_HOSTS = frozenset((
    "article", "aside", "blockquote", "body", "div", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header",
    "main", "nav", "p", "section", "span",
))  # fmt: skip
"""Elements that can have a shadow root, besides those with a hyphen in their name."""
_UNREAD = frozenset(("template", "noscript", "textarea", "title", "iframe", "noembed", "noframes"))
_BLOCKS = _HOSTS - {"span"} | {
    "address", "details", "dl", "fieldset", "figure", "form", "hr", "ol", "pre", "table", "ul",
}  # fmt: skip


@dataclass(slots=True, eq=False)
class ShadowTree:
    """The tree of a host, whose root is the template. ``outer`` is the tree that the host is in; None for the
    page.

    ``slots`` has the elements that are assigned to each slot.
    """

    host: Element
    root: Element
    outer: ShadowTree | None
    slots: dict[Element, list[Element]] = field(default_factory=dict)
    default: Element | None = None
    """The slot that shows the texts of the host and its elements without a slot."""


@dataclass(slots=True)
class ShadowTrees:
    """All shadow trees of a page; each comes after the one that its host is in. ``limited``: the page has too
    many, and the others are not shown.
    """

    trees: list[ShadowTree] = field(default_factory=list)
    limited: bool = False

    def assigned(self) -> Iterator[tuple[ShadowTree, Element, Element]]:
        """Yield each element that is shown in a slot, with the tree of the slot, and the slot. What is
        assigned to a slot that is assigned to another is in both.
        """
        within = {slot: nodes for tree in self.trees for slot, nodes in tree.slots.items()}
        left = _MOST_ASSIGNED
        for tree in self.trees:
            for slot, nodes in tree.slots.items():
                todo = list(nodes)
                while todo and left:
                    left -= 1
                    node = todo.pop()
                    yield tree, slot, node
                    todo += within.get(node, ())
                self.limited = self.limited or not left

    def attach(self, page: Element) -> None:
        """Put the trees and what their slots show into their hosts."""
        if not self.trees:
            return
        light = {tree.host: _take_contents(tree.host) for tree in self.trees}
        for tree in self.trees:
            host, root = tree.host, tree.root
            host.text = root.text
            for child in list(root):
                host.append(child)
            shown: dict[Element, list[Element | str]] = {slot: [] for slot in tree.slots}
            slot_of = {node: slot for slot, nodes in tree.slots.items() for node in nodes}
            unplaced: list[Element | str] = []
            for node in light[host]:
                slot = tree.default if isinstance(node, str) else slot_of.get(node)
                (unplaced if slot is None else shown[slot]).append(node)
            for slot, nodes in shown.items():
                if nodes:
                    _set_aside(slot, _take_contents(slot))
                    _append_nodes(slot, nodes)
            _set_aside(host, unplaced)
        for tree in self.trees:
            for slot in tree.slots:
                slot.tag = "div" if any(child.tag in _BLOCKS for child in slot) else "span"
        self._remove_what_is_deep(page)

    def _remove_what_is_deep(self, page: Element) -> None:
        """Remove what is deeper than the parser allows: trees within trees could be of any depth."""
        level = [page]
        for _ in range(_DEEPEST):
            level = [child for element in level for child in element]
        for element in level:
            self.limited = True
            element.getparent().remove(element)


def detach_shadow_trees(page: Element) -> ShadowTrees:
    """Return the shadow trees of a page, taken out of it."""
    found = ShadowTrees()
    by_root: dict[Element, ShadowTree] = {}
    hosts: set[Element] = set()
    looked = 0
    for template in page.iter("template"):
        host = template.getparent()
        if template.get("shadowrootmode") not in ("open", "closed") or host is None or host in hosts:
            continue
        looked += 1
        if host.tag not in _HOSTS and "-" not in host.tag:
            continue
        if len(found.trees) >= _MOST_TREES or looked > _MOST_LOOKED:
            found.limited = True
            break
        around = next((above for above in template.iterancestors() if above.tag in _UNREAD), None)
        if around is None or around in by_root:
            hosts.add(host)
            by_root[template] = ShadowTree(host, template, None if around is None else by_root[around])
            found.trees.append(by_root[template])
    for tree in found.trees:
        _detach(tree.root)
    for tree in found.trees:
        _assign_slots(tree)
    return found


def _detach(template: Element) -> None:
    """Take a template out of its host, and leave the text behind it."""
    host, before = template.getparent(), template.getprevious()
    if tail := template.tail:
        template.tail = None
        if before is None:
            host.text = (host.text or "") + tail
        else:
            before.tail = (before.tail or "") + tail
    host.remove(template)


def _assign_slots(tree: ShadowTree) -> None:
    names: dict[str, list[Element]] = {}
    for slot in tree.root.iter("slot"):
        if next((above for above in slot.iterancestors() if above.tag in _UNREAD), tree.root) is tree.root:
            nodes = tree.slots[slot] = []
            name = slot.get("name") or ""
            if names.setdefault(name, nodes) is nodes and not name:
                tree.default = slot
    for child in tree.host if names else ():
        if isinstance(child.tag, str) and (assigned := names.get(child.get("slot") or "")) is not None:
            assigned.append(child)


def _take_contents(element: Element) -> list[Element | str]:
    """Take all out of an element, and return it in order. Tails are texts of their own then."""
    nodes: list[Element | str] = [element.text] if element.text else []
    for child in list(element):
        nodes.append(child)
        if child.tail:
            nodes.append(child.tail)
            child.tail = None
        element.remove(child)
    element.text = None
    return nodes


def _set_aside(element: Element, nodes: Iterable[Element | str]) -> None:
    """Put what is not on the screen at the end of an element, in an element of its own, if it has text."""
    wrapper = element.makeelement(UNSEEN)
    _append_nodes(wrapper, nodes)
    if any(text.strip() for text in wrapper.itertext()):
        element.append(wrapper)


def _append_nodes(element: Element, nodes: Iterable[Element | str]) -> None:
    for node in nodes:
        if not isinstance(node, str):
            element.append(node)
        elif len(element):
            element[-1].tail = (element[-1].tail or "") + node
        else:
            element.text = (element.text or "") + node
