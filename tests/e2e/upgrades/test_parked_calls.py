"""Calls that a hub of an earlier version has parked go on at the hub of this one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.upgrades.earlier import Earlier, Installed, earlier
from tests.harness.bridge import INITIALIZE, request
from tests.harness.patience import wait_until
from tests.harness.servers.raw_http import serving
from tests.harness.user import User
from tests.hub.clients.questions.asking import ACCEPTED, FORM_STEP, answered, answers_to, call_of
from tests.hub.clients.questions.test_restarts import AskingSite

LIMIT = 120.0
OLDEST = "0.13.0"
"""The first version from which an upgrade must not lose a parked call."""


@pytest.fixture(scope="session")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parking")


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path)
    yield user
    user.close()


def parking() -> list[Earlier]:
    versions = [each.version for each in earlier()]
    return list(earlier()[versions.index(OLDEST) :])


@pytest.mark.parametrize("replaced", [False, True], ids=["stopped", "replaced"])
@pytest.mark.parametrize("old", parking(), ids=lambda each: each.version)
def test_a_call_that_an_earlier_hub_parked_goes_on(
    user: User, code: Path, old: Earlier, replaced: bool
) -> None:
    server = AskingSite()
    with serving(server) as raw:
        user.write_servers({"up": {"type": "http", "url": raw.url}})
        before, now = Installed(user, old.unpacked(code)), Installed(user)
        before.json("start")
        call = call_of(FORM_STEP)
        asked = before.client().call(1, **call)["result"]
        assert asked["resultType"] == "input_required", asked
        (file,) = (user.tabane / "parked-calls").iterdir()
        assert json.loads(file.read_text())["server"] == "up"
        assert user.holder.version == old.version
        pid = user.holder.pid
        if replaced:
            newcomer = now.client()
            newcomer.send(request(0, "initialize", **INITIALIZE))
            assert "result" in newcomer.answer(0, LIMIT)
            wait_until(lambda: user.holder.pid != pid, "the newer hub runs", LIMIT)
        else:
            before.json("stop")
            now.json("start")
        done = now.client().call(2, **(call | answers_to(asked, ACCEPTED)))
        assert answered(done["result"]) == [[ACCEPTED]]
        assert (server.called, server.resumed) == (1, ["event-1"])
        assert not file.exists()
