r"""Variables of the servers file: where ``${NAME}`` is looked up, and how it is put into a text.

    ${NAME}             the variable; a server whose variable is nowhere is disabled
    ${NAME:-default}    the default if it is not set, or empty
    ${env:NAME}         the same as ${NAME}, as VS Code writes it
    ${workspaceFolder}  the folder that a client works in; also ${workspaceFolderBasename}
    ${userHome}         the user's home folder
    ${pathSeparator}    the character between the folders of a path; also ${/}
    $${                 the two characters ${ as they stand

Anything else after ``${`` is a mistake that is named, never passed on silently. ``$NAME`` without
braces is plain text.

Values come from the server's own "env", then from TABANE_HOME/secrets.env, the system's keyring if the
setting is on, and the environment. A value of "env" may refer to others of them. One that refers to itself
means the variable outside: ``"KEY": "${KEY}"``.

secrets.env has lines ``NAME=value``, with comments after ``#``, an optional ``export`` before the name, and
values bare, in single quotes (verbatim) or in double quotes (with ``\n``, ``\t``, ``\r``, ``\"``, ``\\`` and
``\$``). A quoted value may span several lines. Nothing is expanded. Changes to its text keep everything else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from msgspec import Struct

from tabane.errors import ConfigurationError
from tabane.messages import Message, say
from tabane.settings import Settings
from tabane.settings.files import home_folder, read_private

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names of variables."""

_ENTRY = re.compile(
    r"""[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*
    (?: '(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<bare>(?!['"])(?:(?![ \t]\#)[^\n])*?) )
    [ \t]*(?:(?:(?<=[ \t='"])\#)[^\n]*)?(?:\n|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_NOTHING = re.compile(r"[ \t]*(?:\#[^\n]*)?(?:\n|\Z)")
_BARE = re.compile(r"[A-Za-z0-9_./:@%+,=~-]+")
_ESCAPED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}


def parse_secrets(text: str, path: str) -> dict[str, str]:
    """Return the entries of a secrets file. If a name occurs twice, the last counts.

    Raises ConfigurationError with the line of the first that cannot be read, and without its content.
    """
    return {entry["name"]: _entry_value(entry) for entry in _entries(_plain(text), path)}


def with_secret(text: str, name: str, value: str, path: str) -> str:
    """Return the text of a secrets file with the entry of that name set, and each other line as it was.

    The entry stays at its place; earlier entries of the same name are removed. Raises as
    :func:`parse_secrets`.
    """
    return _edited(text, name, f"{name}={quoted(value)}\n", path)


def without_secret(text: str, name: str, path: str) -> str:
    """Return the text of a secrets file without the entries of that name. Raises as :func:`parse_secrets`."""
    return _edited(text, name, None, path)


def quoted(value: str) -> str:
    """Return a value as it is written: bare if that is possible, else in quotes, on one line."""
    if _BARE.fullmatch(value):
        return value
    if "'" not in value and not any(break_ in value for break_ in "\n\r\t"):
        return f"'{value}'"
    return '"' + "".join(_ESCAPED.get(character, character) for character in value) + '"'


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").removeprefix("\ufeff")


def _edited(text: str, name: str, line: str | None, path: str) -> str:
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    breaks = "\r\n" if "\r\n" in text else "\n"
    plain = _plain(text)
    found = [entry for entry in _entries(plain, path) if entry["name"] == name]
    for place, entry in reversed(list(enumerate(found))):
        last = place == len(found) - 1
        plain = plain[: entry.start()] + (line if last and line else "") + plain[entry.end() :]
    if line and not found:
        plain += ("" if not plain or plain.endswith("\n") else "\n") + line
    return mark + plain.replace("\n", breaks)


def _entries(text: str, path: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(text):
        if nothing := _NOTHING.match(text, position):
            position = nothing.end()
            continue
        entry = _ENTRY.match(text, position)
        if entry is None:
            raise ConfigurationError(
                say(
                    "{path}:{line}: expected NAME=value. Put a value with # or line breaks in quotes.",
                    path=path,
                    line=text.count("\n", 0, position) + 1,
                )
            )
        yield entry
        position = entry.end()


def _entry_value(entry: re.Match[str]) -> str:
    if entry["single"] is not None:
        return entry["single"]
    if entry["double"] is not None:
        return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), entry["double"], flags=re.DOTALL)
    return entry["bare"].rstrip()


def decoded_secrets(path: str, data: bytes) -> str:
    """Return the bytes of a secrets file as text. Raises ConfigurationError if they are not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(say("{path} is not UTF-8. Save it as UTF-8.", path=path)) from None


PLAIN = frozenset(
    (
        *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "PWD", "LANG", "TZ", "TMPDIR", "HOSTNAME"),
        *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
    )
)
"""Variables whose values are not secret: hiding them would make every path in a log unreadable."""

_PLAIN_VALUES = frozenset(("true", "false", "none", "null", "localhost", "production", "development"))
_PATTERN = re.compile(
    r"\$\$\{|\$\{([^{}]*)\}|\$\{\{[^{}]{0,200}\}\}|\$\{[A-Za-z0-9_]*"
    r"|(?<!\$)\{(?:env|file):[A-Za-z0-9_~.][A-Za-z0-9_~./\\ -]{0,200}\}"
)
_FOREIGN = re.compile(
    r"\{env:(?P<env>[A-Za-z_][A-Za-z0-9_]*)\}|\{(?:env|file):.*\}"
    r"|\$\{\{\s*(?:secrets|inputs|env)\.(?P<secret>[A-Za-z_][A-Za-z0-9_]*)\s*\}\}"
)
"""Placeholders of opencode and Continue, which would be passed on as they are."""

_REFERENCE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_FOLDERS = ("workspaceFolder", "workspaceFolderBasename")
_SEPARATORS = ("pathSeparator", "/")

DEEPEST = 16
"""Values of "env" that refer to the next one in a row."""

LONGEST = 1 << 17
"""Characters of a text with its variables put in: what Linux passes to a process as one argument."""


class Variables:
    """Looks variables up: the secrets file, then the keyring, then the hub's environment.

    ``secrets`` is the content of TABANE_HOME/secrets.env. ``environ`` is the hub's own environment, never
    that of an assistant's connection. ``keyring`` is called with a name and returns None if it has no value.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        secrets: Mapping[str, str] | None = None,
        keyring: Callable[[str], str | None] | None = None,
    ) -> None:
        self._environ = environ
        self._secrets = secrets or {}
        self._keyring = keyring

    def get(self, name: str) -> str | None:
        """Return the variable's value; None if it is not set anywhere."""
        if name in self._secrets:
            return self._secrets[name]
        kept = self._keyring(name) if self._keyring else None
        return kept if kept is not None else self._environ.get(name)

    def is_secret(self, name: str, value: str) -> bool:
        """Return whether the value of that variable is to be hidden in logs."""
        if name in self._secrets:
            return True
        return name not in PLAIN and value.lower() not in _PLAIN_VALUES

    def with_secrets(self, secrets: Mapping[str, str]) -> Variables:
        """Return these variables with further secrets, which come first."""
        return Variables(self._environ, {**self._secrets, **secrets}, self._keyring)

    @property
    def home(self) -> str:
        """The home folder of the user."""
        return home_folder(self._environ)


class FolderPlaceholder(Struct, frozen=True):
    """A placeholder in a text that is filled when the client's folder is known."""

    name: str


Part = str | FolderPlaceholder


class Expansion(Struct, frozen=True):
    """A text after expansion of its variables.

    ``missing`` are the names of variables that are not set, ``faults`` describe invalid variables. If there
    are any of these, the text must not be used.
    """

    parts: tuple[Part, ...]
    secrets: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    faults: tuple[Message, ...] = ()

    @property
    def needs_folder(self) -> bool:
        """Whether the text contains the folder of a client, which is known when it connects."""
        return any(isinstance(part, FolderPlaceholder) for part in self.parts)

    def text(self) -> str:
        """Return the finished text. Use it only if nothing of the server needs a folder."""
        return "".join(part for part in self.parts if isinstance(part, str))

    def template(self) -> str:
        """A text that :func:`with_folder` finishes: everything but the folder is put in and escaped."""
        return "".join(
            f"${{{part.name}}}" if isinstance(part, FolderPlaceholder) else escaped(part)
            for part in self.parts
        )


class ServerEnv:
    """The values of a server's "env" as written, which its other texts and each other may refer to."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values
        self.known: dict[str, Expansion] = {}
        """The values with their variables put in, each done once."""


def expand(
    text: str, variables: Variables, env: ServerEnv | None = None, inside: tuple[str, ...] = ()
) -> Expansion:
    """Put the variables into ``text``. Never raises: what is missing or wrong is said in the result.

    ``inside`` are the names of the values of ``env`` that ``text`` is part of, the innermost last.
    """
    reading = _Expander(variables, env or ServerEnv({}), inside)
    position = 0
    for found in _PATTERN.finditer(text):
        reading.put(text[position : found.start()])
        reading.take(found)
        position = found.end()
        if reading.size > LONGEST:
            why = say(
                "its variables make a text of more than {most} {most:character|characters}.", most=LONGEST
            )
            return Expansion((), faults=(why,))
    reading.put(text[position:])
    return Expansion(
        tuple(part for part in reading.parts if part != ""),
        tuple(reading.secrets),
        tuple(reading.missing),
        tuple(reading.faults),
    )


def names_in(value: Any) -> Iterator[str]:
    """Yield the names of the variables in a text, or in the texts of an object or list."""
    if isinstance(value, str):
        for found in _PATTERN.finditer(value):
            if reference := _REFERENCE.fullmatch(found.group(1) or ""):
                yield reference[1]
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from names_in(part)


def names_needed(definition: Any) -> Iterator[str]:
    """Yield the names of the variables of a definition that its own "env" does not give a value."""
    env = definition.get("env") if isinstance(definition, dict) else None
    own = env if isinstance(env, dict) else {}
    for name, text in own.items():
        yield from (each for each in names_in(text) if each == name or each not in own)
    if isinstance(definition, dict):
        rest = {key: value for key, value in definition.items() if key != "env"}
        yield from (each for each in names_in(rest) if each not in own)


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value of JSON with each of its texts changed, at any depth."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [each_text(part, change) for part in value]
    if isinstance(value, dict):
        return {key: each_text(part, change) for key, part in value.items()}
    return value


def escaped(text: str) -> str:
    """``text`` so that :func:`expand` and :func:`with_folder` give it back unchanged."""
    return text.replace("${", "$${")


def with_folder(template: str, folder: str) -> str:
    """Finish a template: ``folder`` is the absolute path of the client's folder."""

    def filled(found: re.Match[str]) -> str:
        if found.group(1) == "workspaceFolder":
            return folder
        if found.group(1) == "workspaceFolderBasename":
            return os.path.basename(folder)
        return "${" if found.group() == "$${" else found.group()

    return _PATTERN.sub(filled, template)


class _Expander:
    """One text while it is being expanded. ``size`` are its characters so far."""

    def __init__(self, variables: Variables, env: ServerEnv, inside: tuple[str, ...]) -> None:
        self._variables, self._env, self._inside = variables, env, inside
        self.size = 0
        self.parts: list[Part] = []
        self.secrets: list[str] = []
        self.missing: list[str] = []
        self.faults: list[Message] = []

    def put(self, part: Part) -> None:
        self.parts.append(part)
        self.size += len(part) if isinstance(part, str) else 1

    def take(self, found: re.Match[str]) -> None:
        name = found.group(1) or ""
        if found.group() == "$${":
            self.put("${")
        elif name in _FOLDERS:
            self.put(FolderPlaceholder(name))
        elif name in _SEPARATORS:
            self.put(os.sep)
        elif name == "userHome":
            self.put(self._variables.home)
        elif reference := _REFERENCE.fullmatch(name):
            self._look_up(*reference.groups())
        else:
            self.faults.append(_no_variable(name, found.group()))

    def _look_up(self, name: str, default: str | None) -> None:
        if name in self._env.values and name not in self._inside[-1:]:
            self._take_own(name, default)
            return
        value = self._variables.get(name)
        if value and self._variables.is_secret(name, value):
            self.secrets.append(value)
        if value is None and default is None:
            self.missing.append(name)
        self.put(value or default or "")

    def _take_own(self, name: str, default: str | None) -> None:
        """Put in a value of the server's own "env"."""
        chain = (*self._inside, name)
        if name in self._inside:
            names = " → ".join(chain[chain.index(name) :])
            self.faults.append(say('values of "env" refer to each other in a circle: {names}.', names=names))
        elif len(chain) > DEEPEST:
            names = " → ".join(chain)
            self.faults.append(
                say(
                    'more than {most} {most:value|values} of "env" refer to each other: {names}.',
                    most=DEEPEST,
                    names=names,
                )
            )
        else:
            if name not in self._env.known:
                text = self._env.values[name]
                self._env.known[name] = expand(text, self._variables, self._env, chain)
            found = self._env.known[name]
            for part in found.parts or (default or "",):
                self.put(part)
            self.secrets += (each for each in found.secrets if each not in self.secrets)
            self.missing += (each for each in found.missing if each not in self.missing)
            self.faults += (each for each in found.faults if each not in self.faults)


def _no_variable(name: str, text: str) -> Message:
    if name.startswith("input:"):
        secret = re.sub(r"[^A-Za-z0-9]+", "_", name.removeprefix("input:")[:60]).strip("_").upper()
        if not secret or secret[0].isdigit():
            secret = f"INPUT_{secret}".rstrip("_")
        return say(
            "{text} asks for an input, which only editors support. Run: tabane secrets set {secret}. Then "
            "write ${{{secret}}} there instead.",
            text=text,
            secret=secret,
        )
    if foreign := _FOREIGN.fullmatch(text):
        return say(
            "{text} is a placeholder of another program. Write ${{{name}}} instead.",
            text=text,
            name=foreign["env"] or foreign["secret"] or "NAME",
        )
    return say(
        "{text} is not a variable. Write variables as ${{NAME}} or ${{NAME:-default}}; for "
        "the characters themselves write $${{.",
        text=text,
    )


# -- sources of variables ------------------------------------------------------------------------------

Lookup = Callable[[str], str | None]

SERVICE = "tabane"
"""The name under which the keyring holds Tabane's secrets."""


def load_variables(
    home: str | os.PathLike[str], environ: Mapping[str, str], keyring: Lookup | None = None
) -> Variables:
    """Return the hub's variables: from secrets.env of ``home``, then ``keyring``, then ``environ``.

    Raises ConfigurationError if secrets.env may be read by others or a line of it is wrong.
    """
    path = os.path.join(home, "secrets.env")
    try:
        secrets = parse_secrets(decoded_secrets(path, read_private(path)), path)
    except FileNotFoundError:
        secrets = {}
    return Variables(environ, secrets, keyring)


def variables_of(settings: Settings, environment: Mapping[str, str]) -> Variables:
    """Return the values of the variables in the servers file. Raises ConfigurationError."""
    return load_variables(settings.home, environment, keyring_lookup() if settings.keyring else None)


def keyring_lookup() -> Lookup:
    """Look up names in the system's keyring, if the setting ``keyring`` is on.

    Raises ConfigurationError if the package is not installed; what it gives back raises it where
    the keyring cannot be read.
    """
    from tabane.extras import this_copy

    try:
        keyring = import_module("keyring")  # slow, and not always installed
    except ImportError:
        raise ConfigurationError(
            say(
                "The setting keyring is on, but the Python package keyring is not installed. "
                "Turn the setting off, or run: {command}",
                command=this_copy().with_package("keyring"),
            )
        ) from None

    def lookup(name: str) -> str | None:
        try:
            found = keyring.get_password(SERVICE, name)
        except keyring.errors.KeyringError as error:
            raise ConfigurationError(
                say("The system's keyring cannot be read: {detail}.", detail=error)
            ) from None
        return None if found is None else str(found)

    return lookup
