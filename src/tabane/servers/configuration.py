"""The servers file, mcp-servers.json: the format that assistants use, read into Servers.

Comments, trailing commas and a byte order mark are accepted. A file that is not JSON is refused with line
and column. Each server is read with all its faults: one that is invalid is disabled with a reason, and the
others work.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field, structs

from tabane.errors import ConfigurationError
from tabane.messages import Message, say
from tabane.servers.commented_json import JsonDocument, JsonMember, JsonSyntaxError, read_document
from tabane.servers.foreign_keys import (
    HARMLESS,
    in_json,
    narrowing_key,
    our_definition,
    split_command,
    words_of_line,
)
from tabane.servers.labels import NO_CHANGE
from tabane.servers.plain_secrets import plain_secrets, without_secrets
from tabane.servers.redaction import fingerprint, written_secrets
from tabane.servers.server import MAX_CONCURRENCY, TIMEOUT, Run, Server, Share, Transport, unusable
from tabane.servers.server_keys import (
    KEYS,
    TLS_FILES,
    InvalidKeyValue,
    OAuthOptions,
    SandboxProfile,
    is_plain,
    sandbox_of_editor,
    unknown_key,
)
from tabane.servers.tool_overrides import ToolOverride, override_fault, with_variables
from tabane.servers.variables import Expansion, ServerEnv, Variables, escaped, expand
from tabane.settings.files import read_trusted
from tabane.text.nearest_names import nearest

_MILLISECONDS = 1_000
_DOLLAR = re.compile(r"(?:Bearer )?\$([A-Z_][A-Z0-9_]+)")
_EXPANDED = (
    *("command", "args", "env", "cwd", "url", "headers", "ca", "cert", "key", "proxy", "oauth", "image"),
    "sandbox",
)


class DefinitionSource(Struct, frozen=True):
    """The source of definitions: the file's absolute path, and its text.

    ``project`` is the folder of the project that the file belongs to; empty for the servers file.
    """

    path: str
    document: JsonDocument
    project: str = ""

    @property
    def folder(self) -> str:
        """The folder that relative paths start from."""
        return self.project or os.path.dirname(self.path)


def read_server(
    member: JsonMember, place: DefinitionSource, variables: Variables
) -> tuple[Server, tuple[Message, ...]]:
    """Return the server that ``member`` of the servers file defines, and the warnings about it.

    Never raises: a fault disables only that server, with the line and what is allowed.
    """
    found = _DefinitionReader(member, place)
    found.read()
    server = found.described()
    problem = found.problem()
    if problem is None:
        server, problem = _with_variables(server, found, variables)
    if problem is not None:
        off = found.switched_off() is not None
        server = structs.replace(
            server, disabled=found.disabled(problem), switched_off=off, needs_folder=False
        )
    return server, tuple(found.warnings)


def problems_of(
    member: JsonMember, place: DefinitionSource, variables: Variables
) -> tuple[tuple[ServerProblem, ...], tuple[Message, ...]]:
    """Return all problems of a definition, also of a server that is switched off, and the warnings.

    Variables are looked up only if everything else is right.
    """
    found = _DefinitionReader(member, place)
    found.read()
    problems = found.problems()
    if not problems:
        _, unresolved = _with_variables(found.described(), found, variables)
        problems = [unresolved] if unresolved else []
    warnings = (warning.fields.get("what") for warning in found.warnings)
    return tuple(problems), tuple(what for what in warnings if isinstance(what, Message))


class ServerProblem(Struct, frozen=True):
    """Why a server may not be started, the line, and the key that has to be changed; empty if it is none.

    ``unset``: the definition is right, but a variable in it has no value.
    """

    line: int
    why: Message
    key: str = ""
    unset: bool = False


_RUNS_AT_EACH = say(
    '"run": "group" is for programs that all clients share. This server runs at each hub that needs it.'
)


class _DefinitionReader(Struct):
    """Reads the keys of one definition: checked values, their lines, faults."""

    member: JsonMember
    place: DefinitionSource
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    mistyped: list[ServerProblem] = field(default_factory=list)
    warnings: list[Message] = field(default_factory=list)

    def read(self) -> None:
        if not isinstance(self.member.value, dict):
            why = say("expected an object with command or url.")
            self.mistyped.append(ServerProblem(self.member.line, why))
            return
        self._read_keys(tuple(self.place.document.members(self.member.start)))
        self._settle_timeout()
        self._settle_tls()
        self._settle_sandbox()
        self._settle_run()
        if self.values.get("cache"):
            self.warn("cache", say("caching of results is not supported yet. This server works without it."))

    def _read_keys(self, members: tuple[JsonMember, ...]) -> None:
        ours = our_definition(((entry.key, entry.value) for entry in members), self.member.key)
        lines: dict[str, int] = {}
        for entry in members:
            if entry.key in lines:
                self._warn(entry.line, say('"{key}" appears twice; the last one is used.', key=entry.key))
            lines[entry.key] = entry.line
            self.lines.setdefault(entry.key, entry.line)
        for key in ours.left:
            if key in ours.narrowing:
                self.mistyped.append(ServerProblem(lines[key], narrowing_key(key)))
            elif key in HARMLESS:
                self._warn(lines[key], say('"{key}" has no effect here.', key=key))
            else:
                self._warn(lines[key], unknown_key(key))
        for key, value in ours.values.items():
            written = ours.sources[key]
            self.lines[key] = lines[written]
            try:
                self.values[key] = KEYS[key](value)
            except InvalidKeyValue as wrong:
                why = say('"{key}" must be {allowed}.', key=written + wrong.inside, allowed=wrong.allowed)
                if key == "args" and isinstance(value, str):
                    args = self.shown_args(words_of_line(value))
                    why = say('"args" must be a list of texts. Write "args": {args}', args=args)
                self.mistyped.append(ServerProblem(self.line(key), why, key))
        for tool in self.values.get("tools", ()):
            for key in tool.unknown:
                self._warn(self.line("tools"), unknown_key(key, f"tools.{tool.pattern}."))
        self.warn_of_overrides(self.values.get("overrides", ()))
        self._warn_of_dollars()

    def _warn_of_dollars(self) -> None:
        """Warn of values such as ``$TOKEN``, which other programs replace and we do not."""
        for key in ("env", "headers"):
            for name, text in self.values.get(key, {}).items():
                if found := _DOLLAR.fullmatch(text):
                    what = say(
                        '"{key}" is the text {text}, and no variable. For the variable, write ${{{name}}}.',
                        key=f"{key}.{name}",
                        text=f"${found[1]}",
                        name=found[1],
                    )
                    self.warn(key, what)

    def shown_args(self, args: Sequence[str]) -> str:
        """Return arguments as JSON, without secrets."""
        return in_json(without_secrets(self.member.key, {"args": list(args)})["args"])

    def command_line(self, server: Server, path: str | None) -> ServerProblem | None:
        """Return the problem of a "command" that also has arguments; None if it is a program."""
        words = split_command(server.command, self.place.folder, path)
        if not words or server.transport != "stdio" or server.image:
            return None
        why = say(
            'arguments belong into "args". Write "command": {command}, "args": {args}',
            command=json.dumps(words[0], ensure_ascii=False),
            args=self.shown_args([*words[1:], *server.args]),
        )
        return ServerProblem(self.line("command"), why, "command")

    def warn_of_overrides(
        self, overrides: Iterable[ToolOverride], before: Iterable[ToolOverride] = ()
    ) -> None:
        """Warn of the faults in overrides that they did not have ``before``."""
        known = {(each.tool, fault) for each in before for fault in each.faults}
        for each in overrides:
            for fault in each.faults:
                if (each.tool, fault) not in known:
                    self.warn("overrides", override_fault(each, fault))

    def _settle_timeout(self) -> None:
        given = self.values.get("timeout", 0)
        if given >= _MILLISECONDS:
            self.values["timeout"] = given / _MILLISECONDS
            what = say(
                "timeout is in seconds, so {given:g} is read as milliseconds. Write {seconds:g}.",
                given=given,
                seconds=given / _MILLISECONDS,
            )
            self.warn("timeout", what)

    def _settle_tls(self) -> None:
        """Read the files of the object "tls" like keys of their own."""
        given = self.values.get("tls")
        if given is None:
            return
        for name in TLS_FILES:
            if given.get(name):
                self.values[name] = given[name]
                self.lines.setdefault(name, self.line("tls"))
        if not given["verify"]:
            what = say(
                "its certificate is not verified, so anyone on the network path can read and change what "
                'is sent. Set "ca" to the PEM file of its authority instead.'
            )
            self.warn("tls", what)

    def _settle_sandbox(self) -> None:
        """Read VS Code's "sandboxEnabled", whose rules are the object "sandbox" of the file."""
        if not self.values.get("sandboxEnabled") or "sandbox" in self.lines:
            return
        self.lines["sandbox"] = self.line("sandboxEnabled")
        root = self.place.document.value
        try:
            given = root.get("sandbox") if isinstance(root, dict) else None
            self.values["sandbox"] = sandbox_of_editor(given)
        except InvalidKeyValue as wrong:
            why = say('"{key}" must be {allowed}.', key="sandbox" + wrong.inside, allowed=wrong.allowed)
            self.mistyped.append(ServerProblem(self.line("sandbox"), why, "sandboxEnabled"))

    def _settle_run(self) -> None:
        """Drop ``"run": "group"`` for a server that one hub cannot run for all."""
        if self.values.get("run") != "group":
            return
        shared = self.values.get("share", "hub") == "hub" and not self.place.project
        if self.transport != "stdio" or not shared:
            del self.values["run"]
            self.warn("run", _RUNS_AT_EACH)

    def warn(self, key: str, what: Message) -> None:
        self._warn(self.line(key), what)

    def _warn(self, line: int, what: Message) -> None:
        self.warnings.append(
            say(
                "{path}:{line}: server {server!n}: {what}",
                path=self.place.path,
                line=line,
                server=self.member.key,
                what=what,
            )
        )

    def line(self, key: str) -> int:
        return self.lines.get(key, self.member.line)

    def disabled(self, problem: ServerProblem) -> Message:
        return say(
            "The server {server!n} is disabled ({path}:{line}): {why}",
            server=self.member.key,
            path=self.place.path,
            line=problem.line,
            why=problem.why,
        )

    def problem(self) -> ServerProblem | None:
        """Return why it may not be started, as far as the definition shows; None if it may."""
        return self.switched_off() or next(iter(self.problems()), None)

    def problems(self) -> list[ServerProblem]:
        """Return everything in the definition that has to be changed."""
        found = [*self.mistyped]
        if (uncaged := self._without_process()) is not None:
            found.append(uncaged)
        if not found and (untransported := self._without_transport()):
            found.append(untransported)
        return found

    def switched_off(self) -> ServerProblem | None:
        """Return the key with which the user disabled it; None if it is enabled."""
        why = (
            say("it is disabled in this file of its project.")
            if self.place.project
            else say(
                "it is disabled in the servers file. Enable it with: tabane servers enable {name!c}",
                name=self.member.key,
            )
        )
        if self.values.get("enabled") is False:
            return ServerProblem(self.line("enabled"), why)
        return ServerProblem(self.line("disabled"), why) if self.values.get("disabled") else None

    def _without_process(self) -> ServerProblem | None:
        """Return the fault of a cage or container for a server that has no process here."""
        key = next((key for key in ("image", "sandbox") if self.values.get(key)), None)
        if key is None or self.transport == "stdio":
            return None
        why = say("{key} is for servers that Tabane starts, and this one is at a URL. Remove it.", key=key)
        return ServerProblem(self.line(key), why, key)

    def _without_transport(self) -> ServerProblem | None:
        command, url, kind = (self.values.get(key) for key in ("command", "url", "type"))
        if command and url and not kind:
            why = say('it has both command and url; set "type" to choose one.')
            return ServerProblem(self.line("url"), why, "url")
        if not (url if self.transport != "stdio" else command or self.values.get("image")):
            what = "command" if self.transport == "stdio" else "url"
            return ServerProblem(self.member.line, say("it has no {key}.", key=what), what)
        return None

    @property
    def transport(self) -> Transport:
        named = self.values.get("type")
        if named:
            return cast("Transport", named)
        return "http" if self.values.get("url") else "stdio"

    def described(self) -> Server:
        """Return the server as written, before variables are expanded."""
        values = self.values
        # An empty list of allowed tools allows none; a Server without one allows all.
        deny = values.get("deny", ()) if values.get("allow", True) else ("*",)
        return Server(
            name=self.member.key,
            transport=self.transport,
            command=values.get("command", ""),
            args=values.get("args", ()),
            env=values.get("env", {}),
            inherit=values.get("inherit", ()),
            cwd=values.get("cwd"),
            url=values.get("url", ""),
            headers=values.get("headers", {}),
            ca=values.get("ca"),
            cert=values.get("cert"),
            key=values.get("key"),
            verify=values.get("tls", {}).get("verify", True),
            proxy=values.get("proxy", ""),
            transport_given="type" in values,
            oauth=values.get("oauth"),
            sandbox=values.get("sandbox"),
            image=values.get("image", ""),
            cwd_given=bool(values.get("cwd")) or bool(self.place.project),
            description=values.get("description", ""),
            tags=values.get("tags", ()),
            category=values.get("category", ""),
            keywords=values.get("keywords", ()),
            examples=values.get("examples", ()),
            hints=values.get("tools", ()),
            labels=values.get("labels", NO_CHANGE),
            overrides=values.get("overrides", ()),
            pin=values.get("pin", ()),
            allow=values.get("allow", ()),
            deny=deny,
            confirm=values.get("confirm", ()),
            prefix=values.get("prefix"),
            share=cast("Share", values.get("share", "hub")),
            # All clients of all hubs share a server that one hub runs for all.
            share_given="share" in values or values.get("run") == "group",
            run=cast("Run", values.get("run", "hub")),
            changes=values.get("changes", ""),
            timeout=values.get("timeout", TIMEOUT),
            max_concurrency=values.get("maxConcurrency", MAX_CONCURRENCY),
            max_result_tokens=values.get("maxResultTokens"),
            credentials=values.get("credentials"),
            secrets=self._secrets(),
            fingerprint=fingerprint(self.transport, values),
        )

    def _secrets(self) -> tuple[str, ...]:
        """Return the values in plain text that are hidden: by their names, and by their forms."""
        plain = {key: list(value) if key == "args" else value for key, value in self.values.items()}
        plain.pop("oauth", None)
        by_form = (secret.value for secret in plain_secrets(self.member.key, plain))
        oauth = self.values.get("oauth")
        own = oauth.secrets if isinstance(oauth, OAuthOptions) else ()
        written = (secret for secret in own if "${" not in secret)
        return tuple(dict.fromkeys((*written_secrets(self.values), *by_form, *written)))


def _with_variables(
    server: Server, found: _DefinitionReader, variables: Variables
) -> tuple[Server, ServerProblem | None]:
    """Return the server with its variables expanded, or unchanged with the reason for failing."""
    env = ServerEnv(server.env)
    expanded = {
        key: [expand(text, variables, env) for text in _texts_of(found.values.get(key))]
        for key in _EXPANDED
        if key != "env"
    }
    # A value of its own means the variable outside: "KEY": "${KEY}".
    expanded["env"] = [expand(text, variables, env, (name,)) for name, text in server.env.items()]
    for key, parts in expanded.items():
        why = _unset_message(parts)
        if why is not None:
            unset = not any(part.faults for part in parts)
            return server, ServerProblem(found.line(key), why, key, unset)
    every = [part for parts in expanded.values() for part in parts]
    needs_folder = any(part.needs_folder for part in every)
    done = {
        key: [p.template() if needs_folder else p.text() for p in parts] for key, parts in expanded.items()
    }
    keep = escaped if needs_folder else str
    overrides, kept = with_variables(server.overrides, variables)
    found.warn_of_overrides(overrides, server.overrides)
    secrets = (*server.secrets, *(secret for part in every for secret in part.secrets), *kept)
    filled = structs.replace(
        server,
        command=_from_home("".join(done["command"]), keep(variables.home)),
        args=tuple(done["args"]),
        env=dict(zip(server.env, done["env"], strict=True)),
        cwd=_working_folder("".join(done["cwd"]), keep(found.place.folder), keep(variables.home)),
        url="".join(done["url"]),
        headers=dict(zip(server.headers, done["headers"], strict=True)),
        ca=_file("".join(done["ca"]), keep(found.place.folder), keep(variables.home)),
        cert=_file("".join(done["cert"]), keep(found.place.folder), keep(variables.home)),
        key=_file("".join(done["key"]), keep(found.place.folder), keep(variables.home)),
        proxy="".join(done["proxy"]),
        sandbox=_with_paths(server.sandbox, done["sandbox"], keep(found.place.folder), keep(variables.home)),
        image="".join(done["image"]),
        overrides=overrides,
        oauth=_with_texts(server.oauth, done["oauth"], found.place.folder, variables.home),
        secrets=tuple(dict.fromkeys(secrets)),
        needs_folder=needs_folder,
    )
    if line := found.command_line(server, variables.get("PATH")):
        return filled, line
    if server.transport != "stdio":
        fault = unusable(filled, done["headers"])
        if fault is not None:
            return filled, ServerProblem(found.line(fault.key), fault.why, fault.key)
    if not needs_folder or filled.share != "hub":
        return filled, None
    if "share" in found.values:
        what = say('because of ${workspaceFolder}, it runs once for each folder, as with share "roots".')
        found.warn("share", what)
    if filled.run == "group":
        found.warn("run", _RUNS_AT_EACH)
    return structs.replace(filled, share="roots", run="hub"), None


def _with_texts(
    oauth: OAuthOptions | bool | None, texts: list[str], folder: str, home: str
) -> OAuthOptions | bool | None:
    """Return the options of a login with expanded texts. A private key that is a path is made absolute."""
    if not isinstance(oauth, OAuthOptions):
        return oauth
    filled = dict(zip(oauth.texts(), texts, strict=True))
    if filled["privateKey"] and "-----BEGIN" not in filled["privateKey"]:
        filled["privateKey"] = _working_folder(filled["privateKey"], folder, home)
    return oauth.with_texts(filled)


def _with_paths(
    profile: SandboxProfile | None, texts: list[str], folder: str, home: str
) -> SandboxProfile | None:
    """Return a profile with expanded and absolute paths."""
    if profile is None:
        return None
    return profile.with_texts([_working_folder(text, folder, home) for text in texts])


def _texts_of(value: Any) -> list[str]:
    if isinstance(value, SandboxProfile):
        return value.texts()
    if isinstance(value, OAuthOptions):
        return list(value.texts().values())
    if isinstance(value, bool):
        return []
    if isinstance(value, str):
        return [value]
    return list(value.values() if isinstance(value, dict) else value or ())


def _unset_message(parts: list[Expansion]) -> Message | None:
    faults = [fault for part in parts for fault in part.faults]
    if faults:
        return faults[0]
    missing = dict.fromkeys(name for part in parts for name in part.missing)
    if not missing:
        return None
    return say(
        "not set: {names}. Run: tabane secrets set {first}. Or set it in the environment in which the hub is "
        "started.",
        names=", ".join(missing),
        first=next(iter(missing)),
    )


def _from_home(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _file(path: str, base: str, home: str) -> str | None:
    return _working_folder(path, base, home) if path else None


def _working_folder(cwd: str, base: str, home: str) -> str:
    # A path that begins with the client's folder is absolute once that is known.
    if cwd.startswith("${workspaceFolder}"):
        return cwd
    return os.path.normpath(os.path.join(base, _from_home(cwd, home)))


TABLES = ("mcpServers", "servers")
"""Keys of the objects with servers: ours and most programs', and VS Code's."""

_IGNORED = ("inputs", "$schema", "sandbox")

FileStamp = tuple[int, int, int] | None
"""Inode, size and time of change of a file; None if there is none."""


def stamp(path: Path, *, links: bool = False) -> FileStamp:
    """Return the stamp of a file. ``links``: of the file that a symbolic link leads to."""
    try:
        status = os.stat(path, follow_symlinks=links)
    except OSError:
        return None
    # ctime, since a change of permissions is a change too.
    return status.st_ino, status.st_size, status.st_ctime_ns


class ServersConfiguration(Struct, frozen=True):
    """The content of the servers file: servers in its order, also disabled ones, and warnings.

    ``projects`` are the trusted files of projects whose servers come after them, and the stamp that each file
    had before it was read.
    """

    path: Path
    servers: tuple[Server, ...] = ()
    warnings: tuple[Message, ...] = ()
    projects: tuple[tuple[Path, FileStamp], ...] = ()

    def get(self, name: str) -> Server | None:
        return next((server for server in self.servers if server.name == name), None)


def read_configuration(
    path: str | os.PathLike[str], variables: Variables, *, required: bool = False
) -> ServersConfiguration:
    """Read the servers file. ``required`` is True if the user named the file: then it must exist.

    Raises ConfigurationError if the file is missing though required, writable by others, or not valid JSON;
    for the last with path, line, column and what was expected there.
    """
    path = Path(os.path.abspath(path))
    try:
        document = open_document(path)
    except FileNotFoundError:
        if required:
            raise ConfigurationError(say("There is no servers file {path}.", path=path)) from None
        what = say(
            "There are no servers yet. Copy those of your assistants: tabane setup. Or add one: tabane "
            "servers add NAME -- COMMAND. They are kept in {path}.",
            path=path,
        )
        return ServersConfiguration(path, (), (what,))
    return _configured(path, document, variables)


def configuration_of(
    path: str | os.PathLike[str], definitions: Mapping[str, object], variables: Variables
) -> ServersConfiguration:
    """Return the content of a servers file at ``path`` with these definitions, without reading it.

    Line numbers in its messages have no meaning.
    """
    path = Path(os.path.abspath(path))
    return _configured(path, read_document(json.dumps({TABLES[0]: definitions})), variables)


def configuration_in(path: Path, folder: str, data: bytes, variables: Variables) -> ServersConfiguration:
    """Return the content of a file of the project in ``folder``. Raises ConfigurationError."""
    document = open_document(path, lambda path: data)
    return _configured(path, document, variables, folder)


def check_definition(
    path: str | os.PathLike[str], name: str, definition: object, variables: Variables
) -> tuple[tuple[ServerProblem, ...], tuple[Message, ...]]:
    """Return the problems and the warnings of a definition that is to be written to the file at ``path``."""
    document = read_document(json.dumps({TABLES[0]: {name: definition}}))
    place = DefinitionSource(os.path.abspath(path), document)
    (table,) = document.members()
    (member,) = document.members(table.start)
    return problems_of(member, place, variables)


def why_disabled(server: Server) -> Message | None:
    """Return why the server may not be started, without file and line; None if it may."""
    why = server.disabled.fields.get("why") if server.disabled else None
    return why if isinstance(why, Message) else server.disabled


def open_document(path: Path, read: Callable[[Path], bytes] = read_trusted) -> JsonDocument:
    """Return the servers file as a document. Raises FileNotFoundError, and ConfigurationError as above."""
    data = read(path)
    try:
        return read_document(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        begin = data.rfind(b"\n", 0, error.start) + 1
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[begin : error.start].decode("utf-8-sig", "replace")) + 1
        raise _syntax_error(path, line, column, say("expected UTF-8")) from None
    except JsonSyntaxError as broken:
        raise _syntax_error(path, broken.line, broken.column, broken.expected) from None


def written_definitions(path: Path) -> dict[str, Any]:
    """Return the servers of the file as written, by name. Of a repeated name, the last counts.

    Empty if the file does not exist. Raises ConfigurationError.
    """
    try:
        document = open_document(path)
    except FileNotFoundError:
        return {}
    tables = server_tables(path, document)
    return {entry.key: entry.value for table in tables for entry in document.members(table.start)}


def server_tables(path: Path, document: JsonDocument) -> tuple[JsonMember, ...]:
    """Return the file's objects that hold servers. Raises ConfigurationError if one is not an object."""
    if not isinstance(document.value, dict):
        raise _syntax_error(path, 1, 1, say('expected an object such as {"mcpServers": {}}'))
    tables = tuple(member for member in document.members() if member.key in TABLES)
    for member in tables:
        if not isinstance(member.value, dict):
            raise _syntax_error(path, member.line, 1, say('expected an object after "{key}"', key=member.key))
    return tables


def _configured(
    path: Path, document: JsonDocument, variables: Variables, project: str = ""
) -> ServersConfiguration:
    place = DefinitionSource(str(path), document, project)
    tables = server_tables(path, document)
    warnings = list(_strange_keys(path, document))
    servers: dict[str, Server] = {}
    lines: dict[str, int] = {}
    for member in (entry for table in tables for entry in document.members(table.start)):
        if not member.key or not is_plain(member.key):
            warnings.append(say("{path}:{line}: a server has no usable name.", path=path, line=member.line))
            continue
        if member.key in lines:
            warnings.append(
                say(
                    "{path}:{line}: the server {server!n} is defined here and in line {first}; "
                    "this one is used.",
                    path=path,
                    line=member.line,
                    server=member.key,
                    first=lines[member.key],
                )
            )
        lines[member.key] = member.line
        servers[member.key], found = read_server(member, place, variables)
        warnings += found
    return ServersConfiguration(path, tuple(servers.values()), tuple(warnings))


def _strange_keys(path: Path, document: JsonDocument) -> Iterator[Message]:
    members = document.members()
    for member in members:
        if member.key in TABLES or member.key in _IGNORED:
            continue
        near = nearest(member.key, TABLES, 1)
        yield say(
            '{path}:{line}: the key "{key}" is unknown and is ignored. Write servers under {near}.',
            path=path,
            line=member.line,
            key=member.key,
            near=near[0] if near else TABLES[0],
        )
    if not any(member.key in TABLES for member in members):
        yield say('{path} has no servers. Write them in an object under "mcpServers".', path=path)


def _syntax_error(path: Path, line: int, column: int, expected: Message) -> ConfigurationError:
    return ConfigurationError(
        say("{path}:{line}:{column}: {expected}.", path=path, line=line, column=column, expected=expected)
    )
