"""What is wrong with the look of a page, by its boxes: text that is cut, boxes that overlap.

A test of a page calls :func:`checked_state` in each state: a result, a form with errors, an open dialog. What
is shown in part on purpose says so with ``data-clamped``, and the whole is one click away; a name that ends
with an ellipsis has the whole name as its title.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from playwright.sync_api import Page

from tests.harness.patience import wait_until
from tests.web.browser.axe import Axe

_SIDEWAYS = """() => {
  if (document.documentElement.scrollWidth <= innerWidth) return [];
  const beyond = one => one.getBoundingClientRect().right > innerWidth + 1;
  return [...document.querySelectorAll("body *")].filter(beyond)
    .slice(0, 5).map(one => one.outerHTML.slice(0, 160));
}"""
"""Returns the elements that make the page scroll sideways."""

_SMALL_TARGETS = """() => [...document.querySelectorAll("button, a.btn, input, select")]
  .filter(one => !one.matches("[type=hidden], .visually-hidden"))
  .filter(one => one.checkVisibility({visibilityProperty: true, opacityProperty: true}))
  .filter(one => { const box = (one.closest("label") || one).getBoundingClientRect();
    return box.width && (box.width < 24 || box.height < 24); })
  .slice(0, 5).map(one => one.outerHTML.slice(0, 160))"""
"""Returns controls that are too small to be hit."""

_CLIPPED = """() => {
  const seen = {visibilityProperty: true, opacityProperty: true, contentVisibilityAuto: true};
  const shown = one => one.checkVisibility(seen);
  const cuts = value => value === "hidden" || value === "clip";
  const found = [];
  for (const one of document.querySelectorAll("#app *, #notices *, dialog[open] *")) {
    if (one.closest("svg, canvas, .visually-hidden, [data-clamped]")) continue;
    if (one.clientWidth <= 1 || !shown(one)) continue;
    if (one.matches("input, textarea, select, progress, iframe, img")) continue;
    const style = getComputedStyle(one);
    if (style.clipPath !== "none") continue; // for screen readers
    const down = one.scrollHeight - one.clientHeight, along = one.scrollWidth - one.clientWidth;
    if (down <= 2 && along <= 2) continue;
    if (style.display.startsWith("inline") && !/inline-(block|flex|grid)/.test(style.display)) continue;
    if (!one.innerText?.trim()) continue;
    const own = [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    const low = down > 2 && cuts(style.overflowY) && down > parseFloat(style.fontSize) / 3;
    const out = own && style.overflowX === "visible" && style.whiteSpace !== "pre";
    const wide = along > 2 && (cuts(style.overflowX) || out);
    if (!low && !wide) continue;
    if (!low && style.textOverflow === "ellipsis" && one.closest("[title]")) continue;
    found.push(`${Math.max(0, down)} down, ${Math.max(0, along)} along: ${one.outerHTML.slice(0, 200)}`);
  }
  return found.slice(0, 8);
}"""
"""Returns the elements whose text is cut, or sticks out of them."""

_OVERLAPPING = """() => {
  const seen = {visibilityProperty: true, opacityProperty: true, contentVisibilityAuto: true};
  const shown = one => one.checkVisibility(seen);
  const layer = one => {
    for (let at = one; at && at !== document.body; at = at.parentElement) {
      if (at.matches("dialog[open]") || /fixed|sticky/.test(getComputedStyle(at).position)) return at;
    }
    return document.body;
  };
  const inside = (box, one) => {
    let { left, right, top, bottom } = box;
    for (let at = one; at && at !== document.body; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.overflowX === "visible" && style.overflowY === "visible") continue;
      const edge = at.getBoundingClientRect();
      left = Math.max(left, edge.left); right = Math.min(right, edge.right);
      top = Math.max(top, edge.top); bottom = Math.min(bottom, edge.bottom);
    }
    return { left, right, top, bottom };
  };
  const boxes = [];
  const add = (one, rect, control) => {
    // The box of a line is higher than its letters.
    const less = control ? 1 : rect.height / 4;
    const { left, right, top, bottom } = rect;
    const box = inside({ left: left + 1, right: right - 1, top: top + less, bottom: bottom - less }, one);
    if (box.right > box.left && box.bottom > box.top) boxes.push({ ...box, one, layer: layer(one) });
  };
  for (const one of document.querySelectorAll("#app *, dialog[open] *")) {
    if (one.closest("svg, canvas, .visually-hidden, option") || !shown(one)) continue;
    const control = one.matches("button, input:not([type=hidden]), select, textarea, a.btn");
    if (control) add(one, one.getBoundingClientRect(), true);
    for (const node of one.childNodes) {
      if (node.nodeType !== 3 || !node.data.trim()) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const rect of range.getClientRects()) if (rect.width > 2) add(one, rect, false);
    }
    if (boxes.length > 4000) break;
  }
  boxes.sort((a, b) => a.top - b.top);
  const found = new Set();
  for (let at = 0; at < boxes.length; at += 1) {
    const a = boxes[at];
    for (let next = at + 1; next < boxes.length && boxes[next].top < a.bottom - 1; next += 1) {
      const b = boxes[next];
      if (a.layer !== b.layer || a.one.contains(b.one) || b.one.contains(a.one)) continue;
      if (Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) <= 1.5) continue;
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) <= 2) continue;
      if (a.one.closest("label") && a.one.closest("label") === b.one.closest("label")) continue;
      found.add(`${a.one.outerHTML.slice(0, 120)} over ${b.one.outerHTML.slice(0, 120)}`);
    }
  }
  return [...found].slice(0, 5);
}"""
"""Returns pairs of texts and controls of which one lies over the other."""

_LOOKS = {
    "scrolls sideways": _SIDEWAYS,
    "small": _SMALL_TARGETS,
    "cut": _CLIPPED,
    "overlaps": _OVERLAPPING,
}


def look(page: Page) -> list[str]:
    """Return what is wrong with the look of a page as it is now."""
    # Charts and the like lay out what comes after the page.
    with contextlib.suppress(AssertionError):
        wait_until(lambda: not page.evaluate(_SIDEWAYS), "the page fits")
    return look_once(page)


def look_once(page: Page) -> list[str]:
    """Return what is wrong at this moment."""
    return [f"{what}: {one}" for what, script in _LOOKS.items() for one in page.evaluate(script)]


def checked_state(page: Page, accessibility: Axe | None = None, widths: Sequence[int] = ()) -> None:
    """Fail if something is wrong with a page in its state, at each width, or at the present one.

    With ``accessibility``, axe looks at it too, at the first of them.
    """
    before = page.viewport_size or {"width": 0, "height": 0}
    wrong = []
    for width in widths or (before["width"],):
        if width != before["width"] or widths:
            page.set_viewport_size({"width": width, "height": before["height"]})
        found = look(page)
        if accessibility is not None:
            found += accessibility.serious(page)
            accessibility = None
        wrong += [f"{page.url} at {width}: {one}" for one in found]
    if widths:
        page.set_viewport_size(before)
    assert wrong == [], "\n".join(wrong)
