"""Mails, mailboxes and RTF as pages."""

from __future__ import annotations

from email.message import EmailMessage
from email.mime.message import MIMEMessage
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

import pytest

from tabane.errors import ReadError
from tabane.reader.formats import page_of
from tabane.reader.page import Page

URL = "https://example.org/x"
SECRET = "ZEBRA"


def mail(body: bytes, name: str = "a.eml") -> Page:
    return page_of(body, URL, "", None, name)


def said(page: Page) -> list[str]:
    return [str(warning) for warning in page.warnings]


def written(text: str, subtype: str = "plain") -> EmailMessage:
    message = EmailMessage()
    message["From"] = "花子 <hanako@example.jp>"
    message["Subject"] = "会議の件"
    message["Date"] = "Mon, 06 May 2024 10:00:00 +0900"
    message.set_content(text, subtype=subtype)
    return message


def test_a_mail_has_its_headers_its_text_and_its_attachments() -> None:
    message = written("本文です。\n> 引用 *a*\n")
    message.add_attachment(b"x" * 1234, maintype="application", subtype="pdf", filename="資料.pdf")
    page = mail(message.as_bytes())
    assert page.markdown == (
        "# 会議の件\n\n- **From:** 花子 \\<hanako@example.jp>\n- **Date:** 2024-05-06T10:00:00+09:00\n\n"
        "本文です。\n> 引用 \\*a\\*\n\n**Attachments:**\n\n- 資料.pdf (application/pdf, 1,234 bytes)"
    )
    assert (page.title, page.author, page.date, page.way) == (
        "会議の件",
        "花子 <hanako@example.jp>",
        "2024-05-06T10:00:00+09:00",
        "mail",
    )


def test_of_alternatives_the_html_is_read_without_what_nobody_sees() -> None:
    message = written(f"{SECRET} in the plain text")
    message.add_alternative(
        f'<p>Hello <a href="https://e.org/">you</a></p><div style="display:none">{SECRET}</div>',
        subtype="html",
    )
    page = mail(message.as_bytes())
    assert page.markdown.endswith("\n\nHello [you](https://e.org/)")
    assert SECRET not in page.markdown
    assert said(page) == ["1 part that readers do not see was left out."]


@pytest.mark.parametrize("kind", ["alternative", "related"])
def test_parts_that_mail_programs_do_not_show_are_left_out(kind: str) -> None:
    inner = MIMEMultipart(kind)
    first, second = MIMEText("<p>Hello</p>", "html"), MIMEText(f"<p>{SECRET}</p>", "html")
    for each in (second, first) if kind == "alternative" else (first, second):
        inner.attach(each)
    outer = MIMEMultipart("alternative")
    outer["From"] = "a@example.org"
    outer.attach(MIMEText(SECRET))
    outer.attach(inner)
    page = mail(outer.as_bytes())
    assert "Hello" in page.markdown
    assert SECRET not in page.markdown


@pytest.mark.parametrize("charset", ["iso-2022-jp", "shift_jis", "euc-jp", "utf-8"])
@pytest.mark.parametrize("form", ["8bit", "quoted-printable", "base64"])
def test_encodings_of_japanese(charset: str, form: str) -> None:
    from base64 import b64encode
    from quopri import encodestring

    data = "日本語の本文です。表をご覧ください。".encode(charset)
    if form != "8bit":
        data = b64encode(data) if form == "base64" else encodestring(data)
    word = b64encode("件名の表".encode(charset)).decode()
    head = (
        f"Subject: =?{charset}?B?{word}?=\r\nContent-Type: text/plain; charset={charset}\r\n"
        f"Content-Transfer-Encoding: {form}\r\n\r\n"
    )
    page = mail(head.encode() + data)
    assert (page.title, page.markdown) == ("件名の表", "# 件名の表\n\n日本語の本文です。表をご覧ください。")


@pytest.mark.parametrize(
    ("subject", "title"),
    [
        ("=?utf-8?Q?caf=C3=A9_au?= =?utf-8?Q?_lait?=", "café au lait"),
        ("=?utf-8?B?4pyT4g==?= =?utf-8?B?nJM=?=", "✓✓"),  # a character divided between two words
        ("=?iso-8859-2?Q?=B3=F3d=BC?=", "łódź"),
        ("Re: plain =?x-unknown?Q?a?=", "Re: plain a"),
        ("日本語のまま", "日本語のまま"),
    ],
)
def test_subjects(subject: str, title: str) -> None:
    assert mail(f"Subject: {subject}\n\nx".encode()).title == title


def test_a_forwarded_mail_is_read_and_the_depth_is_bounded() -> None:
    inner: MIMEText | MIMEMultipart = MIMEText("innermost")
    for nth in range(9):
        inner["Subject"] = f"level {nth}"
        outer = MIMEMultipart()
        outer.attach(MIMEMessage(inner))
        inner = outer
    page = mail(inner.as_bytes())
    assert [f"## level {nth}" in page.markdown for nth in (8, 4, 3)] == [True, True, False]


def test_a_mailbox_is_its_mails() -> None:
    one = "From a@b Mon May  6 10:00:00 2024\nSubject: {}\n\nbody {}\n\nFrom here on.\n\n"
    page = mail("".join(one.format(nth, nth) for nth in range(120)).encode(), "a.mbox")
    assert page.markdown.startswith("## 0\n\nbody 0\n\nFrom here on.\n\n## 1\n\nbody 1")
    assert said(page) == ["Only the first 100 messages of the mailbox are shown."]


def test_flowed_text_is_joined_and_parts_are_bounded() -> None:
    flowed = b"Subject: x\nContent-Type: text/plain; format=flowed\n\none \ntwo\n-- \nname\n"
    assert mail(flowed).markdown == "# x\n\none two\n\\--\nname"
    many = MIMEMultipart()
    for nth in range(1000):
        many.attach(MIMEText(f"part {nth}"))
    page = mail(many.as_bytes())
    assert "part 200" in page.markdown
    assert "part 400" not in page.markdown
    assert said(page) == ["The page is larger than the limit, so its end is missing."]


def test_what_is_no_mail_is_told() -> None:
    with pytest.raises(ReadError) as raised:
        mail(b"only some words\n")
    assert raised.value.cause == "broken"
    outlook = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 500 + "__substg1.0_001A".encode("utf-16-le")
    with pytest.raises(ReadError, match=r"vnd\.ms-outlook") as raised:
        page_of(outlook, URL, "", None, "a.msg")
    assert raised.value.cause == "type"


RTF = (
    r"{\rtf1\ansi\ansicpg932\uc1{\fonttbl{\f0\fcharset128 MS Mincho;}{\f1\fcharset204 Arial;}}"
    r"{\colortbl;\red255\green255\blue255;\red255\green0\blue0;}{\info{\title A title}{\author An author}}%s}"
)


@pytest.mark.parametrize(
    ("source", "markdown"),
    [
        (r"one\par two\line three\par", "one\n\ntwo\nthree"),
        (r"{\f0 \'93\'fa\'96\'7b\'8c\'ea\'95\'5c}", "日本語表"),
        (r"{\f1 \'cf\'f0\'e8}", "При"),
        (r"\u26085?\u26412 \'3f\u-10179?\u-8704?!", "日本😀!"),
        (r"{\uc2\u26085\'93\'fa}x", "日x"),
        (r"a {\v ZEBRA} b{\v0  c}\v ZEBRA\v0  d", "a  b c d"),
        (
            r"{\stylesheet{\s5\v S;}{\*\cs7\i\v S;}{\s6 O;}}a{\cs7 ZEBRA}\par\pard\s5 ZEBRA\par\pard\s6 b",
            "a\n\nb",
        ),
        (r"a\par\pard\li-999999 ZEBRA\par\pard\posx-30000 ZEBRA\par\pard b{\charscalex1 ZEBRA}", "a\n\nb"),
        (r"a{\shp{\*\shpinst{\sp{\sn fHidden}{\sv 1}}{\shptxt ZEBRA}}}{\shp{\*\shpinst{\shptxt b}}}", "ab"),
        (r"a{\ftnsep ZEBRA}{\docvar{ZEBRA}{ZEBRA}}{\ffdeftext ZEBRA}{\upr{ZEBRA}{\*\ud{b}}}", "ab"),
        (r"a{\cf1 ZEBRA} {\cf2 red}{\fs2 ZEBRA}{\deleted ZEBRA}", "a red"),
        (r"{\cf1\highlight2 white on red}{\cf1\highlight1 ZEBRA}", "white on red"),
        (r"{\*\unknown ZEBRA}{\header ZEBRA}{\pict\bin5 }{{}x}x", "x"),
        (
            r'{\field{\*\fldinst{HYPERLINK "https://e.org/a"}}{\fldrslt{\ul here}}} end',
            "[here](https://e.org/a) end",
        ),
        (r'{\field{\*\fldinst{HYPERLINK "javascript:x()"}}{\fldrslt here}}', "here"),
        (r"\pard\outlinelevel0 Head #\par\pard text\par", "# Head \\#\n\ntext"),
        (
            r"\trowd\intbl a\cell b | c\cell\row\trowd\intbl 1\cell\intbl x\par y\cell\row\pard after\par",
            "| a | b \\| c |\n| --- | --- |\n| 1 | x y |\n\nafter",
        ),
        (r"{\listtext\'95\tab}one\par{\listtext 2.\tab}two\par", "- one\n\n2. two"),
        (r"*a* \{b\} <i> \emdash", "\\*a\\* {b} \\<i> —"),
    ],
)
def test_rtf(source: str, markdown: str) -> None:
    page = page_of((RTF % source).encode(), URL)
    assert page.markdown == markdown
    assert (page.title, page.author, page.way) == ("A title", "An author", "rtf")


def test_hidden_runs_of_rtf_are_counted() -> None:
    assert said(page_of((RTF % r"a {\v one {\b two} three} b {\cf1 four}").encode(), URL)) == [
        "2 parts that readers do not see were left out."
    ]


def test_hostile_rtf_is_bounded() -> None:
    page = page_of((r"{\rtf1 begin " + "{" * 100_000).encode(), URL)
    assert page.markdown == "begin"
    assert said(page) == ["The page is larger than the limit, so its end is missing."]
    assert page_of(rb"{\rtf1 a\bin99999999 b}}}}}", URL).markdown == "a"
