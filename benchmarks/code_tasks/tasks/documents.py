"""Tasks on Tabane's own documents."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from benchmarks.code_tasks.task import CodeTask, DirectCalls
from benchmarks.code_tasks.world_hub import WorldHub

OWN = ()
LIST, OPEN = "list my documents", "open a document"


def _handbook(call: DirectCalls) -> dict[str, str]:
    paths = re.findall(r"^(handbook/\S+)", call("list_documents", prefix="handbook/"), re.M)
    return {path: call("get_document", filepath=path) for path in paths}


_READ = """import re
from tools import list_documents, get_document
paths = [d["filepath"] for d in (await list_documents(prefix="handbook/"))["documents"]]
texts = {p: (await get_document(filepath=p))["document"] for p in paths}
"""

_LOOK = """from tools import list_documents, get_document
print(await list_documents(prefix="handbook/", limit=2))
print(list(await get_document(filepath="handbook/vpn.md")))
(await get_document(filepath="handbook/vpn.md"))["document"][:300]"""


def _field(text: str, name: str) -> str:
    return re.search(rf"{name}: (\S+)", text)[1]  # type: ignore[index]


def _owners(call: DirectCalls) -> Any:
    return dict(Counter(_field(text, "Owner") for text in _handbook(call).values()))


def _early(call: DirectCalls) -> Any:
    return sorted(path for path, text in _handbook(call).items() if _field(text, "Review") < "2027-04-01")


_PLANS = {
    "out/plan-a.md": "Plan A: rent a hall in Kyoto.",
    "out/plan-b.md": "Plan B: rent a boat in Oslo.",
    "out/plan-c.md": "Plan C: stay at home.",
}


def _plans(call: DirectCalls) -> Any:
    for path, text in _PLANS.items():
        call("put_document", filepath=path, text=text)
    return sorted(set(re.findall(r"out/plan-\w\.md", call("search_documents", query="rent"))))


def _has_plans(hub: WorldHub) -> bool:
    return all(hub.document(path) == text for path, text in _PLANS.items())


TASKS = (
    CodeTask(
        "handbook-owners", "How many pages of the handbook (my documents below handbook/) does each owner have?",
        OWN, (LIST, OPEN), _owners,
        (_LOOK, _READ + """from collections import Counter
dict(Counter(re.search(r"Owner: (\\S+)", t)[1] for t in texts.values()))""",),
        lambda world: dict(Counter(_field(text, "Owner") for text in world.records.documents.values())),
    ),
    CodeTask(
        "early-reviews", "保存した文書 handbook/ のうち、Review の日付が2027年4月より前のものを挙げてください。",
        OWN, ("文書の一覧", "文書を開く"), _early,
        (_LOOK, _READ + """sorted(p for p, t in texts.items() if re.search(r"Review: (\\S+)", t)[1] < "2027-04-01")""",),
        lambda world: sorted(
            path for path, text in world.records.documents.items() if _field(text, "Review") < "2027-04-01"
        ),
    ),
    CodeTask(
        "three-plans",
        "Save three documents: out/plan-a.md (Plan A: rent a hall in Kyoto.), out/plan-b.md (Plan B: rent a boat in "
        "Oslo.) and out/plan-c.md (Plan C: stay at home.). Then search my documents for rent: which of the plans match?",
        OWN, ("save a document", "search my documents"), _plans,
        ("""from tools import put_document, search_documents
plans = {"a": "Plan A: rent a hall in Kyoto.", "b": "Plan B: rent a boat in Oslo.", "c": "Plan C: stay at home."}
for key, text in plans.items():
    await put_document(filepath=f"out/plan-{key}.md", text=text)
found = str(await search_documents(query="rent"))
[f"out/plan-{key}.md" for key in plans if f"out/plan-{key}.md" in found]""",),
        lambda world: ["out/plan-a.md", "out/plan-b.md"],
        _has_plans,
    ),
)  # fmt: skip
