"""Jobs: started, followed, canceled, kept, and cheap."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tabane.errors import BadArguments, HubDraining, HubError, StoreFull, UnknownName
from tabane.hub.work import jobs as limits
from tabane.hub.work.job import BETWEEN_VERSIONS, LEAST_SPAN, WINDOW, Job, JobPace
from tabane.hub.work.jobs import Jobs
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

    async def begun(self, caller: Caller | None = None) -> tuple[Job, Work]:
        work = Work()
        job = self.jobs.start("count", TITLE, work, caller)
        await work.begun.wait()
        return job, work

    async def ask(self, method: str, caller: Caller = EN, **params: Any) -> Any:
        return json.decode(json.encode(await self.door.invoke(caller, method, json.encode(params))))

    async def over(self, job: Job, caller: Caller = EN) -> Any:
        state = await self.ask("follow_job", caller, job=job.key)
        while state["status"] == "running":
            state = await self.ask("follow_job", caller, job=job.key, version=state["version"], wait=5)
        return state


@asynccontextmanager
async def job_house() -> AsyncIterator[House]:
    house = House()
    try:
        yield house
    finally:
        await house.jobs.close()


async def test_a_job_is_followed_to_its_result() -> None:
    async with job_house() as house:
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


async def test_a_follower_is_answered_when_something_changed_and_not_before() -> None:
    async with job_house() as house:
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


async def test_a_follower_without_news_is_answered_when_its_time_is_up() -> None:
    async with job_house() as house:
        job, _ = await house.begun()
        state = await house.ask("follow_job", job=job.key, version=job.version, wait=0.05)
        assert (state["status"], state["version"]) == ("running", job.version)


async def test_a_job_that_is_over_is_not_waited_for() -> None:
    async with job_house() as house:
        job, work = await house.begun()
        work.ends()
        state = await house.over(job)
        assert await house.ask("follow_job", job=job.key, version=state["version"], wait=30) == state


async def test_a_million_words_of_progress_are_a_few_versions() -> None:
    async with job_house() as house:
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


async def test_the_end_is_told_though_the_last_progress_was_just_told() -> None:
    async with job_house() as house:
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


async def test_a_failure_is_told_in_the_language_of_who_asks() -> None:
    async with job_house() as house:
        job, work = await house.begun()
        work.ends(error=StoreFull(say("Nothing was found.")))
        for caller, words in [(EN, "Nothing was found."), (JA, "何も見つかりませんでした。")]:
            state = await house.over(job, caller)
            assert state["status"] == "failed"
            assert state["error"] == {"code": -32603, "message": words, "reason": "storage"}
        assert "result" not in state


@pytest.mark.parametrize("fault", [ZeroDivisionError("a secret"), asyncio.CancelledError("a secret")])
async def test_a_fault_of_ours_is_logged_and_not_shown(
    fault: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with job_house() as house:
            job, work = await house.begun()
            work.ends(error=fault)
            state = await house.over(job)
            assert (state["status"], state["error"]["reason"]) == ("failed", "internal")
            assert "secret" not in str(state)
    assert "(count) failed" in caplog.text


async def test_a_result_that_cannot_be_written_fails_its_job_alone() -> None:
    async with job_house() as house:
        job, work = await house.begun()
        work.ends(object())
        assert (await house.over(job))["status"] == "failed"
        assert len((await house.ask("list_jobs"))["results"]) == 1


async def test_a_job_is_cancelled_and_what_it_told_stays() -> None:
    async with job_house() as house:
        job, work = await house.begun()
        work.tell(3, 9)
        state = await house.ask("cancel_job", job=job.key)
        assert (state["status"], state["done"]) == ("cancelled", 3)
        assert not {"result", "error"} & set(state)
        assert house.jobs.running == 0


async def test_a_job_is_cancelled_before_it_did_anything() -> None:
    async with job_house() as house:
        job = house.jobs.start("count", TITLE, Work())
        assert (await house.ask("cancel_job", job=job.key))["status"] == "cancelled"


async def test_a_job_that_takes_its_time_to_stop_is_said_to_run_on() -> None:
    async with job_house() as house:
        job, work = await house.begun()
        work.deaf = True
        assert (await house.ask("cancel_job", job=job.key))["status"] == "running"
        work.ends("after all")
        assert (await house.over(job))["result"] == "after all"
        assert (await house.ask("cancel_job", job=job.key))["status"] == "done"


async def test_one_job_too_many_is_refused_until_another_is_over() -> None:
    async with job_house() as house:
        begun = [await house.begun() for _ in range(limits.MOST_RUNNING)]
        with pytest.raises(HubError, match="16 jobs are already running"):
            house.jobs.start("count", TITLE, Work())
        begun[0][1].ends()
        await house.over(begun[0][0])
        assert (await house.begun())[0].status == "running"


async def test_the_latest_hundred_are_kept_and_whatever_runs() -> None:
    async with job_house() as house:
        first, _ = await house.begun()
        over = []
        for _ in range(limits.MOST_KEPT + 5):
            job, work = await house.begun(EN)
            work.ends()
            await house.over(job)
            over.append(job.key)
        rows = (await house.ask("list_jobs"))["results"]
        assert [row["job"] for row in rows] == [*reversed(over[5:]), first.key]
        with pytest.raises(UnknownName, match="tabane jobs list"):
            await house.ask("follow_job", job=over[0])


async def test_jobs_of_the_hub_itself_do_not_push_out_those_of_people() -> None:
    async with job_house() as house:
        asked, work = await house.begun(EN)
        work.ends("asked")
        await house.over(asked)
        for _ in range(limits.MOST_KEPT + 5):
            job, work = await house.begun()
            work.ends()
            await house.over(job)
        assert (await house.ask("follow_job", job=asked.key))["result"] == "asked"
        assert len((await house.ask("list_jobs"))["results"]) == limits.MOST_OWN_KEPT + 1


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([8 << 20, 8 << 20], 2),  # exactly the limit
        ([8 << 20, (8 << 20) + 1], 1),
        ([8 << 20, 8 << 20, 8 << 20, 1000], 2),
        ([20 << 20], 1),  # the latest result is kept, whatever its size
        ([1000, 20 << 20], 1),
        ([20 << 20, 1000], 1),
    ],
)
async def test_results_are_kept_up_to_a_limit_and_always_the_latest(sizes: list[int], kept: int) -> None:
    keys = []
    async with job_house() as house:
        for size in sizes:
            job, work = await house.begun()
            work.ends("x" * (size - 2))  # as JSON, it has two quotation marks
            await job.changed(job.version, LONG)
            keys.append(job.key)
        rows = (await house.ask("list_jobs"))["results"]
    assert [row["job"] for row in rows] == keys[: -kept - 1 : -1]
    assert len(rows[0]["result"]) == sizes[-1] - 2


PROGRAM = structs.replace(EN, session="rpc-1", client="importer", pid=41, connected=True)


@pytest.mark.parametrize(
    ("caller", "detached", "gone", "status"),
    [
        (PROGRAM, False, "rpc-1", "cancelled"),
        (PROGRAM, False, "rpc-2", "running"),
        (PROGRAM, True, "rpc-1", "running"),
        (structs.replace(PROGRAM, connected=False), False, "rpc-1", "running"),
        (None, False, "rpc-1", "running"),
    ],
    ids=["its connection", "another connection", "detached", "begun by a POST", "begun by the hub"],
)
async def test_a_job_ends_with_the_connection_that_it_belongs_to(
    caller: Caller | None, detached: bool, gone: str, status: str
) -> None:
    async with job_house() as house:
        job, work = await house.begun(caller)
        work.tell(3, 9)
        if detached:
            await house.ask("detach_job", job=job.key)
        known = (await house.ask("list_jobs"))["results"][0]["version"]
        house.jobs.session_ended(gone)
        if status == "cancelled":
            state = await house.ask("follow_job", job=job.key, version=known)
            assert "The program that started the job ended. Completed work is kept." in str(state["error"])
            assert state["done"] == 3
        else:
            work.ends("all")
            assert (await house.over(job))["result"] == "all"


async def test_a_detached_job_is_news_once_and_keeps_its_owner_in_the_list() -> None:
    async with job_house() as house:
        job, work = await house.begun(PROGRAM)
        owner = {"client": "importer", "pid": 41, "detached": False}
        assert (await house.ask("list_jobs"))["results"][0]["owner"] == owner
        known = job.version
        follower = asyncio.ensure_future(house.ask("follow_job", job=job.key, version=known))
        await asyncio.sleep(0)
        state = await house.ask("detach_job", job=job.key)
        assert (state["owner"], state["version"]) == (owner | {"detached": True}, known + 1)
        assert await follower == state
        assert await house.ask("detach_job", job=job.key) == state
        work.ends()
        await house.over(job)
        assert (await house.ask("detach_job", job=job.key))["status"] == "done"
        with pytest.raises(UnknownName):
            await house.ask("detach_job", job="none")


async def test_the_end_of_the_hub_ends_jobs_and_tells_who_follows_them() -> None:
    async with job_house() as house:
        job, work = await house.begun()
        follower = asyncio.ensure_future(house.ask("follow_job", job=job.key, version=job.version))
        await asyncio.sleep(0)
        house.jobs.drain()
        state = await follower
        assert (state["status"], state["error"]["reason"]) == ("cancelled", "draining")
        with pytest.raises(HubDraining):
            house.jobs.start("count", TITLE, work)


async def test_a_job_that_does_not_stop_does_not_keep_the_hub(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with job_house() as house:
            _, work = await house.begun()
            work.deaf = True
            await house.jobs.close()
            assert house.jobs.running == 1
            work.ends()
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
async def test_parameters_that_do_not_fit_are_refused(method: str, params: dict[str, Any]) -> None:
    async with job_house() as house:
        with pytest.raises(BadArguments):
            await house.ask(method, **params)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["start", "tell", "end", "fail", "cancel"]), st.integers(0, 19), st.integers(0, 9)
    ),
    max_size=60,
)


@given(ACTIONS)
async def test_whatever_happens_in_whatever_order_each_job_is_where_it_was_brought(
    actions: list[tuple[str, int, int]],
) -> None:
    async with job_house() as house:
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


async def test_time_left_follows_from_the_rate() -> None:
    async with job_house() as house:
        job, work = await house.begun()
        work.tell(0, 100)
        pass_time(LEAST_SPAN + 0.1)
        work.tell(50, 100)
        state = await house.ask("follow_job", job=job.key)
        assert state["left"] == pytest.approx(50 / state["rate"], rel=0.1)
        assert 20 < state["rate"] < 100
