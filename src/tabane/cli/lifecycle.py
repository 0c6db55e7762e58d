"""Commands about a hub that runs: stop, restart, status, logs and open; and mcp, which reaches one."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

import click

from tabane.cli.hub_process import end_hub, reach_hub, running_report
from tabane.cli.options import URL_HELP, mode_option, option, profile_names, server_names, with_hub, with_json
from tabane.cli.output import (
    Command,
    TableState,
    Terminal,
    emit,
    examples,
    lang,
    local_second,
    text,
)
from tabane.cli.terminal_text import StyledText
from tabane.errors import HubError
from tabane.hub.local import lock
from tabane.messages import Message, filled, say
from tabane.settings import OPTIONS, load_settings
from tabane.settings.option import shown
from tabane.text.units import duration_text
from tabane.upstreams.processes.log_files import last_lines


@click.command(
    "stop",
    cls=Command,
    help=say("Stop the hub. Running calls are finished first, then all servers are stopped."),
    epilog=examples("tabane stop"),
)
@with_json
def stop(terminal: Terminal) -> None:
    with terminal.working(say("Stopping the hub and its servers")):
        stopped = end_hub(terminal.endpoint(), lang(), restart=False)
    message = say("The hub has stopped.") if stopped else say("No hub is running.")
    terminal.show({"status": "stopped", "was_running": stopped}, message)


@click.command(
    "restart",
    cls=Command,
    help=say("Restart the hub with the same flags. Assistants stay connected."),
    epilog=examples("tabane restart"),
)
@with_json
def restart(terminal: Terminal) -> None:
    from tabane.hub.process.check_up_operations import check_restart
    from tabane.hub.process.home_version import refuse_downgrade

    endpoint = terminal.endpoint()
    last = lock.read_holder(endpoint.lock)
    refuse_downgrade(endpoint.home)  # before the hub of the newer version is ended
    if report := running_report(endpoint, lang()):
        check_restart(last.flags if last else (), os.environ, report)
    with terminal.working(say("Stopping the hub and its servers")):
        end_hub(endpoint, lang(), restart=True)
    last = lock.read_holder(endpoint.lock)
    by_hand = last is None or last.started_by != lock.BRIDGE
    flags = last.flags if last else ()
    with terminal.working(say("Starting the hub")):
        _, client = reach_hub(endpoint, flags, lang(), started_by=lock.HAND if by_hand else lock.BRIDGE)
    with client:
        report = client.call("hub_status")
    tell_of_problems(terminal, report)
    terminal.show({"status": "running", "pid": report["pid"]}, started(False, report))


@click.command(
    "status",
    cls=Command,
    help=say("Show the running hub and its servers. The exit status is 1 if no hub is running."),
    epilog=examples("tabane status", "tabane status --settings", "tabane status --json"),
)
@option("--settings", "with_settings", is_flag=True, help=say("Show each setting and its source."))
@with_hub
def status(terminal: Terminal, with_settings: bool) -> None:
    client = terminal.hub(start=False) if terminal.url else terminal.running_hub()
    if client is None:
        report: dict[str, Any] = {"status": "stopped", "home": terminal.endpoint().home}
        if with_settings:
            from tabane.hub.process.administration import settings_report

            report["settings"] = settings_report(load_settings({}, os.environ), lang())
    else:
        report = client.call("hub_status", {"settings": with_settings})
    if not terminal.show_json(report):
        _show_status(terminal, report)
    if client is None:
        raise click.exceptions.Exit(1)


@click.command(
    "logs",
    cls=Command,
    help=say("Show the end of the hub's log, or of a server's standard error output."),
    epilog=examples("tabane logs", "tabane logs -f", "tabane logs --server time -n 200"),
)
@option("-f", "--follow", is_flag=True, help=say("Follow the log until Ctrl+C."))
@option(
    "-n",
    "--lines",
    default=50,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help=say("Number of lines."),
)
@option("--server", metavar="NAME", shell_complete=server_names, help=say("Show the log of this server."))
@with_hub
def logs(terminal: Terminal, follow: bool, lines: int, server: str | None) -> None:
    if server:
        show_server_log(terminal, server, lines, follow=follow)
        return

    path = terminal.endpoint().log
    if not os.path.exists(path):
        raise HubError(say("There is no log yet at {path}. Start the hub with: tabane start", path=path))
    shown, end = last_lines(path, lines)
    if not terminal.show_json({"log": path, "lines": shown}):
        for line in shown:
            emit(line)
    if follow:
        follow_lines(terminal, path, end)


@click.command(
    "mcp",
    cls=Command,
    help=say(
        "Connect an assistant (standard input and output) to the hub over MCP. If no hub "
        "is running, start one. Configure assistants to run this command."
    ),
    epilog=examples(
        "tabane mcp",
        "tabane mcp --mode light",
        "tabane mcp --profile work",
        "tabane mcp --server github",
        "tabane mcp --standalone --servers /etc/mcp.json",
    ),
)
@mode_option(envvar="TABANE_MODE")
@option(
    "--profile",
    envvar="TABANE_PROFILE",
    metavar="NAME",
    shell_complete=profile_names,
    help=say("Show only the tools of this profile. Profiles are defined in tabane.toml."),
)
@option(
    "--server",
    envvar="TABANE_SERVER",
    metavar="NAME",
    shell_complete=server_names,
    help=say(
        "Connect to this server alone: with its own names and instructions, and with every extension of MCP "
        "that it has."
    ),
)
@option(
    "--standalone",
    is_flag=True,
    help=say("Run the hub in this process; it ends when the client disconnects."),
)
@option("--servers", metavar="FILE", help=say("The servers file, which lists the MCP servers."))
@option("--config", metavar="FILE", help=say("The settings file."))
@option("--home", metavar="PATH", help=say("Home folder of the hub (TABANE_HOME)."))
@option("--url", "--websocket", envvar="TABANE_URL", metavar="URL", help=URL_HELP)
def mcp(**_: Any) -> None:
    # Reached through the command line's own parser; what it took is read again by the bridge's.
    from tabane.hub.bridge import mcp_command as bridge

    request = bridge.parse_arguments(sys.argv[sys.argv.index("mcp") + 1 :], os.environ)
    if request is None:
        raise click.UsageError(text(say("Write the options of tabane mcp after it, with their full names.")))
    raise click.exceptions.Exit(bridge.run(request, os.environ))


def tell_of_assistants() -> None:
    """Say what `tabane mcp` waits for, if a person types it: no assistant has a terminal."""
    told = say(
        "This command is for an assistant, which writes MCP here. To connect one: tabane setup. To use tools "
        "yourself: tabane tools. To end: Ctrl+D"
    )
    emit(text(told), err=True)


def started(running: bool, report: dict[str, Any]) -> Message:
    """Return the message that a hub runs, or ran already."""
    if running:
        return say("The hub is already running (process {pid}).", pid=report["pid"])
    return say(
        "The hub is running (process {pid}). Servers file: {file}",
        pid=report["pid"],
        file=report["servers_file"],
    )


def tell_of_problems(terminal: Terminal, report: dict[str, Any]) -> None:
    """Print a warning if the hub does not serve HTTP although it should, or its disk is full."""
    for problem in ("http_problem", "disk_problem"):
        if report.get(problem):
            terminal.note(say("Warning: {text}", text=report[problem]))


_LABELS = {
    "status": say("status"),
    "version": say("version"),
    "pid": say("process"),
    "home": say("home"),
    "servers_file": say("servers file"),
    "engine": say("database"),
    "group": say("hubs of the group"),
    "socket": say("socket"),
    "http": say("MCP over HTTP"),
    "http_token": say("token file for HTTP"),
    "http_problem": say("problem with HTTP"),
    "http_port_refused": say("port in use"),
    "http_exposed": say("refused, because they came without TLS"),
    "tls_problem": say("problem with the certificate"),
    "log": say("log"),
    "disk_problem": say("problem with the disk"),
    "stuck": say("stack traces of the last hub, which stopped responding"),
    "started_by": say("started by"),
    "flags": say("flags"),
    "uptime": say("uptime"),
    "memory_mb": say("memory"),
    "problem": say("problem"),
    "servers": say("servers"),
    "servers_disabled": say("servers off, or wrong in the file"),
    "servers_running": say("servers running"),
    "tools": say("tools"),
    "model": say("embedding model"),
    "model_problem": say("problem with it"),
    "keys": say("API keys"),
    "keys_problem": say("problem with the API keys"),
    "profiles": say("profiles"),
    "audit_problem": say("problem with the audit log"),
    "audit_lost": say("calls not recorded"),
    "sessions": say("assistants connected"),
    "jobs": say("jobs running"),
    "in_flight": say("calls in flight"),
    "documents": say("documents"),
    "documents_watched": say("folders watched for documents"),
    "projects_offered": say("projects not trusted"),
}

_SHOWN_ABOVE_ZERO = ("keys", "audit_lost")


def _show_status(terminal: Terminal, report: dict[str, Any]) -> None:
    report = dict(report)
    settings = report.pop("settings", None)
    report.pop("restartable", None)  # for programs
    report["status"] = TableState(report["status"])
    lines = {
        "engine": _database_lines(report["engine"]) if "engine" in report else (),
        "group": _group_lines(report["group"]) if "group" in report else (),
    }
    peer = say("{address}: {requests} {requests:request|requests}")
    exposed = report.get("http_exposed", ())
    report["http_exposed"] = "\n".join(text(filled(peer, each)) for each in exposed)
    if (seconds := report.get("uptime")) is not None:
        report["uptime"] = duration_text(seconds)
    if size := report.get("memory_mb"):
        report["memory_mb"] = f"{size:,.0f} MB"
    report["projects_offered"] = "\n".join(map(_offered, report.get("projects_offered", ())))
    order = {name: place for place, name in enumerate(_LABELS)}  # others last
    terminal.pairs(
        (_LABELS.get(name, name.replace("_", " ")) if number == 0 else "", line)
        for name, value in sorted(report.items(), key=lambda row: order.get(row[0], len(order)))
        if value not in (None, "", []) and (value or name not in _SHOWN_ABOVE_ZERO)
        for number, line in enumerate(lines.get(name, (value,)))
    )
    if settings:
        terminal.say("")
        terminal.table(
            [say("setting"), say("value"), say("source")],
            [
                (
                    s["name"],
                    _setting_value(s),
                    " ".join(filter(None, (s["source"], s["where"]))),
                )
                for s in settings
            ],
        )


def _setting_value(row: dict[str, Any]) -> str:
    """Return the value of a setting with its unit: 64 MiB, not 67108864 bytes."""
    value, unit = row.get("value"), row.get("unit")
    known = next((each for each in OPTIONS if each.name == row.get("name")), None)
    if known is not None and known.kind == "bytes":
        return shown(known, value)
    return " ".join(str(part) for part in (value, unit) if part is not None)


def _database_lines(engine: dict[str, Any]) -> Iterator[StyledText]:
    """Yield where the database is, its versions and indexes, or why it cannot be used; then the copies."""
    if engine["state"] == "ok":
        answers = say("{path} answers in {latency_ms:.1f} ms ({server}, pgvector {pgvector}, {size:,} MB)")
        yield StyledText(text(filled(answers, engine | {"size": engine["size"] >> 20})))
    else:
        yield StyledText(str(engine["error"]), "red")
    for each in engine.get("indexes", ()):  # approximate ones
        state = _INDEXES.get(each["state"], _INDEXES["missing"])
        yield StyledText(text(filled(state, each, {"count": each["vectors"]})))
    if "vector_index" in engine:
        yield from map(StyledText, _outside(engine["vector_index"]))
    for each in engine.get("replicas", ()):
        line, style = _REPLICAS.get(each["state"], _REPLICAS["failed"])
        facts = {"error": "?", "name": each["collection"], "time": local_second(each.get("as_of") or 0)}
        yield StyledText(text(filled(line, facts | each)), style)


_REPLICAS: dict[str, tuple[Message, str]] = {
    "current": (say("local copy of {name}: up to date"), ""),
    "behind": (say("local copy of {name}: {behind} {behind:change|changes} behind since {time}"), "yellow"),
    "copying": (
        say("local copy of {name}: is being made, the database answers meanwhile (row {row})"),
        "yellow",
    ),
    "away": (
        say("local copy of {name}: answers alone, as of {time}, because the database cannot be reached"),
        "yellow",
    ),
    "failed": (say("local copy of {name}: failed, the database answers: {error}"), "red"),
}


_MEMBERS = {"ready": say("ready"), "draining": say("draining"), "leaving": say("leaving")}


def _group_lines(group: dict[str, Any]) -> list[str | StyledText]:
    """Return the hubs of the group, one a line, and why it cannot be reached."""
    this, other = say("{address} ({version}, {state}), this hub"), say("{address} ({version}, {state})")
    rows = [each | {"state": _MEMBERS.get(each["state"], each["state"])} for each in group["hubs"]]
    problem = [StyledText(group["problem"], "red")] if group["problem"] else []
    return [*(text(filled(this if each["this"] else other, each)) for each in rows), *problem]


def _outside(found: dict[str, Any]) -> list[str]:
    """Return where the index outside of the database is, its state, and how far it is."""
    behind = any(each["changes"] > each["change"] or each["rows"] > each["row"] for each in found["followed"])
    progress = say("{domain}: row {row} of {rows}, change {change} of {changes}")
    if found["state"] == "away":
        state = say("{error}. Searches go on in PostgreSQL")
    elif found["state"] == "connecting":
        state = say("vector index {place}: not connected yet")
    elif behind:
        state = say("vector index {place} ({server}): catching up")
    else:
        state = say("vector index {place} ({server}): up to date")
    shown = filled(state, {"error": "?"}, found, {"place": found["path"]})
    return [text(shown), *(text(filled(progress, each)) for each in found["followed"])]


_INDEXES = {
    "ready": say("{count} {count:vector|vectors} of {domain} ({space}): approximate index in use"),
    "building": say(
        "{count} {count:vector|vectors} of {domain} ({space}): approximate index is being built, "
        "searches compare all vectors meanwhile"
    ),
    "missing": say(
        "{count} {count:vector|vectors} of {domain} ({space}): no approximate index yet, the next search or "
        "change starts its build"
    ),
}


def _offered(offer: dict[str, Any]) -> str:
    """Return one project whose servers are not trusted, and the command that helps."""
    if offer["problem"] and not offer["servers"]:
        return str(offer["problem"])
    return text(
        say(
            "{folder} ({count} {count:server|servers}). Look at them and trust them: "
            "tabane projects trust {quoted}",
            folder=offer["folder"],
            count=offer["servers"],
            quoted=shlex.quote(offer["folder"]),
        )
    )


_CHUNK = 1 << 16
_POLL = 0.2


def show_server_log(terminal: Terminal, name: str, lines: int, *, follow: bool) -> None:
    """Print the last lines that a server wrote to stderr, and with ``follow`` also new lines.

    With ``--json``, each new line is an object. Raises HubError and UnknownName.
    """
    from tabane.upstreams.processes.stderr import file_name  # loads asyncio

    path = os.path.join(terminal.endpoint().logs, "servers", file_name(name))
    answer = terminal.hub().call("server_logs", {"name": name, "lines": lines})
    found = {key: answer[key] for key in ("name", "lines")}
    if follow:
        # Read here as well, so that no line is lost between what was there and what is added.
        try:
            found["lines"], end = last_lines(path, lines)
        except FileNotFoundError:
            found["lines"], end = [], 0
    if not terminal.show_json(found):
        for line in found["lines"]:
            emit(line)
    if not found["lines"]:
        terminal.note(say("{name!n} has written nothing.", name=name))
    if follow:
        terminal.close()
        follow_lines(terminal, path, end)


def follow_lines(terminal: Terminal, path: str, end: int) -> None:
    """Print what is added to a log after the first ``end`` bytes, until Ctrl+C."""
    for line in follow_file(path, end):
        if terminal.json:
            terminal.print_json_line(json.dumps({"line": line}))
        else:
            emit(line)


def follow_file(path: str, end: int) -> Iterator[str]:
    """Yield lines that are added after the first ``end`` bytes, without end, also across log rotation."""
    file = _opened(path)
    file.seek(end)
    rest = b""
    try:
        while True:
            chunk = file.read(_CHUNK)
            if not chunk:
                time.sleep(_POLL)
                if _replaced(path, file.fileno()):
                    file.close()
                    file = _opened(path)
                continue
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)
    finally:
        file.close()


def _opened(path: str) -> BinaryIO:
    """Open the log. Waits until it exists: the first line creates it."""
    while True:
        try:
            return open(path, "rb")
        except FileNotFoundError:
            time.sleep(_POLL)


def _replaced(path: str, fd: int) -> bool:
    mine = os.fstat(fd)
    try:
        now = os.stat(path)
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino)
