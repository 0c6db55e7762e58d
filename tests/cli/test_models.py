"""`tabane models` as a user runs it, with a tiny local model and a downloaded one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.home import Home, Outcome, hub
from tests.harness.patience import LONG
from tests.search.embedding import tiny
from tests.search.embedding.servers import FakeHub


def configured(folder: Path, **settings: object) -> Home:
    home = Home(folder)
    home.environment["TABANE_CONFIG"] = str(folder / "tabane.toml")
    write(home, **settings)
    home.write_servers({})
    return home


def write(home: Home, **settings: object) -> None:
    file = home.folder / "tabane.toml"
    file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    file.chmod(0o600)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("home")
    home = configured(folder, model=str(tiny.make(folder / "little")))
    with hub(home):
        yield home


def test_what_there_is_is_shown_before_it_runs_and_after(home: Home) -> None:
    before = home.run("models", "--json").json
    assert before["id"] == "little"
    shown = home.run("models", "show").out
    assert str(home.folder / "little") in shown
    assert home.run("models", "test").status == 0
    after = home.run("models", "show", "--json").json
    assert (after["state"], after["dimension"]) == ("open", 24)
    assert after["fingerprint"].startswith("little#")
    assert str(after["open"][0]["pid"]) in home.run("models", "show").out
    assert home.run("status", "--json").json["model"] == after["fingerprint"]


def test_two_texts_are_compared(home: Home) -> None:
    found = home.run("models", "test", "the cat", "the cat", "--json").json
    assert found["cosine"] == pytest.approx(1, abs=1e-4)
    rows = home.run("models", "test", "the red house", "猫 は 家 が 犬").rows
    assert rows[-1][0] == "similarity (cosine)"
    assert float(rows[-1][1]) < 1


def test_a_folder_needs_no_fetching(home: Home) -> None:
    done = home.run("models", "pull", "--json")
    assert done.status == 0, done.err
    assert [row["model"] for row in done.json["results"]] == ["little"]
    wrong = home.run("models", "pull", "../up")
    assert "../up is not the name of a model" in wrong.err
    assert wrong.status == 2


def test_what_is_not_here_is_named_with_what_fetches_it(home: Home) -> None:
    absent = home.run("models", "pull", "org/tiny")
    assert absent.status == 1
    assert "tabane models pull org/tiny" in absent.err


def test_doctor_says_what_search_by_meaning_goes_by(home: Home) -> None:
    def lines(done: Outcome) -> list[str]:
        found = [each for each in done.json["findings"] if each["check"] == "models"]
        return [f"{each['level']}: {each['title']}" for each in found]

    (line,) = lines(home.run("doctor", "--quick", "--json"))
    assert line.startswith("ok: Semantic search: little")


def test_doctor_says_without_a_hub_why_there_is_no_model(tmp_path: Path) -> None:
    home = configured(tmp_path, model=str(tmp_path / "nowhere"))
    found = home.run("doctor", "--quick", "--json").json["findings"]
    (model,) = [each for each in found if each["check"] == "models"]
    assert model["level"] == "warning"
    assert model["title"].startswith("Search matches keywords only. There is no model folder")
    assert "tabane models show" in model["mend"]
    assert not (home.tabane / "store").exists()
    write(home, model="none")
    found = home.run("doctor", "--quick", "--json").json["findings"]
    assert [each["level"] for each in found if each["check"] == "models"] == ["note"]


def test_a_hub_that_runs_takes_another_model_of_the_settings_up(tmp_path: Path) -> None:
    home = configured(tmp_path, model=str(tiny.make(tmp_path / "one")))
    with hub(home):
        first = home.run("models", "test", "--json").json["model"]
        assert first.startswith("one#")
        write(home, model=str(tiny.make(tmp_path / "two", seed=2)))
        deadline = time.monotonic() + LONG
        while home.run("models", "--json").json["id"] != "two":
            assert time.monotonic() < deadline
        assert home.run("models", "test", "--json").json["model"].startswith("two#")
        assert first in [each["model"] for each in home.run("models", "--json").json["open"]]


def test_a_model_is_fetched_with_progress_and_used(tmp_path: Path) -> None:
    fake = FakeHub()
    fake.add("org/tiny", tiny.make(tmp_path / "source"))
    home = configured(tmp_path, model="org/tiny")

    async def run() -> None:
        async with fake.serving() as url:
            home.environment |= {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": url}
            await asyncio.to_thread(use)

    def use() -> None:
        with hub(home):
            assert home.run("models", "--json").json["state"] == "absent"
            assert fake.asked == []
            done = home.run("models", "pull")
            assert done.status == 0, done.err
            assert "org/tiny is in " in done.out
            fake.asked.clear()
            assert home.run("models", "test", "--json").json["model"].startswith("org/tiny#")
            assert fake.asked == []
            assert home.run("models", "pull").status == 0  # nothing is left to fetch
            assert fake.fetched("file") == []

    asyncio.run(run())
