"""Bytes to text, whatever the encoding is and whatever the label says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.text.encodings import decode_leniently

JA = (
    "<html><head><title>文字コードの試験</title></head><body><p>これは日本語の文章です。漢字とひらがなとカタカナ、"
    "それに英数字ABC123が混ざっています。ラベルのないページでも正しく読めなければなりません。</p></body></html>"
)
LEGACY = ["shift_jis", "cp932", "euc_jp", "iso2022_jp"]
LABELS = [
    None,
    "utf-8",
    "iso-8859-1",
    "windows-1252",
    "Shift_JIS",
    "EUC-JP",
    "ISO-2022-JP",
    "nonsense",
    "",
    "base64",
]


@pytest.mark.parametrize("encoding", [*LEGACY, "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("label", LABELS)
def test_japanese_is_read_whatever_the_header_says(encoding: str, label: str | None) -> None:
    assert decode_leniently(JA.encode(encoding), label, "text/html") == JA


@pytest.mark.parametrize("encoding", LEGACY)
@pytest.mark.parametrize("lie", ["utf-8", "iso-8859-1", "EUC-JP", "x-sjis"])
def test_a_meta_that_lies_is_not_believed(encoding: str, lie: str) -> None:
    text = JA.replace("<head>", f'<head><meta charset="{lie}">')
    assert decode_leniently(text.encode(encoding), None, "text/html") == text


@pytest.mark.parametrize(
    ("encoding", "label", "text"),
    [
        ("cp1252", "iso-8859-1", "Café déjà vu – naïve “œuvre”"),
        ("iso8859_2", "iso-8859-2", "Zażółć gęślą jaźń, Příliš žluťoučký kůň"),
        ("cp1251", "windows-1251", "Привет, как дела? Это русский текст."),
        ("koi8_r", "koi8-r", "Привет, как дела? Это русский текст."),
        ("gb18030", "gb2312", "你好，世界。这是一个中文网页，用来测试编码。"),
        ("big5", "big5", "你好，世界。這是一個中文網頁，用來測試編碼。"),
        ("cp949", "euc-kr", "안녕하세요. 이것은 한국어 페이지입니다."),
    ],
)
def test_a_label_that_fits_is_believed(encoding: str, label: str, text: str) -> None:
    assert decode_leniently(text.encode(encoding), label) == text
    page = f'<meta http-equiv="Content-Type" content="text/html; charset={label}"><p>{text}'
    assert decode_leniently(page.encode(encoding), None, "text/html") == page


def test_what_windows_added_to_japanese_is_read() -> None:
    assert decode_leniently(f"{JA}①②㈱髙﨑".encode("cp932")) == f"{JA}①②㈱髙﨑"
    assert decode_leniently(JA.encode("euc_jp") + b"\xad\xa1\xad\xa2\xad\xea\n", "euc-jp") == f"{JA}①②㈱\n"
    assert decode_leniently(b"\x1b$B4A;z-!\x1b(B abc \x1b(I12\x1b(B") == "漢字① abc ｱｲ"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("iso2022_jp", "価格は¥1,200です。"),
        ("euc_jis_2004", "〜波ダッシュ～と−マイナス－を書き分けます。"),
        ("utf-16-le", "吾輩は猫である。名前はまだ無い。\nどこで生れたかとんと見当がつかぬ。"),
    ],
)
def test_what_reads_as_japanese_is_read_without_a_label(encoding: str, text: str) -> None:
    assert decode_leniently(text.encode(encoding)) == text


@pytest.mark.parametrize("text", ["こんにちは、世界の漢字", "①見積書を髙橋様へ"])
def test_utf16_without_a_mark_and_ascii_is_read_by_its_label(text: str) -> None:
    assert decode_leniently(text.encode("utf-16-le"), "utf-16le") == text
    assert decode_leniently(text.encode("utf-16-be"), "utf-16be") == text


def test_a_label_beyond_the_first_1024_bytes_is_none() -> None:
    text = " " * 1100 + '<meta charset="windows-1251">' + "Café crème, déjà vu"
    assert decode_leniently(text.encode("cp1252"), None, "text/html") == text


def test_the_declaration_of_xml_counts() -> None:
    text = '<?xml version="1.0" encoding="windows-1251"?><a>Привет</a>'
    assert decode_leniently(text.encode("cp1251"), None, "application/xml") == text


def test_plain_text_has_no_label_of_its_own() -> None:
    text = 'about <meta charset="windows-1251">: caf\xe9 cr\xe8me, d\xe9j\xe0 vu'
    assert decode_leniently(text.encode("cp1252"), "iso-8859-1", "text/plain") == text


def test_utf8_with_a_few_broken_letters_stays_utf8() -> None:
    body = JA.encode() * 3 + b"\xe3\x81" + b" <!-- \xff -->"
    text = decode_leniently(body, None, "text/html")
    assert text.startswith(JA)
    assert text.count("\ufffd") == 2


@given(
    st.binary(max_size=200),
    st.one_of(st.none(), st.text(max_size=12)),
    st.sampled_from(["", "text/html", "x/y"]),
)
def test_any_bytes_are_text(body: bytes, label: str | None, media: str) -> None:
    assert isinstance(decode_leniently(body, label, media), str)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=100))
def test_utf8_is_read_as_it_is(text: str) -> None:
    assert decode_leniently(text.encode(), "shift_jis", "text/html") == text.removeprefix("\ufeff")


UNLABELED = {
    "Zażółć gęślą jaźń. Chrząszcz brzmi w trzcinie, a świerszcz ćwierka.": ("iso8859_2", "cp1250"),
    "Příliš žluťoučký kůň úpěl ďábelské ódy. Nový soubor nelze otevřít.": ("iso8859_2", "cp1250"),
    "Árvíztűrő tükörfúrógép. A fájl nem található, kérjük próbálja újra később.": ("iso8859_2", "cp1250"),
    "Unità di dimensione del file. La modalità FRESH non è consentita perché c'è già.": ("cp1252",),
    "Le fichier n'a pas été trouvé à cet emplacement, où qu'il se soit caché.": ("cp1252", "iso8859_15"),
    "Größe der Datei überprüfen, außer bei schreibgeschützten Ordnern.": ("cp1252", "iso8859_15"),
    "Failas nerastas, todėl bandykite dar kartą. Šis veiksmas negalimas, nes įrenginys užimtas.": ("cp1257",),
    "Fails netika atrasts, tāpēc mēģiniet vēlreiz. Šī darbība nav iespējama, jo ierīce ir aizņemta.": (
        "cp1257",
    ),
    "Съешь же ещё этих мягких французских булок да выпей чаю.": ("cp1251", "koi8_r", "iso8859_5"),
    "명령은 실행할 수 없습니다. 또는 다시 시도하십시오.": ("euc_kr", "cp949"),
    "檔案不存在,請確認路徑後再試一次。系統無法開啟指定的裝置。": ("big5",),
    "文件不存在,请检查路径后重试。系统无法打开指定的设备。": ("gb18030", "gbk"),
}


@pytest.mark.parametrize(
    ("text", "encoding"),
    [(text, encoding) for text, encodings in UNLABELED.items() for encoding in encodings],
)
def test_texts_without_a_label(text: str, encoding: str) -> None:
    assert decode_leniently(text.encode(encoding)) == text
