"""Inputs of VS Code's files during an import: asked on a terminal, and named if nobody can be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from tabane.cli.output import Terminal
from tabane.messages import Message, say
from tabane.servers.assistants.client_inputs import ClientInput, input_variable, with_inputs
from tabane.servers.assistants.importing import ImportedServer
from tabane.servers.kept_secrets import SecretNaming
from tabane.servers.variables import escaped
from tabane.text.secret_values import looks_secret


class MissingInput(Struct, frozen=True):
    """An input that nobody could be asked for: the servers that need it, and the name of its variable."""

    wanted: ClientInput
    variable: str
    servers: list[str] = field(default_factory=list)


class InputAnswers:
    """Answers inputs, each once. ``values`` are the secrets among the answers, by name of the variable."""

    def __init__(self, terminal: Terminal, naming: SecretNaming, *, plain: bool) -> None:
        self._terminal, self._naming, self._plain = terminal, naming, plain
        self._texts: dict[ClientInput, str] = {}
        self._missing: dict[ClientInput, MissingInput] = {}
        self.values: dict[str, str] = {}

    @property
    def missing(self) -> tuple[MissingInput, ...]:
        return tuple(self._missing.values())

    def answered(
        self, taken: Sequence[ImportedServer], definitions: Mapping[str, dict[str, Any]]
    ) -> dict[str, dict[str, Any]]:
        """Return the definitions of these servers with the answers, or the variables of their secrets."""
        found: dict[str, dict[str, Any]] = {}
        for server in taken:
            definition = definitions[server.name]
            texts = {id: self._text(each, server) for id, each in server.inputs.items()}
            found[server.name] = with_inputs(definition, texts.__getitem__) if texts else definition
        return found

    def _text(self, wanted: ClientInput, server: ImportedServer) -> str:
        if wanted not in self._texts:
            self._texts[wanted] = self._first_text(wanted, server)
        if wanted in self._missing:
            self._missing[wanted].servers.append(server.name)
        return self._texts[wanted]

    def _first_text(self, wanted: ClientInput, server: ImportedServer) -> str:
        name = input_variable(wanted, server.name, server.definition)
        answer = self._asked(wanted, server.name) if self._terminal.asks else self._default(wanted)
        if answer is None:
            name = self._naming.name_for(name, server.name, None)
            self._missing[wanted] = MissingInput(wanted, name)
            return f"${{{name}}}"
        if not answer or not self._is_secret(wanted, name, answer):
            return escaped(answer)
        name = self._naming.name_for(name, server.name, answer)
        self.values[name] = answer
        return f"${{{name}}}"

    def _is_secret(self, wanted: ClientInput, name: str, answer: str) -> bool:
        if wanted.password:
            return True
        return not self._plain and (looks_secret(name, answer) or looks_secret(wanted.id, answer))

    def _default(self, wanted: ClientInput) -> str | None:
        """Return the answer of a file to its own question. A password or a command has none."""
        if wanted.default is None or wanted.password or wanted.type == "command":
            return None
        self._terminal.note(say("{title}: the default of the file is used.", title=wanted.title))
        return wanted.default

    def _asked(self, wanted: ClientInput, server: str) -> str:
        question = say("{title} (for {server!n})", title=wanted.title, server=server)
        if wanted.type == "command":
            self._terminal.note(
                say(
                    "{server!n} takes {id} from the VS Code command {command}, which only VS Code can run. "
                    "Enter the value.",
                    server=server,
                    id=wanted.id,
                    command=wanted.command or "?",
                )
            )
        if wanted.type == "pickString" and wanted.options:
            return self._picked(wanted, question)
        return self._terminal.ask(
            question,
            default=wanted.default or "",
            show_default=bool(wanted.default) and not wanted.password,
            hide_input=wanted.password,
        )

    def _picked(self, wanted: ClientInput, question: Message) -> str:
        """Ask for one of the options: by its number, or by its value or label."""
        for number, (label, value) in enumerate(wanted.options, 1):
            shown = label if label == value else f"{label}: {value}"
            self._terminal.note(f"  {number}. {shown}")
        choices = {str(number): value for number, (_, value) in enumerate(wanted.options, 1)}
        choices |= dict(wanted.options)
        choices |= {value: value for _, value in wanted.options}
        values = [value for _, value in wanted.options]
        default = wanted.default if wanted.default in values else None
        while True:
            answer = self._terminal.ask(question, default=default).strip()
            if answer in choices:
                return choices[answer]
            self._terminal.note(say("Enter a number from 1 to {count}.", count=len(values)))


def report_missing(terminal: Terminal, missing: Sequence[MissingInput]) -> None:
    """Say which inputs have no value yet, and the command that sets each."""
    for each in missing:
        terminal.note(
            say(
                "{servers}: a value is missing for {title}. Set it with: tabane secrets set {variable}",
                servers=", ".join(each.servers),
                title=each.wanted.title,
                variable=each.variable,
            )
        )
