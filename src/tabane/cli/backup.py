"""`tabane backup`, `restore` and `migrate`: data of a hub in one file, put back, or in another engine."""

from __future__ import annotations

from pathlib import Path

import click

from tabane.cli.archives import list_archive, make_archive, restore_archive
from tabane.cli.options import config_option, file_option, option, with_json
from tabane.cli.output import Command, Terminal, examples
from tabane.messages import say


@click.command(
    "backup",
    cls=Command,
    help=say(
        "Write the hub's data, its settings and its servers file to FILE, a compressed tar archive. - is "
        "standard output. The hub may run: the backup has everything that the hub had acknowledged before. "
        "Secrets are left out, unless you add --with-secrets."
    ),
    epilog=examples(
        "tabane backup tabane.tar.gz",
        "tabane backup --with-secrets tabane.tar.gz",
        "tabane backup - | ssh other tabane restore -",
        "tabane backup --list tabane.tar.gz",
    ),
)
@click.argument("archive", metavar="FILE", type=click.Path())
@option(
    "--with-secrets",
    is_flag=True,
    help=say("Include secrets: secrets.env, the keyring's values, the hub's token and the audit log's key."),
)
@option("--force", "forced", is_flag=True, help=say("Replace FILE if it exists."))
@option("--list", "listed", is_flag=True, help=say("Show what the backup FILE contains."))
@file_option
@with_json
def backup(
    terminal: Terminal, archive: str, with_secrets: bool, forced: bool, listed: bool, file: str | None
) -> None:
    if listed:
        list_archive(terminal, archive)
    else:
        make_archive(terminal, archive, file, with_secrets=with_secrets, forced=forced)


@click.command(
    "restore",
    cls=Command,
    help=say(
        "Restore the backup FILE into TABANE_HOME, the settings file and the servers file. - is standard "
        "input. The whole backup is verified first. No hub may run in that home. What is missing on this "
        "machine is listed: secrets, programs of servers, and folders."
    ),
    epilog=examples(
        "tabane restore tabane.tar.gz",
        "tabane restore --stop --force tabane.tar.gz",
        "tabane backup --list tabane.tar.gz",
    ),
)
@click.argument("archive", metavar="FILE", type=click.Path())
@option(
    "--force",
    "forced",
    is_flag=True,
    help=say("Replace an existing home. Its former content is kept beside it."),
)
@option("--stop", "stopping", is_flag=True, help=say("Stop the hub first if one runs in that home."))
@option(
    "--servers",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help=say("Where to put the servers file."),
)
@config_option
@with_json
def restore(terminal: Terminal, archive: str, forced: bool, stopping: bool, file: Path | None) -> None:
    restore_archive(terminal, archive, forced=forced, stopping=stopping, file=file)


@click.command(
    "migrate",
    cls=Command,
    help=say(
        "Copy all posts, documents and pages with their vectors from one engine to another, and verify the "
        "copy. A PLACE is the URL of a PostgreSQL database, or the folder of a hub (TABANE_HOME). No hub may "
        "use the two places meanwhile. The target must be empty. If the command is interrupted, run it "
        "again: it continues. The source is not changed."
    ),
    epilog=examples(
        "tabane migrate --from ~/.tabane --to 'postgresql://tabane:${PGPASSWORD}@db.example.com/tabane'",
        "tabane migrate --from 'postgresql://tabane:${PGPASSWORD}@db.example.com/tabane' --to ~/.tabane",
    ),
)
@option("--from", "source", metavar="PLACE", required=True, help=say("What is copied."))
@option("--to", "target", metavar="PLACE", required=True, help=say("Where it is copied to."))
@config_option
@with_json
def migrate(terminal: Terminal, source: str, target: str) -> None:
    from tabane.cli.migration import run_migration  # the help needs none of it

    run_migration(terminal, source, target)
