"""The mutants of ``make mutants``: what is changed, and which tests reach it."""

from __future__ import annotations

import sys
from collections import Counter
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from tests.mutants.mutations import Mutation, chosen, mutations
from tests.mutants.plugin import SHARED
from tests.mutants.reach import probed, reaching_tests

SOURCE = '''"""A text == of a module."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import math
__all__ = ["work"[:4], 3]
MOST, TIMEOUT = 16, 1 << 4
PIECE_BYTES = 3
log.info("%s", MOST + 1)
class Small(Struct, frozen=True):
    size: Literal[1] = 2
    名: bool = MOST < 3
@cached(maxsize=2)
async def work(text: str = "a", *, deep=True) -> list[0]:
    """Return 1 + 1."""
    while (at is not None
           and not deep):
        if text in ("x", b"y"):
            break
        total -= min(MOST, math.ceil(text[1:-n]))
    await send(text, strict=True)
    raise Fault(say("{count} < 2", count=MOST - total)) from f"{1 + 1}"
'''
AFTER = """
+/-: total += min(MOST, math.ceil(text[1:-n]))
and/or: or not deep):
break: continue
call: pass
comparison: while (at is None
comparison: 名: bool = MOST <= 3
default: async def work(text: str = "a", *, deep=False) -> list[0]:
default: async def work(text: str = "a~", *, deep=True) -> list[0]:
if: if not (text in ("x", b"y")):
min/max: total -= max(MOST, math.ceil(text[1:-n]))
not: and deep):
number: MOST, TIMEOUT = 15, 1 << 4
number: MOST, TIMEOUT = 17, 1 << 4
number: 名: bool = MOST < 2
number: 名: bool = MOST < 4
rounding: total -= min(MOST, math.floor(text[1:-n]))
slice: total -= min(MOST, math.ceil(text[(1) + 1:-n]))
slice: total -= min(MOST, math.ceil(text[(1) - 1:-n]))
slice: total -= min(MOST, math.ceil(text[1:(-n) + 1]))
slice: total -= min(MOST, math.ceil(text[1:(-n) - 1]))
string: if text in ("x", b"y~"):
string: if text in ("x~", b"y"):
"""
FOUND, SIZES = mutations("a.py", SOURCE.encode())


def test_no_text_type_message_or_size_is_changed() -> None:
    shown = [f"{one.kind}: {one.shown(SOURCE.encode()).partition(' → ')[2]}" for one in FOUND]
    assert sorted(shown) == AFTER.strip().splitlines()
    assert SIZES == 3


def test_a_mutant_differs_in_one_line_and_compiles() -> None:
    for mutation in FOUND:
        mutated = mutation.applied(SOURCE.encode()).decode()
        pairs = enumerate(zip(SOURCE.splitlines(), mutated.splitlines(), strict=True), 1)
        assert [number for number, (old, new) in pairs if old != new] == [mutation.line]
        compile(mutated, "a.py", "exec")


def test_the_choice_is_the_same_for_a_seed_and_mixes_modules_and_kinds() -> None:
    sources = {name: SOURCE.encode() for name in ("a.py", "b.py", "c.py")}
    found = [one for name, source in sources.items() for one in mutations(name, source)[0]]
    taken = chosen(found, sources, 12, seed=1)
    assert chosen(reversed(found), sources, 12, seed=1) == taken
    assert chosen(found, sources, 12, seed=2) != taken
    assert Counter(one.file for one in taken) == dict.fromkeys(sources, 4)
    assert len({one.kind for one in taken}) == 12


def test_a_mutation_that_leaves_the_code_as_it_was_or_does_not_compile_is_passed_over() -> None:
    source = b"def f():\n    for x in y:\n        continue\n"
    same = Mutation("a.py", 3, 8, 16, "break", b"pass")
    wrong = Mutation("a.py", 1, 0, 3, "break", b"deaf")
    assert chosen([same, wrong], {"a.py": source}, 2, seed=1) == []


def test_probes_tell_which_tests_reach_a_mutation(monkeypatch: pytest.MonkeyPatch) -> None:
    source = dedent(
        """\
        from __future__ import annotations
        MOST = 3
        def first(text, most=3):
            'Says nothing.'
            if not text:
                return len(text) < most
            elif most < MOST:
                return 1
        """
    ).encode()
    noted: list[int] = []
    monkeypatch.setitem(sys.modules, "mutants_probe", SimpleNamespace(reached=noted.append))
    numbered = dict(enumerate(mutations("a.py", source)[0]))
    lines = {number: one.line for number, one in numbered.items()}
    module: dict[str, Any] = {}
    exec(compile(probed(source, numbered), "a.py", "exec"), module)
    assert noted == []
    module["first"]("a")
    assert {lines[number] for number in noted} == {2, 3, 5, 7}
    noted.clear()
    module["first"]("", 5)
    assert {lines[number] for number in noted} == {2, 3, 5, 6}


def test_what_a_shared_fixture_reaches_is_reached_by_each_test_of_its_file() -> None:
    tests = ["test_a.py::one", "test_a.py::two", "test_b.py::three"]
    noted = f"7 0\n7 3\n8 2\n9 {1 | SHARED}\n"
    assert reaching_tests(noted, tests) == {7: {tests[2]}, 8: {tests[1]}, 9: set(tests[:2])}
