"""The filter of system calls, run as the kernel runs it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.guard.cages.seccomp import INET, INET6, MACHINES, NETLINK, UNIX, families, program

ALLOW = 0x7FFF_0000


def verdict(steps: bytes, number: int, arch: int, *arguments: int) -> int:
    """Return what the filter says to a call, as an interpreter of its six instructions."""
    data = struct.pack("=iIQ6Q", number, arch, 0, *(*arguments, *(0,) * (6 - len(arguments))))
    code = list(struct.iter_unpack("=HBBI", steps))
    loaded, at = 0, 0
    while True:
        kind, yes, no, value = code[at]
        at += 1
        if kind == 0x20:
            loaded = int(struct.unpack_from("=I", data, value)[0])
        elif kind == 0x06:
            return int(value)
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[kind]
            at += yes if holds else no


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("name", ["ptrace", "mount", "unshare", "bpf", "keyctl", "io_uring_setup", "setns"])
def test_calls_that_undo_a_cage_are_refused(name: str, machine: object) -> None:
    found = next(each for each in MACHINES.values() if each is machine)
    assert verdict(program(found, ()), found.calls[name], found.arch) == 0x0005_0001


def test_calls_of_another_architecture_end_the_process() -> None:
    machine = MACHINES["x86_64"]
    assert verdict(program(machine, ()), 1, 0x4000_0003) == 0x8000_0000
    assert verdict(program(machine, ()), 0x4000_0000 | 41, machine.arch) == 0x0005_0026


@pytest.mark.parametrize("network", [True, False])
@pytest.mark.parametrize("sockets", [True, False])
def test_only_allowed_families_of_sockets_can_be_created(network: bool, sockets: bool) -> None:
    machine = MACHINES["x86_64"]
    steps, socket = program(machine, families(network, sockets)), machine.calls["socket"]
    expected = {UNIX: sockets, INET: network, INET6: network, NETLINK: network}
    for family in range(50):
        allowed = verdict(steps, socket, machine.arch, family, 1, 0) == ALLOW
        assert allowed is expected.get(family, False)
    assert verdict(steps, socket, machine.arch, NETLINK, 1, 12) != ALLOW


def test_threads_and_processes_can_be_started_but_no_namespaces() -> None:
    machine = MACHINES["x86_64"]
    steps, clone = program(machine, ()), machine.calls["clone"]
    assert verdict(steps, clone, machine.arch, 0x3D0F00) == ALLOW
    assert verdict(steps, clone, machine.arch, 0x1000_0000 | 17) != ALLOW
    assert verdict(steps, machine.calls["clone3"], machine.arch) == 0x0005_0026


@given(st.integers(0, 500), st.lists(st.integers(0, 2**64 - 1), min_size=6, max_size=6))
def test_each_call_gets_a_verdict_and_unnamed_ones_pass(number: int, arguments: list[int]) -> None:
    machine = MACHINES["x86_64"]
    found = verdict(program(machine, (INET,)), number, machine.arch, *arguments)
    assert found == ALLOW or number in machine.calls.values()
