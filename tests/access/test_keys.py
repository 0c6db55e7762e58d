"""API keys: their secrets, their file, and what their holders may do at each moment."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.access.key_operations import expiry_of, iso
from tabane.access.key_store import VERSION, KeyStore, checksum_of, hash_of, id_in, new_secret
from tabane.access.keys import KeyRing
from tabane.access.table import ListKeys, OneKey
from tabane.errors import BadArguments, ConfigurationError, StoreCorrupt, StoreNewer, UnknownName
from tests.access.key_home import LOCAL_CALLER, NOW, Clock, KeyHome, key_home, on_a_loop
from tests.access.targets import CLOSE_ISSUE, READ_ISSUE, STOP, TIME
from tests.harness.patience import until

DAY = 86_400.0


def content(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.is_file())


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


def delete_files(folder: Path) -> None:
    for file in list(folder.iterdir()):
        file.unlink()


# -- secrets -------------------------------------------------------------------------------------


def test_a_secret_is_recognized_by_its_shape_and_its_checksum() -> None:
    secret = new_secret()
    assert len(secret) == 62
    assert id_in(secret) == secret[4:12]
    changed = secret[:20] + ("a" if secret[20] != "a" else "b") + secret[21:]
    assert id_in(changed) is None
    assert len({new_secret() for _ in range(200)}) == 200


@given(st.one_of(st.text(max_size=80), st.text("tbn_0aZ", min_size=62, max_size=62)))
def test_no_other_text_is_a_secret(text: str) -> None:
    assert id_in(text) is None


@given(st.integers(0, 61), st.characters())
def test_a_secret_with_a_changed_character_is_none(place: int, character: str) -> None:
    secret = new_secret()
    changed = secret[:place] + character + secret[place + 1 :]
    assert changed == secret or id_in(changed) is None


# -- expiry --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90d", 90 * DAY), ("12h", DAY / 2), ("2w", 14 * DAY), ("30m", 1800), (" 1Y ", 365 * DAY)],
)
def test_a_duration_counts_from_now(text: str, seconds: float) -> None:
    assert expiry_of(text, NOW) == NOW + seconds


def test_a_date_is_its_end_and_a_time_is_itself() -> None:
    assert iso(expiry_of("2030-01-31", NOW)) == "2030-01-31T23:59:59Z"
    assert iso(expiry_of("2030-01-31T12:00:00+09:00", NOW)) == "2030-01-31T03:00:00Z"
    assert expiry_of("never", NOW) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("soon", "'soon' is not understood. Write 90d"),
        ("0d", "in the past"),
        ("2020-01-01", "in the past"),
        ("0001-01-01", "in the past"),
        ("9999-12-31", "more than 100 years"),
        ("999999w", "more than 100 years"),
        ("", "is not understood"),
    ],
)
def test_a_wrong_expiry_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(BadArguments, match="expires: .*" + said.replace(".", r"\.")):
        expiry_of(text, NOW)


@given(st.text(max_size=30))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    try:
        when = expiry_of(text, NOW)
    except BadArguments:
        return
    assert when is None or when > NOW


# -- look-up -------------------------------------------------------------------------------------


@on_a_loop
async def test_without_keys_there_is_no_file(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        assert home.ring.judge(new_secret()).refusal == "unknown"
        assert await home.operations.keys(LOCAL_CALLER, ListKeys()) == {
            "results": [],
            "total": 0,
            "next": None,
        }
    assert os.listdir(tmp_path) == []


@on_a_loop
async def test_a_secret_is_shown_once_and_kept_as_a_hash(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        made = await home.create("ci", allow=["github__*"], expires="90d", tier="premium")
        secret = made["secret"]
        assert "secret" not in await home.operations.show(LOCAL_CALLER, OneKey("ci"))
        access = home.ring.find(secret)
        assert access is not None
        assert (access.holder, access.label, access.tier) == (f"key:{secret[4:12]}", "ci", "premium")
        assert secret not in repr(access) + repr(access.record) + repr(home.ring.judge(secret))
    files = content(tmp_path)
    assert secret.encode() not in files
    assert secret[13:].encode() not in files
    assert hash_of(secret) in files


@on_a_loop
async def test_the_file_is_private_and_complete_without_its_log(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        secret = (await home.create("ci"))["secret"]
        assert modes(tmp_path) == {0o600}
        (tmp_path / "backup").mkdir()
        shutil.copy2(tmp_path / "access.db", tmp_path / "backup")
    async with key_home(tmp_path / "backup") as home:
        assert home.ring.find(secret) is not None


@on_a_loop
async def test_refusals_are_told_apart_for_the_audit(tmp_path: Path) -> None:
    clock = Clock()
    async with key_home(tmp_path, clock) as home:
        good, late, gone = [(await home.create(name, expires="1d"))["secret"] for name in ("a", "b", "c")]
        await home.operations.revoke(LOCAL_CALLER, OneKey("c"))
        await home.update("a", expires="never")
        clock.now += 2 * DAY
        wrong = new_secret()
        while id_in(wrong) != id_in(good):
            wrong = forged(good)
        verdicts = [
            home.ring.judge(each) for each in (good, late, gone, wrong, new_secret(), "x", good + " ")
        ]
        assert [each.refusal for each in verdicts] == [
            None, "expired", "revoked", "wrong", "unknown", "malformed", "malformed",
        ]  # fmt: skip
        assert [each.access is None for each in verdicts] == [False, *[True] * 6]
        assert verdicts[1].id == id_in(late)


def forged(secret: str) -> str:
    """Return a well-formed secret with the id of another one."""
    body = secret[:13] + new_secret()[13:56]
    return body + checksum_of(body)


@on_a_loop
async def test_two_sessions_of_a_key_share_one_access(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        secret = (await home.create("ci"))["secret"]
        assert home.ring.find(secret) is home.ring.find(secret)


@on_a_loop
async def test_keys_without_sessions_are_forgotten_and_found_again(tmp_path: Path) -> None:
    async with key_home(tmp_path, most=10) as home:
        first = await home.live("first")
        secrets = [(await home.create(f"k{number}"))["secret"] for number in range(20)]
        for secret in secrets:
            assert home.ring.find(secret) is not None
        gc.collect()
        assert home.ring.live <= 11
        assert home.ring.find(secrets[0]) is not None
        await home.operations.revoke(LOCAL_CALLER, OneKey("first"))
        assert not first.allows(READ_ISSUE)


# -- live accesses -------------------------------------------------------------------------------


@on_a_loop
async def test_a_key_allows_what_its_patterns_say(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        access = await home.live("ci", allow=["github__*"], deny=["github__close_*"])
        assert [access.allows(each) for each in (READ_ISSUE, CLOSE_ISSUE, TIME, STOP)] == [True, *[False] * 3]
        assert [access.sees_server(each) for each in ("github", "time")] == [True, False]
        assert not access.everything
        assert (await home.live("boss", allow=["*", "@admin"])).everything


@on_a_loop
async def test_revoking_a_key_ends_it_in_open_sessions(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        access = await home.live("boss", allow=["*", "@admin"])
        before = access.revision
        assert access.allows(STOP)
        await home.operations.revoke(LOCAL_CALLER, OneKey("boss"))
        assert not access.allows(STOP)
        assert not access.sees_server("github")
        assert not access.everything
        assert access.state == "revoked"
        assert access.revision > before


@on_a_loop
async def test_a_key_ends_when_it_expires(tmp_path: Path) -> None:
    clock = Clock()
    async with key_home(tmp_path, clock) as home:
        access = await home.live("boss", allow=["*", "@admin"], expires="1h")
        before = access.revision
        clock.now += 3600
        assert not access.allows(STOP)
        assert not access.everything
        assert access.revision > before


@on_a_loop
async def test_an_update_applies_to_open_sessions(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        access = await home.live("ci", allow=["time__*"], tier="default")
        before = access.revision
        changed = await home.update("ci", allow=["github__*"], deny=["*close*"], tier="premium")
        assert changed["allow"] == ["github__*"]
        assert [access.allows(each) for each in (READ_ISSUE, CLOSE_ISSUE, TIME)] == [True, False, False]
        assert access.tier == "premium"
        assert access.revision > before
        await home.update("ci", deny=[], read_only=True)
        assert [access.allows(each) for each in (READ_ISSUE, CLOSE_ISSUE)] == [True, False]


@on_a_loop
async def test_a_key_is_narrowed_by_its_profile_and_ends_with_it(tmp_path: Path) -> None:
    settings = tmp_path / "tabane.toml"

    def write(text: str) -> None:
        settings.write_text(text)
        settings.chmod(0o600)

    write('[profiles.work]\nallow = ["github__*"]\nread_only = true')
    async with key_home(tmp_path) as home:
        access = await home.live("ci", allow=[], profile="work")
        revisions = [access.revision]
        assert [access.allows(each) for each in (READ_ISSUE, CLOSE_ISSUE, TIME)] == [True, False, False]
        assert not access.sees_server("time")
        for text in ('[profiles.work]\nallow = ["time__*"]', ""):
            write(text)
            home.profiles.reload()
            revisions.append(access.revision)
            assert access.allows(TIME) == bool(text)
            assert not access.allows(READ_ISSUE)
        assert revisions == sorted(set(revisions))


@on_a_loop
async def test_a_key_that_another_process_revokes_ends_too(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        access = await home.live("ci")
        with sqlite3.connect(tmp_path / "access.db") as other:
            other.execute("UPDATE api_key SET revoked = 1")
        other.close()
        await until(lambda: not access.allows(READ_ISSUE))
        assert access.state == "revoked"


@on_a_loop
async def test_a_restored_backup_is_noticed(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        old = await home.live("old")
        shutil.copy2(tmp_path / "access.db", tmp_path / "backup.db")
        new = await home.live("new")
        await home.operations.revoke(LOCAL_CALLER, OneKey("old"))
        os.replace(tmp_path / "backup.db", tmp_path / "access.db")
        await until(lambda: old.allows(READ_ISSUE))
        assert not new.allows(READ_ISSUE)


@on_a_loop
async def test_without_its_file_a_key_allows_nothing(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        secret = (await home.create("ci"))["secret"]
        access = home.ring.find(secret)
        assert access is not None
        delete_files(tmp_path)
        await until(lambda: not access.allows(READ_ISSUE))
        assert home.ring.find(secret) is None


# -- last use ------------------------------------------------------------------------------------


async def last_used(home: KeyHome) -> str | None:
    return str((await home.operations.show(LOCAL_CALLER, OneKey("ci")))["last_used"])


@on_a_loop
async def test_the_last_use_is_recorded_at_most_once_a_minute(tmp_path: Path) -> None:
    clock = Clock()
    async with key_home(tmp_path, clock) as home:
        secret = (await home.create("ci"))["secret"]
        assert await last_used(home) == "None"
        access = home.ring.find(secret)
        assert access is not None
        assert await last_used(home) == iso(NOW)
        clock.now += 59
        assert home.ring.find(secret) is access
        assert await last_used(home) == iso(NOW)
        clock.now += 1
        assert access.allows(READ_ISSUE)
        assert await last_used(home) == iso(NOW + 60)


@on_a_loop
async def test_a_use_before_the_end_of_the_hub_is_recorded(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        await home.live("ci")
    async with key_home(tmp_path) as home:
        assert await last_used(home) == iso(NOW)


# -- the file ------------------------------------------------------------------------------------


@on_a_loop
async def test_the_file_of_an_earlier_build_gets_the_names_of_people(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        id = (await home.create("old"))["id"]
    with sqlite3.connect(tmp_path / "access.db") as earlier:
        earlier.execute("DROP TABLE key_person")
    async with key_home(tmp_path) as home:
        assert (await home.operations.show(LOCAL_CALLER, OneKey("old")))["person"] is None
        await home.update("old", person="Alice")
        await home.operations.revoke(LOCAL_CALLER, OneKey("old"))
        found = await home.ring.holders([f"key:{id}", "key:unknown0", "local"])
        assert found == {f"key:{id}": ("old", "Alice")}


@on_a_loop
async def test_the_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        secret = (await home.create("ci"))["secret"]
    with sqlite3.connect(tmp_path / "access.db") as other:
        other.execute(f"PRAGMA user_version = {VERSION + 1}")
    other.close()
    async with key_home(tmp_path) as home:
        with pytest.raises(StoreNewer, match=r"newer version of Tabane.*Update Tabane"):
            home.ring.find(secret)
        with pytest.raises(StoreNewer):
            await home.create("other")


@on_a_loop
async def test_a_damaged_file_refuses_all_keys(tmp_path: Path) -> None:
    path = tmp_path / "access.db"
    path.write_bytes(b"not a database, however long it is" * 100)
    path.chmod(0o600)
    async with key_home(tmp_path) as home:
        with pytest.raises(StoreCorrupt, match="Restore it from a backup"):
            home.ring.find(new_secret())


@on_a_loop
async def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        secret = (await home.create("ci"))["secret"]
    (tmp_path / "access.db").chmod(0o644)
    async with key_home(tmp_path) as home:
        with pytest.raises(ConfigurationError, match="chmod 600"):
            home.ring.find(secret)


@on_a_loop
async def test_a_row_that_cannot_be_read_allows_nothing(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        secret = (await home.create("ci"))["secret"]
        with sqlite3.connect(tmp_path / "access.db") as other:
            other.execute("UPDATE api_key SET deny = 'nonsense'")
        other.close()
    async with key_home(tmp_path) as home:
        access = home.ring.find(secret)
        assert access is not None
        assert not access.allows(READ_ISSUE)


@on_a_loop
async def test_revoked_keys_are_forgotten_after_a_year(tmp_path: Path) -> None:
    clock = Clock()
    async with key_home(tmp_path, clock) as home:
        await home.create("old")
        await home.operations.revoke(LOCAL_CALLER, OneKey("old"))
        clock.now += 401 * DAY
        await home.create("new")
        listed = await home.operations.keys(LOCAL_CALLER, ListKeys(revoked=True))
        assert [row["name"] for row in listed["results"]] == ["new"]


@on_a_loop
async def test_a_closed_ring_finds_nothing(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path, asyncio.get_running_loop())
    await ring.close()
    assert ring.find(new_secret()) is None
    with pytest.raises(FileNotFoundError):
        KeyStore(tmp_path / "access.db")


# -- operations ----------------------------------------------------------------------------------


@on_a_loop
async def test_a_name_is_given_to_one_active_key(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        await home.create("ci")
        with pytest.raises(BadArguments, match="tabane keys revoke ci"):
            await home.create("ci")
        await home.operations.revoke(LOCAL_CALLER, OneKey("ci"))
        await home.create("ci")
        listed = await home.operations.keys(LOCAL_CALLER, ListKeys(revoked=True))
        assert sorted(row["state"] for row in listed["results"]) == ["active", "revoked"]


@pytest.mark.parametrize("name", ["", " ", "a b", "tbn_x", "a\nb", "\u202ex"])
@on_a_loop
async def test_a_name_that_no_table_shows_is_refused(tmp_path: Path, name: str) -> None:
    async with key_home(tmp_path) as home:
        with pytest.raises(BadArguments, match="name:"):
            await home.create(name)


@on_a_loop
async def test_what_a_key_may_use_has_to_be_said(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        with pytest.raises(BadArguments, match="say what the key may use"):
            await home.create("ci", allow=[])
        with pytest.raises(BadArguments, match="Did you mean premium"):
            await home.create("ci", tier="premum")
        with pytest.raises(BadArguments, match="default, authenticated, premium"):
            await home.create("ci", tier="x")
        with pytest.raises(UnknownName, match="There is no profile work"):
            await home.create("ci", profile="work")
    assert os.listdir(tmp_path) == []


@on_a_loop
async def test_patterns_that_match_nothing_are_warned_about(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        made = await home.create("ci", allow=["github__*", "gitlab__*"])
        assert made["warnings"] == ["gitlab__* matches no tool or source that is currently known."]


@on_a_loop
async def test_a_key_is_named_by_name_id_prefix_or_secret(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        made = await home.create("ci")
        for given_name in ("ci", made["id"], made["prefix"], made["prefix"][:8], made["secret"]):
            shown = await home.operations.show(LOCAL_CALLER, OneKey(given_name))
            assert shown["id"] == made["id"]


@on_a_loop
async def test_an_unknown_key_names_the_nearest_and_never_a_secret(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        with pytest.raises(UnknownName, match="tabane keys list"):
            await home.operations.revoke(LOCAL_CALLER, OneKey("ci"))
        made = await home.create("release")
        with pytest.raises(UnknownName, match="Did you mean release"):
            await home.operations.revoke(LOCAL_CALLER, OneKey("relaese"))
        with pytest.raises(UnknownName) as raised:
            await home.operations.revoke(LOCAL_CALLER, OneKey("tbn_zzzzzzzz_" + made["secret"][13:]))
        assert made["secret"][13:20] not in str(raised.value)


@on_a_loop
async def test_a_revoked_key_stays_revoked(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        made = await home.create("ci")
        first = await home.operations.revoke(LOCAL_CALLER, OneKey("ci"))
        assert await home.operations.revoke(LOCAL_CALLER, OneKey(made["id"])) == first
        with pytest.raises(BadArguments, match="is revoked, which cannot be undone"):
            await home.update("ci", expires="never")


@on_a_loop
async def test_a_key_that_is_revoked_while_it_is_updated_stays_revoked(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        access = await home.live("ci")
        record = access.record  # as an update read it
        await home.operations.revoke(LOCAL_CALLER, OneKey("ci"))
        assert (await home.ring.change(record)).revoked is not None
        assert not access.allows(READ_ISSUE)


@on_a_loop
async def test_keys_are_listed_in_pages(tmp_path: Path) -> None:
    async with key_home(tmp_path) as home:
        for name in "edcba":
            await home.create(name)
        found: list[str] = []
        after = ""
        for _ in range(3):
            page = await home.operations.keys(LOCAL_CALLER, ListKeys(limit=2, after=after))
            assert page["total"] == 5
            found += [row["name"] for row in page["results"]]
            after = page["next"] or ""
        assert found == list("abcde")
        assert after == ""
