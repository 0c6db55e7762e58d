"""Steps with posts and documents: imported, searched, changed and deleted."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tabane.cli.bench.assistant import Assistant, AssistantReply, NoAnswer
from tabane.cli.demo.steps import DemoPage, RunCommand, awaited, lacking, model_there, step
from tabane.messages import Message, say

EMBEDDING = 60.0
"""Time limit for a model to load and embed, in seconds; a small one takes a few."""

POST_WORDS = ("こたつ", "こたつを出した日が、猫の新年です。")
POST_MEANING = (
    "northern lights",
    "Aurora at 48 degrees north, phone camera, hands shaking. The sky was pink.",
)
"""The question, and the post that must be among the answers. The latter two have no word in common."""


class PostsChapter:
    """Shows posts, with an assistant and commands of one hub."""

    def __init__(
        self, page: DemoPage, assistant: Assistant, run: RunCommand, patience: float = EMBEDDING
    ) -> None:
        self._page, self._assistant, self._run, self._patience = page, assistant, run, patience

    def tell(self) -> None:
        self._page.chapter(say("An archive of posts, searched by keywords and by meaning"))
        step(self._page, "posts import", self._import)
        step(self._page, f"「{POST_WORDS[0]}」", self._by_words)
        if model_there(self._page, self._run, f'"{POST_MEANING[0]}"'):
            step(self._page, f'"{POST_MEANING[0]}"', self._by_meaning)

    def _import(self) -> tuple[Message, float]:
        began = time.perf_counter()
        report = self._run("posts", "import", "--sample")
        seconds = time.perf_counter() - began
        stats = self._run("posts", "stats")
        if not report["new"] or report["bad"] or stats["total_posts"] != report["new"]:
            raise NoAnswer(
                say("There are {count} {count:post|posts} after the import.", count=stats["total_posts"])
            )
        return say(
            "{posts} {posts:post|posts} of {users} invented {users:user|users}",
            posts=stats["total_posts"],
            users=stats["total_users"],
        ), seconds

    def _by_words(self) -> tuple[str, float]:
        term, expected = POST_WORDS
        answer = self._assistant.ask("search_posts_by_text", {"search_term": term})
        if expected not in answer.text:
            raise lacking(expected, answer)
        return expected, answer.seconds

    def _by_meaning(self) -> tuple[str, float]:
        query, expected = POST_MEANING

        def ask() -> AssistantReply:
            return self._assistant.call("search_similar", {"query": query, "mode": "content", "top_k": 3})

        return expected, awaited(self._page, query, expected, ask, self._patience)


GARDEN, HOUSE = "notes/庭.md", "notes/moving.md"
BEFORE, AFTER = (
    "The caretaker keeps the spare key until Friday.",
    "The neighbour keeps the spare key for a week.",
)
BASKET = "Carry her in the blue basket, with the towel she sleeps on."
MOVING = f"# Moving house\n\n## The cat\n\n{BASKET}\n\n## Keys\n\n{BEFORE}\n"
PLUMS = "梅を漬けた。塩は梅の二割。"
DIARY = f"# 庭の日誌\n\n## 五月\n\n竹の子を三本掘った。隣の家にも一本分けた。\n\n## 六月\n\n{PLUMS}\n"

WORDS, WORDS_JA = "spare key", "梅の塩"
MEANING = "how do I transport my kitten"
"""Has no word in common with the passage that answers it: BASKET."""

CAKE = "小麦粉と卵を混ぜて、オーブンで焼く。"
FOLDER = {
    "release.md": b"# Release\n\nRun the tests, tag it, then push the tag.\n",
    "recipes/cake.txt": f"{CAKE}\n".encode("shift_jis"),
    "bundle.py": b'def bundle():\n    """Ties what belongs together."""\n',
    "bread.html": b"<html><head><title>Bread</title></head><body><nav><a href='/'>Home</a></nav>"
    b"<main><h1>Bread</h1><p>The dough rises overnight, and is baked before breakfast.</p></main>"
    b"</body></html>",
    ".gitignore": b"*.log\n",
    "noise.log": b"what nobody looks for\n",
}
TAKEN = 4
"""The number of files that become documents: neither those that .gitignore names, nor itself."""

INSIDE = "卵をオーブンで"


class DocumentsChapter:
    """Shows documents, with an assistant and commands of one hub. Sample files are created in ``folder``."""

    def __init__(
        self, page: DemoPage, assistant: Assistant, run: RunCommand, folder: Path, patience: float = EMBEDDING
    ) -> None:
        self._page, self._assistant, self._run, self._patience = page, assistant, run, patience
        self._folder = folder / "shelf"

    def tell(self) -> None:
        self._page.chapter(say("Documents: saved by the assistant, and found again"))
        step(self._page, "put_document", lambda: self._put(HOUSE, MOVING))
        step(self._page, "put_document", lambda: self._put(GARDEN, DIARY))
        step(self._page, f'"{WORDS}"', lambda: self._found(WORDS, BEFORE, HOUSE))
        step(self._page, f"「{WORDS_JA}」", lambda: self._found(WORDS_JA, PLUMS, GARDEN))
        if model_there(self._page, self._run, f'"{MEANING}"'):
            step(self._page, f'"{MEANING}"', self._by_meaning)
        step(self._page, "docs add", self._add)
        step(self._page, f"「{INSIDE}」", lambda: self._found(INSIDE, CAKE, "shelf/recipes/cake.txt"))
        step(self._page, "docs add", self._add_again)
        step(self._page, "put_document", self._change)
        step(self._page, f'"{WORDS}"', self._changed)
        step(self._page, "resources/read", self._attach)
        step(self._page, "delete_document", self._delete)

    def _put(self, filepath: str, text: str) -> tuple[Message, float]:
        answer, details = self._putting(filepath, text)
        if details["filepath"] != filepath or details["updated"] or not details["chunks"]:
            raise NoAnswer(say("The returned content differs: {text}", text=answer.text))
        return say(
            "{id}: saved, {count} {count:chunk|chunks}", id=filepath, count=details["chunks"]
        ), answer.seconds

    def _change(self) -> tuple[Message, float]:
        answer, details = self._putting(HOUSE, MOVING.replace(BEFORE, AFTER))
        if not details["updated"]:
            raise NoAnswer(say("The returned content differs: {text}", text=answer.text))
        return say(
            "{id}: updated, {count} {count:chunk|chunks}", id=HOUSE, count=details["chunks"]
        ), answer.seconds

    def _putting(self, filepath: str, text: str) -> tuple[AssistantReply, dict[str, Any]]:
        answer = self._assistant.ask("put_document", {"filepath": filepath, "text": text})
        return answer, json.loads(answer.text)["details"]

    def _found(self, query: str, expected: str, filepath: str) -> tuple[str, float]:
        """Check that the answer contains the passage and its document."""
        answer = self._assistant.ask("search_documents", {"query": query})
        for part in (filepath, expected):
            if part not in answer.text:
                raise lacking(part, answer)
        return f"{filepath}: {expected}", answer.seconds

    def _by_meaning(self) -> tuple[str, float]:
        def ask() -> AssistantReply:
            return self._assistant.call("search_documents", {"query": MEANING})

        return f"{HOUSE}: {BASKET}", awaited(self._page, MEANING, BASKET, ask, self._patience)

    def _add(self) -> tuple[Message, float]:
        for name, data in FOLDER.items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        report, seconds = self._added()
        if report["new"] != TAKEN or report["bad"]:
            raise NoAnswer(say("The returned content differs: {text}", text=json.dumps(report)))
        return say(
            "{count} {count:file|files}: Markdown, text in Shift_JIS, code, HTML", count=TAKEN
        ), seconds

    def _add_again(self) -> tuple[Message, float]:
        report, seconds = self._added()
        if report["unchanged"] != TAKEN or report["new"] or report["changed"]:
            raise NoAnswer(say("The returned content differs: {text}", text=json.dumps(report)))
        return say("again: {count} unchanged, none saved again", count=TAKEN), seconds

    def _added(self) -> tuple[dict[str, Any], float]:
        began = time.perf_counter()
        report = self._run("docs", "add", str(self._folder), "--relative", "--id-prefix", "shelf")
        return report, time.perf_counter() - began

    def _changed(self) -> tuple[str, float]:
        found = self._found(WORDS, AFTER, HOUSE)
        old = self._assistant.ask("search_documents", {"query": "caretaker", "mode": "lexical"})
        if BEFORE in old.text or BASKET in old.text:
            raise NoAnswer(say("The replaced text is still found: {answer}", answer=old.text))
        return found

    def _attach(self) -> tuple[Message, float]:
        """Read the document as a resource, as a client that attaches it."""
        uri = f"tabane://documents/{quote(GARDEN, safe='')}"
        listed = self._assistant.request("resources/list", {})
        if uri not in [resource["uri"] for resource in listed.result["resources"]]:
            raise NoAnswer(say("The returned content differs: {text}", text=json.dumps(listed.result)))
        answer = self._assistant.request("resources/read", {"uri": uri})
        (content,) = answer.result["contents"]
        if content["text"] != DIARY:
            raise NoAnswer(
                say(
                    "The text that was read differs from the text that was written: {text}",
                    text=content["text"],
                )
            )
        return say(
            "{name} attached: equal, {size} {size:byte|bytes}", name=GARDEN, size=len(DIARY.encode())
        ), answer.seconds

    def _delete(self) -> tuple[Message, float]:
        answer = self._assistant.ask("delete_document", {"filepath": GARDEN})
        after = self._assistant.ask("search_documents", {"query": WORDS_JA})
        if json.loads(answer.text)["deleted_count"] != 1 or PLUMS in after.text:
            raise NoAnswer(say("The deleted document is still found: {answer}", answer=after.text))
        return say("{name} deleted, and no longer found", name=GARDEN), answer.seconds
