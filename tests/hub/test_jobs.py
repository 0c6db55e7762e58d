"""Jobs: started, followed, cancelled, kept, and cheap."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import BadArguments, HubDraining, HubError, StoreFull, UnknownName
from tabane.hub import jobs as limits
from tabane.hub.job import BETWEEN_VERSIONS, LEAST_SPAN, WINDOW, Job, JobPace
from tabane.hub.jobs import Jobs
from tabane.messages import say
from tabane.operations import Caller, Door, Face, OperationTable, Progress
from tabane.wire import json
from tests.harness.patience import LONG, pass_time, steps

EN, JA = Caller("local", Face.RPC, "1"), Caller("local", Face.RPC, "2", lang="ja")
TITLE = say("Nothing was found.")


class Work:
    """A job that does what the test says: it tells, ends or fails when asked to."""

    def __init__(self) -> None:
        self.begun, self.gate = asyncio.Event(), asyncio.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self.deaf = False
        self.progress: Progress | None = None

    async def __call__(self, progress: Progress) -> Any:
        self.progress = progress
        self.begun.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            if not self.deaf:
                raise
            await self.gate.wait()
        if self.error:
            raise self.error
        return self.result

    def ends(self, result: Any = None, error: BaseException | None = None) -> None:
        self.result, self.error = result, error
        self.gate.set()

    def tell(self, *given: Any) -> None:
        assert self.progress is not None
        self.progress.tell(*given)


class House:
    """Jobs behind a door, as a program meets them."""

    def __init__(self) -> None:
        self.jobs = Jobs(asyncio.get_running_loop(), patience=0.2)
        self.door = Door(OperationTable(self.jobs.table()), self.jobs)

    async def begun(self) -> tuple[Job, Work]:
        work = Work()
        job = self.jobs.start("count", TITLE, work)
        await work.begun.wait()
        return job, work

    async def ask(self, method: str, caller: Caller = EN, **params: Any) -> Any:
        return json.decode(json.encode(await self.door.invoke(caller, method, json.encode(params))))

    async def over(self, job: Job, caller: Caller = EN) -> Any:
        state = await self.ask("follow_job", caller, job=job.key)
        while state["status"] == "running":
            state = await self.ask("follow_job", caller, job=job.key, version=state["version"], wait=5)
        return state


def play(scene: Callable[[House], Awaitable[None]]) -> None:
    async def run() -> None:
        house = House()
        try:
            await asyncio.wait_for(scene(house), LONG)
        finally:
            await house.jobs.close()

    asyncio.run(run())


def test_a_job_is_followed_to_its_result() -> None:
    async def scene(house: House) -> None:
        before = time.time()
        job, work = await house.begun()
        state = await house.ask("follow_job", job=job.key)
        after = time.time()
        assert {name: state[name] for name in ("job", "operation", "title", "status", "done", "total")} == {
            "job": job.key,
            "operation": "count",
            "title": "Nothing was found.",
            "status": "running",
            "done": 0,
            "total": None,
        }
        assert before - 1 <= state["started"] <= after + 1
        assert not {"ended", "result", "error"} & set(state)
        work.ends({"counted": 3})
        state = await house.over(job)
        assert (state["status"], state["result"]) == ("done", {"counted": 3})
        assert state["ended"] >= state["started"]

    play(scene)


def test_a_follower_is_answered_when_something_changed_and_not_before() -> None:
    async def scene(house: House) -> None:
        job, work = await house.begun()
        known = (await house.ask("follow_job", job=job.key))["version"]
        follower = asyncio.ensure_future(house.ask("follow_job", job=job.key, version=known))
        assert (await house.ask("follow_job", job=job.key, version=known, wait=0))["version"] == known
        assert not follower.done()
        work.tell(2, 5, say("Nothing was found."))
        state = await follower
        assert (state["done"], state["total"], state["note"]) == (2, 5, "Nothing was found.")
        assert state["version"] > known
        # Who knows another version than the present one is answered at once.
        assert (await house.ask("follow_job", job=job.key, version=known))["done"] == 2

    play(scene)


def test_a_follower_without_news_is_answered_when_its_time_is_up() -> None:
    async def scene(house: House) -> None:
        job, _ = await house.begun()
        state = await house.ask("follow_job", job=job.key, version=job.version, wait=0.05)
        assert (state["status"], state["version"]) == ("running", job.version)

    play(scene)


def test_a_job_that_is_over_is_not_waited_for() -> None:
    async def scene(house: House) -> None:
        job, work = await house.begun()
        work.ends()
        state = await house.over(job)
        assert await house.ask("follow_job", job=job.key, version=state["version"], wait=30) == state

    play(scene)


def test_a_million_words_of_progress_are_a_few_versions() -> None:
    async def scene(house: House) -> None:
        job, work = await house.begun()

        def tell() -> None:
            for number in range(1000):
                work.tell(number, 1_000_000)

        assert steps(tell) <= 30 * 1000, "some lines each"
        before, began = job.version, time.perf_counter()
        for number in range(1_000_000):
            work.tell(number, 1_000_000)
            if number % 10_000 == 0:
                await asyncio.sleep(0)
        took = time.perf_counter() - began
        assert job.version - before <= took / BETWEEN_VERSIONS + 2
        known = job.version
        state = await house.ask("follow_job", job=job.key, version=known)
        assert (state["version"], state["done"]) == (known + 1, 999_999), "the last word is not lost"

    play(scene)


def test_the_end_is_told_though_the_last_progress_was_just_told() -> None:
    async def scene(house: House) -> None:
        job, work = await house.begun()
        work.tell(1, 2)
        work.tell(2, 2)
        work.ends("all")
        state = await house.over(job)
        assert (state["done"], state["result"], state["left"]) == (2, "all", None)
        work.tell(0)
        pass_time(2 * BETWEEN_VERSIONS)
        await asyncio.sleep(0)
        assert await house.ask("follow_job", job=job.key) == state, "what it tells now is not heard"

    play(scene)


def test_a_failure_is_told_in_the_language_of_who_asks() -> None:
    async def scene(house: House) -> None:
        job, work = await house.begun()
        work.ends(error=StoreFull(say("Nothing was found.")))
        for caller, words in [(EN, "Nothing was found."), (JA, "何も見つかりませんでした。")]:
            state = await house.over(job, caller)
            assert state["status"] == "failed"
            assert state["error"] == {"code": -32603, "message": words, "reason": "storage"}
        assert "result" not in state

    play(scene)


@pytest.mark.parametrize("fault", [ZeroDivisionError("a secret"), asyncio.CancelledError("a secret")])
def test_a_fault_of_ours_is_logged_and_not_shown(
    fault: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(house: House) -> None:
        job, work = await house.begun()
        work.ends(error=fault)
        state = await house.over(job)
        assert (state["status"], state["error"]["reason"]) == ("failed", "internal")
        assert "secret" not in str(state)

    with caplog.at_level(logging.ERROR):
        play(scene)
    assert "(count) failed" in caplog.text


def test_a_result_that_cannot_be_written_fails_its_job_alone() -> None:
    async def scene(house: House) -> None:
        job, work = await house.begun()
        work.ends(object())
        assert (await house.over(job))["status"] == "failed"
        assert len((await house.ask("list_jobs"))["results"]) == 1

    play(scene)


def test_a_job_is_cancelled_and_what_it_told_stays() -> None:
    async def scene(house: House) -> None:
        job, work = await house.begun()
        work.tell(3, 9)
        state = await house.ask("cancel_job", job=job.key)
        assert (state["status"], state["done"]) == ("cancelled", 3)
        assert not {"result", "error"} & set(state)
        assert house.jobs.running == 0

    play(scene)


def test_a_job_is_cancelled_before_it_did_anything() -> None:
    async def scene(house: House) -> None:
        job = house.jobs.start("count", TITLE, Work())
        assert (await house.ask("cancel_job", job=job.key))["status"] == "cancelled"

    play(scene)


def test_a_job_that_takes_its_time_to_stop_is_said_to_run_on() -> None:
    async def scene(house: House) -> None:
        job, work = await house.begun()
        work.deaf = True
        assert (await house.ask("cancel_job", job=job.key))["status"] == "running"
        work.ends("after all")
        assert (await house.over(job))["result"] == "after all"
        assert (await house.ask("cancel_job", job=job.key))["status"] == "done"

    play(scene)


def test_one_job_too_many_is_refused_until_another_is_over() -> None:
    async def scene(house: House) -> None:
        begun = [await house.begun() for _ in range(limits.MOST_RUNNING)]
        with pytest.raises(HubError, match="16 jobs are already running"):
            house.jobs.start("count", TITLE, Work())
        begun[0][1].ends()
        await house.over(begun[0][0])
        assert (await house.begun())[0].status == "running"

    play(scene)


def test_the_latest_hundred_are_kept_and_whatever_runs() -> None:
    async def scene(house: House) -> None:
        first, _ = await house.begun()
        over = []
        for _ in range(limits.MOST_KEPT + 5):
            job, work = await house.begun()
            work.ends()
            await house.over(job)
            over.append(job.key)
        rows = (await house.ask("list_jobs"))["results"]
        assert [row["job"] for row in rows] == [*reversed(over[5:]), first.key]
        with pytest.raises(UnknownName, match="tabane jobs list"):
            await house.ask("follow_job", job=over[0])

    play(scene)


def test_large_results_are_kept_up_to_a_limit() -> None:
    async def scene(house: House) -> None:
        for _ in range(3):
            job, work = await house.begun()
            work.ends("x" * (limits.MOST_KEPT_BYTES // 2))
            await house.over(job)
        assert len((await house.ask("list_jobs"))["results"]) == 1

    play(scene)


def test_the_end_of_the_hub_ends_jobs_and_tells_who_follows_them() -> None:
    async def scene(house: House) -> None:
        job, work = await house.begun()
        follower = asyncio.ensure_future(house.ask("follow_job", job=job.key, version=job.version))
        await asyncio.sleep(0)
        house.jobs.drain()
        state = await follower
        assert (state["status"], state["error"]["reason"]) == ("cancelled", "draining")
        with pytest.raises(HubDraining):
            house.jobs.start("count", TITLE, work)

    play(scene)


def test_a_job_that_does_not_stop_does_not_keep_the_hub(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(house: House) -> None:
        _, work = await house.begun()
        work.deaf = True
        await house.jobs.close()
        assert house.jobs.running == 1
        work.ends()

    with caplog.at_level(logging.WARNING):
        play(scene)
    assert "did not stop" in caplog.text


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("follow_job", {}),
        ("follow_job", {"job": ""}),
        ("follow_job", {"job": "x", "wait": 31}),
        ("follow_job", {"job": "x", "wait": -1}),
        ("cancel_job", {"job": "x" * 41}),
        ("list_jobs", {"all": True}),
    ],
)
def test_parameters_that_do_not_fit_are_refused(method: str, params: dict[str, Any]) -> None:
    async def scene(house: House) -> None:
        with pytest.raises(BadArguments):
            await house.ask(method, **params)

    play(scene)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["start", "tell", "end", "fail", "cancel"]), st.integers(0, 19), st.integers(0, 9)
    ),
    max_size=60,
)


@given(ACTIONS)
def test_whatever_happens_in_whatever_order_each_job_is_where_it_was_brought(
    actions: list[tuple[str, int, int]],
) -> None:
    async def scene(house: House) -> None:
        begun: list[tuple[Job, Work]] = []
        wanted: list[str] = []
        versions: dict[str, int] = {}
        for what, which, number in actions:
            if what == "start":
                if wanted.count("running") < limits.MOST_RUNNING:
                    begun.append(await house.begun())
                    wanted.append("running")
                continue
            if not begun:
                continue
            place = which % len(begun)
            job, work = begun[place]
            if what == "tell":
                work.tell(number, 9)
            elif wanted[place] == "running":
                await bring(house, what, job, work)
                wanted[place] = {"end": "done", "fail": "failed", "cancel": "cancelled"}[what]
            for row in (await house.ask("list_jobs"))["results"]:
                assert row["version"] >= versions.get(row["job"], 0)
                versions[row["job"]] = row["version"]
        rows = {row["job"]: row for row in (await house.ask("list_jobs"))["results"]}
        assert [rows[job.key]["status"] for job, _ in begun] == wanted
        assert house.jobs.running == wanted.count("running")

    play(scene)


async def bring(house: House, what: str, job: Job, work: Work) -> None:
    if what == "cancel":
        await house.ask("cancel_job", job=job.key)
        return
    work.ends(error=HubError(say("Nothing was found.")) if what == "fail" else None)
    await house.over(job)


# -- the rate ------------------------------------------------------------------------------------


def paced(*steps: tuple[float, int]) -> JobPace:
    pace = JobPace()
    for when, done in steps:
        pace.add(when, done)
    return pace


def test_a_rate_is_that_of_the_last_seconds() -> None:
    slow = [(float(second), second) for second in range(100)]
    fast = [(100.0 + second, 100 + 50 * second) for second in range(31)]
    assert paced(*slow).rate(99) == pytest.approx(1)
    assert paced(*slow, *fast).rate(130) == pytest.approx(50)


def test_a_rate_of_slow_steps_is_that_of_two_of_them() -> None:
    assert paced((0, 0), (60, 30), (120, 90)).rate(120) == pytest.approx(1)


@pytest.mark.parametrize("steps", [[], [(0, 5)], [(0, 5), (LEAST_SPAN / 2, 9)]])
def test_too_little_is_no_rate(steps: list[tuple[float, int]]) -> None:
    assert paced(*steps).rate(LEAST_SPAN) is None


def test_a_count_that_is_taken_up_again_is_no_speed() -> None:
    assert paced((0, 50_000), (1, 50_010)).rate(1) == pytest.approx(10)


def test_a_count_that_begins_anew_is_measured_anew() -> None:
    assert paced((0, 0), (1, 1000), (2, 0), (4, 4)).rate(4) == pytest.approx(2)


def test_a_count_that_stands_still_slows_down() -> None:
    pace = paced((0, 0), (5, 50))
    assert pace.rate(5) == pace.rate(5 + WINDOW) == pytest.approx(10)
    assert pace.rate(15 + WINDOW) == pytest.approx(50 / 15)


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 10**9)), max_size=300))
def test_a_rate_is_never_negative_nor_its_memory_long(steps: list[tuple[float, int]]) -> None:
    pace, now = JobPace(), 0.0
    for later, done in steps:
        now += max(later, BETWEEN_VERSIONS)
        pace.add(now, done)
        rate = pace.rate(now)
        assert rate is None or rate >= 0
    assert len(pace._steps) <= WINDOW / BETWEEN_VERSIONS + 3


def test_time_left_follows_from_the_rate() -> None:
    async def scene(house: House) -> None:
        job, work = await house.begun()
        work.tell(0, 100)
        pass_time(LEAST_SPAN + 0.1)
        work.tell(50, 100)
        state = await house.ask("follow_job", job=job.key)
        assert state["left"] == pytest.approx(50 / state["rate"], rel=0.1)
        assert 20 < state["rate"] < 100

    play(scene)
