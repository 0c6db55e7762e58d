"""`tabane posts shell`: a prompt for queries and for commands that begin with a slash.

The edited line comes first, then the settings of the next query with the commands that change them (pure),
then the prompt.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from tabane.cli.options import COMPLETION_LIMIT
from tabane.cli.output import Terminal, emit, text, unknown_name
from tabane.cli.post_options import (
    KINDS,
    PRESETS,
    VIEWS,
    WEIGHING,
    ListedPost,
    View,
    Weights,
    entries,
    limits,
    no_user,
    show_posts,
    weights_name,
    weights_of,
)
from tabane.cli.terminal_text import StyledText, clean
from tabane.errors import CallerError, ConfigurationError, HubError, TabaneError, UnknownName
from tabane.messages import Message, say
from tabane.posts.query import MODES, Mode
from tabane.settings.files import read_owned, write_private
from tabane.text.time_zones import Machine, bound

MOST_LINES = 1000
"""Lines of the history that are kept."""

LONGEST = 2000
"""Characters of a line that is kept."""

Complete = Callable[[str, str], Sequence[str]]
"""The candidates for a word, given the line before it and what is typed of it."""


class InputLine:
    """Reads lines, with editing on a terminal. ``history`` is a file that only the user can read."""

    def __init__(self, history: Path, complete: Complete) -> None:
        self._history, self._complete = history, complete
        self._edited = sys.stdin.isatty() and sys.stdout.isatty()
        self._last = ""
        self._candidates: list[str] = []
        self._readline = _readline() if self._edited else None
        if readline := self._readline:
            for line in self._kept():
                readline.add_history(line)
                self._last = line
            readline.set_auto_history(False)
            readline.set_completer_delims(" \t")
            readline.set_completer(self._candidate)
            libedit = "libedit" in (readline.__doc__ or "")
            readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")

    @property
    def edited(self) -> bool:
        """Whether a user types at a terminal."""
        return self._edited

    def read(self, prompt: str) -> str:
        """Return the next line. Raises EOFError at the end, KeyboardInterrupt at Ctrl+C."""
        if not self._edited:
            line = sys.stdin.readline()
            if not line:
                raise EOFError
            return line.rstrip("\n")
        line = input(prompt)
        if self._readline and line.strip() and line != self._last and len(line) <= LONGEST:
            self._readline.add_history(line)
            self._last = line
            # At once: what was typed is there after a crash, too. No history is no reason not to search.
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            with contextlib.suppress(OSError), open(os.open(self._history, flags, 0o600), "ab") as file:
                file.write(line.encode("utf-8", "replace") + b"\n")
        return line

    def _candidate(self, word: str, number: int) -> str | None:
        readline = self._readline
        if not number and readline:
            before = readline.get_line_buffer()[: readline.get_begidx()]
            found = list(self._complete(before, word))
            self._candidates = [f"{found[0]} "] if len(found) == 1 else found
        return self._candidates[number] if number < len(self._candidates) else None

    def _kept(self) -> list[str]:
        """Return the lines of the history. A long history file is cut to its last lines."""
        try:
            lines = read_owned(self._history).decode("utf-8", "replace").splitlines()
        except (FileNotFoundError, ConfigurationError):
            return []
        if len(lines) > 2 * MOST_LINES:
            with contextlib.suppress(OSError):
                write_private(self._history, ("\n".join(lines[-MOST_LINES:]) + "\n").encode())
        return lines[-MOST_LINES:]


def _readline() -> Any:
    """Return the module readline, or None if this Python was built without it."""
    try:
        import readline
    except ImportError:
        return None
    return readline


MOST = 100
"""Posts that one query finds at most."""

OFF = ("off", "-")
"""The words that remove a filter."""

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_THRESHOLD = re.compile(r"(>=|<=)(\d+)")
_DATES = re.compile(r"(.*?)\.\.(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """Mode, filters and view of queries. ``top`` is the number of posts per page.

    If the mode is None, the hub chooses it.
    """

    mode: Mode | None = None
    weights: Weights | None = None
    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    since: str | None = None
    until: str | None = None
    tags: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    top: int = 10
    view: View = "normal"

    def params(self, query: str) -> dict[str, Any]:
        """Return the parameters of search_similar."""
        narrowed = limits(
            users=self.includes,
            not_users=self.excludes,
            least=self.least,
            most=self.most,
            since=self.since,
            until=self.until,
            tags=self.tags,
            kinds=self.kinds,
        )
        weighing = self.weights is not None and self.mode in WEIGHING
        weights = {"weights": list(self.weights or ())} if weighing else {}
        mode = {"mode": self.mode} if self.mode else {}
        return {"query": query, **mode, "top_k": MOST, **weights, **narrowed}

    def summary(self) -> str:
        """Return the settings that differ from the defaults, for the prompt."""
        parts = [
            self.mode or "",
            weights_name(self.weights) if self.weights and self.mode in WEIGHING else "",
            *(f"@{name}" for name in self.includes),
            *(f"-@{name}" for name in self.excludes),
            f">={self.least}" if self.least is not None else "",
            f"<={self.most}" if self.most is not None else "",
            f"{self.since or ''}..{self.until or ''}" if self.since or self.until else "",
            *(f"#{tag}" for tag in self.tags),
            *self.kinds,
        ]
        return " ".join(part for part in parts if part)


def with_users(wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
    """Parse ``alice bob`` (only these), ``-alice`` (all others), ``>=10`` and ``<=500`` (number of posts)."""
    bounds: dict[str, int] = {}
    includes: list[str] = []
    excludes: list[str] = []
    for word in words:
        if threshold := _THRESHOLD.fullmatch(word):
            bounds[threshold[1]] = int(threshold[2])
        else:
            (excludes if word.startswith("-") else includes).append(word.lstrip("-").removeprefix("@"))
    if includes and excludes:
        raise CallerError(say("Give users to include, or users to exclude (-NAME), but not both."))
    return replace(
        wanted,
        includes=tuple(includes),
        excludes=tuple(excludes),
        least=bounds.get(">="),
        most=bounds.get("<="),
    )


def with_dates(wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
    """Parse ``FROM TO``, ``FROM..TO``, ``FROM..``, ``..TO``, or a single start."""
    if span := _DATES.fullmatch(" ".join(words)):
        since, until = span[1].strip(), span[2].strip()
    else:
        dates = _joined(words)
        if len(dates) > 2:
            raise CallerError(say("Give one or two dates: /date 2024-01-01 2024-12-31"))
        since, until = dates[0], dates[1] if len(dates) == 2 else ""
    for date, end in ((since, False), (until, True)):
        if date:
            bound(date, Machine(), "/date", end=end)
    return replace(wanted, since=since or None, until=until or None)


def with_top(wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
    """Parse the number of posts per page."""
    if len(words) != 1 or not words[0].isdecimal() or not 1 <= int(words[0]) <= MOST:
        raise CallerError(say("/top needs a number from 1 to {most}.", most=MOST))
    return replace(wanted, top=int(words[0]))


def with_mode(wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
    """Parse a mode. Modes average and weighted can be followed by weights."""
    mode = next((mode for mode in MODES if words[0] == mode), None)
    if mode is None:
        raise CallerError(
            say("There is no mode {mode}. Modes: {modes}", mode=words[0], modes=", ".join(MODES))
        )
    changed = replace(wanted, mode=mode)
    return with_weights(changed, words[1:]) if len(words) > 1 else changed


def with_weights(wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
    """Parse the name or number (from 1) of a preset, or three numbers. Sets a mode that uses weights."""
    given = " ".join(words)
    numbered = dict(enumerate(PRESETS.values(), 1))
    weights = numbered.get(int(given)) if given.isdecimal() else None
    mode: Mode | None = wanted.mode if wanted.mode in WEIGHING else "average"
    return replace(wanted, weights=weights or weights_of(given), mode=mode)


def with_view(wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
    """Parse a view: normal, list or detail."""
    view = next((view for view in VIEWS if words[0] == view), None)
    if view is None:
        raise CallerError(
            say("There is no view {view}. Views: {views}", view=words[0], views=", ".join(VIEWS))
        )
    return replace(wanted, view=view)


def with_tags(wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
    """Parse tags. Posts with one of them are found."""
    return replace(wanted, tags=tuple(word.removeprefix("#") for word in words))


def with_kinds(wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
    """Parse types of posts: post, like, bookmark."""
    for word in words:
        if word not in KINDS:
            raise CallerError(
                say("There is no type {kind}. Types: {kinds}", kind=word, kinds=", ".join(KINDS))
            )
    return replace(wanted, kinds=tuple(words))


def numbers(text: str, most: int) -> list[int]:
    """Parse ``1-3,7`` as 1, 2, 3, 7. Raises CallerError if a number is not from 1 to ``most``."""
    found: dict[int, None] = {}
    for part in text.replace(",", " ").split():
        match = _RANGE.fullmatch(part)
        first = int(match[1]) if match else 0
        last = int(match[2] or first) if match else 0
        if not 1 <= first <= last <= most:
            raise CallerError(
                say("{text} is not a list of numbers from 1 to {most}, such as 1-3,7.", text=part, most=most)
            )
        found |= dict.fromkeys(range(first, last + 1))
    return list(found)


class SettingCommand(NamedTuple):
    """A command that changes the settings. ``off`` resets its ``fields`` of :class:`QuerySettings`."""

    usage: str
    about: Message
    change: Callable[[QuerySettings, Sequence[str]], QuerySettings]
    fields: tuple[str, ...]

    def apply(self, wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
        """Return the settings after the command. Raises CallerError that says what is wrong."""
        if len(words) == 1 and words[0] in OFF:
            plain = QuerySettings()
            return replace(wanted, **{name: getattr(plain, name) for name in self.fields})
        return self.change(wanted, words)


SETTINGS = {
    "/user": SettingCommand(
        "NAME… | -NAME… | >=N <=N | off",
        say("Only posts of these users; -NAME excludes a user; >=N keeps users with at least N posts."),
        with_users,
        ("includes", "excludes", "least", "most"),
    ),
    "/date": SettingCommand(
        "FROM TO | FROM.. | ..TO | off",
        say("Only posts of that period; a date without a time is the whole day."),
        with_dates,
        ("since", "until"),
    ),
    "/top": SettingCommand("N", say("Number of posts on a page."), with_top, ("top",)),
    "/mode": SettingCommand(
        "|".join(MODES) + " | off", say("What the query is compared with."), with_mode, ("mode", "weights")
    ),
    "/weights": SettingCommand(
        "PRESET | C/R/S | off",
        say("Weights of content, reasoning and summary, in modes average and weighted."),
        with_weights,
        ("weights",),
    ),
    "/view": SettingCommand("|".join(VIEWS), say("How posts are shown."), with_view, ("view",)),
    "/tag": SettingCommand("TAG… | off", say("Only posts with one of these tags."), with_tags, ("tags",)),
    "/type": SettingCommand(
        " ".join(KINDS) + " | off", say("Only posts, likes or bookmarks."), with_kinds, ("kinds",)
    ),
}


def _joined(words: Sequence[str]) -> list[str]:
    """Combine words into dates: a time belongs to the day before it."""
    dates: list[str] = []
    for word in words:
        if ":" in word and dates and ":" not in dates[-1]:
            dates[-1] += f" {word}"
        else:
            dates.append(word)
    return dates


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
        self._offered: dict[str, Sequence[str]] = {}
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
        """Read lines and obey them until the user leaves."""
        self._guarded(self._greet)
        while not self._over:
            try:
                summary = self._wanted.summary()
                line = self._line.read(f"posts ({clean(summary)})> " if summary else "posts> ").strip()
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
            if not sys.stdin.isatty():
                raise
            self._terminal.note(say("Cancelled."))
        except TabaneError as error:
            if isinstance(error, HubError):
                self._terminal.close()
            self._terminal.warn(error)

    def _obey(self, line: str) -> None:
        name, *words = line.split()
        name = name if words and not name.startswith("/") else ALIASES.get(name, name)
        if not name.startswith("/"):
            hub = self._terminal.hub()
            with self._terminal.working(say("Searching")):
                rows = hub.call("search_similar", self._wanted.params(line))
            if hub.warning:
                self._terminal.note(hub.warning)
            self._found, self._shown = entries(rows), 0
            if rows:
                self._next([])
            else:
                self._terminal.note(say("No results were found."))
        elif name in SETTINGS:
            self._set(name, SETTINGS[name], words)
        elif name in self._actions:
            self._actions[name].run(words)
        else:
            raise unknown_name(
                name,
                self._commands,
                say("There is no command {name}. Did you mean {near}?"),
                say("There is no command {name}. /help lists them."),
            )

    # -- queries ---------------------------------------------------------------------------------

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
            self._terminal.say(f"{name} {setting.usage}")
            if name == "/weights":
                for number, preset in enumerate(PRESETS, 1):
                    self._terminal.say(f"  {number}  {preset}")
            plain = QuerySettings()
            now = {field: getattr(self._wanted, field) for field in setting.fields}
            said = ", ".join(_shown(value) for field, value in now.items() if value != getattr(plain, field))
            if said:
                self._remark(say("now: {value}", value=said))
            return
        changed = setting.apply(self._wanted, words)
        if name == "/user":
            users = [*changed.includes, *changed.excludes]
            unknown = self._terminal.hub().call("suggest_users", {"user_list": users}) if users else {}
            if unknown:
                raise UnknownName(Message(" ".join(text(no_user(*similar)) for similar in unknown.items())))
        self._wanted = changed
        self._remark(self._wanted.summary() or say("All posts."))

    def _help(self, words: list[str]) -> None:
        self._terminal.say(
            say(
                'meaning|text: posts that are close to the meaning and contain the text (word "a '
                'phrase" -not). Either part can be left out.'
            )
        )
        table: dict[str, SettingCommand | ShellCommand] = {**SETTINGS, **self._actions}
        rows = []
        for name, command in table.items():
            names = (name, *(short for short, long in ALIASES.items() if long == name))
            rows.append((", ".join(names), command.usage, command.about))
        self._terminal.table(["", "", ""], rows)

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

    def _remark(self, said: str | Message) -> None:
        if self._line.edited:
            emit(StyledText(text(said), "dim"))

    def _complete(self, before: str, word: str) -> list[str]:
        """Return completions while a line is typed; none if the hub cannot be reached."""
        try:
            return candidates(before, word, self._commands, _CHOICES | self._hub_choices(before))
        except TabaneError:
            self._terminal.close()
            return []

    def _hub_choices(self, before: str) -> dict[str, Sequence[str]]:
        """Return the users and tags that can follow a command. The hub is asked once per session for each."""
        command = before.split()[:1]
        if command == ["/user"] and "/user" not in self._offered:
            self._offered["/user"] = self._terminal.hub().call("get_user_list", limit=COMPLETION_LIMIT)
        if command == ["/tag"] and "/tag" not in self._offered:
            wanted = {"field": "tags", "limit": _MOST_TAGS}
            rows = self._terminal.hub().call("get_post_facets", wanted, COMPLETION_LIMIT)
            self._offered["/tag"] = [row["value"] for row in rows]
        return self._offered


_CHOICES: dict[str, Sequence[str]] = {
    "/mode": tuple(MODES),
    "/weights": (*PRESETS, *OFF[:1]),
    "/view": tuple(VIEWS),
    "/type": tuple(KINDS),
    "/date": OFF[:1],
}


def _shown(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


Choices = Mapping[str, Sequence[str]]
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
    return [marks + one for one in offered if one.casefold().startswith(bare.casefold())]
