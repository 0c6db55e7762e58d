"""Files of the world: what people keep in a folder of notes, as text by path; pure."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import NamedTuple

from benchmarks.code_tasks.sentences import english, japanese

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
REGIONS = ("North", "South", "East", "West")
CUSTOMERS = ("Aster", "Birch", "Cedar", "Dahlia", "Elm", "Fern")
PEOPLE = ("西村", "小野寺", "真壁", "佐藤", "井上", "石田")
KINDS = ("交通費", "会議費", "消耗品")
LEVELS = ("INFO", "INFO", "INFO", "INFO", "WARN", "ERROR")
SERVICES = ("auth", "billing", "search", "mail", "export")


class MonthlyReport(NamedTuple):
    month: int
    revenue: int
    tickets: int
    regions: Mapping[str, int]


class Invoice(NamedTuple):
    number: str
    customer: str
    due: str
    lines: tuple[tuple[str, int, int], ...]
    """Item, quantity, price."""

    @property
    def total(self) -> int:
        return sum(count * price for _, count, price in self.lines)


class Minutes(NamedTuple):
    """Minutes of a meeting: who came, and what each has to do by when."""

    date: str
    people: tuple[str, ...]
    actions: tuple[tuple[str, str, str], ...]
    """Who, what, due date."""


class LogLine(NamedTuple):
    time: str
    level: str
    service: str
    ms: int


class WorldFiles:
    """The values that the files have, and the files. ``texts`` are those by path below the folder."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.texts: dict[str, str] = {}
        self.reports = [self._report(month) for month in range(1, 13)]
        self.invoices = [self._invoice(number) for number in range(1, 25)]
        self.minutes = [self._minutes(number) for number in range(1, 11)]
        self.logs = {day: self._log(day) for day in range(1, 9)}
        self.settings = {name: self._settings(name) for name in SERVICES}
        self.todos = self._sources()
        self.sales = [self._sales(quarter) for quarter in range(1, 5)]
        self.contract_changes = self._contracts()
        self.expenses = self._expenses()
        self.access_log = self._access_log()

    def _report(self, month: int) -> MonthlyReport:
        chance = self._chance
        regions = {name: chance.randrange(20_000, 90_000, 50) for name in REGIONS}
        found = MonthlyReport(month, sum(regions.values()), chance.randrange(40, 180), regions)
        rows = "".join(f"| {name} | {amount} |\n" for name, amount in regions.items())
        self.texts[f"reports/2026-{month:02}.md"] = (
            f"# Report for {MONTHS[month - 1]} 2026\n\n## Figures\n\n"
            f"Revenue: {found.revenue} EUR\nTickets: {found.tickets}\n\n"
            f"| Region | EUR |\n|---|---:|\n{rows}\n"
            f"## Comments\n\n{english(chance, 20)}\n\n{english(chance, 20)}\n\n{english(chance, 20)}\n"
        )
        return found

    def _invoice(self, number: int) -> Invoice:
        chance = self._chance
        lines = tuple(
            (item, chance.randrange(1, 12), chance.randrange(15, 400))
            for item in chance.sample(("cable", "sensor", "router", "rack", "license", "visit"), 3)
        )
        due = f"2026-{chance.randrange(1, 13):02}-{chance.randrange(1, 28):02}"
        found = Invoice(f"INV-{number:03}", chance.choice(CUSTOMERS), due, lines)
        rows = "".join(f"{item:<10} {count:>3} x {price:>4} EUR\n" for item, count, price in lines)
        self.texts[f"invoices/{found.number}.txt"] = (
            f"Invoice {found.number}\nCustomer: {found.customer}\nDue: {found.due}\n\n{rows}\n"
            f"Total: {found.total} EUR\n\nPlease pay by bank transfer and name the number of the invoice. "
            f"Questions: billing@example.com\n"
        )
        return found

    def _minutes(self, number: int) -> Minutes:
        chance = self._chance
        people = tuple(chance.sample(PEOPLE, 4))
        whats = chance.sample(
            ("見積もりを送る", "手順書を直す", "日程を決める", "比較表を作る", "契約を確認する"), 3
        )
        actions = tuple(
            (chance.choice(people), what, f"2026-{number + 2:02}-{chance.randrange(1, 28):02}")
            for what in whats
        )
        found = Minutes(f"2026-{number:02}-{chance.randrange(1, 28):02}", people, actions)
        rows = "".join(f"- {who}: {what}(期限 {due})\n" for who, what, due in actions)
        self.texts[f"会議/{found.date}.md"] = (
            f"# 定例会議 {found.date}\n\n出席者: {'、'.join(people)}\n\n## 議論\n\n{japanese(chance, 30)}\n\n"
            f"{japanese(chance, 24)}\n\n## 宿題\n\n{rows}"
        )
        return found

    def _log(self, day: int) -> list[LogLine]:
        chance = self._chance
        found = []
        for minute in sorted(chance.sample(range(1440), 100)):
            time = f"2026-06-{day:02}T{minute // 60:02}:{minute % 60:02}:00"
            found.append(
                LogLine(time, chance.choice(LEVELS), chance.choice(SERVICES), chance.randrange(2, 900))
            )
        self.texts[f"logs/app-{day:02}.log"] = "".join(
            f"{line.time} {line.level} {line.service} "
            f"request={chance.randrange(10**8):08d} took={line.ms}ms\n"
            for line in found
        )
        return found

    def _settings(self, name: str) -> dict[str, object]:
        chance = self._chance
        found: dict[str, object] = {
            "service": name,
            "port": chance.randrange(8000, 8100),
            "debug": chance.random() < 0.4,
            "timeout": chance.choice((5, 10, 30)),
            "replicas": chance.randrange(1, 6),
        }
        self.texts[f"config/{name}.json"] = json.dumps(found, indent=2) + "\n"
        return found

    def _sources(self) -> dict[str, list[str]]:
        """Make a small program, and return its TODO comments by path."""
        chance = self._chance
        found: dict[str, list[str]] = {}
        names = ("parser", "lexer", "cache", "client", "server", "model", "views", "queue", "retry", "report")
        for name in (*names, "tests/parser_test", "tests/cache_test"):
            path = f"source/{name}.py"
            parts = [f'"""{english(chance, 2)}"""\n\nimport os\nimport sys\n']
            todos = []
            for number in range(chance.randrange(8, 17)):
                if chance.random() < 0.15:
                    todos.append(
                        f"TODO({chance.choice(('mia', 'leo', 'noa'))}): {chance.choice(names)} is slow"
                    )
                    parts.append(f"# {todos[-1]}")
                parts.append(
                    f"def step_{number}(value: int, limit: int = {chance.randrange(9, 99)}) -> int:\n"
                    f'    """{english(chance, 1)}"""\n    total = 0\n    for each in range(value):\n'
                    f"        total += each * {chance.randrange(2, 9)}\n    return min(total, limit)\n\n"
                )
            self.texts[path] = "\n".join(parts)
            if todos:
                found[path] = todos
        return found

    def _sales(self, quarter: int) -> list[tuple[str, str, int]]:
        chance = self._chance
        rows = [
            (
                chance.choice(REGIONS),
                chance.choice(("sensor", "router", "rack", "license")),
                chance.randrange(50, 4000),
            )
            for _ in range(60)
        ]
        lines = "".join(f"{region},{product},{amount}\n" for region, product, amount in rows)
        self.texts[f"sales/2026-q{quarter}.csv"] = f"region,product,amount\n{lines}"
        return rows

    def _contracts(self) -> list[int]:
        """Make a contract and its next version, and return the numbers of clauses that differ."""
        chance = self._chance
        clauses = [f"{number}. {english(chance, 3)}" for number in range(1, 31)]
        self.texts["contracts/2025.md"] = "\n\n".join(clauses) + "\n"
        changed = sorted(chance.sample(range(30), 4))
        for place in changed:
            clauses[place] += f" The notice period is {chance.randrange(2, 9)} weeks."
        self.texts["contracts/2026.md"] = "\n\n".join(clauses) + "\n"
        return [place + 1 for place in changed]

    def _expenses(self) -> dict[str, int]:
        """Make a file of expenses for each person, and return their sums."""
        chance, found = self._chance, {}
        for person in PEOPLE:
            amounts = [chance.randrange(200, 9000, 10) for _ in range(18)]
            lines = "".join(
                f"2026-05-{chance.randrange(1, 31):02},{chance.choice(KINDS)},{amount}\n"
                for amount in amounts
            )
            self.texts[f"経費/{person}.csv"] = f"日付,区分,金額\n{lines}"
            found[person] = sum(amounts)
        return found

    def _access_log(self) -> dict[int, int]:
        """Make one long log, and return how often it has each status."""
        chance, found, lines = self._chance, dict[int, int](), []
        for number in range(3_000):
            status = chance.choice((200, 200, 200, 200, 304, 404, 500))
            found[status] = found.get(status, 0) + 1
            lines.append(
                f"10.0.{number % 7}.{number % 200} GET /items/{number:05} "
                f"{status} {chance.randrange(90, 9000)}"
            )
        self.texts["logs/access.log"] = "\n".join(lines) + "\n"
        return found
