"""A restore puts everything in place or nothing, wherever it is killed, and refuses what it cannot trust."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tabane.errors import CallerError, HubError, TabaneError
from tabane.hub.backup import archive_format as manifests
from tabane.hub.backup.restore_journal import complete_restore
from tabane.hub.backup.restoring import restore_backup
from tests.conftest import ROOT
from tests.harness.patience import LONG
from tests.hub.backup.homes import WHOLE, SmallHome, write

MOST_STEPS = 200


@pytest.fixture
def new(tmp_path: Path) -> SmallHome:
    return SmallHome(tmp_path / "new").fill("new")


@pytest.fixture
def archive(tmp_path: Path, new: SmallHome) -> Path:
    path = tmp_path / "backup.tar.gz"
    new.backup(path)
    return path


def restored(archive: Path, home: SmallHome, **options: Any) -> Any:
    with open(archive, "rb") as stream:
        return restore_backup(stream, archive.name, home.target(**options))


# -- into place ------------------------------------------------------------------------------------------


def test_an_empty_home_gets_everything_but_secrets(tmp_path: Path, archive: Path) -> None:
    home = SmallHome(tmp_path / "empty")
    restored(archive, home)
    assert home.words() == dict.fromkeys(WHOLE, "new")
    names = {path.name for path in home.home.iterdir()}
    assert names.isdisjoint({"secrets.env", "audit.key", "token"})
    assert not (home.home / "store" / "cache.db").exists()
    private = [path for path in home.home.rglob("*") if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert private == []


def test_a_backup_with_secrets_brings_them(tmp_path: Path, new: SmallHome) -> None:
    new.backup(tmp_path / "all.tar.gz", with_secrets=True)
    home = SmallHome(tmp_path / "empty")
    restored(tmp_path / "all.tar.gz", home)
    assert (home.home / "secrets.env").read_text() == "TOKEN=new-secret\n"
    assert (home.home / "audit.key").read_text() == "key of new"
    assert (home.home / "audit" / f"{1:016}.jsonl").read_text() == "new"


def test_existing_content_is_refused_and_left_as_it_is(tmp_path: Path, archive: Path) -> None:
    home = SmallHome(tmp_path / "old").fill("old")
    before = home.files()
    with pytest.raises(CallerError, match="--force"):
        restored(archive, home)
    assert home.files() == before


def test_a_servers_file_alone_is_content_too(tmp_path: Path, archive: Path) -> None:
    home = SmallHome(tmp_path / "other")
    home.servers_file.parent.mkdir(parents=True, mode=0o700)
    write(home.servers_file, "{}")
    with pytest.raises(CallerError, match=r"mcp-servers\.json"):
        restored(archive, home)
    assert home.servers_file.read_text() == "{}"
    assert list(home.home.iterdir()) == []


def test_force_keeps_the_former_files_and_the_secrets_of_this_machine(tmp_path: Path, archive: Path) -> None:
    home = SmallHome(tmp_path / "old").fill("old")
    done = restored(archive, home, forced=True)
    assert home.words() == dict.fromkeys(WHOLE, "new")
    assert (home.home / "secrets.env").read_text() == "TOKEN=old-secret\n"
    kept = {Path(path).name: Path(copy) for path, copy in done.kept.items()}
    assert (kept["audit"] / f"{1:016}.jsonl").read_text() == "old"
    assert "old" in kept["tabane.toml"].read_text()
    assert kept["store"].parent.name.startswith("home.before-restore-")
    assert (kept["store"] / "documents.db").exists()


def test_an_audit_log_whose_key_is_not_here_is_put_apart(tmp_path: Path, archive: Path) -> None:
    home = SmallHome(tmp_path / "empty")
    done = restored(archive, home)
    assert (done.audit / f"{1:016}.jsonl").read_text() == "new"
    assert (done.audit / "audit.head").read_text() == "new"
    assert not (home.home / "audit.head").exists()
    assert list((home.home / "audit").iterdir()) == []


def test_an_audit_log_is_continued_where_its_key_still_is(archive: Path, new: SmallHome) -> None:
    done = restored(archive, new, forced=True)
    assert done.audit is None
    assert (new.home / "audit" / f"{1:016}.jsonl").read_text() == "new"
    assert (new.home / "audit.key").read_text() == "key of new"


# -- killed ----------------------------------------------------------------------------------------------


@pytest.mark.heavy("a hub with real servers")
def test_wherever_a_restore_is_killed_there_is_the_old_state_or_the_new_one(
    tmp_path: Path, archive: Path
) -> None:
    pristine = SmallHome(tmp_path / "pristine").fill("old")
    states = []
    for step in range(1, MOST_STEPS):
        home = SmallHome(tmp_path / f"killed{step}")
        shutil.copytree(pristine.folder, home.folder)
        status = die(home, archive, step)
        completed = complete_restore(home.home)
        words = home.words()
        assert words in (dict.fromkeys(WHOLE, "old"), dict.fromkeys(WHOLE, "new")), f"step {step}: {words}"
        left = [path.name for path in home.home.iterdir() if path.name.startswith((".restore", "restore"))]
        assert left == [], f"step {step}"
        states.append((completed, words["models.json"]))
        assert not complete_restore(home.home)
        if status == 0:
            break
        assert status == -signal.SIGKILL
    assert states[-1] == (False, "new")
    assert (False, "old") in states, "killed before the journal"
    assert (True, "new") in states, "killed after it"
    assert states == sorted(states, key=lambda state: (state[1] == "new", not state[0]))


def die(home: SmallHome, archive: Path, step: int) -> int:
    """Restore in a process that kills itself before a step; return its status."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.hub.backup.dying", str(home.folder), str(archive), str(step)],
        cwd=ROOT,
        capture_output=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode <= 0, done.stderr.decode()
    return done.returncode


def test_a_journal_that_cannot_be_read_is_reported_and_kept(tmp_path: Path) -> None:
    write(tmp_path / "restore-journal.json", "{")
    with pytest.raises(HubError, match="restore that was cut off"):
        complete_restore(tmp_path)
    assert (tmp_path / "restore-journal.json").exists()


# -- refused ---------------------------------------------------------------------------------------------

Member = tuple[tarfile.TarInfo, bytes]


def changed(archive: Path, change: Callable[[list[Member]], object]) -> None:
    """Write the archive again, with its members changed."""
    members = []
    with tarfile.open(archive) as tar:
        for info in tar:
            file = tar.extractfile(info)
            members.append((info, file.read() if file else b""))
    change(members)
    with tarfile.open(archive, "w:gz", format=tarfile.GNU_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))


def with_manifest(archived: list[Member], **values: object) -> None:
    """Change members of the list of contents."""
    found = {**msgspec.json.decode(archived[0][1]), **values}
    data = msgspec.json.encode(found)
    archived[0][0].size = len(data)
    archived[0] = (archived[0][0], data)


def listed(path: str, data: bytes) -> dict[str, object]:
    return {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def added(members: list[Member], path: str, kind: bytes = tarfile.REGTYPE) -> None:
    """Add a member, also to the list of contents."""
    info = tarfile.TarInfo(path)
    info.type = kind
    info.linkname = "/etc/passwd" if kind != tarfile.REGTYPE else ""
    data = b"x" if kind == tarfile.REGTYPE else b""
    info.size = len(data)
    before = msgspec.json.decode(members[0][1])["members"]
    with_manifest(members, members=[*before, listed(path, data)])
    members.append((info, data))


def another_byte(members: list[Member]) -> None:
    info, data = members[-1]
    members[-1] = (info, data[:-1] + bytes([data[-1] ^ 1]))


REFUSED: dict[str, Callable[[list[Member]], object]] = {
    "a changed byte": another_byte,
    "a missing file": lambda members: members.pop(),
    "a file that is not listed": lambda members: members.append((tarfile.TarInfo("home/reembed"), b"")),
    "a path out of the home": lambda members: added(members, "home/../../evil"),
    "an absolute path": lambda members: added(members, "/evil"),
    "a hidden file": lambda members: added(members, "home/.restore-x"),
    "a deep path": lambda members: added(members, "home/store/a/b"),
    "a symbolic link": lambda members: added(members, "home/link", tarfile.SYMTYPE),
    "a hard link": lambda members: added(members, "home/link", tarfile.LNKTYPE),
    "a device": lambda members: added(members, "home/null", tarfile.CHRTYPE),
    "no list": lambda members: members.pop(0),
    "a list that is no list": lambda members: with_manifest(members, members="all"),
    "a file twice": lambda members: members.append(members[-1]),
    "a later format": lambda members: with_manifest(members, format=2),
    "a later version": lambda members: with_manifest(members, tabane="99.0.0"),
    "a later format of the home": lambda members: with_manifest(members, home_format=2),
    "more than fits on a disk": lambda members: with_manifest(
        members, members=[{**listed("home/reembed", b""), "size": 1 << 62}]
    ),
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_an_archive_that_is_not_as_it_was_written_changes_nothing(
    tmp_path: Path, archive: Path, change: Callable[[list[Member]], object]
) -> None:
    changed(archive, change)
    home = SmallHome(tmp_path / "old").fill("old")
    before = home.files()
    with pytest.raises(TabaneError, match=r"[Nn]othing was changed"):
        restored(archive, home, forced=True)
    assert home.files() == before
    assert not list(home.home.glob(".restore-*"))


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9, 0.999])
def test_a_file_that_is_cut_off_changes_nothing(tmp_path: Path, archive: Path, part: float) -> None:
    data = archive.read_bytes()
    archive.write_bytes(data[: int(len(data) * part)])
    home = SmallHome(tmp_path / "old").fill("old")
    before = home.files()
    with pytest.raises(CallerError, match="not a complete backup"):
        restored(archive, home, forced=True)
    assert home.files() == before


@pytest.mark.parametrize(
    "content", [b"", b"no archive", gzip.compress(b"x" * 5000)], ids=["empty", "text", "gzip"]
)
def test_another_file_is_no_backup(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.tar.gz"
    path.write_bytes(content)
    with pytest.raises(CallerError, match="not a complete backup"):
        restored(path, SmallHome(tmp_path / "empty"))


def test_a_later_version_is_named_and_what_to_do_is_said(tmp_path: Path, archive: Path) -> None:
    with pytest.raises(CallerError, match=r"made by Tabane 0\.7\.0.*Update Tabane"):
        restored(archive, SmallHome(tmp_path / "empty"), build="0.6.0")


def test_an_earlier_version_is_restored(tmp_path: Path, archive: Path) -> None:
    home = SmallHome(tmp_path / "empty")
    restored(archive, home, build="0.8.0")
    assert home.words() == dict.fromkeys(WHOLE, "new")


def test_the_manifest_is_the_first_member_and_any_tar_reads_the_archive(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        names = tar.getnames()
        file = tar.extractfile(names[0])
        assert file is not None
        manifest = manifests.decoded(file.read(), "x")
        assert names == [manifests.NAME, *(member.path for member in manifest.members)]
        for member in manifest.members:
            content = tar.extractfile(member.path)
            assert content is not None
            assert hashlib.sha256(content.read()).hexdigest() == member.sha256


def test_what_is_not_in_a_backup_is_not_counted(tmp_path: Path, new: SmallHome) -> None:
    """A database of vectors that an older version left takes as much as all the rest."""
    left = new.home / "store" / "cache.db"
    left.write_bytes(left.read_bytes() + bytes(1_000_000))
    (new.home / "store" / "posts.vectors.db").write_bytes(bytes(1_000_000))
    totals: list[int] = []
    new.backup(tmp_path / "backup", told=lambda done, total: totals.append(total))
    assert 10_000 < totals[0] < 1_000_000
