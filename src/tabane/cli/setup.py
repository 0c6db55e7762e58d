"""`tabane setup`: from other assistants' servers to a working Tabane in one command, and back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct, field

from tabane.cli.completion import completion_script
from tabane.cli.empty import tools_by_server
from tabane.cli.install import keep_environment, known_client, machine, tabane_command
from tabane.cli.options import agreed_option, client_names, dry_run_option, json_option, mode_option, option
from tabane.cli.output import FAILED, Command, Terminal, examples, lang, text
from tabane.cli.passphrase import check_passphrase
from tabane.cli.secrets import naming_of, place_name, store_of
from tabane.cli.servers_add import AddedServers, start_added, warn_of_findings
from tabane.cli.servers_file import ServersFile, files_changed
from tabane.cli.servers_import import InputAnswers, report_missing
from tabane.errors import BadArguments, TabaneError
from tabane.hub.local.endpoint import home_of
from tabane.messages import Message, say
from tabane.servers.assistants.consolidation import (
    AppliedPlan,
    AssistantPlan,
    SetupOptions,
    SetupPlan,
    apply,
    blocked_servers,
    plan_setup,
)
from tabane.servers.assistants.entry_check import check_entry
from tabane.servers.assistants.first_requests import request_after
from tabane.servers.assistants.importing import ImportedServer, is_off, with_inputs
from tabane.servers.assistants.restoration import (
    Backups,
    FileBackup,
    Restoration,
    missing_folders,
    state_of,
    undo,
)
from tabane.servers.assistants.table import client_named
from tabane.servers.configuration import written_definitions
from tabane.servers.editing import add_servers, check_addable
from tabane.servers.secret_store import SecretMoves, keeping, moves_of, with_values
from tabane.settings.files import home_folder, write_private

if TYPE_CHECKING:
    from tabane.servers.assistants.entry_check import EntryCheck

_BASH = tuple(f"{where}/share/bash-completion" for where in ("/usr", "/usr/local", "/opt/homebrew"))
"""Folders of the package bash-completion, which loads the completions of a user."""

COMPLETION = "shell-completion"
"""The name of its backup."""

_AT_ONCE = 6
"""Entries that are checked at the same time."""


@click.command(
    "setup",
    cls=Command,
    help=say(
        "Set up the assistants on this machine. Their servers move into Tabane, which runs each of them once "
        "for all assistants, and each assistant gets one entry: Tabane. What will happen is shown first. "
        "Every file is saved before it is changed, and --undo restores it. Without CLIENT, all assistants "
        "that are found are set up."
    ),
    epilog=examples(
        "tabane setup",
        "tabane setup --dry-run",
        "tabane setup claude-code cursor --yes",
        "tabane setup --undo",
    ),
)
@click.argument("clients", metavar="[CLIENT]…", nargs=-1, shell_complete=client_names)
@agreed_option
@dry_run_option
@mode_option()
@option(
    "--keep-servers",
    "keep",
    is_flag=True,
    help=say("Import the servers, and leave them in the assistants' files, too."),
)
@option(
    "--per-server",
    "by_server",
    is_flag=True,
    help=say(
        "Give assistants that describe tools by each server's own instructions, such as Codex, one entry for "
        "each server. All of them go through the one hub."
    ),
)
@option("--undo", "back", is_flag=True, help=say("Restore the files as they were before the first setup."))
@json_option
@click.pass_context
def setup(
    ctx: click.Context,
    clients: Sequence[str],
    agreed: bool,
    dry_run: bool,
    mode: str | None,
    keep: bool,
    by_server: bool,
    back: bool,
) -> None:
    terminal: Terminal = ctx.obj
    chosen = [known_client(name) for name in dict.fromkeys(clients)]
    if back:
        if keep or by_server or mode:
            raise BadArguments(
                say("--undo takes neither --mode nor --keep-servers nor --per-server."), "--undo"
            )
        _undo(terminal, [client.name for client in chosen], dry=dry_run)
        return
    place = ServersFile.found(terminal, None)
    with terminal.working(say("Looking for assistants")):
        planning = _Planning.of(place, chosen or None, SetupOptions(mode, keep=keep, by_server=by_server))
    planning.show(terminal)
    todo = planning.changes
    if todo and not dry_run and planning.moves.definitions:
        check_addable(place.path, planning.moves.definitions)
    refused = say("Nothing was changed. To set these up, add --yes.")
    if todo and not dry_run and not terminal.confirmed(say("Set this up?"), agreed, refused):
        terminal.say(say("Nothing was changed."))
        return
    if not todo or dry_run:
        _tell_unchanged(terminal, planning, dry=dry_run)
    else:
        done = _Setup(terminal, place, planning).run()
        done.tell(terminal)
        _offer_completion(ctx, terminal, Backups(home_of(os.environ)), agreed=agreed)
        done.tell_next(terminal)
        if done.failed:
            ctx.exit(FAILED)
    if planning.problems:
        ctx.exit(FAILED)


# -- planning ------------------------------------------------------------------------------------


class _Planning(Struct, frozen=True):
    """A plan, the definitions to import with secrets replaced by variables, and what the hub cannot start."""

    place: ServersFile
    plan: SetupPlan
    moves: SecretMoves

    @classmethod
    def of(cls, place: ServersFile, clients: Any, options: SetupOptions) -> _Planning:
        store, ours = store_of(place.settings), written_definitions(place.path)
        resolved = partial(with_values, values=store.values())
        plan = plan_setup(
            machine(), Path.cwd(), tabane_command(), ours, clients=clients, options=options, resolved=resolved
        )
        moves = moves_of(plan.servers.definitions, naming_of(place, plan.servers.definitions))
        asked = with_inputs(dict(moves.definitions), lambda id: "?")
        variables = place.variables().with_secrets(moves.values)
        return cls(place, plan.withheld(blocked_servers(place.path, {**ours, **asked}, variables)), moves)

    @property
    def changes(self) -> bool:
        return any(part.changes for part in self.plan.assistants) or bool(self.plan.servers.taken)

    @property
    def problems(self) -> list[AssistantPlan]:
        return [part for part in self.plan.assistants if part.problem is not None]

    def show(self, terminal: Terminal) -> None:
        """Print what will happen: assistants, servers, and what stays."""
        if terminal.json:
            return
        rows = [
            (
                part.client.title,
                _entry_word(part),
                ", ".join(dict.fromkeys(move.name for move in part.moves)),
                _short(part.file.path),
            )
            for part in self.plan.assistants
            if part.file is not None and part.problem is None
        ]
        if rows:
            terminal.say(say("Assistants on this machine:"))
            headers = [say("assistant"), say("Tabane's entry"), say("servers that move"), say("file")]
            terminal.table(headers, rows, whole=(0,))
        taken = self.plan.servers.taken
        if taken:
            terminal.say("")
            terminal.say(say("Tabane will run these servers, each once for all assistants:"))
            shown = [
                (
                    say("{name} (off)", name=each.name) if is_off(each.definition) else each.name,
                    each.titles,
                    self._command(each),
                )
                for each in taken
            ]
            terminal.table([say("name"), say("from"), say("command")], shown, whole=(0,))
        if self.moves.moves:
            kept = place_name(_secrets_place(self.place))
            names = ", ".join(self.moves.names)
            terminal.say(say("Keys and passwords move into {place}: {names}", place=kept, names=names))
        _show_rest(terminal, self.plan.assistants)

    def _command(self, each: ImportedServer) -> str:
        found = self.moves.definitions[each.name]
        words = [found.get("command"), *(found.get("args") or ()), found.get("url")]
        return " ".join(word for word in words if isinstance(word, str))


def _secrets_place(place: ServersFile) -> str:
    return "keyring" if place.settings.keyring else "secrets.env"


def _entry_word(part: AssistantPlan) -> Message:
    if part.status == "installed":
        return say("new ({mode})", mode=part.mode)
    if part.status == "updated":
        return say("update ({mode})", mode=part.mode)
    return say("there")


def _short(path: Path) -> str:
    home = machine().home
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _show_rest(terminal: Terminal, parts: Iterable[AssistantPlan]) -> None:
    """Print what stays and why, each reason once, and what a person has to do."""
    reasons: dict[Message, list[str]] = {}
    for part in parts:
        for stay in part.stays:
            reasons.setdefault(stay.why, []).append(f"{part.client.title}: {stay.name}")
        if part.problem is not None:
            reasons.setdefault(part.problem, []).append(part.client.title)
    if reasons:
        terminal.say("")
        terminal.say(say("Not changed:"))
    for why, names in reasons.items():
        terminal.say(say("  {names} ({why})", names=", ".join(names), why=why))
    for part in parts:
        if part.by_hand is not None:
            terminal.say("")
            instruction = say(
                "{title} has no file that Tabane can write. {instruction} Then paste the output of: tabane "
                "install {name} --print",
                title=part.client.title,
                instruction=part.by_hand,
                name=part.client.name,
            )
            terminal.say(instruction)


def _tell_unchanged(terminal: Terminal, planning: _Planning, *, dry: bool) -> None:
    parts = planning.plan.assistants
    if terminal.show_json(_result("dry_run" if dry else "unchanged", planning, ())):
        return
    terminal.say("")
    if not parts:
        terminal.say(
            say(
                "None of the assistants that Tabane knows was found on this machine. tabane install --list "
                "names them. For any other, add the output of this command to its configuration: tabane "
                "install --print"
            )
        )
    elif dry and planning.changes:
        terminal.say(say("Nothing was changed. To set this up, run: tabane setup"))
    elif all(part.status == "unchanged" for part in parts):
        terminal.say(say("Everything is set up. There is nothing to do."))


# -- doing ---------------------------------------------------------------------------------------


class _DoneAssistant(Struct):
    """What was done to one assistant: ``error`` is why its file could not be changed."""

    part: AssistantPlan
    applied: AppliedPlan | None = None
    error: TabaneError | None = None
    check: EntryCheck | None = None


class _Done(Struct):
    planning: _Planning
    assistants: list[_DoneAssistant]
    started: AddedServers
    secrets: list[str] = field(default_factory=list)
    answers: InputAnswers | None = None

    @property
    def failed(self) -> bool:
        broken = (each.check is not None and each.check.problem is not None for each in self.assistants)
        return any(broken) or any(each.error is not None for each in self.assistants)

    def tell(self, terminal: Terminal) -> None:
        """Print the result: each assistant in a line, then what is next."""
        taken = self.planning.plan.servers.definitions
        if terminal.show_json(_result("done", self.planning, self.assistants, self)):
            return
        terminal.say("")
        if taken:
            terminal.say(say("Imported: {names}", names=", ".join(taken)))
        if self.secrets:
            kept = place_name(_secrets_place(self.planning.place))
            terminal.say(say("Kept in {place}: {names}", place=kept, names=", ".join(self.secrets)))
        rows = [(each.part.client.title, _moved_word(each), _check_word(each)) for each in self.assistants]
        terminal.table([say("assistant"), say("servers"), say("a call through its entry")], rows, whole=(0,))
        for each in self.assistants:
            if each.error is not None:
                terminal.warn(each.error)
        self._tell_servers(terminal)

    def _tell_servers(self, terminal: Terminal) -> None:
        for server, rows in self.started.suspicious.items():
            warn_of_findings(terminal, server, rows)
        for server, why in self.started.failed.items():
            terminal.note(say("{server!n} does not start yet: {why}", server=server, why=why))
        if self.started.pending:
            names = ", ".join(self.started.pending)
            terminal.say(
                say(
                    "Tabane goes on preparing {names}: the first start of a server may download it. To see "
                    "how far it is: tabane servers list",
                    names=names,
                )
            )
        if self.answers is not None:
            report_missing(terminal, self.answers.missing)

    def tell_next(self, terminal: Terminal) -> None:
        """Print what to restart, what to say to an assistant first, and how to go back."""
        works = [each.part.client.title for each in self.assistants if each.error is None]
        if not works or terminal.json:
            return
        planning, started = self.planning, self.started
        moved = {move.server for part in planning.plan.assistants for move in part.moves}
        written = written_definitions(planning.place.path)
        request = request_after(written, moved, {*started.failed, *started.pending})
        request = request or request_after(written, moved, started.failed)
        terminal.say("")
        terminal.say(say("Restart {titles}.", titles=", ".join(works)))
        if request is not None:
            terminal.say(say("Then say there: “{request}”", request=request))
        terminal.say(say("To undo all of this: tabane setup --undo"))


class _Setup:
    """Imports the servers, writes the entries, and checks a call through each."""

    def __init__(self, terminal: Terminal, place: ServersFile, planning: _Planning) -> None:
        self._terminal, self._place, self._planning = terminal, place, planning

    def run(self) -> _Done:
        terminal, place, planning = self._terminal, self._place, self._planning
        check_passphrase(terminal, place.settings.home)
        keep_environment()
        terminal.hub()  # if it cannot start, nothing changes
        answers = InputAnswers(terminal, naming_of(place, planning.plan.servers.definitions), plain=False)
        names = self._import(answers)
        missing = say("Tabane has no value yet for what it asks for")
        withheld = {name: missing for each in answers.missing for name in each.servers}
        plan = planning.plan.withheld(withheld)
        backups = Backups(home_of(os.environ))
        done = []
        for part in plan.assistants:
            if part.file is None or part.problem is not None:
                continue
            try:
                done.append(_DoneAssistant(part, apply(part, backups)))
            except TabaneError as error:
                done.append(_DoneAssistant(part, error=error))
        started = AddedServers()
        if names:
            with terminal.working(say("Starting the servers")):
                started = start_added(terminal, place, names, follow=False)
        with terminal.working(say("Making a call through each entry")):
            self._check(done)
            self._look_again(started)
        secrets = [*planning.moves.names, *answers.values]
        return _Done(planning, done, started, secrets, answers)

    def _import(self, answers: InputAnswers) -> list[str]:
        """Add the servers to the servers file, and return those that can start."""
        taken, moves = self._planning.plan.servers.taken, self._planning.moves
        wanted = answers.answered(taken, moves.definitions)
        if not wanted:
            return []
        values = {**moves.values, **answers.values}
        backups, store = Backups(home_of(os.environ)), store_of(self._place.settings)
        with files_changed(self._terminal), backups.importing(), keeping(store, values):
            add_servers(self._place.path, wanted)
        return [name for name, each in wanted.items() if not is_off(each)]

    def _look_again(self, started: AddedServers) -> None:
        """Ask for the servers that were still starting: most of them are ready after the calls."""
        if not started.pending:
            return
        with suppress(TabaneError):
            tools = tools_by_server(self._terminal.hub())
            started.pending = [name for name in started.pending if tools.get(name) is None]

    def _check(self, done: Sequence[_DoneAssistant]) -> None:
        able = [each for each in done if each.error is None and each.part.entries]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = pool.map(lambda each: check_entry(each.part.own_entry, os.environ), able)
            for each, check in zip(able, found, strict=True):
                each.check = check


def _moved_word(each: _DoneAssistant) -> Message:
    if each.error is not None:
        return say("not changed")
    count = len(each.applied.moves) if each.applied else 0
    return say("{count} moved", count=count) if count else say("none to move")


def _check_word(each: _DoneAssistant) -> Message | str:
    check = each.check
    if check is None:
        return ""
    if check.problem is not None:
        return say("does not work: {why}", why=check.problem)
    seconds = f"{check.seconds:.1f}"
    return say("works: {count} {count:tool|tools} listed, {seconds} s", count=check.tools, seconds=seconds)


def _result(
    status: str, planning: _Planning, done: Sequence[_DoneAssistant], whole: _Done | None = None
) -> dict[str, Any]:
    """Return the result for ``--json``."""
    by_name = {each.part.client.name: each for each in done}
    started = whole.started if whole else AddedServers()
    missing = whole.answers.missing if whole and whole.answers else ()
    return {
        "status": status,
        "assistants": [_row(part, by_name.get(part.client.name)) for part in planning.plan.assistants],
        "servers": list(planning.plan.servers.definitions),
        "secrets": list(whole.secrets) if whole else list(planning.moves.names),
        "missing": [{"variable": each.variable, "servers": each.servers} for each in missing],
        "job": started.job,
        "pending": started.pending,
        "failed": started.failed,
        "suspicious": started.suspicious,
    }


def _row(part: AssistantPlan, done: _DoneAssistant | None) -> dict[str, Any]:
    part = done.part if done else part
    applied, check = (done.applied, done.check) if done else (None, None)
    problem = part.problem or (done.error.message if done and done.error else None)
    moves = applied.moves if applied else part.moves
    return {
        "client": part.client.name,
        "title": part.client.title,
        "path": str(part.file.path) if part.file else None,
        "mode": part.mode,
        "status": applied.status if applied else part.status,
        "entries": list(part.entries),
        "moved": [
            {"name": move.name, "server": move.server, "limits": move.limits, "project": move.project}
            for move in moves
        ],
        "stays": [{"name": stay.name, "why": stay.why.render(lang())} for stay in part.stays],
        "problem": problem.render(lang()) if problem else None,
        "by_hand": part.by_hand.render(lang()) if part.by_hand else None,
        "backup": str(applied.backup) if applied and applied.backup else None,
        "check": check.row(lang()) if check else None,
    }


# -- completion of a shell ----------------------------------------------------------------------


def _offer_completion(ctx: click.Context, terminal: Terminal, backups: Backups, *, agreed: bool) -> None:
    """Write the completion of this user's shell, if the user agrees. zsh is told the line to add.

    Nobody is asked twice: a file that exists is left alone.
    """
    shell = os.path.basename(os.environ.get("SHELL", ""))
    if shell == "zsh" and terminal.asks:
        terminal.say(say("Tab completes commands after: tabane completion zsh >> ~/.zshrc"))
    path = _completion_path(shell)
    if path is None or path.exists() or not (terminal.asks or agreed):
        return
    if not agreed and not terminal.agreed(say("Let Tab complete tabane's commands in {shell}?", shell=shell)):
        return
    target = Path(os.path.realpath(path))
    script = completion_script(ctx, shell) + "\n"
    backup = FileBackup(
        client=COMPLETION,
        path=str(target),
        form="json",
        shape="plain",
        after=script,
        states=(state_of(script),),
        folders=tuple(map(str, missing_folders(target.parent))),
    )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        backups.save(backup)
        write_private(target, script.encode(), 0o644)
    except OSError as error:  # everything else is set up
        terminal.note(say("{path} cannot be written: {reason}.", path=target, reason=error.strerror))
        return
    if not terminal.json:
        terminal.say(say("Tab completes commands in a new {shell}: {path}", shell=shell, path=target))


def _completion_path(shell: str) -> Path | None:
    """Return the file that a shell loads by itself, without an edit of its own; None if there is none."""
    home = Path(home_folder(os.environ))
    if shell == "fish":
        given = os.environ.get("XDG_CONFIG_HOME", "")
        folder = (Path(given) if os.path.isabs(given) else home / ".config") / "fish"
        return folder / "completions" / "tabane.fish" if folder.exists() else None
    if shell == "bash" and any(os.path.exists(place) for place in _BASH):
        given = os.environ.get("XDG_DATA_HOME", "")
        folder = Path(given) if os.path.isabs(given) else home / ".local" / "share"
        return folder / "bash-completion" / "completions" / "tabane"
    return None


# -- undoing -------------------------------------------------------------------------------------

_OUTCOMES = {
    "restored": say("as it was"),
    "merged": say("as it was, with your changes since"),
    "gone": say("left alone"),
    "failed": say("left alone"),
}


def _undo(terminal: Terminal, clients: Sequence[str], *, dry: bool) -> None:
    home = home_of(os.environ)
    if not dry:
        check_passphrase(terminal, Path(home))
    backups = Backups(home)
    found = [each for each in backups.all(clients) if not dry or each.client != COMPLETION]
    done = [undo(backups, each, dry=dry) for each in found] + backups.unreadable(clients)
    result = {"status": "dry_run" if dry else "undone" if done else "unchanged"}
    files = [
        {
            "client": each.client,
            "path": str(each.path),
            "status": each.outcome,
            "remarks": [remark.render(lang()) for remark in each.remarks],
            "backup": str(each.kept) if each.kept else None,
            "servers": list(each.servers),
        }
        for each in done
    ]
    if not terminal.show_json({**result, "files": files}):
        _tell_undone(terminal, done, dry=dry)
    if any(each.outcome == "failed" for each in done):
        click.get_current_context().exit(FAILED)


def _tell_undone(terminal: Terminal, done: Sequence[Restoration], *, dry: bool) -> None:
    if not done:
        terminal.say(say("There is no setup to undo."))
        return
    rows = [(_title(each.client), _OUTCOMES[each.outcome], _short(each.path)) for each in done]
    terminal.table([say("assistant"), say("its file"), say("path")], rows, whole=(0,))
    for each in done:
        for remark in each.remarks:
            terminal.say(
                say("{title}: {remark}.", title=_title(each.client), remark=text(remark).rstrip(".。"))
            )
        if each.kept is not None:
            terminal.say(say("  The backup is {path}.", path=_short(each.kept)))
    if dry:
        terminal.say(say("Nothing was changed. To undo the setup, run: tabane setup --undo"))
        return
    servers = dict.fromkeys(name for each in done for name in each.servers)
    if servers:
        terminal.say(
            say(
                "Tabane keeps its copies of {names}. To remove one: tabane servers remove {first!c}",
                names=", ".join(servers),
                first=next(iter(servers)),
            )
        )
    titles = [_title(each.client) for each in done if each.client != COMPLETION]
    if titles:
        terminal.say(say("Restart {titles}.", titles=", ".join(dict.fromkeys(titles))))


def _title(name: str) -> str:
    client = client_named(name)
    return client.title if client else text(say("Shell completion"))
