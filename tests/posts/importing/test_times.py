"""The time of a post."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from tabane.posts.post import timestamp_of, timestamp_of_id, timestamp_of_x, twilog_time

TOKYO = ZoneInfo("Asia/Tokyo")


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-15 14:30:25",
        "2024/03/15 14:30:25",
        " 2024-03-15T14:30:25 ",
        "2024-03-15T05:30:25Z",
        "2024-03-15T07:30:25+02:00",
    ],
)
def test_a_time_that_names_no_zone_is_meant_in_the_one_given(text: str) -> None:
    assert timestamp_of(text, TOKYO) == 1710480625
    assert twilog_time(1710480625, TOKYO) == "2024-03-15 14:30:25"
    assert twilog_time(1710480625, UTC) == "2024-03-15 05:30:25"


@pytest.mark.parametrize("text", ["", "soon", "2024-13-01 00:00:00", "2024-02-30", "14:30", "1710480625"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert timestamp_of(text, UTC) is None
    assert timestamp_of_x(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Wed Oct 10 20:19:24 +0000 2018", "Wed Oct 10 20:19:24 -0000 2018", "Wed Oct 10 22:19:24 +0200 2018",
        "Wed Oct 10 15:19:24 -0500 2018", "Wed Oct 10 16:49:24 -0330 2018", "Thu Oct 11 01:49:24 +0530 2018",
        "Thu Oct 11 10:19:24 +1400 2018", "Wed Oct 10 08:19:24 -1200 2018", "2018-10-10T20:19:24.000Z",
    ],
)  # fmt: skip
def test_times_of_x_are_read_in_any_locale_and_zone(text: str) -> None:
    assert timestamp_of_x(text) == 1539202764


@pytest.mark.parametrize(
    "text",
    ["Okt 10 20:19:24 +0000", "Feb 31 20:19:24 +0000", "Oct 10 24:00:00 +0000", "Oct 10 20:19:24 -2400"],
)
def test_what_is_no_time_of_x_is_none(text: str) -> None:
    assert timestamp_of_x(f"Wed {text} 2018") is None


def test_an_id_tells_when_it_was_given() -> None:
    assert timestamp_of_id(1460323737035677698) == 1637003285  # 2021-11-15T19:08:05Z
    assert timestamp_of_id(20) is None
