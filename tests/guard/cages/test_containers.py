"""Servers with an image: the command of docker or podman. No engine is needed: the program is a fake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tabane.guard.cages.cage import CageMechanisms, CageUnavailable
from tabane.guard.cages.cages import Cages
from tabane.servers.server import Server
from tabane.servers.server_keys import sandbox
from tabane.upstreams.launching.start_preparation import ConnectedCages


def cages(folder: Path, *programs: str) -> Cages:
    for program in programs:
        (folder / program).write_text("#!/bin/sh\n")
        (folder / program).chmod(0o755)
    return Cages(folder / "home", [], {"PATH": str(folder), "HOME": str(folder)}, [], CageMechanisms())


def dressed(folder: Path, program: str = "docker", **keys: Any) -> Server:
    profile = sandbox(keys.pop("sandbox", None) or False)
    server = Server(name="a", image="img:1", sandbox=profile, **keys)
    return cages(folder, program).dressed(server)


def test_an_image_becomes_a_command_without_values_of_variables(tmp_path: Path) -> None:
    server = dressed(tmp_path, args=("--x", "y z"), env={"TOKEN": "secret"})
    assert server.command == "docker"
    assert server.args[0] == "run"
    assert server.args[-3:] == ("img:1", "--x", "y z")
    assert " --env TOKEN " in " ".join(server.args)
    assert "secret" not in " ".join(server.args)
    assert server.env == {"TOKEN": "secret"}
    for option in ("--rm", "--interactive", "--cap-drop", "no-new-privileges"):
        assert option in server.args


def test_podman_is_used_where_there_is_no_docker(tmp_path: Path) -> None:
    assert dressed(tmp_path, "podman").command == "podman"


def test_the_sandbox_applies_to_the_container(tmp_path: Path) -> None:
    profile = {"write": ["/data"], "read": ["/ro"], "memory": "64M", "processes": 9, "cpu": 5}
    text = " ".join(dressed(tmp_path, sandbox=profile).args)
    for option in (
        *("--network none", "--volume /data:/data ", "--volume /ro:/ro:ro", "--memory 67108864"),
        *("--pids-limit 9", "--ulimit cpu=5", "--read-only"),
    ):
        assert option in text


def test_a_container_without_a_sandbox_has_a_network(tmp_path: Path) -> None:
    assert "--network" not in dressed(tmp_path).args


@pytest.mark.parametrize("profile", [{"network": ["a.example"]}, {"hide": ["/x"]}])
def test_what_a_container_cannot_enforce_is_refused(profile: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(CageUnavailable, match="In a container"):
        dressed(tmp_path, sandbox=profile)


def test_without_an_engine_the_reason_is_given(tmp_path: Path) -> None:
    with pytest.raises(CageUnavailable, match="neither docker nor podman"):
        cages(tmp_path).dressed(Server(name="a", image="img:1"))


def test_a_dressed_server_is_dressed_as_it_is(tmp_path: Path) -> None:
    found = ConnectedCages(lambda: cages(tmp_path, "docker"))
    for server in (Server(name="a", image="img:1"), Server(name="a", command="x", sandbox=sandbox("files"))):
        once = found.dress(server)
        assert found.dress(once) == once != server


def test_docker_itself_is_not_caged(tmp_path: Path) -> None:
    profile = sandbox("files")
    assert profile is not None
    server = Server(name="a", command="docker", args=("run", "x"), sandbox=profile)
    found = Cages(tmp_path, [], {"PATH": ""}, [], CageMechanisms(landlock=7, machine="x86_64"))
    with pytest.raises(CageUnavailable, match="image in place of command"):
        found.build(server, profile, {})
