"""Time zones by name, and the bounds of periods as a person writes them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import BadArguments, ConfigurationError
from tabane.text.time_zones import Machine, bound, seconds_since_1970, zone_of

JAPAN = timezone(timedelta(hours=9))
BERLIN = ZoneInfo("Europe/Berlin")


def moment(*numbers: int) -> float:
    return datetime(*numbers, tzinfo=UTC).timestamp()  # type: ignore[arg-type,misc]


# -- zones -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["UTC", "utc", "Z", "z"])
def test_utc_has_short_names(name: str) -> None:
    assert zone_of(name) is UTC


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("+09:00", timedelta(hours=9)),
        ("+0900", timedelta(hours=9)),
        ("-03:30", -timedelta(hours=3, minutes=30)),
        ("-00:30", -timedelta(minutes=30)),
        ("+23:59", timedelta(hours=23, minutes=59)),
    ],
)
def test_an_offset_is_a_zone(name: str, offset: timedelta) -> None:
    assert zone_of(name).utcoffset(None) == offset


def test_a_name_of_the_database_has_daylight_saving_time() -> None:
    zone = zone_of("Europe/Berlin")
    assert datetime(2024, 1, 15, tzinfo=zone).utcoffset() == timedelta(hours=1)
    assert datetime(2024, 7, 15, tzinfo=zone).utcoffset() == timedelta(hours=2)


@pytest.mark.parametrize(
    "name",
    ["Tokyo", "Asia/Nowhere", "+9", "+24:00", "+99:99", " ", "../etc/passwd", "/etc/localtime", "a\0b"],
)
def test_a_name_that_is_no_zone_is_refused_with_what_to_write(name: str) -> None:
    with pytest.raises(ConfigurationError, match="Asia/Tokyo"):
        zone_of(name)


# -- the zone of this machine ------------------------------------------------------------------------


@pytest.fixture(params=["Europe/Berlin", "Asia/Tokyo", "America/St_Johns", "UTC"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ZoneInfo]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield ZoneInfo(request.param)
    monkeypatch.undo()
    time.tzset()


def test_an_empty_name_is_the_zone_of_this_machine(machine: ZoneInfo) -> None:
    zone = zone_of("")
    assert isinstance(zone, Machine)
    for month in (1, 7):
        local = datetime(2024, month, 15, 12, tzinfo=zone)
        there = datetime(2024, month, 15, 12, tzinfo=machine)
        assert local.utcoffset() == there.utcoffset()
        assert local.tzname() == there.tzname()


def test_a_time_is_turned_into_that_of_this_machine(machine: ZoneInfo) -> None:
    for month in (1, 7):
        there = datetime(2024, month, 15, 12, tzinfo=UTC)
        assert there.astimezone(Machine()).replace(tzinfo=None) == there.astimezone(machine).replace(
            tzinfo=None
        )


def test_times_beyond_what_the_platform_can_express_have_no_offset() -> None:
    assert Machine().utcoffset(None) is None
    assert Machine().tzname(None) is None
    assert isinstance(Machine().utcoffset(datetime.max), timedelta)
    assert isinstance(Machine().utcoffset(datetime.min), timedelta)


# -- bounds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["2024-03-05", "2024-3-5", "20240305", " 2024-03-05 "])
def test_a_day_begins_at_midnight_and_ends_with_its_last_microsecond(text: str) -> None:
    begins = moment(2024, 3, 4, 15)
    assert bound(text, JAPAN, "start", end=False) == begins
    assert bound(text, JAPAN, "end", end=True) == pytest.approx(begins + 86_400 - 1e-6, abs=1e-6)


@pytest.mark.parametrize(
    "text", ["2024-03-15 14:30:25", "2024-03-15T14:30:25", "2024-3-15  14:30:25", "2024-03-15T05:30:25Z"]
)
def test_a_time_is_the_same_at_both_ends(text: str) -> None:
    expected = moment(2024, 3, 15, 5, 30, 25)
    assert bound(text, JAPAN, "start", end=False) == expected
    assert bound(text, JAPAN, "end", end=True) == expected


def test_seconds_may_be_left_out() -> None:
    assert bound("2024-03-15 14:30", UTC, "start", end=False) == moment(2024, 3, 15, 14, 30)


def test_the_zone_of_a_text_comes_before_the_given_one() -> None:
    assert bound("2024-03-15T14:30:25+02:00", JAPAN, "start", end=False) == moment(2024, 3, 15, 12, 30, 25)


def test_a_day_on_which_the_clocks_change_has_the_hours_that_it_has() -> None:
    begins, ends = (bound("2024-03-31", BERLIN, "x", end=end) for end in (False, True))
    assert ends - begins == pytest.approx(23 * 3600, abs=0.001)


@pytest.mark.parametrize(
    "text",
    ["", "banana", "2024-13-01", "2024-02-30", "2024-03-15 25:00", "20240305x", "0000-01-01", "x" * 5000],
)
def test_what_is_no_date_is_refused_by_the_name_of_its_parameter(text: str) -> None:
    with pytest.raises(BadArguments) as refused:
        bound(text, UTC, "since", end=False)
    said = str(refused.value)
    assert said.startswith("since: ")
    assert "YYYY-MM-DD" in said
    assert len(said) < 300


@given(st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)), st.sampled_from([UTC, JAPAN, BERLIN]))
def test_iso_8601_is_read_back(when: datetime, zone: timezone | ZoneInfo) -> None:
    assert bound(when.isoformat(), zone, "start", end=False) == seconds_since_1970(when, zone)


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_wrong_usage(text: str) -> None:
    for end in (False, True):
        with contextlib.suppress(BadArguments):
            assert isinstance(bound(text, UTC, "start", end=end), float)
