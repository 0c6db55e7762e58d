"""Long pages of real manuals are read to their end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import absent
from tests.reader.quality.manuals import FLOOR, FOLDER, MANUALS, Manual, recall, text_of

PAGE = b"""<body><nav><a href=/>Home</a></nav><main><h1>Tides<a class=headerlink>#</a></h1>
<p>The sea <b>rises</b>.<p>It falls.<script>count()</script></main><footer>2026</footer>"""


@pytest.mark.heavy("reads pages of up to 900 kB")
@pytest.mark.parametrize("manual", MANUALS, ids=lambda manual: manual.name)
def test_a_manual_is_read_to_its_end(manual: Manual) -> None:
    if not FOLDER.exists():
        absent("pages of manuals (make manuals)")
    found = recall(manual)
    print(f"{found.share:.3f} {manual.name}")
    assert found.share >= FLOOR, "\n".join(found.lost[:20])


def test_each_manual_is_measured_once() -> None:
    names = [manual.name for manual in MANUALS]
    assert len(names) == len(set(names)) == 21


def test_the_text_of_a_manual_is_that_of_its_main_element() -> None:
    text = text_of(PAGE, "self::main", "@class='headerlink'")
    assert [line.strip() for line in text.split("\n") if line.strip()] == [
        "Tides",
        "The sea rises.",
        "It falls.",
    ]
    with pytest.raises(LookupError, match="article"):
        text_of(PAGE, "self::article", "@class='headerlink'")


def test_a_lost_line_is_named(tmp_path: Path) -> None:
    prose = "".join(f"<p>Sentence {number} of the manual, which a person reads.</p>" for number in range(40))
    page = f"<body><main>{prose}<p hidden>Nobody ever sees these words here.</p></main></body>"
    (tmp_path / "some-doc").mkdir()
    (tmp_path / "some-doc" / "page.html").write_text(page)
    found = recall(Manual("some-doc", "page.html", "self::main", "self::nav"), tmp_path)
    assert found.lost == ("Nobody ever sees these words here.",)
    assert 0.9 < found.share < 1
