"""Questions of Stack Exchange with their answers and comments."""

from __future__ import annotations

from typing import Any

import pytest

from tabane.errors import ReadError
from tabane.reader.sites.stackoverflow import StackOverflowAdapter
from tests.reader.site import Site
from tests.reader.sites.service import read, said, tell

URL = "https://stackoverflow.com/questions/7/how-to-do-it"
API = "/se/2.3"


def way(site: Site, key: str | None = None) -> StackOverflowAdapter:
    return StackOverflowAdapter(lambda _: key, site.url("/se"))


def wrapped(*items: dict[str, Any], more: bool = False) -> dict[str, Any]:
    return {"items": list(items), "has_more": more, "quota_max": 300, "quota_remaining": 299}


def question(**changes: Any) -> dict[str, Any]:
    known = {
        "question_id": 7,
        "title": "How to do &quot;it&quot; &lt;now&gt;?",
        "link": "https://stackoverflow.com/questions/7/it",
        "body": '<p>I try:</p>\n<pre class="lang-py"><code>x = [1]\nfor y in x: pass\n</code></pre>',
        "score": 4,
        "view_count": 1234,
        "answer_count": 2,
        "creation_date": 1_700_000_000,
        "tags": ["python", "list"],
        "owner": {"display_name": "Ann &amp; Co"},
    }
    return known | changes


def answer(id_: int, score: int, **changes: Any) -> dict[str, Any]:
    known = {
        "answer_id": id_,
        "question_id": 7,
        "body": f'<p>Number {id_}, see <a href="/q/1">this</a>.</p>',
        "score": score,
        "is_accepted": False,
        "creation_date": 1_700_000_100,
        "owner": {"display_name": "Bob"},
    }
    return known | changes


def comment(post: int, body: str, **changes: Any) -> dict[str, Any]:
    known = {"post_id": post, "comment_id": 1, "body": body, "score": 0, "creation_date": 1_700_000_200}
    return known | {"owner": {"display_name": "Cat"}} | changes


def furnished(site: Site) -> None:
    tell(site, f"{API}/questions/7", wrapped(question()))
    tell(site, f"{API}/questions/7/answers", wrapped(answer(8, 9), answer(9, 1, is_accepted=True)))
    tell(
        site,
        f"{API}/posts/7;9;8/comments",
        wrapped(comment(7, "Why <code>x</code>?", score=2), comment(8, "Thanks")),
    )


def test_a_question_is_its_code_answers_and_comments(site: Site) -> None:
    furnished(site)
    page = read(site, URL, way(site))
    assert page.markdown == (
        '# How to do "it" \\<now>?\n\n- Score: 4\n- Asked by: Ann & Co, 2023-11-14T22:13:20Z\n- Tags: '
        "python, list\n"
        "- Views: 1,234\n\nI try:\n\n```py\nx = [1]\nfor y in x: pass\n```\n\n**Comments**\n\n"
        "- **Cat**, 2023-11-14 (score 2): Why `x`?\n\n"
        "## Accepted answer (score 1) by Bob, 2023-11-14T22:15:00Z\n\n"
        "Number 9, see [this](https://stackoverflow.com/q/1).\n\n"
        "## Answer (score 9) by Bob, 2023-11-14T22:15:00Z\n\n"
        "Number 8, see [this](https://stackoverflow.com/q/1).\n\n**Comments**\n\n- **Cat**, "
        "2023-11-14: Thanks"
    )
    assert (page.title, page.author) == ('How to do "it" <now>?', "Ann & Co")
    assert (page.site, page.way, page.url) == (
        "Stack Overflow",
        "stackoverflow",
        "https://stackoverflow.com/questions/7/it",
    )
    assert len(site.asked) == 3


def test_an_answer_leads_to_its_question(site: Site) -> None:
    furnished(site)
    tell(site, f"{API}/answers/9", wrapped(answer(9, 1)))
    assert "# How to do" in read(site, "https://stackoverflow.com/a/9/123", way(site)).markdown


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://ja.stackoverflow.com/q/7", "ja.stackoverflow.com"),
        ("https://www.superuser.com/questions/7", "superuser.com"),
        ("https://math.stackexchange.com/questions/7/x?noredirect=1#8", "math.stackexchange.com"),
    ],
)
def test_every_site_is_asked_for_by_its_host(site: Site, url: str, name: str) -> None:
    tell(site, f"{API}/questions/7", wrapped(question(answer_count=0)))
    tell(site, f"{API}/posts/7/comments", wrapped())
    read(site, url, way(site, "mine"))
    assert [path.partition("?")[0] for path in site.paths] == [
        f"{API}/questions/7",
        f"{API}/posts/7/comments",
    ]
    assert all(f"site={name}&filter=withbody&key=mine" in path for path in site.paths)


@pytest.mark.parametrize(
    "url",
    [
        "https://stackoverflow.com/",
        "https://stackoverflow.com/questions/tagged/python",
        "https://stackoverflow.com/users/7",
        "https://stackoverflow.com.evil.test/q/7",
        "https://blog.stackoverflow.com/q/7",
        "https://a.test/questions/7",
    ],
)
def test_what_is_no_question_is_left_to_the_general_way(site: Site, url: str) -> None:
    assert not way(site).takes(url)


def test_more_answers_and_comments_than_are_read_are_named(site: Site) -> None:
    tell(site, f"{API}/questions/7", wrapped(question(answer_count=120)))
    answers = [answer(100 + n, n) for n in range(100)]
    tell(site, f"{API}/questions/7/answers", wrapped(*answers, more=True))
    ids = ";".join(str(199 - n) for n in range(99))
    tell(site, f"{API}/posts/7;{ids}/comments", wrapped(comment(7, "Again"), more=True))
    page = read(site, URL, way(site))
    assert "100 best of 120" in said(page)
    assert "first 3 comments" in said(page)


def test_comments_that_cannot_be_read_leave_the_answers(site: Site) -> None:
    furnished(site)
    tell(site, f"{API}/posts/7;9;8/comments", {"error_id": 502, "error_name": "throttle_violation"}, 400)
    page = read(site, URL, way(site))
    assert "Number 9" in page.markdown
    assert "STACKEXCHANGE_KEY" in said(page)


def failure(site: Site, key: str | None = None) -> ReadError:
    with pytest.raises(ReadError) as raised:
        read(site, URL, way(site, key))
    return raised.value


def test_a_question_that_is_gone_says_so(site: Site) -> None:
    tell(site, f"{API}/questions/7", wrapped())
    assert failure(site).status == 404


def test_a_spent_limit_names_the_key_that_raises_it(site: Site) -> None:
    tell(site, f"{API}/questions/7", {"error_id": 502, "error_name": "throttle_violation"}, 400)
    error = failure(site)
    assert error.cause == "rate"
    assert "STACKEXCHANGE_KEY" in str(error)
    assert "STACKEXCHANGE_KEY" not in str(failure(site, "mine"))
