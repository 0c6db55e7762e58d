"""Scripts that try to fill the memory of the hub, or to hold it: written ones, and generated ones."""

from __future__ import annotations

import random

_DOUBLED = ("{'a': X, 'b': X}", "[X, X]", "(X, X)", "[[X], {'k': X}]", "{'a': [X] * 40}", "(X,) * 30")
_SEEDS = (
    "{'a': 'x'}",
    "'x' * 1000",
    "[1.5] * 100",
    "(1, 2)",
    "10**3000",
    "'\\u3042' * 100",
    "None",
    "b'x' * 99",
)
_USES = (
    "X",
    "[X] * 100",
    "{'k': X}",
    "print(X)",
    "print(str(X)[:10])",
    "f'{X}'",
    "'%s' % (X,)",
    "str(X)",
    "repr(X)",
    "raise ValueError(str(X))",
    "raise ValueError(X)",
    "{(X, 1): 1}",
    "{str(X): 1}",
    "class A:\n    def __init__(self, x):\n        self.x = x\nA(X)",
    "import json\njson.dumps(X)",
    "from tools import github\nawait github.search(q=X)",
    "from tools import github\nawait github.search(X)",
    "from tools import github\nawait github.search(q=[X, X])",
    "from tools import github\nawait getattr(github, str(X)[:50])(q=X)",
    "import asyncio\nfrom tools import github\n"
    "await asyncio.gather(*[github.search(q=X) for _ in range(20)])",
    "assert X is None, X",
    "sorted([X, X])",
    "X == X",
    "hash(X)",
    "list(X)",
    "set(X)",
    "sum([X])",
    "X.missing",
    "from tools import github\ntry:\n    await github.search(q=X)\nexcept TypeError as error:\n    error",
)

SHARED = "d = {'a': 'x'}\nfor i in range(60):\n    d = {'a': d, 'b': d}\n"

WRITTEN = (
    SHARED + "d",
    SHARED + "from tools import github\nawait github.search(q=d)",
    "t = (1,)\nfor i in range(60):\n    t = (t, t)\n{t: 1}",
    "t = (1,)\nfor i in range(60):\n    t = (t, t)\n{t}",
    "class A: pass\na = A()\na.x = a\na.y = a\na",
    "class A: pass\na = A()\nfor i in range(60):\n    b = A()\n    b.x = a\n    b.y = a\n    a = b\na",
    "x = []\nx.append(x)\nx.append(x)\nx",
    "[[] for _ in range(400_000)]",
    "[{} for _ in range(200_000)]",
    "[float(i) for i in range(900_000)]",
    "{str(i): i for i in range(150_000)}",
    "[1] * 2_000_000",
    "['x' * 1000] * 1_000_000",
    "10**5000",
    "[10**4000] * 10_000",
    "10**10**6",
    "str(10**3000) * 1000",
    "'\\\\' * 900_000",
    "'\\x01' * 900_000",
    "'あ' * 900_000",
    "raise ValueError('x' * 10**7)",
    "raise ValueError(*['x' * 1000] * 1000)",
    "x = 'a' * 500_000\nraise KeyError(x)",
    "eval('x' * 1_000_000)",
    "for _ in range(1000):\n    print('x' * 1000)",
    "for _ in range(100_000):\n    print()",
    "print(*range(10**6))",
    "from tools import github\nawait github.search(q='x' * 2_000_000)",
    "from tools import github\nawait github.search(q=[[]] * 99_000)",
    "from tools import github\nawait github.search(q=[1] * 1_000_000)",
    "from tools import github\nawait github.search(**{'q' * 100_000: 1})",
    "from tools import github\nfor _ in range(300):\n    await github.search(q='x' * 100_000)",
    "kept = []\nfrom tools import github\nfor _ in range(300):\n"
    "    kept.append(await github.search(q='x' * 100_000))\nlen(kept)",
    "import re\nre.match('(a+)+$', 'a' * 40 + 'b')",
    "import re\nre.sub('a', 'b' * 1000, 'a' * 10**5)",
    "sorted([str(i % 1000) for i in range(10**6)])",
    "'{:>100000000}'.format(1)",
    "int('9' * 4000) ** 1000",
)  # fmt: skip


def generated(count: int, seed: int = 38) -> list[str]:
    """Return scripts that make a value of shared parts, and do something with it."""
    made, dice = [], random.Random(seed)
    for _ in range(count):
        lines = [f"x = {dice.choice(_SEEDS)}", f"for i in range({dice.choice((3, 10, 20, 30, 60, 200))}):"]
        lines.append(f"    x = {dice.choice(_DOUBLED).replace('X', 'x')}")
        made.append("\n".join((*lines, dice.choice(_USES).replace("X", "x"))))
    return made
