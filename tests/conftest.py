"""What tests of every room share: the tools that only some machines have."""

from __future__ import annotations

import ast
import gc
import os
import signal
import warnings
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from hypothesis import HealthCheck, find, is_hypothesis_test, settings
from hypothesis.errors import HypothesisWarning
from hypothesis.strategies import characters

from tests.messages.sentences import parsed_source
from tests.plugins.prices import read_prices
from tests.plugins.tiers import ROOT as ROOT

if TYPE_CHECKING:
    from tests.harness.postgres_server import PostgresServer

# A machine that is busy with other things is no fault of what is tested, and the contract of the engine is
# meant to be run by several classes.
FINE = [HealthCheck.too_slow, HealthCheck.differing_executors]
EXAMPLES = 40
"""Of a property. One that costs 3 ms an example or less gets TABANE_EXAMPLES, which the tier sets."""
CHEAP = EXAMPLES * 0.003
# The same examples everywhere, so that what fails in CI fails here.
settings.register_profile(
    "tabane",
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=FINE,
    derandomize=True,
    database=None,
)
settings.load_profile("tabane")

# A suite that was started with `nohup … &` ignores SIGINT and SIGHUP, and every process that a test starts
# would inherit that. A signal that is caught here has its default in a child.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# BLAS threads spin for a tenth of a second after each product, which costs six times what the product does.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

NODE_TOOLS = (
    "node",
    "npx",
    "mcp-inspector",
    "mcp-server-everything",
    "mcp-server-filesystem",
    "mcp-server-memory",
)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let Hypothesis make its table of Unicode before there are workers, each of which would make it."""
    if session.config.getoption("--tier") and not hasattr(session.config, "workerinput"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HypothesisWarning)  # it asks plugins not to do so, to save time
            find(characters(exclude_categories=["Cs"]), lambda _: True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give cheap properties as many examples as the tier has."""
    wanted = int(os.environ.get("TABANE_EXAMPLES", EXAMPLES))
    if wanted == EXAMPLES:
        return
    _, prices = read_prices()
    for item in items:
        test = getattr(item.obj, "__func__", item.obj) if isinstance(item, pytest.Function) else None
        own = getattr(test, "_hypothesis_internal_settings_applied", False)
        if is_hypothesis_test(test) and not own and prices.get(item.nodeid, 0.0) <= CHEAP:
            settings(max_examples=wanted)(test)


def pytest_collection_finish() -> None:
    """Leave what was collected out of each later search for garbage: it lives until the end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test wrote may hold anything; the pipe between workers takes what UTF-8 can say."""
    report = yield
    report.sections = [(name, text.encode(errors="replace").decode()) for name, text in report.sections]
    return report


def absent(what: str) -> NoReturn:
    """Skip a test that cannot run here, naming what is missing. In CI everything has to be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"missing in CI: {what}", pytrace=False)
    pytest.skip(f"missing: {what}")


@pytest.fixture(scope="session")
def source() -> Mapping[Path, ast.Module]:
    """Every module of src, parsed once."""
    return parsed_source()


@pytest.fixture(scope="session")
def node_tools() -> Path:
    """The folder of Node.js, the npm servers and the Inspector, which `make node` fills."""
    folder = ROOT / "build" / "node" / "bin"
    if missing := [name for name in NODE_TOOLS if not (folder / name).exists()]:
        absent(f"{', '.join(missing)} (make node)")
    return folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One PostgreSQL for all tests of a process."""
    from tests.harness.postgres_server import postgres_server  # few tests need one

    with postgres_server() as server:
        yield server
