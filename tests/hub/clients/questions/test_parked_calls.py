"""Questions of legacy servers to modern clients: the call is parked until the client comes back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.harness.patience import until
from tests.harness.running_hub import Client, Json, RunningHub, connected_hub, running_hub, text
from tests.hub.clients.questions.asking import (  # fmt: skip
    ACCEPTED,
    FORM,
    FORM_STEP,
    ROOTED,
    ROOTS_STEP,
    SAMPLED,
    SAMPLING,
    SAMPLING_STEP,
    URL,
    URL_STEP,
    able,
    answered,
    answers_to,
    asked_once,
    asking,
    call_of,
)

MODERN: Client = "2026-07-28"
WAYS = ["", "call_tool", "call_readonly_tool"]


def parked(here: RunningHub) -> int:
    return len(here.hub.tools.questions.parked)


@pytest.mark.parametrize("through", WAYS)
@pytest.mark.parametrize(
    ("step", "params", "answer"),
    [
        (FORM_STEP, FORM, ACCEPTED),
        (
            URL_STEP,
            {key: value for key, value in URL.items() if key != "elicitationId"},
            {"action": "accept"},
        ),
        (SAMPLING_STEP, SAMPLING, SAMPLED),
        (ROOTS_STEP, {}, ROOTED),
    ],
    ids=["form", "url", "sampling", "roots"],
)
async def test_a_question_ends_the_request_and_its_answer_continues_the_call(
    tmp_path: Path, step: Json, params: Json, answer: Json, through: str
) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, MODERN) as (here, line):
        request = call_of(step, name="up__look", through=through)
        asked = await asked_once(line, request)
        (question,) = asked["inputRequests"].values()
        assert question == {"method": step["ask"][0]["method"], "params": params}
        assert parked(here) == 1
        assert here.hub.status()["in_flight"] == 0
        done = await line.result("tools/call", request | answers_to(asked, answer))
        assert done["resultType"] == "complete"
        assert answered(done) == [[answer]]
        assert parked(here) == 0
        assert line.questions == []


@pytest.mark.parametrize(
    ("method", "params"),
    [("prompts/get", {"name": "up__ask"}), ("resources/read", {"uri": "ask:steps"})],
    ids=["prompt", "resource"],
)
async def test_prompts_and_resources_ask_too(tmp_path: Path, method: str, params: Json) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, MODERN) as (_, line):
        await line.result("prompts/list")
        await line.result("resources/list")
        request = {**params, "_meta": able()}
        asked = await asked_once(line, request, method)
        done = await line.result(method, request | answers_to(asked, ACCEPTED))
        assert (
            "花" in json.dumps(done, ensure_ascii=False).encode().decode("unicode_escape", "ignore") or done
        )
        said = done.get("messages") or done["contents"]
        assert json.loads((said[0].get("content") or said[0])["text"]) == [[ACCEPTED]]


async def test_several_questions_come_at_once_and_in_several_rounds(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, MODERN) as (_, line):
        both = {"ask": [*FORM_STEP["ask"], *SAMPLING_STEP["ask"]]}
        request = call_of(both, FORM_STEP, {"progress": 7}, ROOTS_STEP)
        states = []
        asked = await asked_once(line, request)
        for given in ((ACCEPTED, SAMPLED), ({"action": "decline"},)):
            states.append(asked["requestState"])
            asked = await asked_once(line, request | answers_to(asked, *given))
        done = await line.result("tools/call", request | answers_to(asked, ROOTED))
        assert answered(done) == [[ACCEPTED, SAMPLED], [{"action": "decline"}], [ROOTED]]
        assert len({*states, asked["requestState"]}) == 3


async def test_missing_answers_are_asked_for_again_and_unknown_ones_are_passed_over(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, MODERN) as (_, line):
        request = call_of({"ask": [*FORM_STEP["ask"], *SAMPLING_STEP["ask"]]})
        asked = await asked_once(line, request)
        first, second = asked["inputRequests"]
        part = {"inputResponses": {first: ACCEPTED, "other": {}}, "requestState": asked["requestState"]}
        again = await asked_once(line, request | part)
        assert list(again["inputRequests"]) == [second]
        done = await line.result("tools/call", request | answers_to(again, SAMPLED))
        assert answered(done) == [[ACCEPTED, SAMPLED]]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (12345, "not an object"),
        ({"action": "perhaps"}, "action"),
        ({"action": "accept", "content": {}}, "content.name"),
        ({"action": "accept", "content": {"name": 5}}, "content.name: string"),
        ({"action": "accept", "content": {"name": "x", "age": -1}}, "minimum 0"),
        ({"action": "accept", "content": []}, "content"),
    ],
    ids=["number", "action", "missing", "type", "bound", "list"],
)
async def test_an_answer_that_does_not_fit_is_refused_and_can_be_given_again(
    tmp_path: Path, answer: object, why: str
) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, MODERN) as (_, line):
        request = call_of(FORM_STEP)
        asked = await asked_once(line, request)
        refused = await line.request("tools/call", request | answers_to(asked, answer))
        assert refused["error"]["code"] == -32602
        assert why in refused["error"]["message"]
        done = await line.result("tools/call", request | answers_to(asked, ACCEPTED))
        assert answered(done) == [[ACCEPTED]]


async def test_a_handle_is_for_one_call_once_and_only_as_it_was_given(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking(), "other": asking()}, MODERN) as (_, line):
        request = call_of(FORM_STEP)
        asked = await asked_once(line, request)
        good = answers_to(asked, ACCEPTED)
        state = asked["requestState"]

        async def refused(params: Json, state: str) -> str:
            answer = await line.request("tools/call", params | good | {"requestState": state})
            assert answer["error"]["code"] == -32602
            return str(answer["error"]["message"])

        assert "was changed" in await refused(request, state + "-TAMPERED")
        assert "was changed" in await refused(request, state[:-1] + ("A" if state[-1] != "A" else "B"))
        assert "neither this hub" in await refused(request, "of-another")
        assert "another call" in await refused(call_of(FORM_STEP, name="up__look"), state)
        assert "another call" in await refused(call_of(FORM_STEP, name="other__ask"), state)
        assert "another call" in await refused(call_of(URL_STEP), state)
        assert answered(await line.result("tools/call", request | good)) == [[ACCEPTED]]
        assert "used already" in await refused(request, state)


async def test_the_arguments_of_a_repeated_call_may_be_written_otherwise(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, MODERN) as (_, line):
        request = call_of(FORM_STEP)
        asked = await asked_once(line, request)
        turned = {"arguments": {"steps": [dict(reversed(FORM_STEP.items()))]}}
        turned["arguments"]["steps"][0]["ask"] = [dict(reversed(FORM_STEP["ask"][0].items()))]
        done = await line.result("tools/call", request | turned | answers_to(asked, ACCEPTED))
        assert answered(done) == [[ACCEPTED]]


@pytest.mark.parametrize(
    ("step", "capabilities", "lacks"),
    [
        (FORM_STEP, {"sampling": {}}, "form"),
        (URL_STEP, {"elicitation": {}}, "url"),
        (SAMPLING_STEP, {"elicitation": {}}, "sampling"),
        (ROOTS_STEP, {"elicitation": {}}, "roots"),
        (
            {"ask": [{"method": "sampling/createMessage", "params": SAMPLING | {"tools": []}}]},
            {"sampling": {}},
            "sampling.tools",
        ),
    ],
    ids=["form", "url", "sampling", "roots", "tools"],
)
async def test_a_client_without_the_capability_is_not_asked_and_the_server_is_told_at_once(
    tmp_path: Path, step: Json, capabilities: Json, lacks: str
) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, MODERN) as (here, line):
        done = await line.result("tools/call", call_of(step, meta=able(**capabilities)))
        [[error]] = answered(done)
        assert error["code"] == -32601
        assert f"({lacks})" in error["message"]
        assert parked(here) == 0


async def test_an_error_of_the_server_after_the_answer_is_the_answer_of_the_repeated_request(
    tmp_path: Path,
) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, MODERN) as (_, line):
        request = call_of(FORM_STEP, {"error": {"code": -31999, "message": "no"}})
        asked = await asked_once(line, request)
        answer = await line.request("tools/call", request | answers_to(asked, ACCEPTED))
        assert answer["error"] == {"code": -31999, "message": "no"}


async def test_progress_after_the_answer_has_the_token_of_the_repeated_request(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, MODERN) as (_, line):
        request = call_of({"progress": 1}, FORM_STEP, {"progress": 2}, meta={**able(), "progressToken": "a"})
        asked = await asked_once(line, request)
        again = request | answers_to(asked, ACCEPTED) | {"_meta": {**able(), "progressToken": "b"}}
        await line.result("tools/call", again)
        told = [(note["params"]["progressToken"], note["params"]["progress"]) for note in line.notifications]
        assert told == [("a", 1), ("b", 2)]


async def test_a_repeated_request_can_be_cancelled(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, MODERN) as (here, line):
        request = call_of(FORM_STEP, FORM_STEP)
        asked = await asked_once(line, request)
        upstreams = list(here.hub.gateway.instances("up"))
        line.begin("tools/call", request | answers_to(asked, ACCEPTED), request_id="again")
        line.notify("notifications/cancelled", {"requestId": "again"})
        await until(lambda: parked(here) + sum(one.in_flight for one in upstreams) == 0, "it is given up")


async def test_a_client_that_never_answers_frees_the_server(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": asking()}) as here:
        questions = here.hub.tools.questions
        questions.parked.life = 0.2
        line = await here.connect(MODERN)
        request = call_of(FORM_STEP)
        asked = await asked_once(line, request)
        upstreams = list(here.hub.gateway.instances("up"))
        await until(lambda: parked(here) == 0, "it is forgotten")
        await until(lambda: not any(one.in_flight for one in upstreams), "the call is given up")
        late = await line.request("tools/call", request | answers_to(asked, ACCEPTED))
        assert "nobody answered" in late["error"]["message"]
        assert len(questions.open) == 0


async def test_a_server_that_dies_while_it_asks_is_an_error_of_the_repeated_request(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking(share="hub")}, MODERN) as (here, line):
        request = call_of(FORM_STEP)
        asked = await asked_once(line, request)
        await here.hub.gateway.instance("up").stop()
        answer = await line.request("tools/call", request | answers_to(asked, ACCEPTED))
        assert "ended during the call" in answer["error"]["message"]


async def test_calls_of_other_clients_go_on_while_one_is_parked_and_each_has_its_own_answer(
    tmp_path: Path,
) -> None:
    async with running_hub(tmp_path, {"up": asking()}) as here:
        lines = [await here.connect(MODERN) for _ in range(4)]
        requests = [call_of(FORM_STEP, {"long": n}) for n in range(8)]
        asked = [await asked_once(line, request) for line, request in zip(lines * 2, requests, strict=True)]
        assert parked(here) == 8
        answers = [{"action": "accept", "content": {"name": str(n)}} for n in range(8)]
        done = await asyncio.gather(
            *(
                lines[(n + 1) % 4].result("tools/call", requests[n] | answers_to(asked[n], answers[n]))
                for n in range(8)
            )
        )
        assert [answered(result) for result in done] == [[[answers[n]], "x" * n] for n in range(8)]


async def test_no_more_calls_are_parked_than_allowed(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": asking()}) as here:
        here.hub.tools.questions.parked.most = 3
        line = await here.connect(MODERN)
        requests = [call_of(FORM_STEP, {"long": n}) for n in range(4)]
        asked = [await asked_once(line, request) for request in requests[:3]]
        refused = await line.result("tools/call", requests[3])
        assert "too many calls" in text(refused)
        await line.result("tools/call", requests[0] | answers_to(asked[0], ACCEPTED))
        await asked_once(line, requests[3])


async def test_a_server_that_asks_without_end_is_refused(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, MODERN) as (_, line):
        request = call_of(*[FORM_STEP] * 40)
        result = await line.result("tools/call", request)
        rounds = 0
        while result["resultType"] == "input_required":
            rounds += 1
            result = await line.result("tools/call", request | answers_to(result, ACCEPTED))
        assert rounds == 32
        assert "has asked 32 times" in text(result)


async def test_what_a_client_may_no_longer_call_is_refused_when_it_comes_back(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, MODERN) as (here, line):
        request = call_of(FORM_STEP)
        asked = await asked_once(line, request)
        here.hub.gateway.apply(())
        answer = await line.request("tools/call", request | answers_to(asked, ACCEPTED))
        assert "error" in answer
        assert "花" not in json.dumps(answer)


async def test_a_call_that_waits_for_a_person_takes_no_place_of_another(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking(maxConcurrency=1)}, MODERN) as (here, line):
        asked = [await asked_once(line, call_of(FORM_STEP)) for _ in range(3)]
        assert parked(here) == 3
        assert answered(await line.result("tools/call", call_of())) == []
        for each in asked:
            done = await line.result("tools/call", call_of(FORM_STEP) | answers_to(each, ACCEPTED))
            assert answered(done) == [[ACCEPTED]]
