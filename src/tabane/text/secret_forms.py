"""Secrets that are recognized by their form: keys of services, private keys, passwords in URLs, card numbers.

Also what a text must have to be searched at all: most have none of it, and that is found in microseconds.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tabane.text.credentials import PREFIXES
from tabane.text.lazy_patterns import lazy_pattern
from tabane.text.personal_numbers import Span, personal_numbers

RUN = 16
"""Characters of the shortest unbroken run of letters and digits that is searched for keys of services."""

_CLASSES = bytes(
    ord("x") if (chr(byte).isalnum() and byte < 128) or byte in b"_-." else ord(" ") for byte in range(256)
)
_RUN = b"x" * RUN


def has_run(text: bytes) -> bool:
    """Return whether a text has a long run of letters, digits, ``_``, ``-`` and ``.``, as keys are."""
    return text.translate(_CLASSES).find(_RUN) >= 0  # "in" costs twice as much on bytes


# -- what may be in a text ----------------------------------------------------------------------------

_HINTS = (
    "pw", "code", "mnemonic", "pin", "auth", "cred", "cookie", "otp", "bearer", "basic", "cvv", "cvc",
    "wort", "mdp",
    "parola", "haslo", "ssn", "social", "insurance", "ni num", "nino", "session", "sig", "login", "@",
    "hooks", "heslo",
    "card", "connection", "webhook", "verifier", "answer", "geheim", "kode", "salasana", "tan:", " tan ",
    "seed", "<<<", "psk", "sandi", "hotspot", "wireless", "zugang", "wifi", "wlan", "ssid", "wi-fi",
    "log in", "sign in", "net use", " /p:", "add_user", "identified", ":*:", ":5432:", ":5433:",
    ":6432:",
)  # fmt: skip
"""A text in ASCII with a secret that is no long run and no card number contains one of these, or a flag."""

_WORDS = bytes(
    byte for byte in range(256) if byte >= 128 or chr(byte).isalpha() or byte in b" \"',.:;_-/(){}[]!?@"
)
_ADJACENT = bytes(
    ord("a") if chr(byte).isalpha() and byte < 128 else ord("0") if 48 <= byte < 58 else ord(" ")
    for byte in range(256)
)

_HINTS_BEYOND_ASCII = lazy_pattern(
    r"pw|パス|暗証|秘密|ログイン|ネットワ|باسورد|トークン|認証|確認コ|合言葉|キー|コード|フレーズ|ニーモ|ナンバー|個人番|カード"
    r"|シークレ|接続文字"
    r"|密|口令|令牌|私钥|私鑰|验证|驗證|助记|助記|身份证|비밀|암호|토큰|인증|주민|카드|비번|парол|секрет|пин"
    r"|contraseñ|hasł|código|código|lösen|jelsz|şifre|مرور|سر|पास|mật|รห|סיסמ|κωδικ|[！-～]"
)

_ESCAPED = re.compile(r"%(?:2[0-9A-F]|3[A-F]|40|[0-9a-f]{2})|&(?:#|quot;|lt;|apos;)", re.IGNORECASE)


def marks_of(text: bytes) -> bytes:
    """Return the digits, signs of operators and escapes of a text, without letters and punctuation."""
    return text.translate(None, _WORDS)


def has_mixed_word(text: bytes) -> bool:
    """Return whether a digit is beside a letter."""
    beside = text.translate(_ADJACENT, b"-._!")
    return beside.find(b"a0") >= 0 or beside.find(b"0a") >= 0


def may_name_secrets(text: str, marks: bool = True) -> bool:
    """Return whether :func:`hide_secrets` may find a secret in a text without long runs, by its words.

    ``marks`` says whether the text has more than words and a short number.
    """
    low = text.lower()
    if (
        "pass" in low or "secret" in low or "pw" in low or "key" in low or "token" in low or "phrase" in low
        or "kennwort" in low or "contras" in low or "clave" in low or "senha" in low or "wachtwoord" in low
    ):  # fmt: skip  # the secret may be an ordinary word
        return True
    if marks:
        if " -" in text or _ESCAPED.search(text):
            return True
        for hint in _HINTS:
            if hint in low:
                return True
    return not text.isascii() and _HINTS_BEYOND_ASCII.search(low) is not None


IS = (
    "is|was|would be|will be|wäre|sería|serait|would be now|mudou para|cambió a|passe à|это"
    "|are|be|c['’]est|to|as|equals|now|currently|ist|lautet|lauten|auf|heißt|heisst|war|est|sera|es"
    "|será|sea|era|è|é|e'|são|to|jest|"
    "is|blir|är|er|on|adalah|là|है|هي|هو|это|—|–|-|=|:|："
)
"""What announces a value after a name."""

IS_WORDS = frozenset(re.findall("[a-z]{2,}", IS))
_COMMANDING = frozenset(
    ("login", "setx", "mysqladmin", "identified", "net", "bearer", "basic", "digest", "apikey", "seed",
    "wallet", "vault", "rabbitmqctl")
)  # fmt: skip
"""Words of which a secret may follow without a sign between them."""


def only_mentions_secrets(text: str) -> bool:
    """Return whether a text without long runs and seed phrases has words alone, and none gives a value."""
    words = text.lower().split(" ")
    return (
        text.isascii()
        and "".join(words).isalpha()
        and IS_WORDS.isdisjoint(words)
        and _COMMANDING.isdisjoint(words)
    )


# -- forms -------------------------------------------------------------------------------------------

_MORE_PREFIXES = (
    r"gl[a-z]{2,6}-|xox[a-z][.-]|A[BC]IA|1//0|[srp]k_(?:live|test)_|pypi-|r8_|xai-|dckr_(?:pat|oat)_"
    r"|doo_v1_|dor_v1_|lin_oauth_"
    r"|sbs_|hv[sbr]\.|PMAK-|figd_|glsa_|NRAK-|pat[A-Za-z0-9]{14}\.|ph[cx]_|rubygems_|sq0[a-z]{3}-|EAA[A-Z]"
    r"|dapi|tskey-|pul-"
    r"|dp\.[psc]t\.|nvapi-|AT[AC]TT3|AGE-SECRET-KEY-1|xprv|PRIVATE-KEY-|sntrys_|vercel_|fly_|FlyV1"
    r"|key_live_|rk-|pplx-|whk_|cfut_"
)
"""Further beginnings of keys, which have no fixed form, or a short one."""

_TOKENS = lazy_pattern(
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))(?:"
    rf"(?:{'|'.join(map(re.escape, PREFIXES))}|{_MORE_PREFIXES})"
    r"(?=[a-z_+/=~-]{0,200}+[0-9A-Z])[\w+/=~-]{8,}(?:\.[\w-]+){0,4}"
    r"|(?:SK|AC)[0-9a-f]{32}|(?:key|pubkey|priv)-[0-9a-f]{32}|secret_[A-Za-z0-9]{32,}"
    r"|eyJ[\w-]{8,}(?:\.[\w-]*){0,4}|\d{6,12}:[A-Za-z0-9_-]{30,})"
)
_AWS_SECRET = lazy_pattern(r"(?<![\w+/=.-])[A-Za-z0-9+/]{40}(?![\w+/=.-])")
_HASHES = lazy_pattern(
    r"(?<![\w$])\$(?:[1-7]|2[abxy]?|apr1|y|gy|7|sha1|md5|argon2\w{1,3}|scrypt|bcrypt"
    r"|pbkdf2[\w-]{0,20})\$[\w./+=,$-]{12,}"
    r"|\{S?(?:SHA|MD5|CRYPT)\d{0,3}\}[\w./+=$-]{12,}|pbkdf2_sha\d+\$\d+\$[\w./+=$-]{12,}",
    re.IGNORECASE,
)
_PRIVATE_KEY = lazy_pattern(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_PUTTY_KEY = lazy_pattern(r"Private-Lines: \d+\s+(\S.*)", re.DOTALL)
_URL_PASSWORD = lazy_pattern(r"://[^\s/?#@:]{0,200}:([^\s/\"'<>\\]{1,500})(?=@)")
_URL_TOKEN = lazy_pattern(r"://([^\s/?#@:]{16,500})(?=@)")
_LINK = lazy_pattern(
    r"/(?:reset|verif|confirm|invit|magic|activat|recover|unsubscribe)[\w-]{0,20}/([\w-]{16,500})",
    re.IGNORECASE,
)
_USER_AT = lazy_pattern(r"(?<![\w/.-])[\w.-]{1,60}:([^\s:/@\"'<>]{4,100})@[\w.-]{3,100}(?::\d|/)")
_ORACLE = lazy_pattern(r"jdbc:oracle:\w{1,10}:[^\s/@]{1,100}/([^\s@]{1,200})@")
_HOOKS = lazy_pattern(
    r"https?://(?:(?:hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)"
    r"|(?:\w{1,20}\.)?discord(?:app)?\.com/api(?:/v\d+)?/webhooks"
    r"|[\w-]{1,80}\.webhook\.office\.com/webhookb2|outlook\.office(?:365)?\.com/webhook"
    r"|(?:[\w-]{1,60}\.){1,4}logic\.azure\.com(?::443)?/workflows"
    r"|[\w.-]{1,100}\.powerplatform\.com(?::443)?/\w+"
    r"|hooks\.zapier\.com/hooks|hook\.(?:\w{1,10}\.)?(?:make|integromat)\.com|maker\.ifttt\.com/trigger"
    r"|webhook\.site"
    r"|chat\.googleapis\.com/v1/spaces|open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook"
    r"|qyapi\.weixin\.qq\.com/cgi-bin/webhook|oapi\.dingtalk\.com/robot|hooks\.[\w.-]{1,80}/hooks"
    r"|[\w.-]{1,100}/(?:hooks|webhooks?|incoming-webhooks?))/|api\.telegram\.org/bot)([^\s\"'<>\\|)\]}]{8,})",
    re.IGNORECASE,
)
_HEADER = lazy_pattern(
    r"""(?:authorization|cookie)\\{0,8}["']?\s{0,8}[:=：]\s{0,8}\\{0,8}["']?([^\r\n"'\\]+)""", re.IGNORECASE
)
_SCHEME = lazy_pattern(r"\b(bearer|basic|digest|apikey)\s+([A-Za-z0-9._~+/=-]{4,})", re.IGNORECASE)
_QUERY = lazy_pattern(
    r"(?:^|[?&;\s\"'])(?:(?:X-(?:Amz|Goog|Oss|Cos)-)?(?:sig|signature|security-token|credential)|sig|hmac"
    r"|hash|code|state_token|[\w.]{0,20}(?:sessid|sessionid|\.sid)"
    r"|jwt|q-signature|sas|key|auth|access|session|sid|ticket|SAMLResponse|assertion|refresh"
    r"|device_code)=([^\s&;#\"'<>\\]{6,})",
    re.IGNORECASE,
)
_PGPASS = lazy_pattern(
    r"(?m)^[ \t]{0,20}[^:\s]{1,200}:(?:\*|\d{2,5}):[^:\s]{1,100}:[^:\s]{1,100}:([^\s:]\S*)[ \t\r]{0,20}$"
)
_PIPED = lazy_pattern(
    r"\b(?:echo|printf)\s+(?:-\w+\s+)?(?:[\"']%s(?:\\n)?[\"']\s+)?[\"']?([^\s|\"';&]{3,200})[\"']?\s*\|\s*(?:sudo\s+)?"
    r"(?:chpasswd|passwd|sudo\s+(?:-\w+\s+){0,4}-\w*S|-\w*S\b|docker\s+login|gh\s+auth|podman\s+login"
    r"|cryptsetup|base64)"
)
_HERE = lazy_pattern(
    r"(?:login|kinit|token|passwd|password|auth|secret)[^\n<]{0,200}<<<\s*[\"']?([^\s\"']{3,200})"
)
_NET_USER = lazy_pattern(r"\bnet\s+user\s+\S{1,100}\s+([^\s/*]\S{0,100})", re.IGNORECASE)
_USER_CALL = lazy_pattern(
    r"(?:auth|login|credentials?|connect|sign_?in"
    r"|logon)\w{0,20}\(\s{0,4}[\"'][^\"'\n]{1,100}[\"']\s{0,4},\s{0,4}[\"']([^\"'\n]{1,200})[\"']",
    re.IGNORECASE,
)
_SEED = lazy_pattern(
    r"(?i)(?:seed|wallet|シード|助记)\W{0,5}(?:words"
    r"|phrase)?\W{0,5}((?:[a-z]{3,8}[ ,\n]{1,3}){11,23}[a-z]{3,8})\b"
)
_SENT = lazy_pattern(r"\bsend\s+(?:--\s+)?[\"']([^\"'\\\s]{3,100})\\[rn][\"']")
_LOG_IN = lazy_pattern(
    r"(?i)(?:パスワード|log(?:ged)?[ -]?in|sign[ -]?in|logon|credentials?|creds|account|anmeld\w{0,3}"
    r"|zugang\w{0,8}|ログイン|登录|로그인)[^\n]{0,40}?[\s:：はが][A-Za-z0-9._@+-]{2,60}\s?[/:]\s?([!-+.0-9<-~-]{4,100})"
)
_NET_USE = lazy_pattern(r"\bnet\s+use\s+(?:\w:\s+)?\\\\\S{1,200}\s+([^\s/*]\S{0,100})\s", re.IGNORECASE)
_IDENTIFIED_BY = lazy_pattern(r"\bidentified\s+by\s+([^\s'\";,)]{3,200})", re.IGNORECASE)
_IDENTIFIED = lazy_pattern(
    r"\b(?:identified\s+by|(?:encrypted\s+)?password)\s+(?:as\s+)?(['\"])(.{1,200}?)\1", re.IGNORECASE
)
_WIFI = lazy_pattern(
    r"(?i)(?<![a-z])(?:wi-?fi|wlan|ssid|hotspot|wireless)(?![a-z])[^\n]{0,100}(?:\n[^\n]{1,60}){0,2}|ネットワーク名[^\n]{0,100}"
)
_WIFI_CODE = lazy_pattern(r"(?i)(?<![a-z])wifi:[^\n]{0,200}?;P:((?:[^;\\\n]|\\.){4,100})")
_WIFI_PAIR = lazy_pattern(r"(?i)(?:wi-?fi|wlan)\W{1,3}[\w-]{1,32}\s?[/|]\s?([!-~]{8,63})")
_SECURE = lazy_pattern(r"""ConvertTo-SecureString\s+(?:-String\s+)?["']([^"'\n]{1,200})""", re.IGNORECASE)


def private_keys(text: str) -> Iterator[Span]:
    """Yield private keys, from their first line to their last one or to the end of the text."""
    if "-----BEGIN" in text:
        yield from (found.span() for found in _PRIVATE_KEY.finditer(text))
    if "Private-Lines" in text:
        yield from (found.span(1) for found in _PUTTY_KEY.finditer(text))


# -- seed phrases of wallets ---------------------------------------------------------------------------

SHORTEST_PHRASE = 12
"""Words of the shortest phrase. All are in the English list of BIP-39, which is ``seed_words.txt``."""

_SHORTEST_PHRASE_TEXT = 4 * SHORTEST_PHRASE - 1
_SEED_LETTERS = bytes(byte | 32 if chr(byte).isalpha() and byte < 128 else 32 for byte in range(256))
_SEED_WORD = re.compile(r"[A-Za-z]+")
_BETWEEN_SEEDS = re.compile(r"(?:[\s,;:.|/'\"`*\[\]()#-]|\\n|\d{1,2}){1,12}")


@cache
def _seed_words() -> frozenset[bytes]:
    return frozenset(Path(__file__).with_name("seed_words.txt").read_bytes().split())


def _is_seed(word: str) -> bool:
    return word.strip().lower().encode("utf-8", "replace") in _seed_words()


def may_have_phrase(text: bytes) -> bool:
    """Return whether a text may have a phrase: three words in a row are in the list, of each fourth one."""
    if len(text) < _SHORTEST_PHRASE_TEXT:
        return False
    # "the" and "and" are no words of the list: between them, most sentences are too short for a phrase.
    for part in text.split(b" the "):
        if len(part) >= _SHORTEST_PHRASE_TEXT:
            for rest in part.translate(_SEED_LETTERS).split(b" and "):
                if len(rest) < _SHORTEST_PHRASE_TEXT or len(words := rest.split()) < SHORTEST_PHRASE:
                    continue
                if b"\1\1\1" in bytes(map(_seed_words().__contains__, words[3::4])):
                    return True
    return False


def phrases_of_words(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the phrases in a list of words, as the first index and the one after the last."""
    if len(words) < SHORTEST_PHRASE:
        return
    first = 0
    for at in range(len(words) + 1):
        if at == len(words) or not _is_seed(words[at]):
            if at - first >= SHORTEST_PHRASE:
                yield first, at
            first = at + 1


def seed_phrases(text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text has phrases, with whatever separates or numbers their words."""
    if not may_have_phrase(text.encode("utf-8", "replace")):
        return
    found = list(_SEED_WORD.finditer(text))
    first = 0
    for at, word in enumerate(found):
        if not _is_seed(word[0]):
            first = at + 1
        elif at > first and not _BETWEEN_SEEDS.fullmatch(text, found[at - 1].end(), word.start()):
            first = at
        if at - first + 1 >= SHORTEST_PHRASE:
            yield found[first].start(), word.end()


def secrets_of_forms(text: str) -> Iterator[Span]:
    """Yield secrets that are recognized without any word beside them."""
    yield from personal_numbers(text)
    yield from seed_phrases(text)
    if has_run(text.encode("utf-8", "replace")):
        yield from (found.span() for found in _TOKENS.finditer(text))
        yield from (found.span() for found in _AWS_SECRET.finditer(text) if _is_mixed(found[0]))
    if "$" in text or "{" in text:
        yield from (found.span() for found in _HASHES.finditer(text))
    yield from private_keys(text)
    if "://" in text:
        yield from (found.span(1) for found in _HOOKS.finditer(text))
        yield from (found.span(1) for found in _LINK.finditer(text) if is_random(found[1]))
        if "@" in text:
            yield from (found.span(1) for found in _URL_PASSWORD.finditer(text))
            yield from (found.span(1) for found in _URL_TOKEN.finditer(text))
    if "@" in text:
        yield from (found.span(1) for found in _USER_AT.finditer(text) if is_random(found[1]))
    if "jdbc:oracle" in text:
        yield from (found.span(1) for found in _ORACLE.finditer(text))


def _is_mixed(value: str) -> bool:
    """Return whether a text in base64 is random, unlike a path or a hash in hex."""
    return all(len(re.findall(some, value)) > 2 for some in ("[0-9]", "[a-z]", "[A-Z]"))


# -- announced ---------------------------------------------------------------------------------------------

_PATTERNS = (
    (_HEADER, 1, ("authorization", "cookie")),
    (_PIPED, 1, ("|",)),
    (_HERE, 1, ("<<<",)),
    (_NET_USE, 1, ("net use",)),
    (_NET_USER, 1, ("net user",)),
    (_USER_CALL, 1, ("auth", "login", "cred", "connect", "sign")),
    (_SEED, 1, ("seed", "wallet", "シード", "助记")),
    (_SENT, 1, ("send",)),
    (_SECURE, 1, ("securestring",)),
    (_IDENTIFIED_BY, 1, ("identified",)),
    (_IDENTIFIED, 2, ("identified", "password '", 'password "')),
    (_PGPASS, 1, (":",)),
    (_WIFI_CODE, 1, ("wifi",)),
    (_WIFI_PAIR, 1, ("wifi", "wi-fi", "wlan")),
)
"""Patterns, the group that is secret, and texts in lower case of which one is necessary."""


def announced_secrets(text: str, low: str) -> Iterator[Span]:
    """Yield secrets that headers, parameters and commands announce. ``low`` is the text in lower case."""
    for pattern, group, hints in _PATTERNS:
        for hint in hints:
            if hint in low:
                yield from (found.span(group) for found in pattern.finditer(text))
                break
    if "bearer" in low or "basic" in low or "digest" in low or "apikey" in low:
        yield from (found.span(2) for found in _SCHEME.finditer(text) if _is_credential(found[1], found[2]))
    if (
        "wi" in low or "wlan" in low or "ssid" in low or "hotspot" in low or "ネットワーク名" in low
    ):  # fmt: skip
        for near in _WIFI.finditer(text):
            for word in re.finditer(r"[!-~]+", near[0]):
                value = word[0].strip("\"'`,;:!?)(")
                if len(value) >= 8 and is_given(value):
                    at = near.start() + word.start() + word[0].index(value)
                    yield at, at + len(value)
    if "=" in text:
        yield from (found.span(1) for found in _QUERY.finditer(text) if _is_signature(found[1]))
    if (
        "log" in low
        or "sign" in low
        or "zugang" in low
        or "cred" in low
        or "account" in low
        or not text.isascii()
    ):
        yield from (found.span(1) for found in _LOG_IN.finditer(text) if is_given(found[1]))


def _is_credential(scheme: str, value: str) -> bool:
    if scheme.lower() == "basic":
        return _holds_colon(value)
    return len(value) >= 12 or not (value.isalpha() and value.islower())


def _is_signature(value: str) -> bool:
    """Return whether the value of a parameter such as ``sig`` or ``code`` is random."""
    return len(value) >= 8 and is_random(value.replace("%", "").replace("/", "").replace("-", ""))


def _holds_colon(value: str) -> bool:
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_")
    except (binascii.Error, ValueError):
        return False


# -- words and what is none -----------------------------------------------------------------------------

_COMMON = re.compile(
    r"(?i)v?[\d.,:/+-]+(?:st|nd|rd|th|px|r?em|ms|s|m|h|d|min|kb|mb|gb|tb|[kmg]i?b|%|x|k|bit|bits|\+)?"
    r"|oauth[\d.]*|sha-?\d+|utf-?\d+|md\d"
    r"|base\d+|[a-z]{1,4}\d{1,3}|[hre]s\d{3}|http/?[\d.]+|ipv[46]|\d+[a-z]{1,4}|x\.?509\w*|ed25519"
    r"|(?:[a-z]+-)?\d{1,3}(?:-[a-z]+)*"
    r"|[a-z]+(?:[-_/.'’:][a-z]+)*|(?:step|option|version|field|item|line|page|user|test|table|column"
    r"|python|level|part|figure|section|file|name|value|token|key|password|pass)s?[-_]?\d{1,3}"
    r"|https?://\S+|[\w.-]+\.(?:md|py|js|ts|json|ya?ml|toml|txt|html?"
    r"|pem|key|env|go|rs|c|h|rb|sh)"
    r"|[\w./~-]*/[\w./~-]*|[A-Za-z]+\(.*|.*[(){}\[\]<>|].*|\$\w+|%\w+%|#\d+"
    r"|@[a-z][a-z-]*(?:/[a-z.-]*)?|[A-Z]{2,10}-\d{1,6}"
    r"|[\w.+-]+@[\w.-]+\.\w+"
)


def is_random(value: str) -> bool:
    """Return whether a word is no word, number, date, path or address: letters with digits or signs."""
    if len(value) < 5 or len(value) > 500 or not value.isascii() or _COMMON.fullmatch(value):
        return False
    letters = any(character.isalpha() for character in value)
    digits = any(character.isdigit() for character in value)
    signs = any(character in "!@#$%^&*+=?~" for character in value)
    return (letters and (digits or signs)) or (digits and signs)


_TECHNICAL = re.compile(
    r"(?i)v?\d[\d.,:/+-]*(?:[a-z%]{1,6}|-[a-z]+)?|(?:sha|md|utf|iso|rfc|base|aes|rsa|hs|rs|es|ps|http/?|ipv|oauth"
    r"|saml|tls|ssl|ed|x\.?|p|argon|pbkdf|cve|iban|sec|step|version|page|line|table|field|item|part|section|phase"
    r"|level|row|figure|chapter|windows|python|room|seat)[-_ ]?\d[\d.:/_-]*\w{0,8}|https?://\S*|[\w.-]+\.(?:md|py|js|ts"
    r"|json|ya?ml|toml|txt|html?|pem|key|env|go|rs|c|h|rb|sh|com|org|net|example)|[\w./~-]*/[\w./~-]*"
    r"|\w+\(.*|.*[(){}\[\]<>|].*|[$#@]\w+|@[a-z][a-z-]*(?:/[a-z.-]*)?|%\w+%"
    r"|[\w.+-]+@[\w.-]+\.\w+|(?-i:[A-Z]{2,10}-?\d{1,6})"
)


def is_given(value: str) -> bool:
    """Return whether a word that a sentence gives as a password is one: words with digits or signs."""
    if not 4 <= len(value) <= 200 or _TECHNICAL.fullmatch(value):
        return False
    letters = any(character.isalpha() for character in value)
    return letters and any(character.isdigit() or character in "!@#$%^&*+=?~_" for character in value)
