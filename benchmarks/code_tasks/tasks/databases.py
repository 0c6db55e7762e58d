"""Tasks on a SQLite database."""

from __future__ import annotations

import ast
import contextlib
import sqlite3
from collections import Counter
from typing import Any

from benchmarks.code_tasks.task import CodeTask, DirectCalls
from benchmarks.code_tasks.world import World
from benchmarks.code_tasks.world_hub import WorldHub

SQLITE = ("sqlite",)
TABLES, QUERY = "list the tables of the SQLite database", "run a SELECT query"

_LOOK = """from tools import sqlite
print(await sqlite.list_tables())
"""


def rows(call: DirectCalls, query: str) -> list[dict[str, Any]]:
    """Return the rows of a query, which the server writes as Python."""
    found: list[dict[str, Any]] = ast.literal_eval(call("sqlite__read_query", query=query))
    return found


def _look(call: DirectCalls, *tables: str) -> None:
    call("sqlite__list_tables")
    for table in tables:
        call("sqlite__describe_table", table_name=table)


def _open_by_label(call: DirectCalls) -> Any:
    _look(call, "issues")
    found = rows(call, "SELECT label, count(*) AS n FROM issues WHERE state = 'open' GROUP BY label")
    return {row["label"]: row["n"] for row in found}


_TOP = (
    "SELECT c.name, sum(o.amount) AS total FROM orders o JOIN customers c ON c.id = o.customer_id "
    "GROUP BY c.id ORDER BY total DESC LIMIT 3"
)


def _top(call: DirectCalls) -> Any:
    _look(call, "customers", "orders")
    return [row["name"] for row in rows(call, _TOP)]


def _top_customers(world: World) -> Any:
    sums = Counter[int]()
    for order in world.records.orders:
        sums[order.customer_id] += order.amount
    known = {customer.id: customer.name for customer in world.records.customers}
    return [known[id] for id, _ in sums.most_common(3)]


def _largest(call: DirectCalls) -> Any:
    found = {}
    for row in rows(call, "SELECT id, name FROM customers"):
        orders = rows(
            call,
            f"SELECT id, amount, note FROM orders WHERE customer_id = {row['id']} ORDER BY amount DESC LIMIT 3",
        )
        found[row["name"]] = [order["amount"] for order in orders]
    return found


def _largest_orders(world: World) -> Any:
    orders = world.records.orders
    return {
        each.name: sorted((order.amount for order in orders if order.customer_id == each.id), reverse=True)[
            :3
        ]
        for each in world.records.customers
    }


def _oldest(call: DirectCalls) -> Any:
    _look(call, "issues")
    people = rows(call, "SELECT DISTINCT assignee FROM issues")
    found = {}
    for who in (row["assignee"] for row in people):
        query = (
            f"SELECT * FROM issues WHERE state = 'open' AND assignee = '{who}' ORDER BY opened, id LIMIT 1"
        )
        found[who] = rows(call, query)[0]["id"]
    return found


def _oldest_issues(world: World) -> Any:
    still = sorted(
        (each for each in world.records.issues if each.state == "open"), key=lambda each: each.opened
    )
    return {
        who: next(each.id for each in still if each.assignee == who) for who in ("mia", "leo", "noa", "ken")
    }


_NEW = (("Maple Ltd", "Oslo"), ("Nutmeg Ltd", "Lima"), ("Olive Ltd", "Turin"))


def _added(call: DirectCalls) -> Any:
    for name, city in _NEW:
        call("sqlite__write_query", query=f"INSERT INTO customers (name, city) VALUES ('{name}', '{city}')")
    return rows(call, "SELECT count(*) AS n FROM customers")[0]["n"]


def _has_new(hub: WorldHub) -> bool:
    with contextlib.closing(sqlite3.connect(hub.world.database)) as base:
        found = base.execute("SELECT name, city FROM customers WHERE id > 12 ORDER BY id").fetchall()
    return found == list(_NEW)


_WORDS = ("backup", "kitchen", "invoices", "crash", "audit")


def _mentions(call: DirectCalls) -> Any:
    _look(call, "issues")
    found = {}
    for word in _WORDS:
        matches = rows(
            call,
            f"SELECT id, title, assignee, body FROM issues WHERE state = 'open' AND body LIKE '%{word}%'",
        )
        found[word] = dict(Counter(row["assignee"] for row in matches))
    return found


def _mentioned(world: World) -> Any:
    still = [each for each in world.records.issues if each.state == "open"]
    return {
        word: dict(Counter(each.assignee for each in still if word in each.body.lower())) for word in _WORDS
    }


TASKS = (
    CodeTask(
        "open-issues-by-label", "How many open issues are there by label in the database?",
        SQLITE, (TABLES, QUERY), _open_by_label,
        (_LOOK + 'await sqlite.describe_table(table_name="issues")',
         """from tools import sqlite
rows = await sqlite.read_query(query="SELECT label, count(*) AS n FROM issues WHERE state = 'open' GROUP BY label")
{r["label"]: r["n"] for r in rows}"""),
        lambda world: dict(Counter(each.label for each in world.records.issues if each.state == "open")),
    ),
    CodeTask(
        "top-customers", "Who are our three best customers by amount of orders? Look in the database.",
        SQLITE, (TABLES, QUERY), _top,
        (_LOOK + """for table in ("customers", "orders"):
    print(table, [c["name"] for c in await sqlite.describe_table(table_name=table)])""",
         f"""from tools import sqlite
rows = await sqlite.read_query(query='''{_TOP}''')
[r["name"] for r in rows]"""),
        _top_customers,
    ),
    CodeTask(
        "largest-orders", "List the amounts of the three largest orders of each customer. Tables: customers (id, name), orders (customer_id, amount, note).",
        SQLITE, (QUERY,), _largest,
        ("""from tools import sqlite
found = {}
for c in await sqlite.read_query(query="SELECT id, name FROM customers"):
    q = f"SELECT amount FROM orders WHERE customer_id = {c['id']} ORDER BY amount DESC LIMIT 3"
    found[c["name"]] = [o["amount"] for o in await sqlite.read_query(query=q)]
found""",),
        _largest_orders,
    ),
    CodeTask(
        "oldest-open-issues", "データベースの未解決 issue のうち、担当者ごとに一番古いものの番号を教えてください。",
        SQLITE, ("データベースの表の一覧", "SELECT を実行する"), _oldest,
        (_LOOK + """print([c["name"] for c in await sqlite.describe_table(table_name="issues")])
await sqlite.read_query(query="SELECT DISTINCT state, assignee FROM issues")""",
         """from tools import sqlite
rows = await sqlite.read_query(query="SELECT id, assignee FROM issues WHERE state = 'open' ORDER BY opened, id")
oldest = {}
for r in rows:
    oldest.setdefault(r["assignee"], r["id"])
oldest"""),
        _oldest_issues,
    ),
    CodeTask(
        "new-customers", "顧客表 customers (name, city) に Maple Ltd(Oslo)、Nutmeg Ltd(Lima)、Olive Ltd(Turin)を追加し、追加後の件数を答えてください。",
        SQLITE, ("SQLite に行を追加する",), _added,
        ("""from tools import sqlite
for name, city in [("Maple Ltd", "Oslo"), ("Nutmeg Ltd", "Lima"), ("Olive Ltd", "Turin")]:
    await sqlite.write_query(query=f"INSERT INTO customers (name, city) VALUES ('{name}', '{city}')")
(await sqlite.read_query(query="SELECT count(*) AS n FROM customers"))[0]["n"]""",),
        lambda world: 15,
        _has_new,
    ),
    CodeTask(
        "mentions-in-issues", "For each of the words backup, kitchen, invoices, crash and audit: who has how many open issues that mention it?",
        SQLITE, (TABLES, QUERY), _mentions,
        (_LOOK + 'print([c["name"] for c in await sqlite.describe_table(table_name="issues")])',
         """from collections import Counter
from tools import sqlite
found = {}
for word in ("backup", "kitchen", "invoices", "crash", "audit"):
    rows = await sqlite.read_query(query=f"SELECT assignee FROM issues WHERE state = 'open' AND body LIKE '%{word}%'")
    found[word] = dict(Counter(r["assignee"] for r in rows))
found"""),
        _mentioned,
    ),
)  # fmt: skip
