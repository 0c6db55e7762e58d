"""Tasks on times in several zones."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from benchmarks.code_tasks.task import CodeTask, DirectCalls
from benchmarks.code_tasks.world import World

TIME = ("time",)
OFFICES = ("America/Lima", "Asia/Kolkata", "Africa/Nairobi", "Asia/Dubai", "Asia/Singapore", "Asia/Seoul")
MORE = (
    *OFFICES,
    "Africa/Lagos",
    "America/Bogota",
    "Asia/Kathmandu",
    "Asia/Bangkok",
    "Pacific/Honolulu",
    "Asia/Tashkent",
)
"""None of them has daylight saving time."""


def _converted(call: DirectCalls, time: str, source: str, target: str) -> Any:
    result = call("time__convert_time", source_timezone=source, time=time, target_timezone=target)
    return json.loads(result)["target"]["datetime"][11:16]


def _at(time: str, source: str, target: str) -> str:
    hour, minute = map(int, time.split(":"))
    there = datetime.now(ZoneInfo(source)).replace(hour=hour, minute=minute)
    return there.astimezone(ZoneInfo(target)).strftime("%H:%M")


def _open(times: dict[str, str]) -> list[str]:
    return [zone for zone, time in times.items() if "09:00" <= time < "17:00"]


def _offset(call: DirectCalls, zone: str) -> str:
    found: str = json.loads(call("time__get_current_time", timezone=zone))["datetime"][-6:]
    return found


def _offsets(world: World) -> Any:
    found = (datetime.now(ZoneInfo(zone)).strftime("%z") for zone in OFFICES[:5])
    return dict(zip(OFFICES[:5], (f"{each[:3]}:{each[3:]}" for each in found), strict=True))


_GATHER = """import asyncio
from tools import time_
zones = {zones!r}
found = await asyncio.gather(*[
    time_.convert_time(source_timezone="Asia/Tokyo", time="{at}", target_timezone=z) for z in zones])
times = {{z: f["target"]["datetime"][11:16] for z, f in zip(zones, found)}}
"""
_FLIGHTS = (("06:40", "Asia/Dubai"), ("11:15", "Asia/Singapore"), ("23:50", "America/Lima"))

TASKS = (
    CodeTask(
        "call-at-nine", f"What time is it in {', '.join(OFFICES)} when it is 09:00 in Asia/Tokyo?",
        TIME, ("convert a time to another zone",),
        lambda call: {zone: _converted(call, "09:00", "Asia/Tokyo", zone) for zone in OFFICES},
        (_GATHER.format(zones=list(OFFICES), at="09:00") + "times",),
        lambda world: {zone: _at("09:00", "Asia/Tokyo", zone) for zone in OFFICES},
    ),
    CodeTask(
        "open-offices", f"東京(Asia/Tokyo)の15時に、9時から17時までの営業時間内なのはどの都市ですか: {'、'.join(MORE)}",
        TIME, ("別のタイムゾーンの時刻に変換する",),
        lambda call: _open({zone: _converted(call, "15:00", "Asia/Tokyo", zone) for zone in MORE}),
        (_GATHER.format(zones=list(MORE), at="15:00") + '[z for z, t in times.items() if "09:00" <= t < "17:00"]',),
        lambda world: _open({zone: _at("15:00", "Asia/Tokyo", zone) for zone in MORE}),
    ),
    CodeTask(
        "flights", "Flights leave at 06:40 in Asia/Dubai, 11:15 in Asia/Singapore and 23:50 in America/Lima. When is that in UTC?",
        TIME, ("convert a time to another zone",),
        lambda call: [_converted(call, time, zone, "UTC") for time, zone in _FLIGHTS],
        ("""from tools import time_
flights = [("06:40", "Asia/Dubai"), ("11:15", "Asia/Singapore"), ("23:50", "America/Lima")]
utc = []
for t, zone in flights:
    found = await time_.convert_time(source_timezone=zone, time=t, target_timezone="UTC")
    utc.append(found["target"]["datetime"][11:16])
utc""",),
        lambda world: [_at(time, zone, "UTC") for time, zone in _FLIGHTS],
    ),
    CodeTask(
        "offsets", f"UTC との時差(+09:00 の形)を調べてください: {'、'.join(OFFICES[:5])}",
        TIME, ("現在の時刻",),
        lambda call: {zone: _offset(call, zone) for zone in OFFICES[:5]},
        (f"""from tools import time_
zones = {list(OFFICES[:5])!r}
{{z: (await time_.get_current_time(timezone=z))["datetime"][-6:] for z in zones}}""",),
        _offsets,
    ),
)  # fmt: skip
