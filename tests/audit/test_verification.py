"""Verification finds every change that somebody without the key makes, and says which entry is first."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabane.audit.chain import ChainHead, own_key, stored_head
from tabane.audit.entry import AuditOptions
from tabane.audit.verification import ChainProblem, verify_files
from tabane.errors import AuditError
from tests.audit.written_log import SMALL, entries, files, lines, paths, verified, write


def problem(home: Path) -> ChainProblem:
    """The first problem of a log that is not intact."""
    report = verified(home)
    assert not report.intact
    return report.problems[0]


def rewrite(home: Path, changed: list[bytes]) -> None:
    files(home)[0].write_bytes(b"".join(changed))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose log has one file with the entries 1 (of the log itself) to 11."""
    write(tmp_path, 10)
    return tmp_path


def test_an_unchanged_log_is_intact(home: Path) -> None:
    report = verified(home)
    assert (report.intact, report.entries, report.first, report.last.seq) == (True, 11, 1, 11)
    assert report.last == stored_head(paths(home))


def test_a_log_over_several_files_is_intact(tmp_path: Path) -> None:
    write(tmp_path, 1000, SMALL)
    report = verified(tmp_path)
    assert report.intact
    assert report.files == len(files(tmp_path)) > 3
    assert report.entries == len(entries(tmp_path))


def test_a_changed_byte_is_found_at_its_entry(home: Path) -> None:
    found = lines(home)
    found[4] = found[4].replace(b'"github"', b'"gitlab"')
    rewrite(home, found)
    assert problem(home)[:2] == ("changed", 5)
    assert len(verified(home).problems) == 1


def test_a_removed_line_is_found(home: Path) -> None:
    found = lines(home)
    del found[6]
    rewrite(home, found)
    assert problem(home)[:2] == ("missing", 7)
    assert problem(home).message.render("en") == "Entry 7 is missing."


def test_removed_lines_are_named_as_a_range(home: Path) -> None:
    found = lines(home)
    del found[3:6]
    rewrite(home, found)
    assert problem(home).message.render("en") == "Entries 4 to 6 are missing."


def test_an_inserted_line_is_found(home: Path) -> None:
    found = lines(home)
    found.insert(5, found[2])
    rewrite(home, found)
    assert problem(home)[:2] == ("order", 3)


@pytest.mark.parametrize("inserted", [b"{}\n", b"\n", b"no JSON\n", b'{"seq":6,"mac":"00"}\n'])
def test_an_inserted_line_that_is_no_entry_is_found(home: Path, inserted: bytes) -> None:
    found = lines(home)
    found.insert(5, inserted)
    rewrite(home, found)
    assert problem(home)[:2] == ("unreadable", 6)
    assert len(verified(home).problems) == 1


def test_an_entry_that_is_overwritten_is_one_problem(home: Path) -> None:
    found = lines(home)
    found[5] = b"x" * (len(found[5]) - 1) + b"\n"
    rewrite(home, found)
    assert [each[:2] for each in verified(home).problems] == [("unreadable", 6)]


def test_reordered_lines_are_found(home: Path) -> None:
    found = lines(home)
    found[4], found[5] = found[5], found[4]
    rewrite(home, found)
    assert problem(home).entry == 5


def test_a_cut_end_is_found(home: Path) -> None:
    rewrite(home, lines(home)[:-3])
    assert problem(home)[:2] == ("cut", 9)
    assert problem(home).message.render("en") == "Entries 9 to 11 are missing."


def test_a_cut_end_is_still_found_after_the_hub_wrote_more(home: Path) -> None:
    rewrite(home, lines(home)[:-3])
    write(home, 5)
    assert problem(home)[:2] == ("missing", 9)


def test_a_removed_file_is_found(tmp_path: Path) -> None:
    write(tmp_path, 1000, SMALL)
    second, third = (int(file.name.partition(".")[0]) for file in files(tmp_path)[1:3])
    files(tmp_path)[1].unlink()
    assert problem(tmp_path)[:2] == ("missing", second)
    assert problem(tmp_path).message.render("en") == f"Entries {second} to {third - 1} are missing."


def test_the_removal_of_the_first_file_is_found(tmp_path: Path) -> None:
    write(tmp_path, 1000, SMALL)
    files(tmp_path)[0].unlink()
    assert problem(tmp_path)[:2] == ("removed", 1)


def test_an_exchanged_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    write(tmp_path / "one", 1000, SMALL)
    shutil.copy(tmp_path / "one" / "audit.key", tmp_path / "other")
    write(tmp_path / "other", 1100, AuditOptions(size=64 << 10, arguments=0))
    names = {file.name for file in files(tmp_path / "one")}
    other = files(tmp_path / "other")[0]
    assert other.name in names
    shutil.copy(other, files(tmp_path / "one")[0])
    assert not verified(tmp_path / "one").intact


def test_a_wrong_key_is_said_to_be_wrong(home: Path) -> None:
    (home / "audit.key").unlink()
    own_key(str(home / "audit.key"))
    assert [each.kind for each in verified(home).problems] == ["key"]


def test_a_missing_head_is_a_problem(home: Path) -> None:
    (home / "audit.head").unlink()
    assert problem(home).kind == "head"


def test_a_kept_head_proves_that_nothing_was_cut(home: Path) -> None:
    kept = verified(home).last
    write(home, 3)
    assert verify_files(paths(home), kept).intact


def test_a_kept_head_uncovers_a_log_that_was_written_again(home: Path) -> None:
    kept = verified(home).last
    for path in (files(home)[0], home / "audit.head"):
        path.unlink()
    write(home, 12, AuditOptions("metadata"))  # whoever has the key can do that
    assert verified(home).intact
    assert [each.kind for each in verify_files(paths(home), kept).problems] == ["head"]


def test_a_kept_head_uncovers_a_cut_of_log_and_head(home: Path) -> None:
    found, kept = lines(home), verified(home).last
    rewrite(home, found[:-2])
    mac = bytes.fromhex(json.loads(found[-3])["mac"])
    report = verify_files(paths(home)._replace(head=str(home / "none")), kept)
    assert {each.kind for each in report.problems} == {"head", "cut"}
    assert report.last == ChainHead(9, mac)


def test_a_log_without_key_cannot_be_verified(home: Path) -> None:
    (home / "audit.key").unlink()
    with pytest.raises(AuditError, match="The key of the audit log is missing"):
        verified(home)


def test_where_no_log_is_none_is_verified(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="There is no audit log in"):
        verified(tmp_path)


def test_bytes_without_a_line_end_are_no_entry(home: Path) -> None:
    with files(home)[0].open("ab") as file:
        file.write(b'{"seq":12,"ti')
    report = verified(home)
    assert (report.intact, report.torn) == (True, 13)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(data=st.data())
def test_no_change_of_a_byte_goes_unnoticed(home: Path, data: st.DataObject) -> None:
    whole = files(home)[0].read_bytes()
    try:
        at = data.draw(st.integers(0, len(whole) - 1))
        value = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[at]))
        files(home)[0].write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
        assert not verified(home).intact
    finally:
        files(home)[0].write_bytes(whole)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=100)
@given(order=st.lists(st.integers(0, 10), max_size=14))
def test_only_the_lines_as_they_were_written_are_intact(home: Path, order: list[int]) -> None:
    whole = files(home)[0].read_bytes()
    try:
        found = whole.splitlines(keepends=True)
        files(home)[0].write_bytes(b"".join(found[at] for at in order))
        assert verified(home).intact == (order == list(range(11)))
    finally:
        files(home)[0].write_bytes(whole)
