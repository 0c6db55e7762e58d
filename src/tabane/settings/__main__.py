"""`python -m tabane.settings`: prints docs/settings.md from the table of settings."""

from __future__ import annotations

from tabane.messages import Message
from tabane.settings.groups import grouped
from tabane.settings.option import SettingOption, allowed, shown

_HEAD = """\
# Settings

<!-- Made by `python -m tabane.settings`; a test holds this page to the table of settings. -->

Each setting is taken from the first of these that gives it:

1. a flag of the command, such as `--list-wait 5`
2. an environment variable, such as `TABANE_LIST_WAIT=5`
3. `tabane.toml` in the platform's configuration folder (`~/.config/tabane` on Linux,
   `~/Library/Application Support/tabane` on macOS), or the file that `--config` or `TABANE_CONFIG` names
4. its default

`tabane settings` shows the value in force and where it came from. `tabane settings set NAME VALUE` changes
it in `tabane.toml` and keeps the comments there. The [web page](web.md) does the same.

```toml
# tabane.toml
lang = "ja"
start_servers = "at_start"
list_wait = 5
max_line = "128 MiB"
```

Sizes are a number of bytes, or text with a unit (`KiB`, `MiB`, `GiB`). Paths may begin with `~`; a
relative path counts from the folder of `tabane.toml`, in a flag or variable from the working directory.
A key that does not exist is named in a warning; a value that does not fit is an error that says what
does. A settings file that others may write is refused.

"""


def settings_page() -> str:
    """Return the whole page, in English: a table of contents, and the settings of each group."""
    groups = [(group.title.render("en"), options) for group, options in grouped()]
    contents = ""
    for title, options in groups:
        anchor = title.lower().replace(",", "").replace(" ", "-")
        links = ", ".join(f"[`{option.name}`](#{option.name})" for option in options)
        contents += f"| [{title}](#{anchor}) | {links} |\n"
    parts = (f"## {title}\n\n" + "\n".join(map(_section, options)) for title, options in groups)
    return f"{_HEAD}| group | settings |\n|---|---|\n{contents}\n" + "\n".join(parts)


def _section(option: SettingOption) -> str:
    names = f"`{option.flag}`, `{option.environment}`"
    if option.kind == "switch":
        names = f"`{option.flag}` or `{option.flag.replace('--', '--no-', 1)}`, `{option.environment}`"
    return (
        f"### {option.name}\n\n{option.help.render('en')}\n\n"
        f"- Default: {_default(option)}\n- Allowed: {allowed(option).render('en')}\n- Also as: {names}\n"
    )


def _default(option: SettingOption) -> str:
    if isinstance(option.default, Message):
        return option.default.render("en")
    if option.default in ((), ""):
        return "none"
    unit = f" {option.unit.render('en')}" if option.unit and option.kind != "bytes" else ""
    return f"`{shown(option, option.default)}`{unit}"


if __name__ == "__main__":
    print(settings_page(), end="")
