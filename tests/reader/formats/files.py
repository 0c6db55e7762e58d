"""Files of the types that are read, made here: nobody else's copyright, and each with what a test needs."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence

Line = tuple[float, float, float, str]
"""A line of a PDF: size of its letters, x, y, text."""


def pdf(
    pages: Sequence[Sequence[Line]], info: Mapping[str, str] | None = None, font: str = "Helvetica"
) -> bytes:
    """A PDF with these lines."""
    about = "".join(f"/{name} ({value})" for name, value in (info or {}).items())
    kids = " ".join(f"{5 + number * 2} 0 R" for number in range(len(pages)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>".encode(),
        f"<</Type/Font/Subtype/Type1/BaseFont/{font}>>".encode(),
        f"<<{about}>>".encode(),
    ]
    for number, lines in enumerate(pages):
        drawn = "".join(f"BT /F {size} Tf {x} {y} Td ({_string(text)}) Tj ET\n" for size, x, y, text in lines)
        stream = zlib.compress(drawn.encode("latin-1"))
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>>>"
            f"/Contents {6 + number * 2} 0 R>>".encode()
        )
        objects.append(b"<</Length %d/Filter/FlateDecode>>stream\n%b\nendstream" % (len(stream), stream))
    return _bodies(objects)


def _string(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _bodies(objects: Sequence[bytes]) -> bytes:
    file = bytearray(b"%PDF-1.7\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(file))
        file += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(file)
    file += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    file += b"".join(b"%010d 00000 n \n" % place for place in places)
    file += b"trailer\n<</Size %d/Root 1 0 R/Info 4 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        start,
    )
    return bytes(file)


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    """An archive of these files, compressed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return file.getvalue()


_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_WORDS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def docx(body: str, *, core: str = "") -> bytes:
    """A document of Word whose body is this WordprocessingML."""
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
            '<Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            '<Override PartName="/word/document.xml" '
            'ContentType="application/vnd.openxmlformats-officedocument.'
            'wordprocessingml.document.main+xml"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
            f'Type="{_RELATIONS}/officeDocument" Target="word/document.xml"/></Relationships>',
            "word/document.xml": f'<w:document xmlns:w="{_WORDS}"><w:body>{body}</w:body></w:document>',
            "docProps/core.xml": '<cp:coreProperties xmlns:cp="urn:c" xmlns:dc="urn:d" xmlns:dcterms="urn:t">'
            f"{core}</cp:coreProperties>",
        }
    )


def paragraph(text: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def epub(chapters: Sequence[str]) -> bytes:
    """A book of these chapters, listed backwards so that the spine is what tells their order."""
    items = "".join(f'<item id="c{n}" href="text/c{n}.xhtml"/>' for n in reversed(range(len(chapters))))
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        "<dc:title>本の題</dc:title><dc:creator>A. Writer</dc:creator><dc:language>ja</dc:language>"
        f"<dc:date>2024-05-06</dc:date></metadata><manifest>{items}</manifest><spine>{spine}</spine>"
        f"</package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    )
    files = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": container,
        "OEBPS/book.opf": package,
    }
    texts = {
        f"OEBPS/text/c{n}.xhtml": f'<?xml version="1.0" encoding="utf-8"?><html><body>{chapter}</body></html>'
        for n, chapter in enumerate(chapters)
    }
    return zipped({**files, **texts})


def png_head(wide: int, high: int) -> bytes:
    """The beginning of an image that says it is this large, and one row of it."""
    head = b"IHDR" + wide.to_bytes(4, "big") + high.to_bytes(4, "big") + b"\x08\x02\x00\x00\x00"
    data = b"IDAT" + zlib.compress(bytes(1000))
    chunks = b"".join(
        (len(chunk) - 4).to_bytes(4, "big") + chunk + zlib.crc32(chunk).to_bytes(4, "big")
        for chunk in (head, data, b"IEND")
    )
    return b"\x89PNG\r\n\x1a\n" + chunks
