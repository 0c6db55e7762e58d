"""Tables, paragraphs, headings and columns of PDFs."""

from __future__ import annotations

import pytest

from tabane.reader.formats import page_of
from tabane.reader.page import Page
from tests.reader.formats.pdf_files import drawn, grid, rows, text

URL = "https://a.test/x.pdf"
CELLS = [["Name", "Count", "Price"], ["kettle", "12", "3.50"], ["pan", "7", "11.00"], ["lid", "120", "0.75"]]
TABLE = """| Name | Count | Price |
| --- | --- | --- |
| kettle | 12 | 3.50 |
| pan | 7 | 11.00 |
| lid | 120 | 0.75 |"""
LEFTS, TOPS = [60, 160, 260, 360], [600, 582, 564, 546, 528]
BEFORE = text(60, 640, "Prices of this year, as the shop has told them to us in a letter of May.")
AFTER = text(60, 490, "All prices are without taxes, and they change with the price of copper.")


def read(body: bytes, url: str = URL) -> Page:
    return page_of(body, url, "application/pdf")


def markdown(*contents: str) -> str:
    return read(drawn(*contents)).markdown


def around(table: str) -> str:
    return (
        f"Prices of this year, as the shop has told them to us in a letter of May.\n\n{table}\n\n"
        "All prices are without taxes, and they change with the price of copper."
    )


# Tables


@pytest.mark.parametrize(
    "rules",
    [
        grid(LEFTS, TOPS),
        "".join(f"60 {y} m 360 {y} l S\n" for y in TOPS),
        "60 600 m 360 600 l S 60 582 m 360 582 l S 60 528 m 360 528 l S\n",
        "60 528 300 72 re S\n",
        "".join(f".9 g 60 {y} 300 18 re f 0 g\n" for y in (582, 546)),
        "".join(f"{x} {y} 100 18 re S\n" for x in LEFTS[:3] for y in TOPS[1:]),
        "".join(f"60 {y} 300 .5 re f\n" for y in TOPS) + "".join(f"{x} 528 .5 72 re f\n" for x in LEFTS),
        "",
    ],
    ids=["grid", "horizontal", "head", "box", "shaded", "boxes", "thin areas", "none"],
)
def test_a_table_is_found_by_its_rules_or_its_columns(rules: str) -> None:
    assert markdown(BEFORE + rules + rows(CELLS, 60, 600, 100) + AFTER) == around(TABLE)


def test_a_table_is_found_though_its_columns_are_drawn_one_by_one() -> None:
    cells = "".join(
        text(64 + column * 100, 587 - row * 18, line[column])
        for column in range(3)
        for row, line in enumerate(CELLS)
    )
    assert markdown(BEFORE + grid(LEFTS, TOPS) + cells + AFTER) == around(TABLE)


def test_merged_cells_have_their_text_once() -> None:
    rules = (
        "".join(f"60 {y} m 360 {y} l S\n" for y in (600, 582, 528))
        + "160 564 m 360 564 l S 160 546 m 360 546 l S\n"
    )
    rules += "60 600 m 60 528 l S 160 600 m 160 528 l S 260 582 m 260 528 l S 360 600 m 360 528 l S\n"
    cells = [["Name", "Both", ""], ["kettle", "12", "3.50"], ["", "7", "11.00"], ["", "120", "0.75"]]
    assert markdown(rules + rows(cells, 60, 600, 100)) == (
        "| Name | Both |  |\n| --- | --- | --- |\n| kettle | 12 | 3.50 |\n|  | 7 | 11.00 |\n|  | 120 | 0.75 |"
    )


def test_the_lines_of_a_cell_are_one_text() -> None:
    cells = "".join(
        text(64, 587 - nth * 40, name)
        + text(164, 587 - nth * 40, "a long text about")
        + text(164, 574 - nth * 40, f"the {name} itself")
        + text(304, 587 - nth * 40, str(nth))
        for nth, name in enumerate(("kettle", "pan", "lid", "spoon"))
    )
    assert "| pan | a long text about the pan itself | 1 |" in markdown(cells)
    rules = grid([60, 160, 300, 360], [600, 560, 520, 480, 440])
    assert "| pan | a long text about the pan itself | 1 |" in markdown(rules + cells)


def test_a_table_goes_on_over_pages_with_its_head_once() -> None:
    parts = [
        [CELLS[0], *([f"thing {page}{nth}", str(nth), f"{nth}.50"] for nth in range(30))] for page in range(3)
    ]
    page = read(
        drawn(*(rows(part, 60, 700, 100) + text(300, 30, f"Page {n}") for n, part in enumerate(parts)))
    )
    assert page.markdown.count("| Name | Count | Price |") == 1
    assert page.markdown.count("| --- | --- | --- |") == 1
    assert "| thing 029 | 29 | 29.50 |\n| thing 10 | 0 | 0.50 |" in page.markdown
    assert "[p. 2]\n\n[p. 3]" in page.markdown


def test_bars_and_marks_in_cells_are_escaped() -> None:
    cells = [["a|b", "*c*", "3"], ["d", "e", "4"], ["f", "g", "5"]]
    assert "| a\\|b | \\*c\\* | 3 |" in markdown(grid(LEFTS, TOPS[:4]) + rows(cells, 60, 600, 100))


def test_a_turned_page_has_its_table() -> None:
    turned = "q 0 1 -1 0 612 0 cm " + grid(LEFTS, [400, 382, 364, 346, 328]) + rows(CELLS, 60, 400, 100) + "Q"
    assert read(drawn(turned, page="/Rotate 90")).markdown == TABLE


def test_a_table_within_a_column_of_text_is_found() -> None:
    cells = "".join(
        text(64 + column * 80, 480 - row * 13, cell)
        for row, line in enumerate(CELLS)
        for column, cell in enumerate(line)
    )
    right = [*RIGHT, *RIGHT]
    assert TABLE in markdown(column(60, [*LEFT, LEFT[0]]) + cells + column(320, right))


def test_a_label_at_the_right_edge_and_an_indented_text_are_no_table() -> None:
    lines = "".join(
        text(60, 700 - nth * 60, f"int boil_kettle_{nth} (kettle *kettle, int seconds)")
        + text(480, 700 - nth * 60, "[Function]")
        + "".join(text(90, 687 - nth * 60 - row * 13, line) for row, line in enumerate(LEFT[:3]))
        for nth in range(4)
    )
    assert "| --- |" not in markdown(lines)


def test_stacked_tables_are_two_with_their_titles() -> None:
    stock = [["Product", "Stock"], ["kettle", "12"], ["pan", "140"], ["lid", "7"]]
    found = markdown(
        text(64, 620, "Table 1: Prices")
        + rows(CELLS, 60, 610, 100, 14)
        + text(64, 540, "Table 2: Stock")
        + rows(stock, 60, 530, 150, 14)
    )
    assert found == (
        f"Table 1: Prices\n\n{TABLE}\n\nTable 2: Stock\n\n"
        "| Product | Stock |\n| --- | --- |\n| kettle | 12 |\n| pan | 140 |\n| lid | 7 |"
    )


def test_names_of_groups_of_rows_are_rows() -> None:
    cells = [["", "2025", "2026"], ["Income", "", ""], ["kettles", "1,204", "1,310"], ["Costs", "", ""],
             ["copper", "(310)", "(402)"], ["wages", "(505)", "(511)"]]  # fmt: skip
    assert "|  | 2025 | 2026 |\n| --- | --- | --- |\n| Income |  |  |\n| kettles | 1,204 |" in markdown(
        rows(cells, 60, 600, 150, 14)
    )


def test_a_row_that_is_drawn_at_once_has_its_columns() -> None:
    lines = "".join(
        f"BT /F 11 Tf 60 {600 - nth * 14} Td "
        f"[({one}) -{4000 - len(one) * 500} ({two}) -3000 ({three})] TJ ET\n"
        for nth, (one, two, three) in enumerate(CELLS)
    )
    assert markdown(lines).count("|") >= 4 * 5


# Line numbers

PROSE = [
    "the kettle was made of copper in the old town, where many such things",
    "were made by hand until the mill was built below the bridge, and after",
    "that nobody wanted to pay for work by hand any more, so that the last",
    "of the smiths left the town in the year of the great flood, which took",
    "the mill and the bridge with it and made the road to the sea useless",
    "for a generation, until the railway came and with it the tin kettles",
]


def manuscript(left: float, every: int = 1, start: int = 0, step: float = 20) -> str:
    content = ""
    for nth in range(30):
        number = start + nth + 1
        content += text(90, 720 - nth * step, PROSE[nth % 6])
        if number % every == 0:
            content += text(left - 4 * len(str(number)), 720 - nth * step, str(number), size=7)
    return content


@pytest.mark.parametrize(
    "pages",
    [
        [manuscript(70), manuscript(70, start=30)],
        [manuscript(70), manuscript(70)],
        [manuscript(560)],
        [manuscript(70) + manuscript(560)],
        [manuscript(70, every=5), manuscript(70, every=5, start=30)],
        [manuscript(70) + text(300, 40, "1"), text(62, 720, "31", size=7) + text(90, 720, "The end of it.")],
    ],
    ids=["left", "restarting", "right", "both", "each fifth", "a short page"],
)
def test_line_numbers_are_left_out(pages: list[str]) -> None:
    found = markdown(*pages)
    assert not set(found.replace("[p. 1]", "").replace("[p. 2]", "").split()) & set(map(str, range(2, 62)))
    assert "| --- |" not in found
    assert "things were made by hand until" in found


def test_numbers_of_a_column_stay() -> None:
    cells = [["No.", "Name", "Points"], *([str(n), f"Player {n}", str(900 - n * 7)] for n in range(1, 30))]
    assert "| 17 | Player 17 | 781 |" in markdown(rows(cells, 60, 750, 150))
    assert "| 17 | Player 17 | 781 |" in markdown(rows(cells[1:], 60, 750, 150))


def test_a_listing_has_no_line_numbers() -> None:
    lines = ["def boil(kettle):", "    while kettle.cold:", "        kettle.heat()", "    return kettle"] * 3
    found = markdown(
        "".join(
            text(90, 700 - nth * 12, line, size=9, font="C") + text(70, 700 - nth * 12, str(nth + 1), size=6)
            for nth, line in enumerate(lines)
        )
    )
    assert found.startswith("```\ndef boil(kettle):\n    while kettle.cold:\n        kettle.heat()")


# What is no table

LEFT = [
    "the kettle was made of copper in the",
    "old town, where many such things were",
    "made by hand until the",
    "mill was built below the bridge, and",
    "after that nobody wanted to pay",
    "for work by hand any more, so that",
    "the last of the smiths left the town",
]
RIGHT = [
    "in the year of the great flood, which",
    "took the mill and the bridge with it",
    "and made the road to the",
    "sea useless for a generation, until",
    "the railway came and with it the",
    "tin kettles of the north, cheap and",
    "light, which nobody has ever loved.",
]


def column(left: float, lines: list[str]) -> str:
    return "".join(text(left, 600 - nth * 13, line) for nth, line in enumerate(lines))


def test_two_columns_are_read_one_after_the_other() -> None:
    apart = markdown(column(60, LEFT) + column(320, RIGHT))
    assert "|" not in apart
    assert apart.index("left the town") < apart.index("great flood")


def test_two_columns_that_are_drawn_line_by_line_are_put_in_order() -> None:
    lines = "".join(
        text(60, 600 - nth * 13, one) + text(320, 600 - nth * 13, other)
        for nth, (one, other) in enumerate(zip(LEFT, RIGHT, strict=True))
    )
    found = markdown(
        text(60, 630, "A heading over both of the columns of this article, in one line of text") + lines
    )
    assert "|" not in found
    assert found.index("heading") < found.index("left the town") < found.index("great flood")


@pytest.mark.parametrize(
    "content",
    [
        "".join(
            text(60, 600 - n * 14, f"Chapter {n}") + text(400, 600 - n * 14, str(n * 8 + 1)) for n in range(6)
        ),
        "".join(text(60, 600 - n * 14, f"Chapter {n} {'. ' * 20}{n + 1}") for n in range(6)),
        "".join(
            text(60, 600 - n * 14, "\225") + text(80, 600 - n * 14, f"thing number {n}") for n in range(6)
        ),
        "".join(
            text(60, 600 - n * 14, f"{n + 1}.") + text(84, 600 - n * 14, f"thing number {n}")
            for n in range(6)
        ),
        "".join(
            text(60 + n % 2 * 24, 600 - n * 12, f"x = call({n})", font="C")
            + text(260, 600 - n * 12, "# why", font="C")
            for n in range(6)
        ),
        "60 480 300 200 re S "
        + "".join(text(70, 600 - n * 13, "a text in a frame, and no table") for n in range(5)),
        "".join(
            text(160, 600 - n * 20, f"a = b + {n}") + text(480, 600 - n * 20, f"({n + 1})") for n in range(5)
        ),
        "".join(
            text(60, 600 - n * 14, f"[{n + 1}]") + text(90, 600 - n * 14, f"A. Smith. Kettles {n}.")
            for n in range(6)
        ),
        "".join(
            text(60, 600 - n * 14, str(n + 7)) + text(90, 600 - n * 14, f"boil the kettle {n}")
            for n in range(6)
        ),
    ],
    ids=["contents", "leaders", "bullets", "numbers", "code", "frame", "formulas", "references", "numbered"],
)
def test_contents_lists_code_and_frames_are_no_tables(content: str) -> None:
    assert "| --- |" not in markdown(content)


# Paragraphs


def test_a_word_that_is_divided_at_the_end_of_a_line_is_whole() -> None:
    lines = ["The kettle was made of cop-", "per, and its lid of iron, so", "that it rang."]
    assert (
        markdown(column(60, lines)) == "The kettle was made of copper, and its lid of iron, so that it rang."
    )


def test_a_divided_word_is_whole_over_columns_and_pages() -> None:
    first = [*LEFT[:6], "and then the smith used his ham-"]
    assert "used his hammer" in markdown(
        column(60, first) + column(320, ["mer for the last time, and it", *RIGHT])
    )
    found = markdown(column(60, first), column(60, ["mer for the last time, and it", *RIGHT]))
    assert "used his hammer\n\n[p. 2]\n\nfor the last time" in found


def test_the_hyphen_of_a_compound_stays() -> None:
    lines = ["The well-known kettle is known to all, and the well-", "known smith who made it as well."]
    assert "the well-known smith" in markdown(column(60, lines))


def test_running_headers_and_page_numbers_are_dropped() -> None:
    pages = [
        text(60, 760, "The Book of Kettles")
        + text(60, 600, f"Text of page {name}.")
        + text(300, 30, f"- {n} -")
        for n, name in enumerate(["one", "two", "three", "four"], 1)
    ]
    assert markdown(*pages) == (
        "[p. 1]\n\nText of page one.\n\n[p. 2]\n\nText of page two.\n\n[p. 3]\n\nText of page three.\n\n"
        "[p. 4]\n\nText of page four."
    )


def test_a_line_that_is_on_two_pages_alone_is_kept() -> None:
    pages = [text(60, 760, "The Book of Kettles") + text(60, 600, f"Text {name}.") for name in ("one", "two")]
    assert markdown(*pages).count("The Book of Kettles") == 2


def test_bold_lines_are_headings_below_those_of_larger_letters() -> None:
    body = "This is what the text of the section says, and it is longer than its heading is."
    found = markdown(
        text(60, 700, "Kettles", size=20)
        + text(60, 660, "Of copper", font="B")
        + text(60, 640, body)
        + text(60, 600, "Of iron", font="B")
        + text(60, 580, body)
        + text(60, 566, body)
    )
    assert found.startswith("# Kettles\n\n## Of copper\n\nThis is")
    assert "\n\n## Of iron\n\nThis" in found


def test_a_text_that_is_bold_throughout_has_no_headings() -> None:
    assert "#" not in markdown(
        "".join(text(60, 700 - n * 40, f"line number {n}", font="B") for n in range(6))
    )


def test_captions_are_paragraphs_of_their_own() -> None:
    found = markdown(
        column(
            60, ["The kettle is shown here, with its lid and", "its spout.", "Figure 1: A kettle of copper."]
        )
    )
    assert found.endswith("\n\nFigure 1: A kettle of copper.")


def test_a_footnote_in_small_letters_is_a_paragraph_of_its_own() -> None:
    found = markdown(
        column(60, ["The kettle is shown here, with its lid and its", "spout, as it was made."])
        + text(60, 574, "1 By hand, as the smith said.", size=8)
    )
    assert found.endswith("as it was made.\n\n1 By hand, as the smith said.")


def test_lines_of_japanese_are_joined_without_a_space() -> None:
    font = (
        "<</Type/Font/Subtype/Type0/BaseFont/HeiseiKakuGo-W5/Encoding/UniJIS-UCS2-H/DescendantFonts[<</Type/Font"
        "/Subtype/CIDFontType0/BaseFont/HeiseiKakuGo-W5/CIDSystemInfo<</Registry(Adobe)/Ordering(Japan1)"
        "/Supplement 2>>/FontDescriptor<</Type/FontDescriptor/FontName/HeiseiKakuGo-W5/Flags 4"
        "/FontBBox[-92 -250 1010 922]/ItalicAngle 0/Ascent 752/Descent -221/CapHeight 737/StemV 114>>>>]>>"
    )
    lines = ["銅のやかんは町の古い工房で一つずつ", "手で作られました。いまは工場で作ら", "れています。"]
    content = "".join(
        f"BT /J 11 Tf 60 {600 - nth * 14} Td <{line.encode('utf-16-be').hex()}> Tj ET\n"
        for nth, line in enumerate(lines)
    )
    page = read(drawn(content, resources="/Font<</J 20 0 R>>", objects={20: font}))
    assert page.markdown == "".join(lines)


# Metadata


@pytest.mark.parametrize(
    "title",
    [
        "\\(anonymous\\)",
        "untitled",
        "Untitled-1",
        "Microsoft Word - report v3.doc",
        "x",
        "x.pdf",
        "about:blank",
        "Document1",
        "",
    ],
)
def test_useless_titles_give_way_to_the_largest_heading(title: str) -> None:
    content = text(60, 700, "A Report of", size=20) + text(60, 676, "Kettles", size=20) + column(60, LEFT)
    assert (
        read(drawn(content, info=f"/Title({title})/Author(\\(anonymous\\))")).title == "A Report of Kettles"
    )
    assert read(drawn(content, info=f"/Title({title})/Author(\\(anonymous\\))")).author is None


def test_a_title_that_says_something_is_kept() -> None:
    assert (
        read(drawn(text(60, 700, "Other", size=20) + column(60, LEFT), info="/Title(Of Kettles)")).title
        == "Of Kettles"
    )
