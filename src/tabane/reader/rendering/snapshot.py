"""The document as a reader sees it, as HTML: shadow trees in their places, programs left out.

It is run in a world of its own beside the page's programs, which cannot have changed what it calls. Closed
shadow trees stay closed. Attributes of state that programs set (``open``, ``checked``) are as they are now.
"""

from __future__ import annotations

import json

_PROGRAM = r"""
(function (mostCharacters, mostNodes) {
  const VOID = new Set("area base br col embed hr img input link meta source track wbr".split(" "));
  const RAW = new Set(["style", "xmp", "plaintext"]);
  const LEFT = new Set(["noscript", "iframe", "object", "frame", "frameset"]);
  const text = data => data.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const value = data => data.replace(/&/g, "&amp;").replace(/"/g, "&quot;").replace(/</g, "&lt;");
  const written = ["<!DOCTYPE html>"];
  let characters = 0, nodes = 0;
  const write = piece => {
    characters += piece.length;
    if (characters > mostCharacters) throw new RangeError("large");
    written.push(piece);
  };
  const children = element => {
    if (element.shadowRoot) return element.shadowRoot.childNodes;
    if (element.localName === "slot" && element.getRootNode() instanceof ShadowRoot) {
      const assigned = element.assignedNodes();
      if (assigned.length) return assigned;
    }
    return element.childNodes;
  };
  const open = element => {
    const name = element.localName;
    let tag = "<" + name;
    for (const {name: key, value: said} of element.attributes) tag += ` ${key}="${value(said)}"`;
    write(tag + ">");
    if (VOID.has(name)) return false;
    if (RAW.has(name)) { write(element.textContent); return true; }
    return true;
  };
  const skipped = element => {
    const name = element.localName;
    if (name === "template" || LEFT.has(name)) return true;
    const type = (element.getAttribute("type") || "").trim().toLowerCase();
    return name === "script" && type !== "application/ld+json";
  };
  const rest = [document.documentElement];
  while (rest.length) {
    const node = rest.pop();
    if (typeof node === "string") { write(node); continue; }
    if (++nodes > mostNodes) throw new RangeError("large");
    if (node.nodeType === 3) { write(text(node.data)); continue; }
    if (node.nodeType !== 1 || skipped(node)) continue;
    if (node.localName === "script") {
      const said = node.textContent;
      if (!/<\/script/i.test(said)) write(`<script type="application/ld+json">${said}</script>`);
      continue;
    }
    if (!open(node)) continue;
    rest.push(`</${node.localName}>`);
    if (RAW.has(node.localName)) continue;
    const inner = children(node);
    if (nodes + inner.length > mostNodes) throw new RangeError("large");
    for (let at = inner.length - 1; at >= 0; at--) rest.push(inner[at]);
  }
  return {url: document.location.href, html: written.join("").toWellFormed()};
})"""


def program(characters: int, nodes: int) -> str:
    """The expression that makes the HTML and tells the address; a RangeError where it is too large."""
    return f"{_PROGRAM}({json.dumps(characters)}, {json.dumps(nodes)})"
