"""The section about the gateway, from made figures."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from benchmarks.gateway.calling import WIDTHS, Calls
from benchmarks.gateway.counting import Sizes
from benchmarks.gateway.figures import Figures
from benchmarks.gateway.home import Running
from benchmarks.gateway.other_gateways import GatewayMissing, OtherFigures, OtherGateway, servers_file
from benchmarks.gateway.page import page
from benchmarks.gateway.starting import NEW, Start
from benchmarks.gateway.tokens import Tokens
from benchmarks.gateway.ways import BRIDGE, DIRECT, STANDALONE
from benchmarks.gateway.weighing import Crowd, Weight
from benchmarks.sections.blocks import Comparison, as_blocks

from tests.benchmarks.made_sections import section


def calls(way: str, kind: str, ms: float) -> Calls:
    found = Calls(way, kind, cast(Running, None), {}, ms=[[ms, ms, ms]])
    for width in (1, *WIDTHS):
        found.rates[width].append(1000 * width / ms)
        found.cpu[width].append(ms)
    return found


def ways(factor: float) -> list[Calls]:
    kinds = [
        (STANDALONE, "call_tool"),
        (STANDALONE, "its own name"),
        (BRIDGE, "call_tool"),
        (BRIDGE, "its own name"),
    ]
    return [calls(DIRECT, "its own name", 0.1), *(calls(*each, 0.1 * factor) for each in kinds)]


def made_figures() -> Figures:
    tokens = Tokens(100, 90)
    modes: dict[str, Tokens] = dict.fromkeys(("search", "light", "full"), tokens)
    weight = Weight({"hub": 40.0}, {"hub": 50.0, "keeper": 10.0, "bridge": 13.0, "upstream": 43.0})
    start = Start(200.0, 0.2, 230.0, 0.21)
    return Figures(
        starts=dict.fromkeys((DIRECT, STANDALONE, NEW, BRIDGE), start),
        calls=[*ways(2.0), calls("rust", "", 0.15)],
        one_core=ways(3.0),
        standalone=weight,
        daemon=weight,
        crowds=[Crowd(50, 200.0, 0.2, 36.0)],
        big_list_ms=(12.0, 8.0),
        sizes=Sizes(115, tokens, modes, modes, {}, *[tokens] * 4),
        others={"rust": OtherFigures([(0.1, 0.05)], 41.0, 43.0, Tokens(3000, 2900))},
        libraries_cpu=0.1,
    )  # fmt: skip


def test_another_gateway_is_beside_ours_and_in_every_plot() -> None:
    title, *blocks = as_blocks(page(made_figures(), "python -m benchmarks.gateway"))
    assert str(title) == "## The gateway, over stdio"
    found = section("gateway", *blocks)
    (beside,) = (block for block in blocks if isinstance(block, Comparison))
    assert beside.columns == ("tabane", "rust")
    rows = {row.name: row.values for row in beside.rows}
    assert rows["call p50, × direct"] == pytest.approx((2.0, 1.5))
    assert rows["memory, 4 servers, 1,000 calls, MB"] == pytest.approx((73.0, 43.0))
    assert rows["tokens of the list"] == pytest.approx((90, 2900))
    plots = {plot.name: plot for plot in found.plots()}
    assert sorted(plots) == ["gateway-calls", "gateway-memory", "gateway-rates", "gateway-starts"]
    for plot in plots.values():
        assert any("rust" in (*each.x, each.name) and not each.is_ours for each in plot.series), plot.name
        assert any(each.is_ours for each in plot.series), plot.name


def test_the_ratios_of_the_gateway_are_compared() -> None:
    _, *blocks = as_blocks(page(made_figures(), "python -m benchmarks.gateway"))
    found = {figure.name: figure.value for figure in section("gateway", *blocks).ratios()}
    assert found["call p50, standalone, against direct"] == pytest.approx(2.0)
    assert found["call p50 on one core, standalone, against direct"] == pytest.approx(3.0)
    assert found["CPU to the first answer, against importing asyncio, msgspec, sqlite3"] == pytest.approx(2.0)


async def test_a_gateway_that_is_not_installed_is_an_error_that_says_so(tmp_path: Path) -> None:
    missing = OtherGateway("some gateway", ("no-such-gateway",), {})
    with pytest.raises(GatewayMissing, match=r"some gateway.*make bench-gateways"):
        await missing.start(servers_file(tmp_path / "gateway"))
