"""Numbers of cards, and those that states give to a person: by their form and check digits, or by their name.

A number of a common form counts if its check digits are right, or if its name is near it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import accumulate

from tabane.text.lazy_patterns import lazy_pattern

Span = tuple[int, int]

_SHAPES = bytes(
    ord("0") if 48 <= byte < 58 else ord("A") if 65 <= byte < 91 else ord("x") if byte not in b" -." else byte
    for byte in range(256)
)

FEWEST_DIGITS = 6
"""Digits of the number of a person that has the fewest."""

_NINE, _DNI, _NINO = b"0" * 9, b"0" * 7 + b"A", b"AA000000A"
_CF, _CURP = b"A00A00A000A", b"AAAA000000A"


def _may_have_number(shape: bytes) -> bool:
    return _NINE in shape or _DNI in shape or _NINO in shape or _CF in shape or _CURP in shape


def has_personal_number(text: bytes) -> bool:
    """Return whether a text has the number of a card or a person: quickly, since most have none."""
    shape = text.translate(_SHAPES, b" -.")
    return (
        _may_have_number(shape)
        and next(_numbers_in(text.decode("utf-8", "replace"), shape), None) is not None
    )


# -- check digits --------------------------------------------------------------------------------------


def _digits(number: str) -> list[int]:
    return [int(digit) for digit in number if digit.isdigit()]


def _is_luhn(number: str) -> bool:
    digits = _digits(number)
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_cpf(number: str) -> bool:
    digits = _digits(number)
    if len(set(digits)) == 1:
        return False
    return all(
        sum(digit * (end + 1 - at) for at, digit in enumerate(digits[:end])) * 10 % 11 % 10 == digits[end]
        for end in (9, 10)
    )


def _is_dni(number: str) -> bool:
    plain = number.replace("-", "").replace(" ", "").replace(".", "")
    digits = plain[:-1].translate(str.maketrans("XYZ", "012"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23] == plain[-1]


_MULTIPLIED = ("0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
               "5987604321", "6598710432", "7659821043", "8765932104", "9876543210")  # fmt: skip
_PERMUTED = ("0123456789", "1576283094", "5803796142", "8916043527",
             "9453126870", "4286573901", "2793806415", "7046913258")  # fmt: skip


def _is_verhoeff(number: str) -> bool:
    check = 0
    for at, digit in enumerate(reversed(_digits(number))):
        check = int(_MULTIPLIED[check][int(_PERMUTED[at % 8][digit])])
    return check == 0


def _is_my_number(number: str) -> bool:
    digits = _digits(number)
    total = sum(digit * (at + 2 if at < 6 else at - 4) for at, digit in enumerate(digits[-2::-1]))
    return digits[-1] == (0 if total % 11 <= 1 else 11 - total % 11)


def _is_of_twelve(number: str) -> bool:
    return len(set(number)) > 4 and (_is_verhoeff(number) or _is_my_number(number))


def _is_nir(number: str) -> bool:
    plain = re.sub(r"\W", "", number).replace("2A", "19").replace("2B", "18")
    return 97 - int(plain[:-2]) % 97 == int(plain[-2:])


def _is_steuer_id(number: str) -> bool:
    digits = _digits(number)
    product = list(
        accumulate(digits[:-1], lambda before, digit: ((digit + before) % 10 or 10) * 2 % 11, initial=10)
    )[-1]
    return (11 - product) % 10 == digits[-1]


def _is_china(number: str) -> bool:
    weighted = sum(int(digit) * (2 ** (17 - at) % 11) for at, digit in enumerate(number[:17]))
    return "10X98765432"[weighted % 11] == number[17].upper()


_DAY = r"(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
_FORMS: tuple[tuple[re.Pattern[str], Callable[[str], bool] | None, bytes], ...] = (
    (lazy_pattern(
        r"(?<![\d.])(?:3[47]\d{2}[ -]?\d{6}[ -]?\d{5}|(?:3(?:0[0-5]|[689]\d)\d)[ -]?\d{6}[ -]?\d{4}"
        r"|(?:4\d{3}|5[1-5]\d{2}|2[2-7]\d{2}|6(?:011|4[4-9]\d|5\d{2}|2\d{2})"
        r"|35[2-8]\d)(?:([ -]?)\d{4})(?:\1\d{4}){2}(?:\1\d{3})?)"
        r"(?![\d]|\.\d)"
    ), _is_luhn, _NINE),
    (lazy_pattern(r"(?<![\w-])(?!000|666)[0-8]\d{2}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])"), None, _NINE),
    (lazy_pattern(r"(?<![\w.-])\d{3}\.\d{3}\.\d{3}-\d{2}(?![\w-])"), _is_cpf, _NINE),
    (lazy_pattern(
        r"(?<![\w.-])(?:\d{8}|\d{2}\.\d{3}\.\d{3}|[XYZ][ -]?\d{7})[ -]?[A-HJ-NP-TV-Z](?![\w-])"
    ), _is_dni, _DNI),
    (lazy_pattern(rf"(?<![\w-])\d{{2}}{_DAY}[- ][1-8]\d{{6}}(?![\w-])"), None, _NINE),  # Korea
    (lazy_pattern(r"(?<![\w.-])(?:\d{4}([ -])\d{4}\1\d{4})(?![\w-]|[ -]\d)"), _is_of_twelve, _NINE),
    (lazy_pattern(
        r"(?<![\w-])[12][ .]?\d{2}[ .]?(?:0[1-9]|1[0-2]|[2-9]\d)[ .]?(?:\d{2}|2[AB])"
        r"[ .]?\d{3}[ .]?\d{3}[ .]?\d{2}(?![\w-])"
    ), _is_nir, _NINE),
    (lazy_pattern(
        r"(?<![\w-])[A-Z]{3} ?[A-Z]{3} ?\d{2}[A-EHLMPRST]\d{2} ?[A-Z]\d{3}[A-Z](?![\w-])"
    ), None, _CF),
    (lazy_pattern(r"(?<![\w-])\d{2} \d{3} \d{3} \d{3}(?![\w-]|[ -]\d)"), _is_steuer_id, _NINE),
    (lazy_pattern(
        r"(?<![\w-])[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]([ -]?)\d{2}\1\d{2}\1\d{2}\1[A-D](?![\w-])"
    ), None, _NINO),
    (lazy_pattern(rf"(?<![\w-])[1-8]\d{{5}}(?:19|20)\d{{2}}{_DAY}\d{{3}}[\dXx](?![\w-])"), _is_china, _NINE),
    (lazy_pattern(rf"(?<![\w-])[A-Z]{{4}}\d{{2}}{_DAY}[HMX][A-Z]{{5}}[A-Z\d]\d(?![\w-])"), None, _CURP),
)  # fmt: skip
"""Forms of numbers, and what has to be right in them."""

_NAMED = lazy_pattern(
    r"(?i)(?:\b(?:cpf|dni|nie|nif|nir|rrn|ein|itin|ssn|nino|insee|pesel|bsn|aadhaar|aadhar|uidai|curp|tfn"
    r"|pps ?n|steuer[- ]?(?:id|nr|nummer|identifikationsnummer)|identifikationsnummer"
    r"|steuerliche[^\d\n]{0,30}"
    r"|personnummer|codice fiscale|social security|national insurance|resident registration"
    r"|s[ée]curit[ée] sociale|tax(?:payer)?[- ]?(?:id\w*|number)|employer id\w*|social insurance"
    r"|identity (?:card|number)|passport)\b"
    r"|マイナンバー|個人番号|주민(?:등록)? ?번호|身份证|身份證|आधार|パスポート)"
    r"[^\d\n]{0,40}?(?<![\dA-Za-z])([A-Z]{0,2}\d(?:[ .-]?\d){6,14}(?:[ -]?[A-Z](?![A-Za-z]))?)(?![\w])"
)
"""A name, and the number a few words after it."""


_CANDIDATE = lazy_pattern(
    r"(?<![\w.-])(?!(?:19|20)\d\d-[01]\d-[0-3]\d(?!\d))(?:(?P<few>\d{9,12}(?![ .-]?\w))|\d(?:[ .-]?\d){8})"
)
"""Nine digits or more; ``few`` are so many that only a name makes them the number of a person."""


def personal_numbers(text: str) -> Iterator[Span]:
    """Yield the numbers of cards and persons in a text."""
    shape = text.encode("utf-8", "replace").translate(_SHAPES, b" -.")
    if _may_have_number(shape):
        yield from _numbers_in(text, shape)


def _numbers_in(text: str, shape: bytes) -> Iterator[Span]:
    candidates = {found["few"] for found in _CANDIDATE.finditer(text)} if _NINE in shape else ()
    for pattern, is_right, part in _FORMS:
        if (None in candidates) if part is _NINE else part in shape:
            for found in pattern.finditer(text):
                if is_right is None or is_right(found[0]):
                    yield found.span()
    if candidates:
        yield from (found.span(1) for found in _NAMED.finditer(text))
