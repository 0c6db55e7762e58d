"""`tabane posts shell` on a real terminal: input, completion, Ctrl+C, and exit."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabane.cli.posts_shell import SETTINGS, QuerySettings, candidates, numbers
from tabane.errors import CallerError
from tests.harness.archive import POSTS, archive_hub, with_model
from tests.harness.bridge import answer, fake_hub
from tests.harness.home import Home, hub
from tests.harness.patience import LONG
from tests.harness.terminal import OnTerminal, on_terminal
from tests.posts.importing.archives import write_csv

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\x07")
STATS = {"total_posts": 5, "total_users": 3, "date_range": {}}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with archive_hub(tmp_path_factory.mktemp("home")) as home:
        yield home


class Typed:
    """A shell that is typed at."""

    def __init__(self, terminal: OnTerminal) -> None:
        self.terminal = terminal

    def __call__(self, keys: str, until: str = "> ") -> str:
        """What comes after the keys until a text does, without colors; an Enter is part of the keys."""
        self.terminal.out = ""
        os.write(self.terminal.fd, keys.encode())
        self.terminal.read_until(until)
        return CONTROL.sub("", self.terminal.out)

    def line(self, line: str, until: str = "> ") -> str:
        """What a line is answered with, up to the next prompt."""
        self.terminal.out = ""
        os.write(self.terminal.fd, line.encode() + b"\n")
        self.terminal.read_until("\n")  # the line itself comes back first
        self.terminal.out = self.terminal.out.partition("\n")[2]
        self.terminal.read_until(until)
        return CONTROL.sub("", self.terminal.out)


def waits_for_keys(pid: int) -> None:
    """Wait until a process sleeps, where the system tells."""
    stat, deadline = Path(f"/proc/{pid}/stat"), time.monotonic() + LONG
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < deadline, "it is busy"


def shell(home: Home) -> Iterator[Typed]:
    with on_terminal(home, "posts", "shell") as terminal:
        typed = Typed(terminal)
        terminal.read_until("posts> ")
        yield typed


@pytest.fixture
def typed(home: Home) -> Iterator[Typed]:
    yield from shell(home)


def test_queries_in_japanese_are_answered_and_ctrl_d_leaves(typed: Typed) -> None:
    found = typed.line("the red house|猫")
    assert "@alice (2023-03-01 10:00:00)" in found
    assert "赤い猫が家にいる" in found
    assert "No results were found." in typed.line("|ねずみ")
    os.write(typed.terminal.fd, b"\x04")
    typed.terminal.end()
    assert typed.terminal.process.returncode == 0


def test_a_wide_character_is_taken_back_whole(typed: Typed) -> None:
    assert "a cat sat & 犬" in typed.line("|犬猫\x7f")


def test_results_come_in_pages_and_views(typed: Typed) -> None:
    typed.line("/top 2")
    typed.line("/view list")
    first = typed.line("the red house")
    assert [line[:2] for line in first.splitlines()[:2]] == ["1 ", "2 "]
    assert "2 of 5; /next for more" in first
    assert [line[:2] for line in typed.line("/next").splitlines()[:2]] == ["3 ", "4 "]
    assert typed.line("/next").startswith("5 ")
    assert "There are no more results." in typed.line("/next")
    details = typed.line("/details 1-2,5")
    assert [number for number in "12345" if f"{number}. [" in details] == ["1", "2", "5"]
    assert "reason " in details
    assert "is not a list of numbers from 1 to 5" in typed.line("/details 6")


def test_filters_stand_in_the_prompt_and_are_taken_off(typed: Typed) -> None:
    assert "posts (@bob)> " in typed.line("/user bob")
    assert "posts (@bob 2024-06-01..)> " in typed.line("/date 2024-06-01")
    found = typed.line("the red house")
    assert "犬" in found
    assert "blue dog" not in found
    assert "posts (2024-06-01..)> " in typed.line("/user off")
    assert "posts> " in typed.line("/date off")
    assert "/date: 'soon' is not a date" in typed.line("/date soon")
    assert "posts (average .2/.7/.1)> " in typed.line("/weights 3")
    assert "1. [" in typed.line("the red house")
    assert "posts (content)> " in typed.line("/mode content")
    assert "posts> " in typed.line("/mode off")


def test_commands_and_users_are_completed(typed: Typed) -> None:
    assert "/mode " in typed("/mo\t", "/mode ")
    assert "weighted" in typed("wei\t", "weighted")
    typed("\n", "posts (weighted)> ")
    typed("/user al\t", "alice")
    typed("\n", "posts (weighted @alice)> ")
    both = typed("/t\t\t", "/type")
    assert "/top" in both
    assert "/tag" in both
    typed("\x15/tag 動\t", "動物")
    assert "#動物" in typed("\n", "#動物")


def test_what_is_mistyped_is_answered_with_what_may_be_meant(typed: Typed) -> None:
    assert "There is no user alcie. Did you mean alice" in typed.line("/user alcie")
    assert "There is no command /usr. Did you mean /user" in typed.line("/usr")
    assert "There is no mode sum" in typed.line("/mode sum")
    assert "/details" in typed.line("/help")
    assert ".5/.5/0" in typed.line("/weights")


def test_ctrl_c_gives_up_the_line_and_not_the_shell(typed: Typed) -> None:
    typed("/user nobo", "nobo")
    # Python holds back a signal that comes while it handles a key.
    waits_for_keys(typed.terminal.process.pid)
    assert "no user" not in typed("\x03", "posts> ")
    assert "赤い猫" in typed.line("|猫")
    os.write(typed.terminal.fd, b"/exit\n")
    typed.terminal.end()
    assert typed.terminal.process.returncode == 0


def test_what_was_typed_is_there_the_next_time_for_the_user_alone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.environment["TABANE_MODEL"] = "none"
    with hub(home):
        for typed in shell(home):
            typed.line("|ねずみ")
            typed.line("|ねずみ")
            typed.terminal.process.send_signal(signal.SIGKILL)
            typed.terminal.end()
        file = home.tabane / "posts_history"
        assert file.read_text() == "|ねずみ\n"
        assert file.stat().st_mode & 0o777 == 0o600
        file.write_text("".join(f"old {number}\n" for number in range(5000)))
        for typed in shell(home):
            assert "old 4999" in typed("\x1b[A", "old 4999")
        assert len(file.read_text().splitlines()) == 1000


def test_ctrl_c_cancels_a_query_and_the_next_one_is_answered(home: Home, tmp_path: Path) -> None:
    alone = Home(tmp_path)
    with fake_hub(alone.tabane) as hub, on_terminal(alone, "posts", "shell") as terminal:
        typed = Typed(terminal)
        first = hub.accept()
        assert first.next()["method"] == "get_database_stats"
        first.send(answer(1, STATS))
        terminal.read_until("posts> ")
        os.write(terminal.fd, b"slow\n")
        assert first.next()["params"]["query"] == "slow"
        typed("\x03", "Cancelled.")
        with pytest.raises(EOFError):
            first.next()
        os.write(terminal.fd, b"quick\n")
        second = hub.accept()
        assert second.next()["params"]["query"] == "quick"
        second.send(answer(1, []))
        terminal.read_until("No results were found.")


def test_a_hub_that_goes_away_is_said_and_the_prompt_comes_again(tmp_path: Path) -> None:
    alone = Home(tmp_path)
    with fake_hub(alone.tabane) as hub, on_terminal(alone, "posts", "shell") as terminal:
        peer = hub.accept()
        peer.next()
        peer.send(answer(1, {**STATS, "total_posts": 0}))
        terminal.read_until("There are no posts yet.")
        terminal.read_until("posts> ")
        os.write(terminal.fd, b"x\n")
        peer.next()
        peer.close()
        Typed(terminal)("", "The hub closed the connection")
        terminal.read_until("posts> ")


def test_lines_of_a_pipe_are_answered_without_a_prompt(home: Home) -> None:
    done = home.run("posts", "shell", stdin="/view list\n/top 1\n|猫\n/nothing\n|犬\n")
    assert done.status == 0
    assert [row[4] for row in done.rows] == ["1", "4"]
    assert "There is no command /nothing" in done.err
    assert "posts>" not in done.out
    assert not (home.tabane / "posts_history").exists() or "/nothing" not in (
        home.tabane / "posts_history"
    ).read_text()  # fmt: skip


# -- the rules, without a terminal ---------------------------------------------------------------


def after(*lines: str) -> QuerySettings:
    wanted = QuerySettings()
    for line in lines:
        name, *words = line.split()
        wanted = SETTINGS[name].apply(wanted, words)
    return wanted


@pytest.mark.parametrize(
    ("line", "params"),
    [
        ("/user @alice bob", {"user_filter": {"includes": ["alice", "bob"]}}),
        ("/user -alice -@bob", {"user_filter": {"excludes": ["alice", "bob"]}}),
        ("/user >=10 <=20", {"user_filter": {"threshold_min": 10, "threshold_max": 20}}),
        ("/date 20240101 2024-12-31", {"date_filter": {"from": "20240101", "to": "2024-12-31"}}),
        ("/date ..2024-12-31", {"date_filter": {"to": "2024-12-31"}}),
        ("/date 2024-01-01 10:00:00 2024-01-02 11:30", {
            "date_filter": {"from": "2024-01-01 10:00:00", "to": "2024-01-02 11:30"}
        }),
        ("/mode weighted .5/.5/0", {"mode": "weighted", "weights": [0.5, 0.5, 0]}),
        ("/weights 1 2 3", {"mode": "average", "weights": [1, 2, 3]}),
        ("/tag #a b", {"tags": ["a", "b"]}),
        ("/type like", {"log_type": ["like"]}),
    ],
)  # fmt: skip
def test_a_setting_becomes_a_parameter_and_off_takes_it_away(line: str, params: dict[str, object]) -> None:
    plain = {"query": "q", "top_k": 100}
    assert after(line).params("q") == plain | params
    name = line.split()[0]
    assert after(line, f"{name} off", "/mode off").params("q") == plain


@pytest.mark.parametrize(
    "line", ["/user a -b", "/date 1 2 3", "/date x", "/top 0", "/top 101", "/top x", "/mode x", "/view x",
             "/weights 8", "/weights a", "/type x"],
)  # fmt: skip
def test_what_does_not_fit_is_refused_and_changes_nothing(line: str) -> None:
    with pytest.raises(CallerError):
        after(line)


def test_lists_of_numbers() -> None:
    assert numbers("1-3,7", 9) == [1, 2, 3, 7]
    assert numbers("2 2-3", 9) == [2, 3]
    for wrong in ("0", "3-1", "1-", "a", "10", "1-99999999999"):
        with pytest.raises(CallerError):
            numbers(wrong, 9)


def test_words_are_completed_where_they_stand() -> None:
    commands, choices = ["/user", "/top"], {"/user": ["alice", "Albert", "bob"]}
    assert candidates("", "/", commands, choices) == commands
    assert candidates("", "", commands, choices) == []
    assert candidates("/user ", "AL", commands, choices) == ["alice", "Albert"]
    assert candidates("/user bob ", "-@b", commands, choices) == ["-@bob"]
    assert candidates("a query ", "al", commands, choices) == []


def test_the_short_commands_of_the_original_work(home: Home) -> None:
    for leave in ("/quit", "/q", "q", "/exit"):
        with on_terminal(home, "posts", "shell") as terminal:
            typed = Typed(terminal)
            terminal.read_until("posts> ")
            if leave == "/quit":
                for asked in ("?", "/?", "/help"):
                    assert "/exit, q, /q, /quit" in typed.line(asked)
                typed.line("|猫")
                assert "https://x.com/alice/status/" in typed.line("/d 1")
                assert "No results were found." in typed.line("q |ねずみ")
            os.write(terminal.fd, leave.encode() + b"\n")
            terminal.end()
            assert terminal.process.returncode == 0


def test_without_vectors_a_query_is_answered_by_words_with_a_warning(tmp_path: Path) -> None:
    home = with_model(tmp_path, model="none")
    write_csv(tmp_path / "twilog.csv", POSTS)
    with hub(home):
        assert home.run("posts", "import", "twilog.csv").status == 0
        done = home.run("posts", "shell", stdin="/view list\n猫\n/mode content\n猫\n")
        assert "猫" in done.out.splitlines()[0]
        assert "keywords only" in done.err
        assert "Available modes: hybrid" in done.err.splitlines()[-1]
        found = home.run("posts", "search", "猫")
        assert (found.status, "猫" in found.out) == (0, True)
        assert "keywords only" in found.err
        assert home.run("posts", "search", "猫", "--mode", "content").status == 2
