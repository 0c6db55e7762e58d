"""Retry-After headers."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.wire.http import LONGEST, http_date, retry_after, retry_header

NOW = 784_111_717.0  # Sun, 06 Nov 1994 08:48:37 GMT, a minute before the dates of RFC 9110
MOMENTS = st.datetimes(datetime(1950, 1, 1), datetime(2040, 1, 1)).map(
    lambda d: d.replace(microsecond=0, tzinfo=UTC)
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("3", 3.0),
        (" 0\t", 0.0),
        ("0000000000007", 7.0),
        ("99999999999", LONGEST),
        ("9" * 5000, LONGEST),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST),
        ("soon", None),
        ("-1", None),
        ("-1e999", None),
        ("1.5", None),
        ("²", None),
        ("١", None),
        ("3, 3", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 60.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 60.0),
        ("Sun Nov  6 08:49:37 1994", 60.0),
        ("sun, 6 nov 1994 08:49:37 gmt", 60.0),
        ("Sun, 06 Nov 1994 17:49:37 +0900", 60.0),
        ("Sun, 06 Nov 1994 03:49:37 -0500", 60.0),
        ("Sun, 06 Nov 1994 08:48:00 GMT", 0.0),
        ("Sun, 31 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nob 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 24:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37", None),
    ],
)
def test_a_wait_is_seconds_or_a_date_in_three_forms(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


@given(st.text() | st.from_regex(r"[A-Za-z]{3,9},? ?\d\d[ -][A-Z][a-z]{2}[ -]\d{2,4} \d\d:\d\d:\d\d GMT"))
def test_a_wait_of_any_text_is_within_bounds_or_none(value: str) -> None:
    seconds = retry_after(value, NOW)
    assert seconds is None or 0 <= seconds <= LONGEST


@pytest.mark.parametrize(
    ("seconds", "value"),
    [
        (0, 1),
        (0.2, 1),
        (1, 1),
        (1.001, 2),
        (1.5, 2),
        (2.5, 3),
        (59.999, 60),
        (LONGEST, 31_622_400),
        (9e99, 31_622_400),
    ],
)
def test_whoever_waits_as_long_as_the_header_says_has_waited_long_enough(seconds: float, value: int) -> None:
    assert retry_header(seconds) == b"%d" % value
    assert retry_after(str(value), NOW) == value


@given(MOMENTS)
def test_each_form_of_a_date_is_the_same_moment_whatever_the_local_zone(moment: datetime) -> None:
    then, day, month = moment.timestamp(), DAYS[moment.weekday()], MONTHS[moment.month - 1]
    clock = f"{moment:%H:%M:%S}"
    now = then + 86_400 * 365
    assert http_date(formatdate(then, usegmt=True), now) == then
    assert http_date(f"{day}, {moment.day:02}-{month}-{moment.year % 100:02} {clock} GMT", now) == then
    assert http_date(f"{day[:3]} {month} {moment.day:2} {clock} {moment.year}", now) == then


def test_a_year_of_two_digits_is_at_most_50_years_ahead() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    for year, expected in (("76", 2076), ("77", 1977), ("00", 2000), ("26", 2026)):
        then = http_date(f"Sunday, 06-Nov-{year} 08:49:37 GMT", now)
        assert then is not None
        assert time.gmtime(then).tm_year == expected
