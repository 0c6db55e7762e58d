"""What people say, and the hub's own tool for it: found first by words alone, beside the tools of servers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tabane.gateway.tools.index import ToolIndex, ToolQuery
from tabane.gateway.tools.tool import OWN
from tabane.hub.clients.disclosure import own_tools
from tabane.hub.process.table import whole_table
from tests.gateway.tools import corpus

NOTE, NOTES = ("put_document",), ("search_documents", "search_everything")
POSTS, WORDS = ("search_similar",), ("search_posts_by_text",)
LINK, BOOKMARK = ("read_url_content",), ("remember_url",)

QUERIES: list[tuple[str, tuple[str, ...]]] = [
    ("remember this note", NOTE),
    ("save this for later", NOTE),
    ("keep a memo", NOTE),
    ("note down what I said", NOTE),
    ("please remember that my wife likes tulips", NOTE),
    ("keep this note", NOTE),
    ("これを覚えておいて", NOTE),
    ("メモを保存する", NOTE),
    ("この内容をメモしておいて", NOTE),
    ("ノートに書き留める", NOTE),
    ("save all these documents at once", ("put_documents",)),
    ("save a PDF from my disk as a document", ("put_file",)),
    ("what did I write in my notes about the garden", NOTES),
    ("search my notes", NOTES),
    ("find the passage in my documents about insulation", NOTES),
    ("look up what I noted about the trip", NOTES),
    ("前に書いたメモを探して", NOTES),
    ("自分の文書を検索する", NOTES),
    ("保存したノートの中から探す", NOTES),
    ("search everything I wrote, saved or read", ("search_everything",)),
    ("search posts, documents and pages", ("search_everything",)),
    ("read my note in full", ("get_document",)),
    ("保存した文書の全文を読む", ("get_document",)),
    ("list my saved documents", ("list_documents",)),
    ("文書の一覧", ("list_documents",)),
    ("forget that note", ("delete_document",)),
    ("delete a saved document", ("delete_document",)),
    ("メモを削除する", ("delete_document",)),
    ("how many documents are saved", ("get_document_stats",)),
    ("open this link", LINK),
    ("read this URL", LINK),
    ("what does this web page say", LINK),
    ("このリンクを開いて", LINK),
    ("このURLの記事を読んで", LINK),
    ("bookmark this link", BOOKMARK),
    ("save this web page for later", BOOKMARK),
    ("このページをブックマークして", BOOKMARK),
    ("my old tweets about coffee", POSTS),
    ("search my likes and bookmarks on Twitter by topic", POSTS),
    ("コーヒーについての昔のツイート", POSTS),
    ("過去の投稿を意味で検索", POSTS),
    ("tweets that contain the exact words good morning", WORDS),
    ("who tweets most in the archive", ("get_user_stats",)),
    ("how many posts are in the archive", ("get_database_stats",)),
    ("is the post archive loaded", ("get_status",)),
    ("turn a text into an embedding vector", ("embed_text",)),
    ("how do I add a server to Tabane", ("get_documentation",)),
]


@pytest.fixture(scope="module")
def index() -> Iterator[ToolIndex]:
    index = ToolIndex(":memory:")
    for name, tools in corpus()[0].items():
        index.replace(name, tools)
    index.replace(OWN, own_tools(asyncio.run(whole_table())))
    yield index
    index.close()


@pytest.mark.parametrize(("query", "wanted"), QUERIES)
def test_the_own_tool_for_what_people_say_is_found_first(
    index: ToolIndex, query: str, wanted: tuple[str, ...]
) -> None:
    hits = [hit.alias for hit in index.search(ToolQuery(query, 3)).hits]
    assert set(hits[:1]) & set(wanted), hits
