"""The URL of an index on Milvus, and what may be shown of it."""

from __future__ import annotations

import pytest

from tabane.engine.team.milvus_index import MilvusIndex, parse_milvus_url
from tabane.errors import ConfigurationError, StoreError


def test_defaults_are_those_of_a_server_without_a_login() -> None:
    found = parse_milvus_url("milvus://db.example.com")
    assert (found.uri, found.token, found.database) == ("http://db.example.com:19530", "", "default")
    assert (found.kind, found.shards, found.replicas, found.strong) == ("hnsw", 2, 1, False)
    assert found.place == "milvus://db.example.com:19530"


def test_login_and_parameters_are_taken_and_no_secret_is_shown() -> None:
    found = parse_milvus_url(
        "milvus://me:a%2Fsecret@[::1]:1/archive?tls=true&index=ivf_sq8&shards=8&consistency=strong"
    )
    assert (found.uri, found.token) == ("https://[::1]:1", "me:a/secret")
    assert (found.database, found.kind, found.shards, found.strong) == ("archive", "ivf_sq8", 8, True)
    assert found.place == "milvus://[::1]:1/archive"
    assert "secret" not in repr(found)
    assert parse_milvus_url("milvus://host?token=abc&prefix=other").token == "abc"
    assert (
        parse_milvus_url("milvus://host?token=abc&prefix=other").place == "milvus://host:19530?prefix=other"
    )


def test_the_parameter_of_keywords_is_accepted_and_changes_nothing() -> None:
    assert parse_milvus_url("milvus://host?keywords=milvus") == parse_milvus_url("milvus://host")


@pytest.mark.parametrize(
    "url",
    [
        "http://host",
        "milvus://",
        "milvus://host:port",
        "milvus://host?index=btree",
        "milvus://host?shards=0",
        "milvus://host?shards=x",
        "milvus://host?tls=yes",
        "milvus://host?prefix=a-b",
        "milvus://host?unknown=1",
        "milvus://host?keywords=elsewhere",
        "milvus://host#part",
        "milvus://host?tls=true&tls=false",
        "milvus://me:hunter2@host?timeout=1000",
    ],
)
def test_what_cannot_be_used_is_refused_without_the_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_milvus_url(url)
    assert "hunter2" not in str(refused.value)


class _Lite:
    def get_server_version(self, timeout: float) -> str:
        return "milvus_lite-2.5"


class _LiteIndex(MilvusIndex):
    def _client(self) -> _Lite:
        return _Lite()


def test_milvus_lite_is_refused_in_words() -> None:
    with pytest.raises(StoreError, match="Milvus Lite is not supported; a Milvus server is needed"):
        _LiteIndex(parse_milvus_url("milvus://host")).version()
