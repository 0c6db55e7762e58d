"""`tabane posts shell`: a prompt for queries and for commands that begin with a slash."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tabane.cli.completion import COMPLETION_LIMIT
from tabane.cli.output import Terminal, emit, text
from tabane.cli.posts.input_line import InputLine
from tabane.cli.posts.post_options import KINDS, PRESETS, no_user
from tabane.cli.posts.shell_settings import OFF, SETTINGS, QuerySettings, SettingCommand, numbers
from tabane.cli.posts.view import VIEWS, ListedPost, entries, show_posts
from tabane.cli.terminal_text import StyledText, clean
from tabane.errors import CallerError, HubError, TabaneError, UnknownName
from tabane.messages import Message, say
from tabane.posts.query import MODES
from tabane.text.nearest_names import nearest

HISTORY = "posts_history"
"""The file in TABANE_HOME."""

_MOST_TAGS = 1000  # that are offered


ALIASES = {"?": "/help", "/?": "/help", "/d": "/details", "q": "/exit", "/q": "/exit", "/quit": "/exit"}
"""Shorter names of commands. Text search still finds a single letter: ``|q``."""


class ShellCommand(NamedTuple):
    """A command that runs at once."""

    usage: str
    about: Message
    run: Callable[[list[str]], None]


def run_shell(terminal: Terminal) -> None:
    """Read and answer until the input ends, or /exit."""
    PostsShell(terminal).run()


class PostsShell:
    """A session at the prompt: the settings of the next query, and the last results."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._wanted = QuerySettings()
        self._found: list[ListedPost] = []
        self._shown = 0
        self._over = False
        self._offered: dict[str, list[str]] = {}
        self._actions = {
            "/next": ShellCommand("", say("Show the next page of the results."), self._next),
            "/details": ShellCommand(
                "1-3,7", say("Show these posts of the last result with all their data."), self._details
            ),
            "/help": ShellCommand("", say("Show this list."), self._help),
            "/exit": ShellCommand("", say("Exit, as with Ctrl+D."), self._exit),
        }
        self._commands = [*SETTINGS, *self._actions, "/quit"]
        self._line = InputLine(Path(terminal.endpoint().home) / HISTORY, self._complete)

    def run(self) -> None:
        self._guarded(self._greet)
        while not self._over:
            try:
                line = self._line.read(self._prompt()).strip()
            except KeyboardInterrupt:
                emit("")  # the line is given up, the prompt stays
                continue
            except EOFError:
                break
            if line:
                self._guarded(lambda line=line: self._obey(line))  # type: ignore[misc]
        if self._line.edited and not self._over:
            emit("")

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run a function. Print its errors instead of raising them."""
        try:
            work()
        except KeyboardInterrupt:
            # Hanging up cancels what the hub does for us.
            self._terminal.close()
            self._terminal.note(say("Cancelled."))
        except TabaneError as error:
            if isinstance(error, HubError):
                self._terminal.close()
            self._terminal.warn(error)

    def _obey(self, line: str) -> None:
        name, *words = line.split()
        name = name if words and not name.startswith("/") else ALIASES.get(name, name)
        if not name.startswith("/"):
            self._search(line)
        elif name in SETTINGS:
            self._set(name, SETTINGS[name], words)
        elif name in self._actions:
            self._actions[name].run(words)
        else:
            raise self._unknown(name)

    def _unknown(self, name: str) -> UnknownName:
        near = nearest(name, self._commands)
        if not near:
            return UnknownName(say("There is no command {name}. /help lists them.", name=name))
        return UnknownName(
            say("There is no command {name}. Did you mean {near}?", name=name, near=", ".join(near)), near
        )

    # -- queries ---------------------------------------------------------------------------------

    def _search(self, query: str) -> None:
        hub = self._terminal.hub()
        with self._terminal.working(say("Searching")):
            rows = hub.call("search_similar", self._wanted.params(query))
        if hub.warning:
            self._terminal.note(hub.warning)
        self._found, self._shown = entries(rows), 0
        if rows:
            self._next([])
        else:
            self._terminal.note(say("No results were found."))

    def _next(self, words: list[str]) -> None:
        page = self._found[self._shown : self._shown + self._wanted.top]
        if not page:
            self._terminal.note(say("There are no more results."))
            return
        show_posts(self._terminal, page, self._wanted.view)
        self._shown += len(page)
        if self._shown < len(self._found):
            count = len(self._found)
            self._remark(say("{shown} of {count}; /next for more", shown=self._shown, count=count))

    def _details(self, words: list[str]) -> None:
        if not self._found:
            raise CallerError(say("/details shows posts of the last result, and there is no result yet."))
        wanted = numbers(" ".join(words) or "1", len(self._found))
        show_posts(self._terminal, [self._found[number - 1] for number in wanted], "detail")

    # -- what is wanted --------------------------------------------------------------------------

    def _set(self, name: str, setting: SettingCommand, words: list[str]) -> None:
        if not words:
            self._tell(name, setting)
            return
        changed = setting.apply(self._wanted, words)
        if name == "/user":
            self._check_users([*changed.includes, *changed.excludes])
        self._wanted = changed
        self._remark(self._wanted.summary() or say("All posts."))

    def _check_users(self, names: list[str]) -> None:
        """Raise UnknownName with similar names if a user does not exist."""
        unknown = self._terminal.hub().call("suggest_users", {"user_list": names}) if names else {}
        said = [text(no_user(name, near)) for name, near in unknown.items()]
        if said:
            raise UnknownName(Message(" ".join(said)))

    def _tell(self, name: str, setting: SettingCommand) -> None:
        """Print the usage of a command and its current setting."""
        self._terminal.say(f"{name} {setting.usage}")
        if name == "/weights":
            for number, preset in enumerate(PRESETS, 1):
                self._terminal.say(f"  {number}  {preset}")
        plain = QuerySettings()
        now = {field: getattr(self._wanted, field) for field in setting.fields}
        said = ", ".join(_shown(value) for field, value in now.items() if value != getattr(plain, field))
        if said:
            self._remark(say("now: {value}", value=said))

    def _help(self, words: list[str]) -> None:
        self._terminal.say(
            say(
                'meaning|text: posts that are close to the meaning and contain the text (word "a '
                'phrase" -not). Either part can be left out.'
            )
        )
        table: dict[str, SettingCommand | ShellCommand] = {**SETTINGS, **self._actions}
        self._terminal.table(
            ["", "", ""], ([_named(name), command.usage, command.about] for name, command in table.items())
        )

    def _exit(self, words: list[str]) -> None:
        self._over = True

    # -- the line --------------------------------------------------------------------------------

    def _greet(self) -> None:
        stats = self._terminal.hub().call("get_database_stats")
        if not self._line.edited:
            return
        if not stats["total_posts"]:
            self._terminal.note(say("There are no posts yet. Import some with: tabane posts import FILE…"))
            return
        self._remark(
            say(
                "{posts} {posts:post|posts} of {users} {users:user|users}. /help lists the commands.",
                posts=f"{stats['total_posts']:,}",
                users=f"{stats['total_users']:,}",
            )
        )

    def _prompt(self) -> str:
        summary = self._wanted.summary()
        return f"posts ({clean(summary)})> " if summary else "posts> "

    def _remark(self, said: str | Message) -> None:
        if self._line.edited:
            emit(StyledText(text(said), "dim"))

    def _complete(self, before: str, word: str) -> list[str]:
        """Return completions while a line is typed; none if the hub cannot be reached."""
        try:
            return candidates(
                before, word, self._commands, _CHOICES | {"/user": self._users, "/tag": self._tags}
            )
        except TabaneError:
            self._terminal.close()
            return []

    def _users(self) -> list[str]:
        return self._once("/user", lambda: self._terminal.hub().call("get_user_list", limit=COMPLETION_LIMIT))

    def _tags(self) -> list[str]:
        def asked() -> list[str]:
            wanted = {"field": "tags", "limit": _MOST_TAGS}
            rows = self._terminal.hub().call("get_post_facets", wanted, COMPLETION_LIMIT)
            return [row["value"] for row in rows]

        return self._once("/tag", asked)

    def _once(self, name: str, ask: Callable[[], list[str]]) -> list[str]:
        """Return completions from the hub, which is asked once per session."""
        if name not in self._offered:
            self._offered[name] = ask()
        return self._offered[name]


def _offers(names: Any) -> Callable[[], list[str]]:
    return lambda: list(names)


_CHOICES = {
    "/mode": _offers(MODES),
    "/weights": _offers([*PRESETS, *OFF[:1]]),
    "/view": _offers(VIEWS),
    "/type": _offers(KINDS),
    "/date": _offers(OFF[:1]),
}


def _named(command: str) -> str:
    """Return a command with its shorter names."""
    return ", ".join((command, *(alias for alias, name in ALIASES.items() if name == command)))


def _shown(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


Choices = Mapping[str, Callable[[], Sequence[str]]]
"""By command, what can follow it."""

_MARKS = "-@#"


def candidates(before: str, word: str, commands: Sequence[str], choices: Choices) -> list[str]:
    """Return the words that complete ``word``, given the line before it. Case does not matter."""
    first = before.split()[:1]
    if not first:
        return [name for name in commands if word and name.startswith(word)]
    offered = choices.get(first[0])
    if offered is None:
        return []
    bare = word.lstrip(_MARKS)
    marks = word[: len(word) - len(bare)]
    return [marks + one for one in offered() if one.casefold().startswith(bare.casefold())]
