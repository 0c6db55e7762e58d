"""Records of the world: a database, a repository, a memory, posts, documents and pages; pure."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.code_tasks.sentences import english, japanese

ASSIGNEES = ("mia", "leo", "noa", "ken")
LABELS = ("bug", "docs", "speed", "design")
CITIES = ("Kyoto", "Oslo", "Lima", "Quito", "Turin")
SUBJECTS, COMPLAINTS = ("Export", "Login", "Search", "Upload", "Report"), ("fails", "is slow", "is unclear")
AUTHORS = ("hanako", "taro", "leo", "mia")
TEAMS = ("Harbor", "Meadow", "Summit")


class Issue(NamedTuple):
    id: int
    title: str
    state: str
    label: str
    assignee: str
    opened: str
    body: str


class Customer(NamedTuple):
    id: int
    name: str
    city: str


class Order(NamedTuple):
    id: int
    customer_id: int
    month: int
    amount: int
    note: str


class Commit(NamedTuple):
    author: str
    message: str
    path: str
    """The only file that it changes."""


class WorldPost(NamedTuple):
    id: int
    author: str
    time: str
    text: str


class WorldRecords:
    """All records, as values."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.issues = [self._issue(number) for number in range(1, 121)]
        self.customers = [
            Customer(number, f"{name} Ltd", chance.choice(CITIES)) for number, name in _numbered()
        ]
        self.orders = [self._order(number) for number in range(1, 181)]
        self.commits = [self._commit(number) for number in range(1, 41)]
        self.people = self._people()
        self.posts = [self._post(number) for number in range(1, 161)]
        self.documents = self._documents()
        self.stock = {city: self._stock() for city in CITIES}

    def _issue(self, number: int) -> Issue:
        chance = self._chance
        opened = f"2026-{chance.randrange(1, 10):02}-{chance.randrange(1, 28):02}"
        title = " ".join((chance.choice(SUBJECTS), chance.choice(COMPLAINTS)))
        return Issue(
            number, title, chance.choice(("open", "open", "closed")), chance.choice(LABELS),
            chance.choice(ASSIGNEES), opened, english(chance, chance.randrange(2, 6)),
        )  # fmt: skip

    def _order(self, number: int) -> Order:
        chance = self._chance
        return Order(
            number,
            chance.randrange(1, 13),
            chance.randrange(1, 13),
            chance.randrange(20, 3000),
            english(chance, 1),
        )

    def _commit(self, number: int) -> Commit:
        chance = self._chance
        path = chance.choice(
            ("src/parser.py", "src/cache.py", "src/views.py", "docs/guide.md", "docs/faq.md", "README.md")
        )
        kind = chance.choice(("Fix", "Add", "Change", "Remove"))
        return Commit(chance.choice(ASSIGNEES), f"{kind} part {number} of {path}", path)

    def _people(self) -> dict[str, tuple[str, str, tuple[str, ...]]]:
        """Return team, city and skills of each person."""
        chance = self._chance
        names = (
            "Hana",
            "Ken",
            "Mia",
            "Leo",
            "Noa",
            "Eva",
            "Ole",
            "Yuki",
            "Jun",
            "Ada",
            "Ines",
            "Max",
            "Rin",
            "Tom",
            "Uma",
        )
        skills = ("Rust", "Python", "SQL", "Design", "Writing")
        return {
            name: (chance.choice(TEAMS), chance.choice(CITIES), tuple(chance.sample(skills, 2)))
            for name in names
        }

    @property
    def memory(self) -> list[str]:
        """Return the lines of the memory's file."""
        found: list[dict[str, Any]] = [
            {
                "type": "entity",
                "name": team,
                "entityType": "team",
                "observations": [f"plans its work on {day}s"],
            }
            for team, day in zip(TEAMS, ("Monday", "Tuesday", "Friday"), strict=True)
        ]
        for name, (_, city, skills) in self.people.items():
            about = [
                f"lives in {city}",
                *(f"knows {skill}" for skill in skills),
                english(random.Random(name), 2),
            ]
            found.append({"type": "entity", "name": name, "entityType": "person", "observations": about})
        for name, (team, _, _) in self.people.items():
            found.append({"type": "relation", "from": name, "to": team, "relationType": "works in"})
        return [json.dumps(each) for each in found]

    def _post(self, number: int) -> WorldPost:
        chance = self._chance
        topic = chance.choice(("coffee", "trains", "gardens", "bicycles", "rain"))
        text = f"{topic}: {english(chance, 2)}" if chance.random() < 0.6 else f"{topic} {japanese(chance, 3)}"
        day = f"2026-{chance.randrange(1, 7):02}-{chance.randrange(1, 28):02}"
        time = f"{day} {chance.randrange(24):02}:{number % 60:02}:00"
        return WorldPost(
            1_500_000_000_000_000_000 + number, chance.choice(AUTHORS), time, f"{text} ({number})"
        )

    def _documents(self) -> dict[str, str]:
        chance = self._chance
        found = {}
        for number, subject in enumerate(
            ("vpn", "printer", "travel", "security", "holidays", "phones", "parking", "guests")
        ):
            owner = chance.choice(("Okabe", "Lindqvist", "Marino"))
            found[f"handbook/{subject}.md"] = (
                f"# Rules for {subject}\n\nOwner: {owner}\nReview: 2027-{number + 1:02}-15\n\n"
                f"{english(chance, 25)}\n\n{english(chance, 20)}\n"
            )
        return found

    def _stock(self) -> list[tuple[str, int, int]]:
        """Return items of a shop with their price and count."""
        chance = self._chance
        return [
            (
                f"{chance.choice(('oak', 'steel', 'blue', 'small', 'large'))} {item}",
                chance.randrange(5, 300),
                chance.randrange(0, 40),
            )
            for item in (
                "chair",
                "table",
                "lamp",
                "shelf",
                "clock",
                "basket",
                "mirror",
                "stool",
                "desk",
                "bench",
                "vase",
                "rug",
            )
        ]

    @property
    def pages(self) -> Mapping[str, str]:
        """Return pages of HTML by path: a shop in each city."""
        return {f"/{city.lower()}": _page(city, rows) for city, rows in self.stock.items()}


def _numbered() -> enumerate[str]:
    names = (
        "Aster",
        "Birch",
        "Cedar",
        "Dahlia",
        "Elm",
        "Fern",
        "Ginkgo",
        "Hazel",
        "Iris",
        "Juniper",
        "Kerria",
        "Larch",
    )
    return enumerate(names, 1)


def _page(city: str, rows: list[tuple[str, int, int]]) -> str:
    cells = "".join(
        f"<tr><td>{item}</td><td>{price}</td><td>{count}</td></tr>" for item, price, count in rows
    )
    chance = random.Random(city)
    return (
        f"<html><head><title>Shop {city}</title></head><body><main>"
        f"<h1>Shop in {city}</h1><p>{english(chance, 4)}</p>"
        f"<table><tr><th>Item</th><th>Price</th><th>Stock</th></tr>{cells}</table>"
        f"<p>{english(chance, 30)}</p>"
        f"<h2>How to find us</h2><p>{english(chance, 20)}</p></main></body></html>"
    )
