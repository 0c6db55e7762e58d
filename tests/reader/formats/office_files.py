"""Office documents made by hand, part by part: what a test needs of each, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.reader.formats.files import zipped

_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
_NAMES = {
    "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "r": _OFFICE,
    "a": "http://schemas.openxmlformats.org/drawingml/2006/main",
    "p": "http://schemas.openxmlformats.org/presentationml/2006/main",
    "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
    "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
    "wp": "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing",
    "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
    "w14": "http://schemas.microsoft.com/office/word/2010/wordml",
    "v": "urn:schemas-microsoft-com:vml",
    "c": "http://schemas.openxmlformats.org/drawingml/2006/chart",
    "s": "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
}
OFFICE_NAMES = " ".join(f'xmlns:{name}="{url}"' for name, url in _NAMES.items())


def relations(entries: Sequence[tuple[str, str, str]]) -> str:
    """Relations: id, kind and target of each; an address is an external one."""
    made = ""
    for name, kind, target in entries:
        mode = 'TargetMode="External"' if target.startswith("http") else ""
        made += f'<Relationship Id="{name}" Type="{_OFFICE}/{kind}" Target="{target}" {mode}/>'
    return f'<Relationships xmlns="{_PACKAGE}">{made}</Relationships>'


def word(
    body: str,
    *,
    styles: str = "",
    numbering: str = "",
    footnotes: str = "",
    settings: str = "",
    background: str = "",
    links: Sequence[tuple[str, str, str]] = (),
    parts: Mapping[str, str] | None = None,
) -> bytes:
    """A document of Word with this body and these parts."""
    files = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": relations([("r1", "officeDocument", "word/document.xml")]),
        "word/_rels/document.xml.rels": relations(links),
        "word/document.xml": f"<w:document {OFFICE_NAMES}>{background}<w:body>{body}</w:body></w:document>",
        **(parts or {}),
    }
    for name, content in (
        ("styles", styles),
        ("numbering", numbering),
        ("footnotes", footnotes),
        ("settings", settings),
    ):
        if content:
            files[f"word/{name}.xml"] = f"<w:{name} {OFFICE_NAMES}>{content}</w:{name}>"
    return zipped(files)


def run(text: str, properties: str = "") -> str:
    own = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    return f'<w:r>{own}<w:t xml:space="preserve">{text}</w:t></w:r>'


def par(*runs: str, properties: str = "") -> str:
    own = f"<w:pPr>{properties}</w:pPr>" if properties else ""
    return f"<w:p>{own}{''.join(runs)}</w:p>"


def cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{text if text.startswith('<') else par(run(text))}</w:tc>"


def row(*cells: str, properties: str = "") -> str:
    return f"<w:tr><w:trPr>{properties}</w:trPr>{''.join(cells)}</w:tr>"


def grid(*rows: str, properties: str = "") -> str:
    return f"<w:tbl><w:tblPr>{properties}</w:tblPr>{''.join(rows)}</w:tbl>"


def workbook(
    sheets: Mapping[str, str],
    *,
    states: Mapping[str, str] | None = None,
    strings: Sequence[str] = (),
    styles: str = "",
    properties: str = "",
    parts: Mapping[str, str] | None = None,
) -> bytes:
    """A workbook: the content of each worksheet by its name, shared strings as the content of ``si``."""
    names = list(sheets)
    listed = "".join(
        f'<s:sheet name="{name}" sheetId="{nth}" r:id="s{nth}" state="{(states or {}).get(name, "visible")}"/>'
        for nth, name in enumerate(names, 1)
    )
    links = [(f"s{nth}", "worksheet", f"worksheets/sheet{nth}.xml") for nth in range(1, len(names) + 1)]
    shared = "".join(f"<s:si>{each}</s:si>" for each in strings)
    files = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": relations([("r1", "officeDocument", "xl/workbook.xml")]),
        "xl/workbook.xml": f"<s:workbook {OFFICE_NAMES}><s:workbookPr {properties}/>"
        f"<s:sheets>{listed}</s:sheets></s:workbook>",
        "xl/_rels/workbook.xml.rels": relations(links),
        "xl/styles.xml": f"<s:styleSheet {OFFICE_NAMES}>{styles}</s:styleSheet>",
        "xl/sharedStrings.xml": f"<s:sst {OFFICE_NAMES}>{shared}</s:sst>",
        **(parts or {}),
    }
    for nth, name in enumerate(names, 1):
        files[f"xl/worksheets/sheet{nth}.xml"] = f"<s:worksheet {OFFICE_NAMES}>{sheets[name]}</s:worksheet>"
    return zipped(files)


def sheet(*rows: str, before: str = "", behind: str = "") -> str:
    return f"{before}<s:sheetData>{''.join(rows)}</s:sheetData>{behind}"


def line(number: int, *cells: str, attributes: str = "") -> str:
    return f'<s:row r="{number}" {attributes}>{"".join(cells)}</s:row>'


def text_cell(place: str, text: str, style: int | None = None) -> str:
    named = "" if style is None else f' s="{style}"'
    return f'<s:c r="{place}" t="inlineStr"{named}><s:is><s:t>{text}</s:t></s:is></s:c>'


def number_cell(place: str, value: str, style: int | None = None, kind: str = "n") -> str:
    named = "" if style is None else f' s="{style}"'
    return f'<s:c r="{place}" t="{kind}"{named}><s:v>{value}</s:v></s:c>'


def deck(
    slides: Sequence[str],
    *,
    master: str = "",
    layout: str = "",
    attributes: Mapping[int, str] | None = None,
    links: Sequence[tuple[str, str, str]] = (),
    background: str = "",
    timing: str = "",
    parts: Mapping[str, str] | None = None,
) -> bytes:
    """A presentation: the shapes of each slide, of the layout and of the master."""
    numbers = range(1, len(slides) + 1)
    listed = "".join(f'<p:sldId id="{255 + nth}" r:id="s{nth}"/>' for nth in numbers)
    tree = "<p:cSld>{bg}<p:spTree>{shapes}</p:spTree></p:cSld>"
    files = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": relations([("r1", "officeDocument", "ppt/presentation.xml")]),
        "ppt/presentation.xml": f"<p:presentation {OFFICE_NAMES}><p:sldIdLst>{listed}</p:sldIdLst>"
        '<p:sldSz cx="9144000" cy="6858000"/></p:presentation>',
        "ppt/_rels/presentation.xml.rels": relations(
            [(f"s{nth}", "slide", f"slides/slide{nth}.xml") for nth in numbers]
        ),
        "ppt/slideLayouts/slideLayout1.xml": f"<p:sldLayout {OFFICE_NAMES}>"
        f"{tree.format(bg='', shapes=layout)}</p:sldLayout>",
        "ppt/slideLayouts/_rels/slideLayout1.xml.rels": relations(
            [("m", "slideMaster", "../slideMasters/slideMaster1.xml")]
        ),
        "ppt/slideMasters/slideMaster1.xml": f"<p:sldMaster {OFFICE_NAMES}>"
        f"{tree.format(bg='', shapes=master)}"
        '<p:clrMap bg1="lt1" tx1="dk1" bg2="lt2" tx2="dk2" accent1="accent1"/></p:sldMaster>',
        **(parts or {}),
    }
    for nth, shapes in enumerate(slides, 1):
        own = (attributes or {}).get(nth, "")
        files[f"ppt/slides/slide{nth}.xml"] = (
            f"<p:sld {OFFICE_NAMES} {own}>{tree.format(bg=background, shapes=shapes)}{timing}</p:sld>"
        )
        files[f"ppt/slides/_rels/slide{nth}.xml.rels"] = relations(
            [("l", "slideLayout", "../slideLayouts/slideLayout1.xml"), *links]
        )
    return zipped(files)


def shape(
    *paragraphs: str,
    box: tuple[int, int, int, int] | None = (1_000_000, 1_000_000, 3_000_000, 1_000_000),
    place: str = "",
    fill: str = "",
    about: str = "",
    body: str = "",
    geometry: str = "",
) -> str:
    """A shape of a slide: its paragraphs, place (EMU), placeholder and fill."""
    at = ""
    if box is not None:
        at = f'<a:xfrm><a:off x="{box[0]}" y="{box[1]}"/><a:ext cx="{box[2]}" cy="{box[3]}"/></a:xfrm>{geometry}'
    holder = f"<p:ph {place}/>" if place else ""
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="2" name="x" {about}/><p:cNvSpPr/><p:nvPr>{holder}</p:nvPr></p:nvSpPr>'
        f"<p:spPr>{at}{fill}</p:spPr><p:txBody><a:bodyPr>{body}</a:bodyPr>{''.join(paragraphs)}</p:txBody></p:sp>"
    )


def words(text: str, properties: str = "", paragraph: str = "", attributes: str = "") -> str:
    """A paragraph of a shape."""
    return f"<a:p>{paragraph}<a:r><a:rPr {attributes}>{properties}</a:rPr><a:t>{text}</a:t></a:r></a:p>"


def solid(color: str, inside: str = "") -> str:
    return f'<a:solidFill><a:srgbClr val="{color}">{inside}</a:srgbClr></a:solidFill>'


_OPEN = {
    "office": "office:1.0", "text": "text:1.0", "table": "table:1.0", "style": "style:1.0",
    "draw": "drawing:1.0", "fo": "xsl-fo-compatible:1.0", "svg": "svg-compatible:1.0",
    "presentation": "presentation:1.0", "loext": "loext:1.0",
}  # fmt: skip
OPEN_NAMES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{url}"' for name, url in _OPEN.items()
)


def open_document(
    kind: str, body: str, *, styles: str = "", common: str = "", parts: Mapping[str, str] | None = None
) -> bytes:
    """An OpenDocument file of this kind: text, spreadsheet or presentation."""
    names = f'{OPEN_NAMES} xmlns:xlink="http://www.w3.org/1999/xlink"'
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {names}><office:automatic-styles>{styles}"
            f"</office:automatic-styles><office:body><office:{kind}>{body}</office:{kind}></office:body>"
            "</office:document-content>",
            "styles.xml": f"<office:document-styles {names}>{common}</office:document-styles>",
            "META-INF/manifest.xml": "<manifest/>",
            **(parts or {}),
        }
    )


def open_style(name: str, family: str, properties: str, more: str = "") -> str:
    """A style of an OpenDocument file."""
    return f'<style:style style:name="{name}" style:family="{family}" {more}>{properties}</style:style>'
