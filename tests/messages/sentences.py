"""The sentences that the source says, and the Japanese catalog of them.

`python -m tests.messages.sentences` brings the catalog up to date: new sentences are added, to be
translated, those that nobody says any more are dropped, and the rest is compiled.
"""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from jinja2 import Environment, nodes

SRC = Path(__file__).parents[2] / "src" / "tabane"
PO = SRC / "messages" / "locales" / "ja" / "LC_MESSAGES" / "tabane.po"
MO = PO.with_suffix(".mo")


@dataclass(frozen=True)
class Saying:
    """One ``say("…", field=…)`` in the source; None for what is not written out there."""

    where: str
    template: str | None
    fields: frozenset[str] | None


def parsed_source() -> dict[Path, ast.Module]:
    """Every module of the source."""
    return {path: ast.parse(path.read_text(), str(path)) for path in sorted(SRC.rglob("*.py"))}


def sayings(source: Mapping[Path, ast.Module]) -> Iterator[Saying]:
    """Every call of ``say`` in the source, and in the templates of the web page."""
    yield from _of_templates()
    for path, tree in source.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "say":
                yield _saying(node, f"{path.relative_to(SRC)}:{node.lineno}")


def _of_templates() -> Iterator[Saying]:
    """Every ``say("…", field=…)`` in a template. ``say`` of a variable is not one."""
    environment = Environment()
    for path in sorted((SRC / "web" / "templates").rglob("*.html")):
        for call in environment.parse(path.read_text(encoding="utf-8")).find_all(nodes.Call):
            first = call.args[0] if call.args else None
            if (
                isinstance(call.node, nodes.Name)
                and call.node.name == "say"
                and isinstance(first, nodes.Const)
            ):
                names = frozenset(keyword.key for keyword in call.kwargs)
                yield Saying(f"{path.relative_to(SRC)}:{call.lineno}", first.value, names)


def read_catalogue() -> Catalog:
    with PO.open("rb") as file:
        return read_po(file, locale="ja")


def update() -> list[str]:
    """Bring the catalog in step with the source. Returns the sentences left to translate."""
    catalog = read_catalogue()
    said = {saying.template for saying in sayings(parsed_source()) if saying.template}
    for entry in [entry for entry in catalog if entry.id and entry.id not in said]:
        catalog.delete(entry.id)
    catalog.obsolete.clear()
    for template in said:
        if catalog.get(template) is None:
            catalog.add(template)
    _write(catalog)
    return sorted(template for template in said if not translation(catalog, template))


def translation(catalog: Catalog, template: str) -> str:
    """The Japanese of a sentence; empty where there is none."""
    entry = catalog.get(template)
    return str(entry.string or "") if entry is not None else ""


def _write(catalog: Catalog) -> None:
    text = io.BytesIO()
    write_po(text, catalog, width=110, sort_output=True, no_location=True, omit_header=True)
    head = PO.read_text().split("\n\n", 1)[0]
    PO.write_text(f"{head}\n\n{text.getvalue().decode().strip()}\n")
    with MO.open("wb") as file:
        write_mo(file, read_catalogue())


def _saying(node: ast.Call, where: str) -> Saying:
    first = node.args[0] if len(node.args) == 1 else None
    template = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
    names = [keyword.arg for keyword in node.keywords]
    return Saying(where, template, None if None in names else frozenset(name for name in names if name))


if __name__ == "__main__":
    for left in update():
        print("to translate:", left)
