"""The blocking client of the hub's socket: a signal ends a wait wherever it comes."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable

import pytest

from tabane.hub.local.client import HubClient
from tabane.hub.local.connector import HubConnection
from tabane.hub.local.handshake import Welcome
from tests.harness.patience import LONG


def waits_for_an_answer(client: HubClient, asked: bytes) -> None:
    client.result_of(asked)


def waits_for_the_first_of_some(client: HubClient, asked: bytes) -> None:
    client.first_of((asked,))


@pytest.mark.parametrize("wait", [waits_for_an_answer, waits_for_the_first_of_some])
def test_ctrl_c_ends_a_wait_that_the_system_does_not_interrupt(
    wait: Callable[[HubClient, bytes], None],
) -> None:
    """Another thread gets the signal. Like one that comes just before a wait, it does not end the wait."""
    ours, silent = socket.socketpair()
    ours.setblocking(False)

    def interrupt() -> None:
        silent.recv(1 << 16)  # the request: the client waits for its answer next
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        if not ended.wait(LONG):
            silent.close()  # the wait would go on for ever

    ended = threading.Event()
    thread = threading.Thread(target=interrupt)
    with silent, HubClient(HubConnection(ours.detach(), Welcome("0", 0), b"")) as client:
        thread.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                wait(client, client.begin("get_status", b"{}"))
        finally:
            ended.set()
            thread.join()
