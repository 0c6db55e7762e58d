"""Ways to run a server of the registry: a package with its launcher, or a URL. Pure.

Source: the schema of server.json of 2025-12-11, and the conventions of its documentation: npm packages run
with npx, PyPI's with uvx, images with docker, NuGet's with dnx.

A run may declare inputs, which are put into its texts. A publisher's text never reads a variable of the user:
``${`` in it is written as the two characters (:func:`tabane.servers.variables.escaped`). A user's own answer
may be ``${NAME}``. Texts of a registry, which anybody can publish, are made safe to show.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, cast

from msgspec import Struct, structs

from tabane.errors import BadArguments
from tabane.messages import Lang, Message, say
from tabane.servers.server import is_web
from tabane.servers.variables import escaped
from tabane.text.cutting import shortened

LONGEST = 500
"""Characters of a text that is shown."""

_URL = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_UNSHOWN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn"))
"""Unicode's categories of controls, invisible characters (marks of direction too), and unassigned ones."""


def shown_text(value: object, most: int = LONGEST) -> str:
    """Return an untrusted text as one line that can be shown; empty if it is not a text.

    Line breaks are spaces, and invisible characters are left out.
    """
    if not isinstance(value, str):
        return ""
    # cut first: a text of megabytes would be looked at character by character
    spaced = " ".join(value[: most * 8].split())
    kept = "".join(c for c in spaced if unicodedata.category(c) not in _UNSHOWN)
    return shortened(kept, most)


def shown_url(value: object) -> str:
    """Return the address of a web page; empty if it is none, or is not plain ASCII."""
    return value if isinstance(value, str) and len(value) <= LONGEST and _URL.fullmatch(value) else ""


def has_only_visible(text: str) -> bool:
    """Return whether a text has no control and no invisible character, so that it is what it looks like."""
    return all(unicodedata.category(character) not in _UNSHOWN for character in text)


def member(value: object, key: str) -> Any:
    """Return a member of an untrusted object; None if it is no object or has no such member."""
    return value.get(key) if isinstance(value, Mapping) else None


def items(value: object, key: str, most: int) -> list[Any]:
    """Return the first items of a list in an untrusted object; empty if it has none."""
    found = member(value, key)
    return found[:most] if isinstance(found, list) else []


InputPlace = Literal["env", "header", "argument", "url"]
InputFormat = Literal["string", "number", "boolean", "filepath"]

MOST_INPUTS = 50
MOST_CHOICES = 50
LONGEST_VALUE = 4_096
"""Characters of a value that a publisher gives, and of a text with placeholders."""

_FORMATS = ("string", "number", "boolean", "filepath")
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]{0,99})\}")
_NUMBER = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?")
_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


class DeclaredInput(Struct, frozen=True):
    """A value that the user may give, or must give if it is ``required`` and has no ``default``.

    ``name`` distinguishes it from the others of the same server. ``place`` is what it becomes a part of.
    ``nested``: it is a part of a text, such as the token of ``Bearer {token}``.
    """

    name: str
    place: InputPlace
    description: str = ""
    required: bool = False
    secret: bool = False
    default: str | None = None
    example: str = ""
    choices: tuple[str, ...] = ()
    format: InputFormat = "string"
    nested: bool = False

    @property
    def is_missing(self) -> bool:
        """Whether a user has to be asked: nothing works without an answer."""
        return self.required and self.default is None

    def checked(self, answer: str) -> str:
        """Return an answer as the server gets it. Raises BadArguments if it is not allowed."""
        if _REFERENCE.fullmatch(answer):
            return answer  # a variable, whose value is known when the server starts
        if self.choices and answer not in self.choices:
            raise BadArguments(
                say("{name} must be one of {choices}.", name=self.name, choices=", ".join(self.choices)),
                self.name,
            )
        if self.format == "boolean":
            answer = {"yes": "true", "no": "false"}.get(answer.lower(), answer.lower())
            if answer not in ("true", "false"):
                raise BadArguments(say("{name} must be true or false.", name=self.name), self.name)
        if self.format == "number" and not _NUMBER.fullmatch(answer):
            raise BadArguments(say("{name} must be a number.", name=self.name), self.name)
        if self.required and not answer:
            raise BadArguments(say("{name} may not be empty.", name=self.name), self.name)
        return answer


class InputTemplate(Struct, frozen=True):
    """A text with inputs in it: literal texts, and inputs to put in."""

    parts: tuple[str | DeclaredInput, ...]

    @property
    def inputs(self) -> tuple[DeclaredInput, ...]:
        """The inputs in the template, in their order."""
        return tuple(part for part in self.parts if isinstance(part, DeclaredInput))

    def filled(self, answers: Mapping[str, str]) -> str | None:
        """Return the text for the servers file; None if an input has neither answer nor default."""
        words = []
        for part in self.parts:
            if isinstance(part, str):
                word: str | None = escaped(part)
            elif part.name in answers:
                word = answers[part.name]
            else:
                word = None if part.default is None else escaped(part.default)
            if word is None:
                return None
            words.append(word)
        return "".join(words)


def read_template(given: object, name: str, place: InputPlace) -> InputTemplate:
    """Return the template of an input as published: a fixed text, a text with variables, or one input.

    Raises ValueError if it cannot be used.
    """
    value = member(given, "value")
    if value is None:
        return InputTemplate((read_input(given, name, place),))
    return text_template(value, member(given, "variables"), place)


def text_template(text: object, variables: object, place: InputPlace) -> InputTemplate:
    """Return the template of a text. ``{name}`` stays as it is if ``variables`` do not have the name.

    Raises ValueError if it cannot be used.
    """
    text = usable(text)
    parts: list[str | DeclaredInput] = []
    position = 0
    for found in _PLACEHOLDER.finditer(text):
        declared = member(variables, found.group(1))
        if isinstance(declared, Mapping):
            parts.append(text[position : found.start()])
            value = member(declared, "value")
            if value is None:
                parts.append(structs.replace(read_input(declared, found.group(1), place), nested=True))
            else:
                parts.append(usable(value))
            position = found.end()
    parts.append(text[position:])
    if len(parts) > 2 * MOST_INPUTS:
        raise ValueError
    return InputTemplate(tuple(part for part in parts if part != ""))


def read_input(given: object, name: str, place: InputPlace) -> DeclaredInput:
    """Return a declared input. Raises ValueError if it cannot be used."""
    default = member(given, "default")
    choices = tuple(usable(choice) for choice in items(given, "choices", MOST_CHOICES))
    if any("${" in choice for choice in choices):
        raise ValueError  # a person who chooses it would let it read a variable
    form = member(given, "format")
    return DeclaredInput(
        usable(name)[:200],
        place,
        shown_text(member(given, "description")),
        member(given, "isRequired") is True,
        member(given, "isSecret") is True,
        usable(default) if isinstance(default, str) and default else None,
        shown_text(member(given, "placeholder"), 100),
        choices,
        cast("InputFormat", form) if form in _FORMATS else "string",
    )


def usable(value: object) -> str:
    """Return a publisher's text that becomes a part of a command or of a URL.

    Raises ValueError if it has invisible characters: a person could not see what is run.
    """
    if not isinstance(value, str) or len(value) > LONGEST_VALUE or not has_only_visible(value):
        raise ValueError
    return value


def distinct(inputs: Iterable[DeclaredInput]) -> tuple[DeclaredInput, ...]:
    """Return the inputs, each name once. An answer is the same wherever the name occurs."""
    found: dict[str, DeclaredInput] = {}
    for each in inputs:
        found.setdefault(each.name, each)
    return tuple(found.values())


def described(wanted: DeclaredInput) -> dict[str, Any]:
    """Return an input as JSON."""
    return {
        "name": wanted.name,
        "in": wanted.place,
        "required": wanted.required,
        "secret": wanted.secret,
        "description": wanted.description,
        "default": wanted.default,
        "example": wanted.example,
        "choices": list(wanted.choices),
        "format": wanted.format,
    }


MOST_ARGUMENTS = 50
MOST_VARIABLES = 50

LAUNCHERS: Mapping[str, tuple[str, ...]] = {
    "npm": ("npx", "bunx"),
    "pypi": ("uvx",),
    "oci": ("docker", "podman"),
    "nuget": ("dnx",),
}
"""Programs that run the packages of a registry; the first is the default."""

_PUBLIC = ("npmjs.org", "pypi.org", "nuget.org", "docker.io", "docker.com")
_NPM = re.compile(r"(?:@[A-Za-z0-9~][\w.~-]*/)?[A-Za-z0-9~][\w.~-]*", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_IMAGE = re.compile(r"[a-z0-9][\w./:-]*(?:@sha256:[0-9a-f]{64})?", re.ASCII)
_VERSION = re.compile(r"[A-Za-z0-9][\w.+!-]*", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_IDENTIFIERS = {"npm": _NPM, "pypi": _PLAIN, "nuget": _PLAIN, "oci": _IMAGE}


class RunArgument(Struct, frozen=True):
    """One argument: a flag, a value, or both. It is left out if its value has no answer."""

    flag: str
    value: InputTemplate | None

    def words(self, answers: Mapping[str, str]) -> list[str]:
        """Return the words of the command, escaped for the servers file."""
        if self.value is None:
            return [escaped(self.flag)]
        value = self.value.filled(answers)
        if value is None:
            return []
        if self.flag.endswith("="):
            return [escaped(self.flag) + value]
        return [*([escaped(self.flag)] if self.flag else []), value]


class RegistryRun(Struct, frozen=True):
    """One way to run a server.

    ``kind`` is npm, pypi, oci, nuget, http or sse, or what the registry calls a kind that is not supported;
    ``why_not`` then says so. ``package`` is what the launcher is given, and ``before`` and ``after`` are the
    arguments around it. ``url`` is for a server at a URL.
    """

    kind: str
    program: str = ""
    package: tuple[str, ...] = ()
    before: tuple[RunArgument, ...] = ()
    after: tuple[RunArgument, ...] = ()
    env: tuple[tuple[str, InputTemplate], ...] = ()
    url: InputTemplate | None = None
    headers: tuple[tuple[str, InputTemplate], ...] = ()
    why_not: Message | None = None

    @property
    def inputs(self) -> tuple[DeclaredInput, ...]:
        """The inputs of the command or URL, each once. Those that a user has to answer come first."""
        templates = [argument.value for argument in (*self.before, *self.after)]
        templates += [template for _, template in (*self.env, *self.headers)]
        templates.append(self.url)
        found = distinct(each for template in templates if template for each in template.inputs)
        return tuple(sorted(found, key=lambda each: not each.is_missing))

    def definition(self, answers: Mapping[str, str]) -> dict[str, Any]:
        """Return the entry for the servers file. Raises BadArguments if an answer is missing or not allowed.

        ``answers`` are by the names of the inputs.
        """
        missing = [each.name for each in self.inputs if each.is_missing and each.name not in answers]
        if missing:
            raise BadArguments(say("It needs values for: {names}.", names=", ".join(missing)))
        given = {each.name: each.checked(answers[each.name]) for each in self.inputs if each.name in answers}
        if self.url is not None:
            if (url := self.url.filled(given)) is None:
                raise BadArguments(say("It needs values for: {names}.", names="url"))
            headers = {name: value for name, t in self.headers if (value := t.filled(given)) is not None}
            return {"type": self.kind, "url": url} | ({"headers": headers} if headers else {})
        env = {name: value for name, t in self.env if (value := t.filled(given)) is not None}
        args = [*self._launch_words(given, env), *(word for each in self.after for word in each.words(given))]
        return {"command": self.program, "args": args} | ({"env": env} if env else {})

    def _launch_words(self, given: Mapping[str, str], env: Mapping[str, str]) -> list[str]:
        """Return the words up to the package."""
        own = [word for each in self.before for word in each.words(given)]
        package = [escaped(word) for word in self.package]
        if self.kind == "npm":
            return [*_put_first(("-y",) if self.program == "npx" else (), own, ("--yes",)), *package]
        if self.kind == "oci":
            while own and own[0] == "run":
                del own[0]
            passed = [word for name in env for word in ("-e", name)]
            return ["run", *_put_first(("-i", "--rm"), own, ("--interactive",)), *passed, *package]
        if self.kind == "nuget":
            after = ("--",) if self.after else ()
            return [*own, *package, *(() if "--yes" in own else ("--yes",)), *after]
        return [*own, *package]

    def drafted(self, prefix: str) -> dict[str, Any]:
        """Return the entry as far as it is known without a user: missing answers are variables."""
        answers = {
            each.name: f"${{{variable_for(each, prefix)}}}"
            for each in self.inputs
            if each.is_missing or (each.secret and each.required)
        }
        return self.definition(answers)

    def row(self, prefix: str, lang: Lang) -> dict[str, Any]:
        """Return this way as JSON: the kind, what is run, what it needs, and a first definition."""
        if self.why_not is not None:
            return {"kind": self.kind, "runs": "", "usable": False, "why_not": self.why_not.render(lang)}
        definition = self.drafted(prefix)
        return {
            "kind": self.kind,
            "runs": command_of(definition),
            "usable": True,
            "why_not": None,
            "needs": [described(each) | {"variable": variable_for(each, prefix)} for each in self.inputs],
            "definition": definition,
        }


def command_of(definition: Mapping[str, Any]) -> str:
    """Return what a definition runs, as a person reads it."""
    if definition.get("url"):
        return str(definition["url"])
    import shlex

    return shlex.join([definition["command"], *definition["args"]])


def variable_for(wanted: DeclaredInput, prefix: str) -> str:
    """Return the name of the variable that holds an answer: API_KEY, or GITHUB_TOKEN for a plain "token"."""
    name = wanted.name
    if wanted.place == "env" and not wanted.nested and _VARIABLE.fullmatch(name):
        return name
    words = re.sub(r"[^A-Za-z0-9]+", "_", f"{prefix}_{name}").strip("_").upper()
    return words if words[:1].isalpha() else f"V_{words}"


def _put_first(own: Iterable[str], given: list[str], same: tuple[str, ...]) -> list[str]:
    """Return our options and the publisher's, without repeating any."""
    return [*(word for word in own if not {word, *same} & set(given)), *given]


# -- reading -----------------------------------------------------------------------------------------


def runs_of(server: object, most: int) -> Iterator[RegistryRun]:
    """Yield the ways to run a published server, also those that Tabane does not support."""
    for package in items(server, "packages", most):
        yield _package_run(package)
    for remote in items(server, "remotes", most):
        yield _remote_run(remote)


def _package_run(given: object) -> RegistryRun:
    kind = shown_text(member(given, "registryType"), 40) or "?"
    transport = member(member(given, "transport"), "type")
    if kind not in LAUNCHERS:
        return RegistryRun(kind, why_not=_BUNDLE if kind == "mcpb" else _UNSUPPORTED)
    if transport not in (None, "stdio"):
        why = say("It listens at a URL. Start it yourself, then add it with: tabane servers add NAME URL")
        return RegistryRun(kind, why_not=why)
    try:
        hint = member(given, "runtimeHint")
        program = hint if hint in LAUNCHERS[kind] else LAUNCHERS[kind][0]
        before = tuple(_arguments(given, "runtimeArguments", launcher=True))
        base = _registry_base(kind, given)
        option = base and kind != "oci"  # the image's name has its registry
        return RegistryRun(
            kind,
            program,
            _named_package(kind, given, base, before),
            (*([RunArgument(_BASE_OPTIONS[kind], InputTemplate((base,)))] if option else ()), *before),
            tuple(_arguments(given, "packageArguments", launcher=False)),
            _named_templates(given, "environmentVariables", _VARIABLE, "env"),
        )
    except ValueError:
        return RegistryRun(kind, why_not=say("Its entry in the registry is not valid."))


_UNSUPPORTED = say("This kind of package is not supported.")
_BUNDLE = say("MCP bundles are not supported. Unpack it, and add its command with: tabane servers add")

_BASE_OPTIONS = {"npm": "--registry", "pypi": "--default-index", "nuget": "--source"}


def _registry_base(kind: str, given: object) -> str:
    """Return the address of the package registry; empty for the public one. Raises ValueError."""
    base = member(given, "registryBaseUrl")
    if base in (None, ""):
        return ""
    if not isinstance(base, str) or not is_web(base):
        raise ValueError
    from urllib.parse import urlsplit

    parts = urlsplit(usable(base))
    if f".{parts.hostname}".endswith(tuple(f".{name}" for name in _PUBLIC)):
        return ""
    return parts.netloc if kind == "oci" else base


def _named_package(kind: str, given: object, base: str, before: tuple[RunArgument, ...]) -> tuple[str, ...]:
    """Return the words that name the package. Raises ValueError if a launcher could misread them."""
    name, version = member(given, "identifier"), member(given, "version")
    if not isinstance(name, str) or len(name) > 300 or not _IDENTIFIERS[kind].fullmatch(name):
        raise ValueError
    if version is not None and not (
        isinstance(version, str) and len(version) <= 200 and _VERSION.fullmatch(version)
    ):
        raise ValueError
    if kind == "oci":
        image = f"{base}/{name}" if base and not name.startswith(f"{base}/") else name
        tagged = ":" in image.rpartition("/")[2] or "@" in image
        return (image if tagged or not version else f"{image}:{version}",)
    chosen = {"--from", "--package", "-p"}
    if any(argument.flag in chosen for argument in before):
        # The publisher names the package with an option, and perhaps the program in it.
        return () if any(not argument.flag for argument in before) else (name,)
    return (f"{name}@{version}" if version else name,)


def _arguments(given: object, key: str, *, launcher: bool) -> Iterator[RunArgument]:
    for argument in items(given, key, MOST_ARGUMENTS):
        kind, flag = member(argument, "type"), member(argument, "name")
        if kind == "positional":
            name = member(argument, "valueHint") or "value"
            yield RunArgument("", read_template(argument, name, "argument"))
        elif kind == "named" and isinstance(flag, str) and flag.strip():
            flag = usable(flag.strip())
            is_switch = _is_switch(argument, launcher=launcher)
            name = flag.strip("-=")
            value = None if is_switch else read_template(argument, name, "argument")
            yield RunArgument(flag, value)
        else:
            raise ValueError


def _is_switch(argument: object, *, launcher: bool) -> bool:
    """Return whether an argument is a flag without a value, which the schema does not distinguish."""
    if any(member(argument, key) not in (None, "", [], False) for key in ("value", "default", "choices")):
        return False
    telling = ["isRequired", "isSecret", "format", "placeholder", "valueHint"]
    telling += [] if launcher else ["description"]
    return not any(member(argument, key) for key in telling)


_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")


def _named_templates(
    given: object, key: str, allowed: re.Pattern[str], place: InputPlace
) -> tuple[tuple[str, InputTemplate], ...]:
    """Return the declared headers or variables. Raises ValueError for a name that is not allowed."""
    found: list[tuple[str, InputTemplate]] = []
    for declared in items(given, key, MOST_VARIABLES):
        name = member(declared, "name")
        if not isinstance(name, str) or len(name) > 200 or not allowed.fullmatch(name):
            raise ValueError
        found.append((name, read_template(declared, name, place)))
    return tuple(found)


def _remote_run(given: object) -> RegistryRun:
    kind = {"streamable-http": "http", "sse": "sse"}.get(str(member(given, "type")))
    if kind is None:
        shown = shown_text(member(given, "type"), 40) or "?"
        return RegistryRun(shown, why_not=say("This kind of address is not supported."))
    try:
        url = text_template(member(given, "url"), member(given, "variables"), "url")
        # Whatever a user answers: the address has to be one of the web.
        example = [
            part if isinstance(part, str) else "x" if at else "https://x" for at, part in enumerate(url.parts)
        ]
        if not is_web("".join(example)):
            raise ValueError
        return RegistryRun(kind, url=url, headers=_named_templates(given, "headers", _HEADER, "header"))
    except ValueError:
        return RegistryRun(kind, why_not=say("Its entry in the registry is not valid."))
