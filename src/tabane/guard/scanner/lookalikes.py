"""Names that look like the name of another server's tool.

A skeleton replaces letters of other scripts that look like Latin ones. The table is a part of Unicode's list
of confusable characters (UTS #39): single letters of Cyrillic, Greek, Armenian, Coptic, Cherokee, Lisu and
Latin that look like a letter of ASCII. What is left of them after NFKC is enough for words. The library that
holds all of the list was released last in January 2024.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator

from tabane.guard.scanner.findings import Finding, excerpt_of
from tabane.messages import say

_LOOKALIKES = {
    "a": "ɑΑαАаᎪꓮ",
    "b": "ƄΒВЬᏏᏴꓐꞴ",
    "c": "ϲϹСсᏟᴄⲤⲥꓚꮯ",
    "d": "ԁᎠᏧꓒꓓ",
    "e": "ΕЕеҽᎬꓰꬲ",
    "f": "ϜքẝꓝꞘꞙꬵ",
    "g": "ƍɡԌցᏀᏳᶃꓖ",
    "h": "ΗНһհᎻᏂⲎꓧ",
    "i": "ıɩɪͺΙιІіӏᎥιꙇꭵ",
    "j": "ͿϳЈјᎫꓙꞲ",
    "k": "ΚКᏦⲔꓗ",
    "l": "ƖǀӀᏞⲒⳐꓡꓲ",
    "m": "ΜϺМᎷⲘꓟ",
    "n": "ΝոռⲚꓠ",
    "o": "ΟοσОоՕօᴏᴑⲞⲟꓳꬽ",
    "p": "ΡρϱРрᏢⲢⲣꓑ",
    "q": "ԛգզ",
    "r": "ƦгᎡᏒᴦⲅꓣꭇꭈꮁ",
    "s": "ƽЅѕՏᏕᏚꓢꜱꮪ",
    "t": "ΤТᎢⲦꓔ",
    "u": "ʋυՍսᴜꓴꞟꭎꭒ",
    "v": "νѴѵᏙᴠꓦꮩ",
    "w": "ɯѡԜԝաᎳᏔᴡꓪꮃ",
    "x": "ΧХхⲬꓫꞳ",
    "y": "ɣʏΥγϒУуҮүᎩᎽᶌỿⲨꓬꭚ",
    "z": "ΖᏃᴢꓜꮓ",
}
_TO_ASCII = {ord(sign): letter for letter, signs in _LOOKALIKES.items() for sign in signs}

_WORDS = re.compile(r"[^\W\d_]+")
_LATIN = re.compile("[A-Za-z]")
_FOREIGN = re.compile("[\u0370-\u058f\u13a0-\u13ff\u2c80-\u2cff\ua4d0-\ua4ff\uab30-\uabbf]")
_MIXED = re.compile(
    "[A-Za-z][\u0370-\u058f\u13a0-\u13ff\u2c80-\u2cff\ua4d0-\ua4ff]"
    "|[\u0370-\u058f\u13a0-\u13ff\u2c80-\u2cff\ua4d0-\ua4ff][A-Za-z]"
)
_LEET = str.maketrans("013457@$!|", "oieastasil")
_DIGIT_INSIDE = re.compile(r"[013457@$!|](?<=[a-z].)[013457@$!|]*+[a-z]")
_WRITTEN_LEET = re.compile(
    r"(?<![\w@$])(?=[\w@$!|]{0,40}[a-z])(?=[\w@$!|]{0,40}[0134@$5!|])[a-z0134@$57!|]{4,24}(?![\w@$])"
)
_SPACED = re.compile(r"(?<![^\W_])(?:[^\W_][ .*_-]{1,2}){7,}[^\W_](?![^\W_])")
_SPACED_LETTERS = re.compile(r"[ .*_-][^\W_][ .*_-]{1,2}[^\W_][ .*_-]{1,2}[^\W_][ .*_-]")
_ORDERS = re.compile(
    "previousinstruction|priorinstruction|allinstruction|ignore(?:all|the|any|prev)|donottell|telltheuser|systemprompt|idrsa|ssh/|privatekey"
    "|password|credential|apikey|sendto|readthe|readfile|curl|conversation|theuser"
)
_FOLDED = (("rn", "m"), ("vv", "w"), ("cl", "d"))
_SHAPES = str.maketrans("1i|0-\u2010\u2011\u2012\u2013\u2014\u2212", "lllo" + "_" * 7)


def skeleton(text: str) -> str:
    """Return a text in small letters, in which each letter that looks like one of ASCII is that letter."""
    return unicodedata.normalize("NFKC", text).translate(_TO_ASCII).lower()


def shape(name: str) -> str:
    """Return what a name looks like: names that are easily taken for each other have the same shape."""
    looks = skeleton(name).translate(_SHAPES)
    for two, one in _FOLDED:
        looks = looks.replace(two, one)
    return looks


def disguised_words(text: str) -> list[str]:
    """Return the words that mix Latin letters with letters of another script that look like Latin ones."""
    if text.isascii() or _MIXED.search(text) is None:
        return []
    words = (found[0] for found in _WORDS.finditer(text) if _FOREIGN.search(found[0]))
    return [word for word in words if len(_LATIN.findall(word)) >= 2 and skeleton(word).isascii()]


def undisguised(text: str) -> str:
    """Return a text with the words that mix scripts written in Latin letters."""
    if text.isascii() or _MIXED.search(text) is None:
        return text
    return _WORDS.sub(lambda found: skeleton(found[0]) if _MIXED.search(found[0]) else found[0], text)


def without_leet(text: str) -> str | None:
    """Return a text in small letters without digits for letters (``1gn0re``); None if few words have them."""
    if len(_DIGIT_INSIDE.findall(text)) < 3 or len(_WRITTEN_LEET.findall(text)) < 3:
        return None
    return _WRITTEN_LEET.sub(lambda found: found[0].translate(_LEET), text)


def spaced_orders(text: str) -> str | None:
    """Return the spaced letters (``i g n o r e``) of a text, joined, if they are an order; None otherwise."""
    if _SPACED_LETTERS.search(text) is None:
        return None
    joined = " ".join(re.sub("[ .*_-]", "", found[0]) for found in _SPACED.finditer(text))
    return joined if _ORDERS.search(joined) else None


_BACKWARD = frozenset(
    [
        "eht",
        "dna",
        "daer",
        "dnes",
        "yek",
        "terces",
        "resu",
        "lla",
        "elif",
        "erongi",
        "drowssap",
        "nekot",
        "tsrif",
        "liame",
    ]
)


def backward_text(text: str, words: frozenset[str]) -> str | None:
    """Return a text from its end if three of its words are written backward; None otherwise."""
    return text[::-1] if len(_BACKWARD & words) >= 3 else None


LOOKALIKE = "lookalike"

MOST_NAMES = 20_000
"""Names of other servers' tools that are compared; further ones are left out."""

_SHORTEST = 6
_PARTS = re.compile(r"[a-z]+|[0-9]+")
_ENDINGS = ("s", "es", "d", "ed", "r", "er", "ing", "y", "ies")

WELL_KNOWN = frozenset(
    {
        *(
            "read_file",
            "write_file",
            "edit_file",
            "delete_file",
            "list_directory",
            "search_files",
            "move_file",
        ),
        *(
            "execute_command",
            "run_command",
            "send_email",
            "send_message",
            "create_issue",
            "create_pull_request",
        ),
        *(
            "search_repositories",
            "push_files",
            "get_file_contents",
            "web_search",
            "brave_web_search",
            "fetch",
        ),
        *("post_message", "query_database", "execute_sql", "create_event", "list_emails", "search_emails"),
    }
)
"""Names that a name can imitate even if no server here has them."""


class KnownNames:
    """Names of tools of other servers, prepared so that many names can be compared with them.

    A public name ``server__tool`` stands for the tool, and for the server's name in front of it.
    """

    def __init__(self, names: Collection[str]) -> None:
        self.names = frozenset(name for _, name in zip(range(MOST_NAMES), names, strict=False))
        self._own = frozenset(name.partition("__")[2] or name for name in self.names) | WELL_KNOWN
        self._public = {skeleton(name).replace("__", "_"): name for name in self.names if "__" in name}
        self._by_shape = {shape(name): name for name in self._own}
        self.words = frozenset(part for name in self._own for part in _PARTS.findall(name.lower()))
        self._by_lack = _by_lack(self._own)

    def imitated(self, server: str, name: str) -> tuple[str, str] | None:
        """Return the name that ``name`` imitates, and how; None if there is none."""
        if name in self._own:
            return None
        if (other := self._by_shape.get(shape(name))) is not None and not (
            # Only what joins the words differs: read-file, read_file.
            name.isascii() and _PARTS.findall(name.lower()) == _PARTS.findall(other.lower())
        ):
            return other, "shape"
        public = self._public.get(skeleton(name).replace("-", "_"))
        if public is not None and public.partition("__")[0] != server:
            return public, "server"
        other = self._misspelled(skeleton(name))
        return (other, "spelling") if other is not None else None

    def _misspelled(self, name: str) -> str | None:
        if len(name) < _SHORTEST or len(name) > 64:
            return None
        for lack in (name, *_lacking(name)):
            for other in self._by_lack.get(lack, ()):
                if _is_misspelling(name, other.lower(), self.words):
                    return other
        return None


def _by_lack(names: Collection[str]) -> dict[str, list[str]]:
    """Return the names by what is left of them without one letter: names one letter apart share a key."""
    found: dict[str, list[str]] = {}
    for name in names:
        if _SHORTEST <= len(name) <= 64:
            for lack in {name.lower(), *_lacking(name.lower())}:
                found.setdefault(lack, []).append(name)
    return found


def _lacking(name: str) -> Iterator[str]:
    for at in range(1, len(name)):
        yield name[:at] + name[at + 1 :]


def _is_misspelling(name: str, other: str, words: Collection[str]) -> bool:
    """Return whether one word of a name is another's with a wrong, missing, doubled or swapped letter.

    A word that other names have, or that only has another ending, is no misspelling.
    """
    ours, theirs = _PARTS.findall(name), _PARTS.findall(other)
    if len(ours) != len(theirs):
        return False
    different = [(one, two) for one, two in zip(ours, theirs, strict=True) if one != two]
    if len(different) != 1:
        return False
    one, two = different[0]
    return not (
        min(len(one), len(two)) < 5
        or one in words
        or one[0] != two[0]
        or one.isdigit()
        or _inflected(one, two)
        or not _one_apart(one, two)
    )


def _inflected(one: str, two: str) -> bool:
    stem = len([1 for a, b in zip(one, two, strict=False) if a == b])
    return (
        any(one == two + end or two == one + end for end in _ENDINGS) or stem >= min(len(one), len(two)) - 1
    )


def _one_apart(one: str, two: str) -> bool:
    if len(one) == len(two):
        different = [at for at in range(len(one)) if one[at] != two[at]]
        swapped = (
            len(different) == 2
            and different[1] == different[0] + 1
            and one[different[0]] == two[different[1]]
            and one[different[1]] == two[different[0]]
        )
        return len(different) == 1 or swapped
    longer, shorter = (one, two) if len(one) > len(two) else (two, one)
    return len(longer) == len(shorter) + 1 and shorter in set(_lacking(longer))


def lookalike(server: str, name: str, known: KnownNames) -> Iterator[Finding]:
    """Yield the finding about a name that imitates one of another server, or that mixes scripts."""
    imitated = known.imitated(server, name)
    if imitated is None:
        return
    other, how = imitated
    if how == "server":
        what = say("Its name is that of {other}, a tool of another server.", other=other)
    else:
        what = say("Its name looks like {other}, the name of another tool.", other=other)
    yield Finding(LOOKALIKE, "medium" if how == "spelling" else "high", what, excerpt_of(name))
