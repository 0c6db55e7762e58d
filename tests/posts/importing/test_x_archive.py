"""X's own archive, of this year and of earlier ones."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tabane.errors import BadArguments
from tabane.posts.importing.import_report import RejectedRow
from tabane.posts.importing.importer import plan
from tabane.posts.importing.x_archive import XArchive
from tabane.posts.post import BOOKMARK, LIKE, Post
from tests.posts.importing.archives import write_zip

ACCOUNT = [{"account": {"username": "Alice", "accountId": "7"}}]
ID = 1768524618956632288
TWEET = {
    "id_str": str(ID),
    "id": str(ID),
    "created_at": "Fri Mar 15 06:30:25 +0000 2024",
    "full_text": "見て https://t.co/abc &amp; https://t.co/pic",
    "entities": {
        "urls": [{"url": "https://t.co/abc", "expanded_url": "https://example.com/a?b=1&copy=2"}],
        "media": [{"url": "https://t.co/pic", "expanded_url": "https://x.com/Alice/status/1/photo/1"}],
    },
}
LIKED = {
    "tweetId": str(ID + 1),
    "fullText": "a &lt;liked&gt; post",
    "expandedUrl": f"https://twitter.com/i/web/status/{ID + 1}",
}


def read(path: str | Path, zone: Any = UTC) -> list[Post | RejectedRow]:
    source = XArchive(str(path), zone)
    try:
        return list(source)
    finally:
        source.close()


def wrapped(*tweets: Any) -> list[Any]:
    return [{"tweet": tweet} for tweet in tweets]


def test_posts_and_likes_come_with_user_time_and_addresses(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", tweets=wrapped(TWEET), like=[{"like": LIKED}], account=ACCOUNT)
    assert read(path, ZoneInfo("Asia/Tokyo")) == [
        Post(
            post_id=ID,
            content="見て https://example.com/a?b=1&copy=2 & https://x.com/Alice/status/1/photo/1",
            timestamp="2024-03-15 15:30:25",
            at=1710484225,
            url=f"https://x.com/Alice/status/{ID}",
            user="Alice",
        ),
        Post(
            post_id=ID + 1,
            content="a <liked> post",
            timestamp="2024-03-15 15:28:21",  # of its id: the list has none
            at=1710484101,
            url=f"https://twitter.com/i/web/status/{ID + 1}",
            log_type=LIKE,
        ),
    ]


def test_older_archives_name_lists_otherwise_wrap_nothing_and_are_in_a_folder(tmp_path: Path) -> None:
    bare = {name: TWEET[name] for name in ("id_str", "created_at", "full_text")}
    (tmp_path / "tweet.js").write_text("window.YTD.tweet.part0 = [ " + json.dumps(bare) + " ]\n")
    (tmp_path / "account.js").write_text("window.YTD.account.part0 = [ {} ]")
    (found,) = read(tmp_path)
    assert isinstance(found, Post)
    assert (found.post_id, found.user, found.url) == (ID, "", f"https://x.com/i/status/{ID}")
    (data := tmp_path / "new" / "data").mkdir(parents=True)
    (tmp_path / "tweet.js").rename(data / "tweets.js")
    assert read(tmp_path / "new") == [found]


GRAILBIRD = {
    "data/js/user_details.js": 'var user_details =  {\n  "screen_name" : "Alice",\n  "id" : "7"\n}',
    "data/js/payload_details.js": 'var payload_details =  {"tweets" : 3}',
    "data/js/tweet_index.js": 'var tweet_index =  [ {"file_name" : "data/js/tweets/2012_12.js"} ]',
    "data/js/tweets/2012_11.js": """Grailbird.data.tweets_2012_11 =
 [ {
  "source" : "web", "id_str" : "264000000000000001", "id" : 264000000000000001,
  "entities" : {"urls" : [ {"url" : "http:\\/\\/t.co\\/a", "expanded_url" : "http:\\/\\/example.com\\/tea"} ],
    "media" : [ {"url" : "http:\\/\\/t.co\\/p",
      "expanded_url" : "http:\\/\\/twitter.com\\/Alice\\/status\\/1\\/photo\\/1"} ]},
  "text" : "雪 &amp; tea http:\\/\\/t.co\\/a http:\\/\\/t.co\\/p", "created_at" : "2012-11-01 03:04:05 +0000",
  "user" : {"screen_name" : "Alice", "id" : 7}
} ]""",
    "data/js/tweets/2010_09.js": """Grailbird.data.tweets_2010_09 =
 [ {"id_str" : "25000000001", "text" : "RT @bob: the kettle of the third shelf is…",
    "created_at" : "2010-09-05 00:00:00 +0000", "user" : {"screen_name" : "Alice"},
    "retweeted_status" : {"id_str" : "24000000001",
      "text" : "the kettle of the third shelf is warm http:\\/\\/t.co\\/k",
      "user" : {"screen_name" : "bob"},
      "entities" : {"urls" : [ {"url" : "http:\\/\\/t.co\\/k",
        "expanded_url" : "http:\\/\\/example.com\\/k"} ]}}},
   {"id_str" : "oops", "text" : "bad"} ]""",
}


@pytest.mark.parametrize("top", ["", "12345_abcdef/"])
def test_archives_of_2012_to_2018_have_a_list_for_each_month(tmp_path: Path, top: str) -> None:
    with zipfile.ZipFile(tmp_path / "old.zip", "w") as file:
        for name, content in GRAILBIRD.items():
            file.writestr(top + name, content)
            (tmp_path / "old" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "old" / name).write_text(content)
    found = read(tmp_path / "old.zip")
    assert [each for each in found if isinstance(each, Post)] == [
        Post(
            post_id=25000000001,
            content="RT @bob: the kettle of the third shelf is warm http://example.com/k",
            timestamp="2010-09-05 00:00:00",
            at=1283644800,
            url="https://x.com/Alice/status/25000000001",
            user="Alice",
        ),
        Post(
            post_id=264000000000000001,
            content="雪 & tea http://example.com/tea http://twitter.com/Alice/status/1/photo/1",
            timestamp="2012-11-01 03:04:05",
            at=1351739045,
            url="https://x.com/Alice/status/264000000000000001",
            user="Alice",
        ),
    ]
    assert [each.reason.template for each in found if isinstance(each, RejectedRow)] == [
        "“{text}” is not a post_id"
    ]
    for folder in ("old", "old/data"):
        assert plan([str(tmp_path / folder)]).archives == (str(tmp_path / folder),)
        unpacked = read(tmp_path / folder)
        assert [each for each in unpacked if isinstance(each, Post)] == [
            each for each in found if isinstance(each, Post)
        ]
    (tmp_path / "old/data/js/user_details.js").unlink()
    assert {each.user for each in read(tmp_path / "old") if isinstance(each, Post)} == {"Alice"}


def test_lists_in_parts_are_all_read_and_what_is_deleted_is_not(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        for name, number in {
            "twitter-2024/data/tweets.js": 1,
            "twitter-2024/data/tweets-part1.js": 2,
            "twitter-2024/data/community-tweet.js": 3,
            "twitter-2024/data/deleted-tweets.js": 4,
            "twitter-2024/data/tweets-headers.js": 5,
            "twitter-2024/assets/xtweets.js": 6,
        }.items():
            file.writestr(
                name, "window.YTD.x.part0 = " + json.dumps(wrapped(TWEET | {"id_str": str(number)}))
            )
    assert sorted(each.post_id for each in read(tmp_path / "x.zip")) == [1, 2, 3]


def test_long_posts_are_whole(tmp_path: Path) -> None:
    begin = "The begin of a long post that goes on and on"
    tweet = TWEET | {"full_text": begin + "… https://t.co/self"}
    other = TWEET | {"id_str": "5", "full_text": "another one of the same second"}
    named = TWEET | {"id_str": "6", "full_text": "short", "created_at": "Sat Mar 16 06:30:25 +0000 2024"}
    notes = [
        {
            "noteTweet": {
                "noteTweetId": "1",
                "createdAt": "2024-03-15T06:30:25.000Z",
                "core": {
                    "text": begin + " &amp; on https://t.co/n",
                    "urls": [{"shortUrl": "https://t.co/n", "expandedUrl": "https://example.com/n"}],
                },
            }
        },
        {"noteTweet": {"noteTweetId": "2", "tweetId": "6", "noteTweetResults": {"text": "the whole"}}},
        {"noteTweet": {"noteTweetId": "3"}},
    ]
    path = write_zip(tmp_path / "x.zip", tweets=wrapped(tweet, other, named), note_tweet=notes)
    found = read(path)
    assert [each.content for each in found if isinstance(each, Post)] == [
        begin + " & on https://example.com/n",
        "another one of the same second",
        "the whole",
    ]
    assert [str(each.reason) for each in found if isinstance(each, RejectedRow)] == [
        "a long post without text or date"
    ]


def test_bookmarks_are_bookmarks(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", bookmark=[{"bookmark": LIKED}])
    assert [each.log_type for each in read(path) if isinstance(each, Post)] == [BOOKMARK]


def test_bad_entries_are_told_with_their_line_and_cost_no_other(tmp_path: Path) -> None:
    text = """window.YTD.tweets.part0 = [
  {"tweet": {"id_str": "1", "full_text": "one", "created_at": "Fri Mar 15 06:30:25 +0000 2024"}},
  {"tweet": {"id_str": "x", "full_text": "no id"}},
  7, {"tweet": [1]},
  {"tweet": {"id_str": "2", "full_text": "two", "created_at": "some day"}},
  {"tweet": {"id_str": "3", "full_text": "bad \\x json"}},
  {"tweet": {"id_str": "4", "full_text": "half \\ud83d of an emoji ] } \\" ", "created_at": ""}},
  {"tweet": {"id_str": "5", "full_text": "LONG"}},
  {"tweet": {"id_str": "6", "full_text": "last"}}
]
""".replace("LONG", '", "x": ["' + "long" * 50_000 + '"' + ', "y"' * 300_000 + '], "y": "')
    found = read(write_zip(tmp_path / "x.zip", tweets=text.encode()))
    assert [(each.post_id, each.content) for each in found if isinstance(each, Post)] == [
        (1, "one"), (4, "half \ufffd of an emoji ] } \" "), (6, "last")
    ]  # fmt: skip
    assert [(each.line, each.post_id) for each in found if isinstance(each, RejectedRow)] == [
        (3, 0), (4, 0), (5, 2), (6, 0), (8, 0)
    ]  # fmt: skip


def test_a_like_without_its_text_is_told(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", like=[{"like": {"tweetId": "9"}}, {"like": LIKED}])
    found = read(path)
    assert [(each.post_id, str(each.reason)) for each in found if isinstance(each, RejectedRow)] == [
        (9, "the archive does not contain its text")
    ]
    assert len(found) == 2


@pytest.mark.parametrize(
    "text",
    [
        b'window.YTD.tweets.part0 = [ {"tweet": {"id_str": "1", "full_text": "one"}}, {"tweet": {"id_str"',
        b'window.YTD.tweets.part0 = [ {"tweet": {"id_str": "1", "full_text": "one"}}, "' + b"x" * 2_000_000,
    ],
)
def test_a_list_that_is_cut_short_is_told_and_the_archive_is_not_whole(tmp_path: Path, text: bytes) -> None:
    source = XArchive(write_zip(tmp_path / "x.zip", tweets=text), UTC)
    found = list(source)
    assert [type(each) for each in found] == [Post, RejectedRow]
    assert not source.whole


def test_a_damaged_zip_gives_what_is_before_the_damage(tmp_path: Path) -> None:
    path = write_zip(
        tmp_path / "x.zip", tweets=wrapped(*(TWEET | {"id_str": str(each)} for each in range(1, 5000)))
    )
    data = bytearray(Path(path).read_bytes())
    at = len(data) // 2
    data[at : at + 50] = bytes(50)
    Path(path).write_bytes(data)
    source = XArchive(path, UTC)
    found = list(source)
    assert isinstance(found[-1], RejectedRow)
    assert not source.whole


def test_a_bomb_is_left_when_it_comes_to_too_much(tmp_path: Path) -> None:
    bomb = b'window.YTD.tweets.part0 = [ {"tweet": {"id_str": "1", "full_text": "one"}},' + b" " * 60_000_000
    source = XArchive(write_zip(tmp_path / "x.zip", tweets=bomb), UTC)
    found = list(source)
    assert isinstance(found[-1], RejectedRow)
    assert "it unpacks to more than" in str(found[-1].reason)
    assert source.done == source.size < 100_000


@pytest.mark.parametrize("content", [b"PK\3\4 no zip", b"PK\5\6" + bytes(8) + b"\xff\xff\xff\x7f" + bytes(6)])
def test_what_is_no_zip_is_one_error_at_once(tmp_path: Path, content: bytes) -> None:
    (path := tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(BadArguments, match=r"x\.zip"):
        XArchive(str(path), UTC)


def test_another_zip_is_one_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadArguments, match=r"no data/tweets\.js"):
        XArchive(write_zip(tmp_path / "x.zip", account=ACCOUNT), UTC)


def test_progress_is_in_bytes_as_they_are_packed(tmp_path: Path) -> None:
    tweets = wrapped(*(TWEET | {"id_str": str(each)} for each in range(1, 3000)))
    source = XArchive(write_zip(tmp_path / "x.zip", tweets=tweets, like=[{"like": LIKED}]), UTC)
    done = [source.done for _ in source]
    assert done == sorted(done)
    assert 0 < done[1000] < source.size == source.done
