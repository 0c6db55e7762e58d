"""The pages of all commands, made from their help: `python -m tests.e2e.docs.command_pages`.

docs/commands.md and docs/commands.ja.md have a row for each command. The help of a process is in one
language, so each page is made by a process of its own, which prints it: `… command_pages LANG`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import click

from tabane.cli.main import GROUPS, main
from tabane.messages import Lang
from tests.e2e.docs.pages import ROOT


class Words(NamedTuple):
    """The sentences of a page around its tables, and the environment that selects its language."""

    lang: str
    file: str
    head: str
    columns: str


MADE = "<!-- Made by `python -m tests.e2e.docs.command_pages`; a test holds this page to the help. -->"
LANGUAGES: dict[Lang, Words] = {
    "en": Words(
        "C.UTF-8",
        "commands.md",
        f"""\
# Commands

{MADE}

[日本語](commands.ja.md)

Every command has `--help` with all options and examples, and `--json` for programs. The first command
that needs the hub starts it. `tabane completion bash` prints the completion for a shell.

| exit status | meaning |
|---|---|
| 0 | success |
| 1 | failure: standard error says what happened and how to fix it |
| 2 | wrong usage |
| 130 | ended by Ctrl+C |

[`check`](check.md), [`update --check`](updating.md) and [`bench`](bench.md) have more.
""",
        "| command | what it does |\n|---|---|",
    ),
    "ja": Words(
        "ja_JP.UTF-8",
        "commands.ja.md",
        f"""\
# コマンド

{MADE}

[English](commands.md)

どのコマンドにも、すべてのオプションと例を表示する`--help`と、プログラム向けの`--json`があります。ハブが必要なコマンドは、動いていない
ハブを起動します。`tabane completion bash`は、シェルの補完スクリプトを表示します。

| 終了ステータス | 意味 |
|---|---|
| 0 | 成功 |
| 1 | 失敗。原因と対処を標準エラーに表示します |
| 2 | 使い方の誤り |
| 130 | Ctrl+Cによる終了 |

[`check`](check.ja.md)、[`update --check`](updating.ja.md)、[`bench`](bench.md)には、ほかの値もあります。
""",
        "| コマンド | 機能 |\n|---|---|",
    ),
}


def page(name: Lang) -> str:
    """Return the page in the language of this process."""
    words = LANGUAGES[name]
    return "\n".join([words.head, *_groups(name, words.columns)])


def _groups(lang: Lang, columns: str) -> Iterator[str]:
    """Yield a section for each group of commands, in the order of the help."""
    context = click.Context(main)
    for title, names in GROUPS:
        yield f"## {title.render(lang)}\n\n{columns}"
        for name in names.split():
            command = main.get_command(context, name)
            if command is not None and not command.hidden:
                yield from _rows(("tabane", name), command)
        yield ""


def _rows(names: tuple[str, ...], command: click.Command) -> Iterator[str]:
    context = click.Context(command)
    if isinstance(command, click.Group) and not command.invoke_without_command:
        inner = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
        for name, one in inner:
            if one is not None and not one.hidden:
                yield from _rows((*names, name), one)
        return
    arguments = [
        parameter.make_metavar(context)
        for parameter in command.params
        if isinstance(parameter, click.Argument)
    ]
    usage = " ".join([*names, *arguments]).replace("|", r"\|")
    yield f"| `{usage}` | {_first_sentence(command.help or '')} |"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            one = command.get_command(context, name)
            if one is not None and not one.hidden:
                yield from _rows((*names, name), one)


def _first_sentence(text: str) -> str:
    line = text.partition("\n\n")[0].replace("\n", " ").replace("|", r"\|").strip()
    return re.split(r"(?<=\.) |(?<=。)", line)[0]


def made(name: Lang) -> str:
    """Return the page in a language, from a process of that language."""
    environment = {**os.environ, "LANG": LANGUAGES[name].lang, "TABANE_LANG": name}
    command = [sys.executable, "-m", "tests.e2e.docs.command_pages", name]
    return subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, encoding="utf-8"
    ).stdout


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.stdout.write(page("ja" if sys.argv[1] == "ja" else "en"))
    else:
        for each, words in LANGUAGES.items():
            (ROOT / "docs" / words.file).write_text(made(each), encoding="utf-8")
