"""Texts are decoded exactly in every encoding; ambiguous ones are refused."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.text.encodings import decode_strictly, is_binary, is_encoding

NOVEL = (
    "吾輩は猫である。名前はまだ無い。\nどこで生れたかとんと見当がつかぬ。何でも薄暗いじめじめした所で"
    "ニャーニャー泣いていた事だけは記憶している。\n"
)
CODE = "#include <stdio.h>\n/* 初期化処理をする */\nint main(void) { return 0; } // 終わり\n"
LETTER = "①見積書を髙橋様へお送りします。\n㈱テスト商事 担当: 山﨑\n"
TABLE = "品名,数量,備考\nシャンプー,10,ｼｬﾝﾌﾟｰ\nノート,5,A4サイズ\n"
MAIL = "件名: 会議のお知らせ\r\n\r\n明日の会議は10時からです。ご参加ください。\r\n"
JAPANESE = (NOVEL, CODE, LETTER, TABLE, MAIL)

LEGACY = (
    "cp932",
    "shift_jis_2004",
    "euc_jp",
    "euc_jis_2004",
    "iso2022_jp",
    "iso2022_jp_ext",
    "iso2022_jp_2004",
)
UNICODE = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")

FOREIGN = {
    "Größe über Käse und Öl, süße Äpfel für schöne Mädchen": ("cp1252", "mac_roman", "cp437", "cp850"),
    "Les élèves français étaient déjà là; “oui”, c’est l’été à l’œuvre": ("cp1252", "mac_roman"),
    "it’s a “test” — don’t worry": ("cp1252",),
    "résumé": ("cp1252", "cp437"),
    "El niño comió piñas en España ¿qué? ¡sí!": ("latin-1", "cp850"),
    "Zażółć gęślą jaźń. Świętość": ("cp1250", "iso8859-2"),
    "Şişli çağrı ığdır öğrenci": ("cp1254",),
    "Привет мир, это обычный русский текст для проверки.": (
        "cp1251", "koi8-r", "cp866", "iso8859-5", "mac_cyrillic",
    ),
    "Καλημέρα κόσμε, αυτό είναι ένα κείμενο": ("cp1253", "iso8859-7"),
    "你好，世界。这是一个简体中文的文本文件，用来测试编码识别。": ("gb2312", "gbk", "gb18030"),
    "测试": ("gbk",),
    "北京大学": ("gbk",),
    "你好，世界。這是一個繁體中文的文字檔案，用來測試編碼辨識。": ("big5",),
    "測試檔案": ("big5",),
    "안녕하세요. 이것은 한국어 텍스트 파일입니다. 인코딩을 시험합니다.": ("euc_kr", "cp949", "johab"),
    "한국어": ("euc_kr",),
    "สวัสดีชาวโลก นี่คือข้อความภาษาไทย": ("cp874",),
    "שלום עולם זה טקסט": ("cp1255",),
    "مرحبا بالعالم هذا نص": ("cp1256",),
}  # fmt: skip


def lines(text: str) -> str:
    return text.replace("\r\n", "\n")


@pytest.mark.parametrize("encoding", [*LEGACY, *UNICODE])
@pytest.mark.parametrize("text", JAPANESE)
def test_japanese_texts_come_back_whatever_they_are_written_in(text: str, encoding: str) -> None:
    if encoding in ("utf-16-le", "utf-16-be"):
        text *= 3  # a short one without a mark may be anything
    try:
        data = text.encode(encoding)
    except UnicodeEncodeError:
        pytest.skip("the encoding has not all of its characters")
    found = decode_strictly(data)
    assert found is not None
    assert found.text == lines(text)


@pytest.mark.parametrize(
    ("data", "encoding"), [(text.encode(e, "ignore"), e) for text, all_ in FOREIGN.items() for e in all_]
)
def test_what_is_of_another_language_in_an_encoding_of_its_own_is_refused(data: bytes, encoding: str) -> None:
    assert decode_strictly(data) is None
    assert not is_binary(data)
    assert decode_strictly(data, encoding) is not None


@pytest.mark.parametrize("text", [*FOREIGN, *JAPANESE])
def test_unicode_is_itself_in_every_language(text: str) -> None:
    for data in (
        text.encode(),
        codecs.BOM_UTF8 + text.encode(),
        text.encode("utf-16"),
        text.encode("utf-32"),
    ):
        found = decode_strictly(data)
        assert found is not None
        assert found.text == lines(text)
        assert decode_strictly(data, "cp1252") == found


@pytest.mark.parametrize("text", ["①見積書を髙橋様へお送りします。", "漢字①とカナ ｱｲ"])
def test_what_mail_programs_and_windows_added_is_read(text: str) -> None:
    rows = b"".join(
        b"\x1b$B" + bytes(byte & 0x7F for byte in char) + b"\x1b(B"
        for char in (char.encode("euc_jp") if char != "①" else b"\xad\xa1" for char in "漢字①")
    )
    assert decode_strictly(rows) == ("漢字①", "iso2022_jp")
    assert decode_strictly(text.encode("cp932")) == (text, "cp932")


def test_short_kanji_are_not_guessed_where_they_may_be_chinese() -> None:
    assert decode_strictly("東京都".encode("euc_jp")) is None
    assert decode_strictly("ｶﾅ ﾃﾞｰﾀ".encode("euc_jp")) is None


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0\0\0\1\0\x08\6\0\0\0\x5c\x72\xa8\x66",
        b"\x7fELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0>\0\1\0\0\0",
        b"PK\3\4\x14\0\0\0\x08\0\x21\x5c\x72\xa8\x66",
        bytes(range(256)) * 8,
        b"\1\2\3\4" * 100,
    ],
)
def test_what_is_no_text_is_none(data: bytes) -> None:
    assert decode_strictly(data) is None
    assert is_binary(data)


def test_line_ends_are_line_feeds() -> None:
    assert decode_strictly(b"a\r\nb\rc\n") == ("a\nb\nc\n", "utf-8")


KANA = st.text(st.characters(min_codepoint=0x3041, max_codepoint=0x3093), min_size=1, max_size=8)
# Python writes these two wide in JIS X 0213.
ASCII = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters="\\~"), max_size=8)
KANJI = st.text(st.sampled_from("日本語文書検索意味言葉時間場所人物東西南北"), max_size=4)


@given(st.lists(st.tuples(ASCII, KANA, KANJI), min_size=2, max_size=20), st.sampled_from(LEGACY))
def test_kana_and_kanji_come_back_or_are_refused_but_never_become_others(
    parts: list[tuple[str, str, str]], encoding: str
) -> None:
    text = "\n".join("".join(part) for part in parts)
    found = decode_strictly(text.encode(encoding))
    assert found is None or found.text == text


@given(st.text(min_size=1), st.sampled_from(("utf-8", "utf-8-sig", "utf-16", "utf-32")))
def test_unicode_with_a_mark_comes_back_or_is_no_text(text: str, encoding: str) -> None:
    try:
        found = decode_strictly(text.encode(encoding))
    except UnicodeEncodeError:
        return
    if found is not None and "\x1b" not in text and not text.startswith("\ufeff"):
        assert found.text == text.replace("\r\n", "\n").replace("\r", "\n")


def test_encodings_are_known_by_name() -> None:
    assert is_encoding("Shift_JIS")
    assert not is_encoding("base64")
    assert not is_encoding("klingon")
