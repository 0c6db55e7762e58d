"""Search by meaning in a fresh home: nothing is configured, nothing is downloaded, no network is tried."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from tests.harness.home import Home, hub
from tests.harness.patience import until
from tests.search.embedding.servers import FakeHub

MODEL = "tabane/use-minilm"
NOTES = {
    "歯医者": "歯医者の予約は金曜の午前中に取った。",
    "猫": "うちの猫は魚よりも鶏肉が好きだ。",
    "会議": "来週の打ち合わせは大阪支社で行われる。",
    "電車": "台風のため電車が止まり、家まで歩いた。",
    "料理": "カレーに少し珈琲を入れると深い味になる。",
}
PARAPHRASES = {
    "悪天候で交通機関がストップした": "電車",
    "ペットのえさの好み": "猫",
    "コーヒーを隠し味にする": "料理",
}


async def test_a_fresh_home_finds_notes_by_paraphrases_and_asks_nobody(tmp_path: Path) -> None:
    fake = FakeHub()
    async with fake.serving() as url:
        await asyncio.to_thread(_found_by_meaning, tmp_path, url)
    assert fake.asked == []


def _found_by_meaning(folder: Path, endpoint: str) -> None:
    home = Home(folder)
    del home.environment["TABANE_MODEL"]
    home.environment |= {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": endpoint}
    home.write_servers({})
    for name, text in NOTES.items():
        (folder / f"{name}.md").write_text(text)
    with hub(home):
        assert MODEL in home.run("models", "show").out
        assert home.run("docs", "add", *(str(folder / f"{name}.md") for name in NOTES)).status == 0
        asyncio.run(until(lambda: _all_found(home)))
        (process,) = home.run("models", "show", "--json").succeeded.json["open"]
        os.kill(process["pid"], signal.SIGKILL)
        asyncio.run(until(lambda: _all_found(home)))


async def _all_found(home: Home) -> bool:
    """Whether each paraphrase finds its note first."""
    for query, name in PARAPHRASES.items():
        out = home.run("docs", "search", query, "--json").succeeded.json
        hits = out["results"]
        if not hits or name not in str(hits[0]):
            return False
    return True
