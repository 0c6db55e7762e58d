"""Tools as a model sees them: a line to choose by, a page to call by, in as few tokens as possible.

Pure: takes tools and hits, returns text, JSON values or JSON bytes. A line reads ``server__tool(arg: type,
opt?: type) [read-only]: first sentence``; a search leaves out the types of optional arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from tabane.gateway.tools.page import page
from tabane.gateway.tools.schemas import BRIEF, BRIEFEST, Parameter, Root, parameters, type_of
from tabane.messages import say
from tabane.search.sentences import first_sentence, one_line
from tabane.text.cutting import shortened
from tabane.text.nearest_names import nearest_qualified
from tabane.wire.json import encode

if TYPE_CHECKING:
    from tabane.gateway.tools.tool import Tool
    from tabane.messages import Lang, Message

__all__ = ["describe", "light_definition", "search_text", "signature"]

_MOST_REQUIRED = 8
_MOST_OPTIONAL = 4
_SENTENCE = 160
_LIGHT_SENTENCE = 140
_MOST_NAMES = 12
_QUERY = 80
_MOST_FAILED, _FAILURE = 3, 400


def signature(tool: Tool, *, typed: bool = True) -> str:
    """Describe a tool in one line. Required arguments come first; after four optional ones comes ``…``.

    If ``typed`` is False, the types of optional arguments are left out, because nobody needs them to choose
    a tool.
    """
    sentence = shortened(first_sentence(tool.description) or tool.title, _SENTENCE)
    return f"{tool.alias}({_arguments(tool, typed)}){_marks(tool)}{': ' if sentence else ''}{sentence}"


def search_text(
    found: Sequence[tuple[Tool, float]],
    total: int,
    query: str,
    names: Iterable[str],
    waiting: Collection[str] = (),
    lang: Lang = "en",
    near: Sequence[str] = (),
    failed: Sequence[Message] = (),
) -> str:
    """Format what a search found: a head with the total, then one line for each tool with its score.

    If no tool fits, ``near`` names the nearest, otherwise those of ``names`` (all tools) with a similar
    name. ``waiting`` are servers that are starting; ``failed`` says why others have listed nothing.
    """
    if found:
        head = say("{shown} of {total} matching tools:", shown=len(found), total=total)
    elif near:
        head = _unfit(query, near)
    else:
        head = _nothing(query, nearest_qualified(query, names))
    lines = [head.render(lang), *(f"{score:.2f} {signature(tool, typed=False)}" for tool, score in found)]
    if waiting:
        servers = _listed(sorted(waiting))
        lines.append(say("Starting now, search again in a moment: {servers}", servers=servers).render(lang))
    lines += (shortened(one_line(why.render(lang)), _FAILURE) for why in failed[:_MOST_FAILED])
    return "\n".join(lines)


def describe(tool: Tool, detail: Literal["compact", "full"] = "compact") -> str:
    """All that is needed to call a tool right: as a page, or as the definition that the upstream gave."""
    if detail == "full":
        return tool.definition.decode("utf-8", "replace")
    return page(tool)


def light_definition(tool: Tool) -> bytes:
    """The definition of light mode: name, first sentence, and that arguments are an object."""
    return encode(
        {
            "name": tool.alias,
            "description": shortened(first_sentence(tool.description) or tool.title, _LIGHT_SENTENCE),
            "inputSchema": {"type": "object"},
        }
    )


def _marks(tool: Tool) -> str:
    """What a caller must know before calling: `` [read-only]``, `` [destructive]`` or nothing."""
    return " [read-only]" if tool.read_only else " [destructive]" if tool.destructive else ""


def _arguments(tool: Tool, typed: bool) -> str:
    root = Root(tool.schema)
    found = parameters(tool.schema, root)
    required = [parameter for parameter in found if parameter.required]
    optional = [parameter for parameter in found if not parameter.required]
    shown = [
        _argument(parameter, root, typed)
        for parameter in required[:_MOST_REQUIRED] + optional[:_MOST_OPTIONAL]
    ]
    if len(required) > _MOST_REQUIRED or len(optional) > _MOST_OPTIONAL:
        shown.append("…")
    return ", ".join(shown)


def _argument(parameter: Parameter, root: Root, typed: bool) -> str:
    # An optional choice is shown by its first value: that there is a choice is all one needs to choose.
    if parameter.required:
        return f"{parameter.name}: {type_of(parameter.schema, root, BRIEF)}"
    if not typed:
        return f"{parameter.name}?"
    return f"{parameter.name}?: {type_of(parameter.schema, root, BRIEFEST)}"


def _unfit(query: str, near: Sequence[str]) -> Message:
    return say(
        "No tool fits “{query}”. The nearest tools do something else: {names}",
        query=shortened(one_line(query), _QUERY),
        names=", ".join(near),
    )


def _nothing(query: str, near: Sequence[str]) -> Message:
    wanted = shortened(one_line(query), _QUERY)
    if near:
        return say(
            "No tool matches “{query}”. Names that are near: {names}", query=wanted, names=", ".join(near)
        )
    return say("No tool matches “{query}”. Try other words for what it should do.", query=wanted)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
