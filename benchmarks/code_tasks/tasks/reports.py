"""Tasks that read many files of one kind: reports, minutes, invoices, expenses, sales."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from benchmarks.code_tasks.task import CodeTask, DirectCalls
from benchmarks.code_tasks.world import World

FILES = ("filesystem",)
READ = "read text files"
LIST = "list files in a folder"


def names(call: DirectCalls, folder: str) -> list[str]:
    """Return the files that a listing names."""
    return re.findall(r"\[FILE\] (.+)", call("filesystem__list_directory", path=folder))


def each_file(call: DirectCalls, folder: str) -> dict[str, str]:
    """Read all files of a folder."""
    return {name: call("filesystem__read_text_file", path=f"{folder}/{name}") for name in names(call, folder)}


def look(folder: str, lines: int = 0) -> str:
    """Return a script that shows the files of a folder, and the first of them: a person looks first."""
    head = f", head={lines}" if lines else ""
    return f"""from tools import filesystem
folder = "{folder}"
listing = (await filesystem.list_directory(path=folder))["content"]
print(listing)
first = listing.split("[FILE] ")[1].splitlines()[0]
text = (await filesystem.read_text_file(path=f"{{folder}}/{{first}}"{head}))["content"]
text if len(text) < 900 else text[:400] + "\\n…\\n" + text[-400:]"""


def all_files(folder: str, rest: str) -> str:
    """Return a script that reads all files of a folder into ``texts``."""
    return f"""import asyncio, re
from tools import filesystem
folder = "{folder}"
listing = (await filesystem.list_directory(path=folder))["content"]
names = re.findall(r"\\[FILE\\] (.+)", listing)
read = await asyncio.gather(*[filesystem.read_text_file(path=f"{{folder}}/{{n}}") for n in names])
texts = [r["content"] for r in read]
{rest.strip()}"""


def _revenue(call: DirectCalls) -> Any:
    texts = each_file(call, "/NOTES/reports").values()
    return sum(int(amount) for text in texts for amount in re.findall(r"Revenue: (\d+)", text))


def _regions(call: DirectCalls) -> Any:
    sums: Counter[str] = Counter()
    for text in each_file(call, "/NOTES/reports").values():
        sums.update({name: int(amount) for name, amount in re.findall(r"\| (\w+) \| (\d+) \|", text)})
    return dict(sums)


def _region_sums(world: World) -> Any:
    sums: Counter[str] = Counter()
    for report in world.files.reports:
        sums.update(report.regions)
    return dict(sums)


def _actions(call: DirectCalls) -> Any:
    found = (re.findall(r"^- (.+?): .*期限", text, re.M) for text in each_file(call, "/NOTES/会議").values())
    return dict(Counter(who for people in found for who in people))


def _attended(call: DirectCalls) -> Any:
    texts = each_file(call, "/NOTES/会議").values()
    return [text.split()[2] for text in texts if "西村" in text.split("出席者: ")[1].splitlines()[0]]


def _by_customer(call: DirectCalls) -> Any:
    sums: Counter[str] = Counter()
    for text in each_file(call, "/NOTES/invoices").values():
        sums[re.search(r"Customer: (\w+)", text)[1]] += int(re.search(r"Total: (\d+)", text)[1])  # type: ignore[index]
    return dict(sums)


def _invoice_sums(world: World) -> Any:
    sums: Counter[str] = Counter()
    for invoice in world.files.invoices:
        sums[invoice.customer] += invoice.total
    return dict(sums)


def _due(call: DirectCalls) -> Any:
    found = []
    for name, text in each_file(call, "/NOTES/invoices").items():
        due, total = re.search(r"Due: (\S+)", text)[1], int(re.search(r"Total: (\d+)", text)[1])  # type: ignore[index]
        if due < "2026-05-01" and total > 1500:
            found.append(name.removesuffix(".txt"))
    return found


def _expenses(call: DirectCalls) -> Any:
    return {
        name.removesuffix(".csv"): sum(int(line.split(",")[2]) for line in text.splitlines()[1:])
        for name, text in each_file(call, "/NOTES/経費").items()
    }


def _sales(call: DirectCalls) -> Any:
    sums: Counter[str] = Counter()
    for text in each_file(call, "/NOTES/sales").values():
        for line in text.splitlines()[1:]:
            _, product, amount = line.split(",")
            sums[product] += int(amount)
    return dict(sums)


def _product_sums(world: World) -> Any:
    sums: Counter[str] = Counter()
    for rows in world.files.sales:
        for _, product, amount in rows:
            sums[product] += amount
    return dict(sums)


def _written(call: DirectCalls) -> Any:
    sums: list[int] = []
    for quarter in range(1, 5):
        text = call("filesystem__read_text_file", path=f"/NOTES/sales/2026-q{quarter}.csv")
        sums.append(
            sum(int(line.split(",")[2]) for line in text.splitlines()[1:] if line.startswith("North"))
        )
    table = "quarter,amount\n" + "".join(f"q{n},{amount}\n" for n, amount in enumerate(sums, 1))
    call("filesystem__write_file", path="/NOTES/north.csv", content=table)
    return sums


def _north(world: World) -> list[int]:
    return [sum(amount for region, _, amount in rows if region == "North") for rows in world.files.sales]


def _north_file(world: World) -> str:
    return "quarter,amount\n" + "".join(f"q{n},{amount}\n" for n, amount in enumerate(_north(world), 1))


TASKS = (
    CodeTask(
        "year-revenue", "What is the sum of the revenue in all monthly reports in /NOTES/reports?",
        FILES, (LIST, READ), _revenue,
        (look("/NOTES/reports"), all_files("/NOTES/reports", 'sum(int(re.search(r"Revenue: (\\d+)", t)[1]) for t in texts)'),),
        lambda world: sum(report.revenue for report in world.files.reports),
    ),
    CodeTask(
        "revenue-by-region", "Add up the revenue of the year by region. The tables are in /NOTES/reports.",
        FILES, (LIST, READ), _regions,
        (look("/NOTES/reports"), all_files("/NOTES/reports", """
sums = {}
for text in texts:
    for name, amount in re.findall(r"\\| (\\w+) \\| (\\d+) \\|", text):
        sums[name] = sums.get(name, 0) + int(amount)
sums"""),),
        _region_sums,
    ),
    CodeTask(
        "actions-by-person", "/NOTES/会議 の議事録から、宿題の件数を担当者ごとに数えてください。",
        FILES, ("フォルダーのファイル一覧", "ファイルを読む"), _actions,
        (look("/NOTES/会議"), all_files("/NOTES/会議", """
from collections import Counter
dict(Counter(who for t in texts for who in re.findall(r"(?m)^- (.+?): .*期限", t)))"""),),
        lambda world: dict(Counter(who for each in world.files.minutes for who, _, _ in each.actions)),
    ),
    CodeTask(
        "meetings-attended", "西村さんが出席した定例会議の日付を、/NOTES/会議 から拾ってください。",
        FILES, ("フォルダーのファイル一覧", "ファイルを読む"), _attended,
        (look("/NOTES/会議"), all_files("/NOTES/会議", '[n[:-3] for n, t in zip(names, texts) if "西村" in re.search(r"出席者: (.*)", t)[1]]'),),
        lambda world: sorted(each.date for each in world.files.minutes if "西村" in each.people),
    ),
    CodeTask(
        "invoices-by-customer", "How much did we bill each customer? The invoices are in /NOTES/invoices.",
        FILES, (LIST, READ), _by_customer,
        (look("/NOTES/invoices"), all_files("/NOTES/invoices", """
sums = {}
for t in texts:
    customer = re.search(r"Customer: (\\w+)", t)[1]
    sums[customer] = sums.get(customer, 0) + int(re.search(r"Total: (\\d+)", t)[1])
sums"""),),
        _invoice_sums,
    ),
    CodeTask(
        "large-due-invoices", "Which invoices in /NOTES/invoices over 1,500 EUR are due before May 2026?",
        FILES, (LIST, READ), _due,
        (look("/NOTES/invoices"), all_files("/NOTES/invoices", """
[n[:-4] for n, t in zip(names, texts)
 if re.search(r"Due: (\\S+)", t)[1] < "2026-05-01" and int(re.search(r"Total: (\\d+)", t)[1]) > 1500]"""),),
        lambda world: [
            each.number for each in world.files.invoices if each.due < "2026-05-01" and each.total > 1500
        ],
    ),
    CodeTask(
        "expenses-by-person", "/NOTES/経費 の CSV から、人ごとの経費の合計を出してください。",
        FILES, ("フォルダーのファイル一覧", "ファイルを読む"), _expenses,
        (look("/NOTES/経費", 3), all_files("/NOTES/経費", """
{n[:-4]: sum(int(line.split(",")[2]) for line in t.splitlines()[1:]) for n, t in zip(names, texts)}"""),),
        lambda world: world.files.expenses,
    ),
    CodeTask(
        "sales-by-product", "Sum up the sales of 2026 by product, from the files in /NOTES/sales.",
        FILES, (LIST, READ), _sales,
        (look("/NOTES/sales", 3), all_files("/NOTES/sales", """
sums = {}
for t in texts:
    for line in t.splitlines()[1:]:
        _, product, amount = line.split(",")
        sums[product] = sums.get(product, 0) + int(amount)
sums"""),),
        _product_sums,
    ),
    CodeTask(
        "table-of-north",
        "Write /NOTES/north.csv with the sales of region North by quarter (quarter,amount) from /NOTES/sales/2026-qN.csv.",
        FILES, (READ, "write a file"), _written,
        (look("/NOTES/sales", 3), """import asyncio
from tools import filesystem
read = await asyncio.gather(*[filesystem.read_text_file(path=f"/NOTES/sales/2026-q{q}.csv") for q in range(1, 5)])
sums = []
for r in read:
    rows = [line.split(",") for line in r["content"].splitlines()[1:]]
    sums.append(sum(int(amount) for region, _, amount in rows if region == "North"))
table = "quarter,amount\\n" + "".join(f"q{n},{amount}\\n" for n, amount in enumerate(sums, 1))
await filesystem.write_file(path="/NOTES/north.csv", content=table)
sums""",),
        _north,
        lambda hub: (hub.world.notes / "north.csv").read_text() == _north_file(hub.world),
    ),
)  # fmt: skip
