"""Text of untrusted pages is cut in time in proportion to its length, whatever is in its lines."""

from __future__ import annotations

from functools import partial

import pytest

from tabane.search.chunking import Estimate, chunks
from tests.harness.patience import assert_in_proportion

BEGINS = ("", "a|b\n", "a|b\n|-", "# ", "- ", "> ", "<a ", "a\n")
PARTS = (
    " ", "\t", "*", "* ", "- ", "_ ", "-", "|", "|-", ": ", "#", " #", "`", "~", ">", "> ", "1. ", "<a ",
    "<a b='", "</a", "[a](", "{#", "=", "。", "a\n", "|\n", "<!--\n", "```\n", "# a\n", "- a\n", "    a\n",
)  # fmt: skip


@pytest.mark.parametrize("begin", BEGINS)
def test_cutting_any_text_takes_time_in_proportion_to_it(begin: str) -> None:
    measure = Estimate(400, "estimate")

    def cut(part: str, size: int) -> object:
        return chunks(begin + part * (size // len(part)) + "x", "markdown", measure)

    for part in PARTS:
        assert_in_proportion(partial(cut, part), 1_000)
