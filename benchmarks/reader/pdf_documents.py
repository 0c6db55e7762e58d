"""PDF documents with known tables, made from a seed by several producers.

A producer that is not installed makes no documents: ReportLab, fpdf2 and typst are packages; Chromium
(``chromium``) and LibreOffice (``soffice``) are programs of the system.
"""

from __future__ import annotations

import html
import importlib.util
import io
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LOOKS = ("grid", "horizontal", "plain", "zebra", "booktabs")
_WORDS = (
    "kettle",
    "copper",
    "water",
    "pressure",
    "valve",
    "sensor",
    "result",
    "method",
    "sample",
    "median",
    "error",
    "budget",
    "region",
    "harvest",
    "total",
    "supply",
    "orchard",
    "engine",
    "service",
    "latency",
    "throughput",
    "memory",
    "reader",
    "archive",
    "letter",
    "figure",
    "quarter",
    "client",
    "hub",
)
_KANJI = (
    "東京都大阪府水銅圧力弁標本中央値誤差予算地域収穫合計供給果樹園機関遅延処理能記憶読者書庫手紙図四半期"
)
_KANA = "のはがをにでともやからまでよりなどという"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell's text, and the columns and rows that it takes."""

    text: str
    columns: int = 1
    rows: int = 1


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table: rows of cells, where a cell that a merged one covers is None. The first row is the head."""

    rows: tuple[tuple[Cell | None, ...], ...]
    look: str
    numeric: frozenset[int] = frozenset()

    @property
    def texts(self) -> list[list[str]]:
        """Return the text of each cell; a merged cell has it at its first place."""
        return [[cell.text if cell else "" for cell in row] for row in self.rows]


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """The parts of a document in order: tables, and texts as (kind, text)."""

    name: str
    japanese: bool
    parts: tuple[KnownTable | tuple[str, str], ...] = field(repr=False)

    @property
    def tables(self) -> list[KnownTable]:
        return [part for part in self.parts if isinstance(part, KnownTable)]


def documents(seed: int) -> Iterator[KnownDocument]:
    """Yield the documents of a seed: each kind of table in each language, and texts that are no tables."""
    for japanese in (False, True):
        for kind in ("small", "long", "merged", "wrapped", "two"):
            chance = random.Random(f"{seed} {japanese} {kind}")
            yield _document(chance, kind, japanese)
        yield _without_tables(random.Random(f"{seed} {japanese} none"), japanese)


def _document(chance: random.Random, kind: str, japanese: bool) -> KnownDocument:
    parts: list[KnownTable | tuple[str, str]] = [("heading", _phrase(chance, japanese, 3))]
    for _ in range(2 if kind == "two" else 1):
        parts.append(("text", _sentences(chance, japanese, chance.randint(2, 5))))
        parts.append(_table(chance, kind, japanese))
    parts.append(("text", _sentences(chance, japanese, 3)))
    return KnownDocument(f"{kind}-{'ja' if japanese else 'en'}", japanese, tuple(parts))


def _without_tables(chance: random.Random, japanese: bool) -> KnownDocument:
    parts: list[tuple[str, str]] = [("heading", _phrase(chance, japanese, 3))]
    for _ in range(4):
        parts.append(("text", _sentences(chance, japanese, 4)))
        parts.append(("list", "\n".join(_phrase(chance, japanese, 4) for _ in range(4))))
        parts.append(("contents", "\n".join(_phrase(chance, japanese, 3) for _ in range(5))))
    return KnownDocument(f"none-{'ja' if japanese else 'en'}", japanese, tuple(parts))


def _phrase(chance: random.Random, japanese: bool, words: int) -> str:
    if japanese:
        return "".join(
            chance.choice(_KANJI) + chance.choice(_KANJI) + (chance.choice(_KANA) if n % 2 else "")
            for n in range(words)
        )
    return " ".join(chance.choice(_WORDS) for _ in range(words))


def _sentences(chance: random.Random, japanese: bool, count: int) -> str:
    if japanese:
        return "".join(_phrase(chance, True, chance.randint(6, 14)) + "。" for _ in range(count))
    return " ".join(_phrase(chance, False, chance.randint(7, 16)).capitalize() + "." for _ in range(count))


def _number(chance: random.Random) -> str:
    form = chance.choice(("{:,}", "{:.2f}", "{}", "{:.1f} %", "-{}"))
    value = chance.randint(1, 99999)
    return form.format(value / 100 if "f" in form else value)


def _table(chance: random.Random, kind: str, japanese: bool) -> KnownTable:
    wide = chance.randint(3, 6)
    high = chance.randint(55, 90) if kind == "long" else chance.randint(4, 11)
    numeric = frozenset(column for column in range(1, wide) if chance.random() < 0.6)
    head: list[Cell | None] = [Cell(_phrase(chance, japanese, 1)) for _ in range(wide)]
    rows: list[list[Cell | None]] = [head]
    rows += [
        [Cell(_value(chance, kind, japanese, column in numeric)) for column in range(wide)]
        for _ in range(high)
    ]
    look = chance.choice(_LOOKS)
    if kind == "merged":
        look = chance.choice(("grid", "zebra"))
        _merge(chance, rows, wide)
    elif chance.random() < 0.4:  # a value that is not known
        rows[chance.randint(1, high)][chance.randint(1, wide - 1)] = Cell("")
    return KnownTable(tuple(map(tuple, rows)), look, numeric)


def _value(chance: random.Random, kind: str, japanese: bool, numeric: bool) -> str:
    if numeric:
        return _number(chance)
    most = 9 if kind == "wrapped" else 2
    return _phrase(chance, japanese, chance.randint(1, most))


def _merge(chance: random.Random, rows: list[list[Cell | None]], wide: int) -> None:
    """Put a group of columns into the head, and let a cell of the first column take two rows."""
    first = chance.randint(1, wide - 2)
    told = rows[0][first]
    rows[0][first] = Cell(told.text if told else "", columns=2)
    rows[0][first + 1] = None
    at = chance.randint(1, len(rows) - 3)
    told = rows[at][0]
    rows[at][0] = Cell(told.text if told else "", rows=2)
    rows[at + 1][0] = None


# Producers


def by_reportlab(document: KnownDocument) -> bytes:
    from reportlab.lib import colors
    from reportlab.lib.pagesizes import A4
    from reportlab.lib.styles import ParagraphStyle, getSampleStyleSheet
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont
    from reportlab.platypus import Paragraph, SimpleDocTemplate, Spacer, Table

    font, most = "Helvetica", 20
    if document.japanese:
        font, most = "HeiseiKakuGo-W5", 7
        pdfmetrics.registerFont(UnicodeCIDFont(font))
    usual = getSampleStyleSheet()
    wrap = "CJK" if document.japanese else None
    body = ParagraphStyle("b", usual["BodyText"], fontName=font, wordWrap=wrap)
    heading = ParagraphStyle("h", usual["Heading1"], fontName=font, wordWrap=wrap)
    within = ParagraphStyle("c", fontName=font, fontSize=9, leading=11, wordWrap=wrap)
    story: list[Any] = []
    for part in document.parts:
        if isinstance(part, KnownTable):
            cells = [
                [Paragraph(html.escape(cell.text), within) if cell and len(cell.text) > most else
                 cell.text if cell else "" for cell in row]
                for row in part.rows
            ]  # fmt: skip
            style: list[Any] = [("FONT", (0, 0), (-1, -1), font, 9), ("VALIGN", (0, 0), (-1, -1), "TOP")]
            style += _reportlab_look(part, colors)
            long = any(len(text) > most for row in part.texts for text in row)
            widths = [460 / len(part.rows[0])] * len(part.rows[0]) if long else None
            story += [Spacer(1, 8), Table(cells, widths, repeatRows=1, style=style), Spacer(1, 8)]
        elif part[0] == "heading":
            story.append(Paragraph(html.escape(part[1]), heading))
        elif part[0] == "text":
            story.append(Paragraph(html.escape(part[1]), body))
        else:
            for number, line in enumerate(part[1].split("\n")):
                end = f" {'. ' * 30}{number * 7 + 1}" if part[0] == "contents" else ""
                mark = "" if part[0] == "contents" else "• "
                story.append(Paragraph(mark + html.escape(line) + end, body))
    file = io.BytesIO()
    SimpleDocTemplate(file, pagesize=A4, title="(anonymous)").build(story)
    return file.getvalue()


def _reportlab_look(table: KnownTable, colors: Any) -> list[Any]:
    line = colors.black
    style: list[Any] = [("ALIGN", (column, 0), (column, -1), "RIGHT") for column in table.numeric]
    if table.look == "grid":
        style.append(("GRID", (0, 0), (-1, -1), 0.5, line))
    elif table.look == "horizontal":
        style.append(("LINEBELOW", (0, 0), (-1, -1), 0.25, colors.grey))
    elif table.look == "zebra":
        style.append(("BACKGROUND", (0, 0), (-1, 0), colors.lightgrey))
        style.append(("ROWBACKGROUNDS", (0, 1), (-1, -1), [colors.white, colors.whitesmoke]))
        style.append(("BOX", (0, 0), (-1, -1), 0.5, line))
    elif table.look == "booktabs":
        style += [("LINEABOVE", (0, 0), (-1, 0), 1, line), ("LINEBELOW", (0, 0), (-1, 0), 0.5, line)]
        style.append(("LINEBELOW", (0, -1), (-1, -1), 1, line))
    for y, row in enumerate(table.rows):
        for x, cell in enumerate(row):
            if cell and (cell.columns > 1 or cell.rows > 1):
                style.append(("SPAN", (x, y), (x + cell.columns - 1, y + cell.rows - 1)))
    return style


def by_fpdf(document: KnownDocument) -> bytes:
    from fpdf import FPDF
    from fpdf.fonts import FontFace

    pdf = FPDF()
    font = "Helvetica"
    if document.japanese:
        found = _japanese_font()
        if found is None:
            raise LookupError("no Japanese font")
        pdf.add_font("ja", fname=found)
        font = "ja"
    pdf.add_page()
    layouts = {"grid": "ALL", "horizontal": "HORIZONTAL_LINES", "plain": "NONE", "zebra": "MINIMAL",
               "booktabs": "SINGLE_TOP_LINE"}  # fmt: skip
    for part in document.parts:
        pdf.set_font(font, size=18 if not isinstance(part, KnownTable) and part[0] == "heading" else 10)
        if isinstance(part, KnownTable):
            pdf.ln(3)
            zebra = {"cell_fill_color": 230, "cell_fill_mode": "ROWS"} if part.look == "zebra" else {}
            align = ["RIGHT" if column in part.numeric else "LEFT" for column in range(len(part.rows[0]))]
            with pdf.table(
                borders_layout=layouts[part.look], headings_style=FontFace(emphasis=""), line_height=5,
                text_align=tuple(align), **zebra,
            ) as drawn:  # fmt: skip
                for row in part.rows:
                    line = drawn.row()
                    for cell in row:
                        if cell:
                            line.cell(cell.text, colspan=cell.columns, rowspan=cell.rows)
            pdf.ln(3)
        else:
            kind, text = part
            for number, line_ in enumerate(text.split("\n")):
                end = f" {'.' * 60} {number * 7 + 1}" if kind == "contents" else ""
                mark = "- " if kind == "list" else ""
                high = 9 if kind == "heading" else 5
                pdf.multi_cell(0, high, mark + line_ + end, new_x="LMARGIN", new_y="NEXT")
            pdf.ln(2)
    return bytes(pdf.output())


def _japanese_font() -> str | None:
    listed = subprocess.run(
        ["fc-list", ":lang=ja", "file"], capture_output=True, text=True, check=False
    ).stdout.splitlines()
    files = sorted(line.rstrip(": ") for line in listed)
    return next((name for name in files if name.endswith((".ttf", ".otf"))), None)


def by_typst(document: KnownDocument) -> bytes:
    import typst

    lines = ['#set page(paper: "a4")', "#set par(justify: true)", "#set text(size: 10pt)"]
    for part in document.parts:
        if isinstance(part, KnownTable):
            lines.append(_typst_table(part))
        elif part[0] == "heading":
            lines.append(f"= {_typst(part[1])}")
        elif part[0] == "text":
            lines.append(_typst(part[1]))
        else:
            for number, line in enumerate(part[1].split("\n")):
                end = f" #box(width: 1fr, repeat[.]) {number * 7 + 1} \\" if part[0] == "contents" else ""
                lines.append(("" if end else "- ") + _typst(line) + end)
        lines.append("")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "a.typ"
        source.write_text("\n".join(lines), "utf-8")
        return bytes(typst.compile(str(source)))


def _typst(text: str) -> str:
    return "".join("\\" + letter if letter in "#*_$@<>[]\\-%" else letter for letter in text)


def _typst_table(table: KnownTable) -> str:
    stroke = {"grid": "0.5pt", "horizontal": "(x: none, y: 0.4pt)", "plain": "none", "zebra": "none",
              "booktabs": "none"}[table.look]  # fmt: skip
    fill = "fill: (_, y) => if calc.even(y) { luma(235) }," if table.look == "zebra" else ""
    align = ", ".join("right" if n in table.numeric else "left" for n in range(len(table.rows[0])))
    rows = []
    for y, row in enumerate(table.rows):
        cells = []
        for cell in row:
            if cell is None:
                continue
            if cell.columns > 1 or cell.rows > 1:
                cells.append(
                    f"table.cell(colspan: {cell.columns}, rowspan: {cell.rows})[{_typst(cell.text)}]"
                )
            else:
                cells.append(f"[{_typst(cell.text)}]")
        line = ", ".join(cells) + ","
        if table.look == "booktabs" and y == 0:
            line = f"table.hline(), table.header({line[:-1]}), table.hline(stroke: 0.5pt),"
        elif y == 0:
            line = f"table.header({line[:-1]}),"
        rows.append(line)
    if table.look == "booktabs":
        rows.append("table.hline(),")
    return (
        f"#table(columns: {len(table.rows[0])}, stroke: {stroke}, {fill} align: ({align}),\n"
        + "\n".join(rows)
        + "\n)"
    )


def as_html(document: KnownDocument) -> str:
    """Return the document as HTML, for programs that print it."""
    parts = []
    for part in document.parts:
        if isinstance(part, KnownTable):
            parts.append(_html_table(part))
        elif part[0] == "heading":
            parts.append(f"<h1>{html.escape(part[1])}</h1>")
        elif part[0] == "text":
            parts.append(f"<p>{html.escape(part[1])}</p>")
        elif part[0] == "list":
            parts.append(
                "<ul>" + "".join(f"<li>{html.escape(one)}</li>" for one in part[1].split("\n")) + "</ul>"
            )
        else:
            lines = enumerate(part[1].split("\n"))
            parts.append("".join(f"<p>{html.escape(one)} {'.' * 50} {n * 7 + 1}</p>" for n, one in lines))
    css = (
        "body{font:10pt 'DejaVu Sans',IPAGothic,sans-serif}table{border-collapse:collapse;margin:8pt 0}"
        "td,th{padding:2pt 6pt;font-weight:normal;text-align:left;vertical-align:top}"
        ".n{text-align:right}.grid td,.grid th{border:.5pt solid black}"
        ".horizontal td,.horizontal th{border-bottom:.5pt solid #888}"
        ".zebra tr:nth-child(even) td{background:#eee}.zebra th{background:#ccc}"
        ".booktabs{border-top:1pt solid black;border-bottom:1pt solid black}"
        ".booktabs th{border-bottom:.5pt solid black}"
    )
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>untitled</title><style>{css}</style></head>'
        f"<body>{''.join(parts)}</body></html>"
    )


def _html_table(table: KnownTable) -> str:
    rows = []
    for y, row in enumerate(table.rows):
        name = "td" if y else "th"
        cells = "".join(
            f'<{name} colspan="{cell.columns}" rowspan="{cell.rows}"'
            f"{' class=n' if x in table.numeric else ''}>{html.escape(cell.text)}</{name}>"
            for x, cell in enumerate(row)
            if cell
        )
        rows.append(f"<tr>{cells}</tr>")
    return f'<table class="{table.look}"><thead>{rows[0]}</thead><tbody>{"".join(rows[1:])}</tbody></table>'


def by_chromium(document: KnownDocument) -> bytes:
    return _printed(document, lambda source, target: [
        shutil.which("chromium") or "chromium", "--headless", "--no-sandbox", "--disable-gpu",
        "--no-pdf-header-footer", f"--user-data-dir={source.parent / 'profile'}",
        f"--print-to-pdf={target}", source.as_uri(),
    ])  # fmt: skip


def by_libreoffice(document: KnownDocument) -> bytes:
    return _printed(document, lambda source, target: [
        shutil.which("soffice") or "soffice",
        f"-env:UserInstallation={(source.parent / 'profile').as_uri()}", "--headless", "--convert-to",
        "pdf", "--outdir", str(target.parent), str(source),
    ], ".fodt", as_open_document)  # fmt: skip


_OFFICE = "urn:oasis:names:tc:opendocument:xmlns:"
_SPACES = {"office": "office", "style": "style", "text": "text", "table": "table",
           "fo": "xsl-fo-compatible"}  # fmt: skip


def as_open_document(document: KnownDocument) -> str:
    """Return the document as flat OpenDocument text."""
    spaces = " ".join(f'xmlns:{name}="{_OFFICE}{rest}:1.0"' for name, rest in _SPACES.items())
    spaces += ' xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0"'
    parts: list[str] = []
    styles: list[str] = []
    for number, part in enumerate(document.parts):
        if isinstance(part, KnownTable):
            styles.append(_office_styles(part, number))
            parts.append(_office_table(part, number))
        elif part[0] == "heading":
            parts.append(f'<text:h text:outline-level="1">{html.escape(part[1])}</text:h>')
        elif part[0] == "list":
            items = "".join(
                f"<text:list-item><text:p>{html.escape(one)}</text:p></text:list-item>"
                for one in part[1].split("\n")
            )
            parts.append(f"<text:list>{items}</text:list>")
        else:
            for nth, line in enumerate(part[1].split("\n")):
                end = f" {'.' * 50} {nth * 7 + 1}" if part[0] == "contents" else ""
                parts.append(f"<text:p>{html.escape(line)}{end}</text:p>")
    font = "IPAGothic" if document.japanese else "DejaVu Sans"
    faces = f'<style:font-face style:name="{font}" svg:font-family="{font}"/>'
    usual = (
        '<style:default-style style:family="paragraph"><style:text-properties fo:font-size="10pt" '
        f'style:font-name="{font}" style:font-name-asian="{font}" style:font-size-asian="10pt"/>'
        "</style:default-style>"
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document {spaces} office:version="1.2" '
        'office:mimetype="application/vnd.oasis.opendocument.text">'
        f"<office:font-face-decls>{faces}</office:font-face-decls><office:styles>{usual}</office:styles>"
        f"<office:automatic-styles>{''.join(styles)}</office:automatic-styles>"
        f"<office:body><office:text>{''.join(parts)}</office:text></office:body></office:document>"
    )


def _office_styles(table: KnownTable, number: int) -> str:
    line = "0.5pt solid #000000"
    found = [
        f'<style:style style:name="r{number}" style:family="paragraph"><style:paragraph-properties '
        'fo:text-align="end"/></style:style>'
    ]
    for row in ("head", "odd", "even", "last"):
        borders = {"grid": f'fo:border="{line}"', "horizontal": f'fo:border-bottom="{line}"'}.get(
            table.look, ""
        )
        if table.look == "booktabs" and row in ("head", "last"):
            borders = f'fo:border-bottom="{line}"' + (f' fo:border-top="{line}"' if row == "head" else "")
        fill = {"head": "#cccccc", "even": "#eeeeee"}.get(row) if table.look == "zebra" else None
        shade = f'fo:background-color="{fill}"' if fill else ""
        found.append(
            f'<style:style style:name="c{number}{row}" style:family="table-cell">'
            f'<style:table-cell-properties fo:padding="2pt" {borders} {shade}/></style:style>'
        )
    return "".join(found)


def _office_table(table: KnownTable, number: int) -> str:
    rows = []
    for y, row in enumerate(table.rows):
        kind = "head" if y == 0 else "last" if y == len(table.rows) - 1 else "even" if y % 2 == 0 else "odd"
        cells = []
        for x, cell in enumerate(row):
            if cell is None:
                cells.append("<table:covered-table-cell/>")
                continue
            side = f' text:style-name="r{number}"' if x in table.numeric else ""
            cells.append(
                f'<table:table-cell table:style-name="c{number}{kind}" office:value-type="string" '
                f'table:number-columns-spanned="{cell.columns}" table:number-rows-spanned="{cell.rows}">'
                f"<text:p{side}>{html.escape(cell.text)}</text:p></table:table-cell>"
            )
        rows.append(f"<table:table-row>{''.join(cells)}</table:table-row>")
    return (
        f'<table:table table:name="t{number}"><table:table-column '
        f'table:number-columns-repeated="{len(table.rows[0])}"/>'
        f"<table:table-header-rows>{rows[0]}</table:table-header-rows>{''.join(rows[1:])}</table:table>"
    )


def _printed(
    document: KnownDocument,
    command: Callable[[Path, Path], Sequence[str]],
    end: str = ".html",
    written: Callable[[KnownDocument], str] = as_html,
) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / f"a{end}", Path(folder) / "a.pdf"
        source.write_text(written(document), "utf-8")
        subprocess.run(command(source, target), capture_output=True, timeout=120, check=False)
        if not target.exists():
            raise LookupError("the program made no PDF")
        return target.read_bytes()


def producers() -> Mapping[str, Callable[[KnownDocument], bytes]]:
    """Return the producers that are installed, by name."""
    packages = {"reportlab": ("reportlab", by_reportlab), "fpdf2": ("fpdf", by_fpdf),
                "typst": ("typst", by_typst)}  # fmt: skip
    programs = {"chromium": ("chromium", by_chromium), "libreoffice": ("soffice", by_libreoffice)}
    found = {name: make for name, (module, make) in packages.items() if importlib.util.find_spec(module)}
    return found | {name: make for name, (program, make) in programs.items() if shutil.which(program)}
