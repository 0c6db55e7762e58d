"""Scripts that try to leave the sandbox, or to exhaust it."""

from __future__ import annotations

import asyncio
import time

import psutil
import pytest

from tabane.code.host_messages import MIB, HostFailed, ScriptLimits, decode_answer
from tabane.code.script_host import ScriptHost
from tests.code.greedy_scripts import SHARED, WRITTEN, generated
from tests.code.sandboxed import script_trial

LIMITS = ScriptLimits(seconds=0.5, memory=16 * MIB, output=MIB, recursion=200, workers=1)

FILES = (
    "open('/etc/passwd').read()",
    "open('/proc/self/environ').read()",
    "from pathlib import Path\nPath('/etc/passwd').read_text()",
    "from pathlib import Path\nPath('/tmp/escaped').write_text('x')",
    "from pathlib import Path\nlist(Path('/').iterdir())",
    "from pathlib import Path\nPath('/etc/../etc/passwd').exists() or 1 / 0",
    "import os\nos.listdir('/')",
    "import os\nos.remove('/tmp/escaped')",
    "import os\nos.rename('/a', '/b')",
    "import os\nos.mkdir('/tmp/escaped')",
)

SYSTEM = (
    "import os\nos.environ",
    "import os\nos.environ['HOME']",
    "import os\nos.getenv('HOME') or 1 / 0",
    "import os\nos.system('true')",
    "import os\nos.popen('true')",
    "import os\nos.fork()",
    "import os\nos.kill(1, 9)",
    "import os\nos.urandom(8)",
    "import sys\nsys.modules",
    "import sys\nsys._getframe()",
    "import sys\nsys.path.append('/')",
)

IMPORTS = (
    *(
        f"import {name}"
        for name in (
            "socket", "ssl", "http.client", "urllib.request", "subprocess", "ctypes", "multiprocessing",
            "threading", "signal", "importlib", "builtins", "gc", "inspect", "pickle", "marshal", "shelve",
            "code", "pty", "mmap", "_io", "posix", "tabane", "tools.os", "msgspec",
        )
    ),
    "__import__('os')",
    "from tools import __class__",
    "from tools import github\nfrom tools.github import __dict__",
)  # fmt: skip

WALKS = (
    "().__class__.__bases__[0].__subclasses__()",
    "''.__class__.__mro__",
    "type('').mro()",
    "object.__subclasses__(object)",
    "(lambda: 0).__code__",
    "(lambda: 0).__globals__",
    "print.__self__",
    "'{0.__class__}'.format(1)",
    "'{0.__init__.__globals__}'.format(print)",
    "getattr(1, '__class__')",
    "from tools import github\ngithub.__dict__",
    "from tools import github\ngithub.search.__globals__",
    "from tools import github\ngithub.search.__self__",
    "from tools import github\ngithub.search = print\nawait github.search(q=1)",
    "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    error.__traceback__.tb_frame",
    "async def f():\n    pass\nf().cr_frame",
    "eval('().__class__')",
    "exec('import socket')",
    "__builtins__",
    "globals()",
    "vars()",
    "breakpoint()",
    "input()",
    "compile('1', '', 'eval')",
)

BOMBS = (
    "while True:\n    pass",
    "x = 'a'\nwhile True:\n    x += x",
    "[0] * 10**10",
    "'a' * 10**10",
    "bytes(10**10)",
    "2 ** 10**9",
    "10**10**10",
    "x = []\nwhile True:\n    x = [x, x]\n    str(x)",
    "def f():\n    return f()\nf()",
    "class A:\n    def __str__(self):\n        return str(self)\nstr(A())",
    "sorted([str(i % 1000) for i in range(10**7)])",
    "while True:\n    print('x' * 1000)",
    "'{:>10000000000}'.format(1)",
    "f'{1:>10000000000}'",
    "'%10000000000d' % 1",
    "int('9' * 10**7)",
    "list(range(10**10))",
    "'a'.ljust(10**10)",
    "from collections import Counter\nCounter(range(10**9))",
    "import itertools\nlist(itertools.count())",
    "import math\nmath.factorial(10**7)",
    "import json\njson.loads('[' * 10**6)",
    "(" * 50_000 + ")" * 50_000,
    "-" * 100_000 + "1",
    "x = " + "[" * 5_000 + "]" * 5_000,
    "lambda: " * 20_000 + "1",
    "import re\nre.compile('(?:a{1000}){1000}')",
    "import re\nre.sub('', 'x' * 10**6, 'a' * 10**6)",
    "raise ValueError('x' * 10**6)",
    "raise ValueError('x' * 10**8)",
    "def f(n):\n    try:\n        f(n + 1)\n    finally:\n        f(n + 1)\nf(0)",
    "import asyncio\nasync def f():\n    await asyncio.gather(*[f() for _ in range(10)])\nawait f()",
    "class A:\n    def __hash__(self):\n        return hash(self)\n{A(): 1}",
    "print('x' * 10**9, end='')",
    "print(*range(10**8))",
    "' '.join(['a' * 10**6] * 10**4)",
    "x = []\nx.append(x)\nimport json\njson.dumps(x)",
    "import json\njson.dumps([[0] * 10**6] * 10**4)",
    "import tomllib\ntomllib.loads('a = ' + '[' * 10**5)",
    "import hashlib\nhashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)",
    "from decimal import Decimal, getcontext\ngetcontext().prec = 10**9\nDecimal(1) / 3",
    "from datetime import datetime\ndatetime.now().strftime('%Y' * 10**8)",
    "import itertools\nlist(itertools.permutations(range(20)))",
)

DEEP = "x = []\nfor i in range(50_000):\n    x = [x]\n"
"""Lines that make a deeply nested value."""


@pytest.mark.parametrize("kind", [FILES, SYSTEM, IMPORTS, WALKS], ids=["files", "system", "imports", "walks"])
async def test_nothing_outside_can_be_reached(kind: tuple[str, ...]) -> None:
    async with script_trial() as trial:
        reached = [code for code in kind if not (await trial.run(code, limits=LIMITS)).failure]
        assert reached == []
        assert trial.calls == []
        assert (await trial.run("6 * 7", limits=LIMITS)).value == 42


@pytest.mark.heavy("real sandboxes")
async def test_a_bomb_fails_alone() -> None:
    async with script_trial() as trial:
        for code in BOMBS:
            assert (await trial.run(code, limits=LIMITS)).failure, code[:60]
            assert (await trial.run("6 * 7", limits=LIMITS)).value == 42, code[:60]


async def test_a_deeply_nested_value_harms_nobody() -> None:
    async with script_trial() as trial:
        assert (await trial.run(DEEP + "x", limits=LIMITS)).failure
        await trial.run(DEEP + "from tools import github\nawait github.search(q=x)", limits=LIMITS)
        nested: list[object] = []
        for _ in range(5_000):
            nested = [nested]
        await trial.run("given", inputs={"given": nested}, limits=LIMITS)
        assert (await trial.run("6 * 7", limits=LIMITS)).value == 42


async def test_what_shares_its_parts_is_refused_before_it_is_written() -> None:
    async with script_trial() as trial:
        assert "the result has more than 1024 KiB" in (await trial.run(SHARED + "d", limits=LIMITS)).failure
        asking = SHARED + "from tools import github\nawait github.search(q=d)"
        assert "the limit is 2048 KiB" in (await trial.run(asking, limits=LIMITS)).failure
        assert "more than 3,900 digits" in (await trial.run("10**5000", limits=LIMITS)).failure
        assert trial.calls == []
        assert (await trial.run("6 * 7", limits=LIMITS)).value == 42


@pytest.mark.heavy("real sandboxes")
async def test_no_script_takes_the_memory_or_the_time_of_its_hub() -> None:
    own, most, longest = psutil.Process(), 0, 0.0

    async def watch() -> None:
        nonlocal most, longest
        while True:
            begun = time.thread_time()
            await asyncio.sleep(0.01)
            longest = max(longest, time.thread_time() - begun)
            most = max(most, own.memory_info().rss)

    async with script_trial() as trial:
        await trial.run("1 + 1", limits=LIMITS)
        before, watching = own.memory_info().rss, asyncio.ensure_future(watch())
        for code in (*WRITTEN[::3], *generated(15)):
            await trial.run(code, limits=LIMITS)
            trial.calls.clear()
            assert (await trial.run("6 * 7", limits=LIMITS)).value == 42, code
        watching.cancel()
        assert most - before <= 64 * MIB
        assert longest < 0.5  # seconds of CPU time between two looks


def test_an_internal_error_is_the_failure_of_its_script() -> None:
    failed = decode_answer(ScriptHost().respond(b"no request", lambda text: None))
    assert isinstance(failed, HostFailed)
    assert failed.broken
    assert "an internal error while the script ran: ValidationError" in failed.text
