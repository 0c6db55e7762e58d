"""Secrets beside their names in texts: ``password=X``, "my PIN is 4829", 「パスワードは X です」.

A name is read from a core, such as "pass", to both sides. A value is what an assignment gives, or what a
sentence announces if it is no ordinary word. All patterns between a name and its value are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

from tabane.text.lazy_patterns import lazy_pattern
from tabane.text.personal_numbers import Span
from tabane.text.secret_forms import IS, IS_WORDS, is_given, is_random
from tabane.text.secret_names import SecretNames

_LETTER = r"0-9A-Za-z_\u00c0-\u024f\u0370-\u1fff"
_CORES = (
    "pass", "pwd", "pw", "secret", "token", "key", "cred", "auth", "pin", "pat", "otp", "cvv", "cvc", "code",
    "contrase", "wort", "wachtwoord", "haslo", "heslo", "mdp", "senha", "clave", "palavra", "parola",
    "mnemonic", "phrase",
    "words", "number", "nummer", "ssn", "social security", "national insurance", "ni no", "nino", "verifier",
    "login", "session",
    "connection", "webhook", "answer", "geheim", "salasana", "adgangskode", "kata sandi", "digo de ", "tan",
    "sas", "sifre", "psk", "wpa",
)  # fmt: skip
"""Each name in ASCII contains one of these, from which it is read to both sides."""

_CORE = lazy_pattern(
    r"pass[ _-](?:w(?:or)?[dt]e?s?|phrases?|codes?|keys?)|code de (?:v[ée]rification|s[ée]curit[ée])"
    r"|digo de (?:verifica\w+|seguran\w+|seguridad)|palavra[ -]passe|parola d['’]ordine|contrasen\u0303as?"
    r"|(?:social security|national insurance)(?: (?:number|no\.?))?|connection[ _-]string|key[ _](?:secret"
    r"|id)"
)
"""Names of several words, from a core on. The word before a core is tried too, as in "API key"."""

_FOREIGN = lazy_pattern(
    r"contraseñas?|hasł[oa]|lösenord|jelszó|şifre|парол\w{0,3}|пин[ -]?код|секрет|κωδικός|סיסמה|mật khẩu"
    r"|パス(?=[は：:])|الرقم السري|باسورد|(?:كلمة|رمز) (?:ال)?(?:مرور|سر)|पासवर्ड"
    r"|รหัสผ่าน|パスワード|パスフレーズ|パスコード|暗証番号|秘密鍵|秘密の(?:言葉|質問の答え)|認証番号"
    r"|アクセストークン|トークン|認証情報|合言葉"
    r"|(?:api|アクセス|シークレット|秘密)[ _]?キー|(?:シード|リカバリー?|復元)[ ・]?フレーズ|ニーモニック"
    r"|(?:認証|確認|セキュリティー?|リカバリー?|バックアップ|復旧|ワンタイム)[ ・]?コード|マイナンバー"
    r"|個人番号|カード番号|シークレット"
    r"|密码|密碼|口令|密钥|密鑰|令牌|私钥|私鑰|验证码|驗證碼|助记词|助記詞|身份证号码?|비밀 ?번호|비번"
    r"|암호|비밀 ?키|토큰|인증 ?번호|인증 ?코드"
)
_QUALIFIERS_TEXT = """
    your my door use gate alarm entry unlock enter lock safe recovery backup verification security one-time
    time confirmation scratch login access 2fa mfa sms auth authentication api private secret signing
    encryption account license master wallet shared subscription session service seed card credit debit cvv
    ni ssh gpg pgp deploy app application consumer client user pin code id admin root
    """
_QUALIFIERS = frozenset(_QUALIFIERS_TEXT.split())
_OF_CODES = "your my door use gate alarm entry unlock enter lock safe login access sms time"
_SPOKEN_NAMES = frozenset(
    (
        *("パス", "الرقم السري"),
        *("my key", "your key", "ni number", "ni no", "nino", "login", "tan", "privkey"),
        *(f"{word} code" for word in _OF_CODES.split()),
    )
)
"""Names that count in sentences, although no member is called so."""

_WORD_BEFORE = re.compile(r"(?<![^\W_])(mots? de|[\w-]{2,20})[ ]\Z")
_BEFORE = re.compile(rf"[{_LETTER}.-]{{1,60}}\Z")
_AFTER = re.compile(rf"[{_LETTER}.-]{{0,40}}")

_CLOSERS = r"(?:\\{0,8}[\"'`*’”」』\]]){0,4}"
_ASSIGNED = lazy_pattern(
    _CLOSERS
    + r"\s{0,8}(?::\s{0,4}[\w&<>. |?]{1,40}?=\s{0,4}(?=[\"'`])|=>|:=|===?|->|<<<|[=:：＝→⇒←])[ \t]{0,8}"
    r"(?:[|>][+-]?[ \t]*\r?\n[ \t]{1,40})?(?:[frb](?=[\"'])|new\s+\w{1,30}\()?",
)
_CALLED = lazy_pattern(
    r"(?:['\"]\)?\s{0,4}(?:or|\?\?|\|\|)\s{0,4}|['\"]\s{0,4},\s{0,4}|\(\s{0,4}"
    r"|\(['\"]\s{0,4},?\s{0,4})(?=[\"'])"
)
_QUOTED_VALUE = re.compile(
    r"""\\{0,8}(?P<open>")(?P<double>(?:[^"\\]|\\(?!"))*)|(?P<single>\\{0,8}')(?P<in>[^'\\]*)|[「『“‘`„«‹](?P<other>[^」』”’`“»›]*)"""
)
_PLAIN_VALUE = re.compile(r"(?!\(\s{0,4}[\"'])[^\s&;,\"'}\])<>」』。、，]+")
_REST_OF_LINE = re.compile(r"[^\r\n\"'<>{}\[\]&;]+")
_SENTENCE = lazy_pattern(
    rf"""["'`*)\]]{{0,3}}(?:[ \t]+[^\s.:;,!?=<>"']{{1,24}}){{0,6}}?"""
    rf"""(?:,?[ \t]+(?:{IS})|(?P<colon>[ \t]*[:：=]))"""
    r"(?:[ \t]+(?:now|currently|jetzt|also|just|ahora|maintenant))?[ \t]*[:：]?\s{1,4}(?P<value>\S)"
)
_CJK = lazy_pattern(
    r"[」』\"'）)]{0,2}[ 　]{0,3}(?:(?:の(?:件|方|ほう))?(?:なの)?ですが|につきまし(?:て|ては)"
    r"|につい(?:て|ては)|だけど|って|に?は(?:ですね)?"
    r"|が|を|も|の値は|として|:|："
    r"|是|为|為|就是|改为|改成|设为|设置为"
    r"|設置為|设成|는|은|이|가|를|을)[ 　]{0,3}"
    r"(?:現在|今|いま|现在|현재|次の)?[、,:：]?[ 　]{0,3}(?P<value>[「『“\"'`]?[!-~]{3,}|[「『“].{1,200})"
)
_BESIDE = re.compile(r"[ 　]{0,4}[\[【(（「]?(?P<value>[!-~]{4,})")
_NEXT = re.compile(
    r"(?:['’]s\b|[\"'`*)\]>?]){0,3}(?:[ \t]{1,8}|[—–])[\[【(（]?"
    r"(?:no\.?[ \t]|number[ \t]|nr\.?[ \t]|#)?(?P<value>\S+)"
)
_NEXT_LINE = re.compile(r"[ \t]*\r?\n[ \t]*(?P<value>\S+)[ \t]*(?:\r?\n|\Z)")
_TRAILING = ".,;:!?)]}'\"`*。、，！？」』）"

_CODE_NAME = re.compile(
    r"(?i)c[óo]digo|geheimzahl|pin|otp|tan|cv[vc]|code|コード|番号|ナンバー|验证|驗證|인증|ssn|social"
    r"|insurance|\bni\b|nino|card"
)
_NO_WORD = re.compile(
    r"(?i)^pass$|^auth\w*$|creds?$|keys?$|tokens?$|[a-rt-z]s$|login$|トークン|キー|シークレ|令牌|密钥|密鑰"
    r"|토큰"
)
"""Names of secrets that are no ordinary words, and of several secrets."""

_PHRASE_NAME = re.compile(
    r"(?i)phrase|mnemonic|(?:seed|recovery|backup|secret)[ _-]?words?$|フレーズ|ニーモ|合言葉|助记|助記"
)
_PERSON_NAME = re.compile(r"(?i)ssn|social|insurance|\bni\b|nino|card|ナンバー|個人番号|カード番号|身份证")
_PERSON_NUMBER = re.compile(r"[A-Z]{0,2}(?:[ -]?\d){4,19}(?:[ -]?[A-DX](?![A-Za-z]))?")
_MANY = re.compile(r"(?i)codes|コード|キー|words")
_LISTED = re.compile(r"(?:[\s,、;•*·-]|\d{1,2}[.)]\s){0,12}([A-Za-z0-9][A-Za-z0-9-]{3,60})(?![\w])")

_STOP_TEXT = """
    before after inside outside during until while within under over into onto about again each every all
    any some a an the is are was be been being not no none null nil undefined empty blank missing required
    optional needed invalid wrong incorrect correct valid expired weak strong secure insecure unknown unset
    set reset changed stored saved kept hidden visible public private secret wrong mandatory too very so
    only still now never always also just already here there below above this that these those it its your
    my our their his her you me us them in on at of for from to with without by and or but if when where
    which who what how why because since then than as used using sent given shown found lost stolen leaked
    compromised forgotten protected encrypted hashed rotated revoked disabled enabled allowed ready
    available good bad fine ok okay safe unsafe case sensitive between least more less longer shorter stale
    created generated something anything nothing everything different same equal unique random easy hard
    simple complex default defaults login user username email field page form string number text value type
    name token key password passwords passphrase secrets tokens keys credentials one two three true false
    yes done please can could should would must may might will shall do does did has have had get gets being
    falsch richtig abgelaufen erforderlich nicht kein keine ungültig leer zu sehr noch schon bereits
    gespeichert vergessen sicher unsicher optional notwendig geändert gesetzt in im auf aus von für mit bei
    und oder aber wenn der die das den dem ein eine incorrecta incorrecto correcta obligatoria obligatorio
    requerida débil segura fuerte no muy la el los las un una de del en con por para que demasiado necesaria
    olvidada incorrect correct requis requise obligatoire expiré oublié faible fort trop pas le la les un
    une des du de en dans avec pour par sur que qui très nécessaire errata scaduta obbligatoria richiesta
    non il lo incorreta obrigatória necessária fraca forte muito não niepoprawne wymagane nie onjuist
    verplicht niet vereist неверный нужен обязателен не на в с и или the-same json jwt api url uri oauth
    http https null todo tbd n/a
    """
_STOP = frozenset(_STOP_TEXT.split())
"""Words after "the password is" that are no password."""

_ENDINGS = ("ed", "ing", "ly", "able", "ible", "ful", "less", "lich", "bar", "able.", "mente", "ment")


_CODE = re.compile(r"\d[\d -]{1,18}\d")


def _is_code(name: str, value: str) -> bool:
    """Return whether a value is a code that its name announces: digits, or groups of them."""
    return _CODE_NAME.search(name) is not None and _CODE.fullmatch(value) is not None


def secrets_of_sentences(text: str, low: str, names: SecretNames) -> Iterator[Span]:
    """Yield values that a name in the text announces. ``low`` is the text in lower case."""
    for core in _CORES:
        if core not in low:  # cheaper than to find it
            continue
        at = low.find(core)
        while at >= 0:
            word = _CORE.match(low, at)
            at = yield from _named(text, low, at, word.end() if word else at + len(core), names)
            at = low.find(core, at)
    if not text.isascii():
        at = 0
        while found := _FOREIGN.search(low, at):
            at = yield from _named(text, low, *found.span(), names)


def _named(text: str, low: str, start: int, end: int, names: SecretNames) -> Generator[Span, None, int]:
    """Yield the values of a name with a core at this place. Return where the search goes on."""
    core = text[start:end]
    if text[end - 1] < "\u3000" and (after := _AFTER.match(text, end)):
        least, end = end, after.end()
        while end > least and text[end - 1] in ".-":
            end -= 1
    if text[start] < "\u3000" and (before := _BEFORE.search(text, max(0, start - 60), start)):
        start = before.start()
    name = text[start:end]
    if name not in names and name.lower() not in _SPOKEN_NAMES:
        earlier = _WORD_BEFORE.search(low, max(0, start - 24), start)
        if earlier is None or (earlier[1] not in _QUALIFIERS and not earlier[1].startswith("mot")):
            return max(end, start + len(core))
        start = earlier.start()
        name = text[start:end]
        if name not in names and name.lower() not in _SPOKEN_NAMES:
            return end
    at = end
    for span in _values_of(text, low, name, start, end):
        yield span
        at = max(at, span[1])
    return at


def _is_mentioned(low: str, start: int, end: int) -> bool:
    """Return whether a name stands among words alone, and no verb after it announces a value."""
    around = low[max(0, start - 200) : end + 300]
    return (
        around.replace(" ", "").isalpha()
        and around.isascii()
        and "  " not in around
        and IS_WORDS.isdisjoint(low[end : end + 300].split())
    )


def _values_of(text: str, low: str, name: str, start: int, end: int) -> Iterator[Span]:
    if _is_mentioned(low, start, end):
        return
    if assigned := _ASSIGNED.match(text, end):
        yield from _assigned(text, name, start, assigned.end())
        return
    if name.lower() == "login":
        return
    if called := _CALLED.match(text, end):
        value = _value_span(text, called.end())
        if value and (
            is_random(inner := text[slice(*value)]) or ("," not in called[0] and _is_plausible(inner))
        ):
            yield value
        return
    if text[start - 1 : start] in ("<", ":") and "<" in text[max(0, start - 40) : start]:
        if element := _ELEMENT.match(text, end):
            yield element.span(1)
        return
    spoken = _SENTENCE.match(low, end)
    direct = spoken is None or spoken["colon"] is None
    spoken = spoken or _CJK.match(text, end)
    if spoken and (span := _spoken(text, name, spoken.start("value"), direct)):
        yield span
        yield from _listed(text, name, span[1])
        return
    following = _NEXT.match(text, end) or _NEXT_LINE.match(text, end)
    if following is None and text[end - 1] >= CJK:
        following = _BESIDE.match(text, end)
    span = _spoken(text, name, following.start("value"), direct=False) if following else None
    if span := span or _before(text, start) or _near(text, name, start, end):
        yield span


_ELEMENT = lazy_pattern(
    r"(?:\s[^<>]{0,200})?>\s{0,20}(?:<[\w:]{1,40}>\s{0,20})?(?:<!\[CDATA\[)?([^<>\]]{1,4000})"
)


def _assigned(text: str, name: str, start: int, at: int) -> Iterator[Span]:
    """Yield the value of an assignment that begins at ``at``, and further ones of a list."""
    span = _value_span(text, at)
    of_login = name.lower() == "login"
    if span is None:
        if not of_login and (pair := _USER_AND_PASSWORD.match(text, at)):
            yield pair.span(1)
        below = _NEXT_LINE.match(text, at)
        if below and is_given(below["value"]):
            yield below.span("value")
        yield from _listed(text, name, at)
        return
    if span[0] == at:  # without quotation marks
        if _PERSON_NAME.search(name) and (number := _PERSON_NUMBER.match(text, at)):
            span = number.span()
        elif _PHRASE_NAME.search(name) or _is_line(text, start, at):
            span = at, max(span[1], _end_of_line(text, name, at))
        elif of_login or "cred" in name.lower():
            pair = _PASSWORD_OF_USER.match(text, span[1])
            if pair and is_random(pair[1]):
                yield pair.span(1)
        if _is_prose(text, *span) or not _is_value_of(name, text[slice(*span)]):
            return
    if not of_login:
        yield span
        yield from _listed(text, name, span[1])


def _is_value_of(name: str, value: str) -> bool:
    """Return whether a value without quotation marks suits a name that is an ordinary word too."""
    word = name.lower()
    if value in ("true", "false", "null", "none", "None", "True", "False") or _ELSEWHERE.match(value):
        return False
    if word in ("token", "key"):
        return not _FEW_DIGITS.fullmatch(value)
    if word == "pin":
        return any(character.isdigit() for character in value)
    if word in ("pass", "auth", "oauth"):
        return " " not in value and (
            is_given(value)
            or is_random(value)
            or (len(value) > 5 and value.isalpha() and value.lower() not in _STOP)
        )
    return True


_ELSEWHERE = re.compile(
    r"(?i)(?:see|ask|siehe|voir|ver|via|per|from|in the) \w|別途|後ほど|別メール|見后|另行"
)
_FEW_DIGITS = re.compile(r"\d{0,4}[.,]?\d{0,2}(?: .*)?")
_PASSWORD_OF_USER = re.compile(r"\s{0,2}[/|:]\s{0,2}([^\s,;]{3,100})")
_PUNCTUATION = re.compile(r"[.,!?。、] |[.!?。]$")
_SETTING = re.compile(r"[\s>*-]{0,40}(?:export\s|set\s|\$env:)?[\w.-]{0,40}")
_MOST_WORDS_OF_VALUE = 6


def _end_of_line(text: str, name: str, at: int) -> int:
    """Return the end of a value of several words, as in YAML; ``at`` if it is a sentence."""
    rest = _REST_OF_LINE.match(text, at)
    if rest is None:
        return at
    short = len(rest[0].split()) <= _MOST_WORDS_OF_VALUE and not _PUNCTUATION.search(rest[0])
    return rest.end() if short or _PHRASE_NAME.search(name) else at


_TYPES = frozenset(
    ("str", "int", "bytes", "bool", "string", "number", "integer", "boolean", "object",
    "array", "list", "dict", "none", "any", "optional")
)  # fmt: skip


def _is_prose(text: str, start: int, end: int) -> bool:
    """Return whether what follows a colon is a type, a bracket or the beginning of a sentence."""
    value = text[start:end].lower()
    if value in _TYPES or not any(character.isalnum() for character in value):
        return len(value) < 8
    return value in _STOP and _TWO_WORDS.match(text, end) is not None


_TWO_WORDS = re.compile(r"[ \t]{1,8}[^\W\d]{1,40}[ \t]{1,8}[^\W\d]")


_USER_AND_PASSWORD = lazy_pattern(r"""\(\s{0,4}["'][^"'\n]{0,100}["']\s{0,4},\s{0,4}["']([^"'\n]{1,200})""")


def _is_line(text: str, start: int, at: int) -> bool:
    """Return whether an assignment has a line of its own, as in YAML, INI and .env."""
    line = text.rfind("\n", max(0, start - 80), start) + 1
    if not line and start > 80:
        return False
    return text[at - 1] in " \t=:：" and _SETTING.fullmatch(text, line, start) is not None


def _listed(text: str, name: str, at: int) -> Iterator[Span]:
    """Yield the further codes of a list of them."""
    if _MANY.search(name):
        while (more := _LISTED.match(text, at)) and any(character.isdigit() for character in more[1]):
            yield more.span(1)
            at = more.end()


def _value_span(text: str, at: int) -> Span | None:
    """Return the value at a position, without its quotation marks."""
    if quoted := _QUOTED_VALUE.match(text, at):
        group = "double" if quoted["open"] else "in" if quoted["single"] else "other"
        return quoted.span(group) if quoted[group] else None
    plain = _PLAIN_VALUE.match(text, at)
    return plain.span() if plain else None


def _is_plausible(value: str) -> bool:
    plain = value.lower() in _STOP or _IDENTIFIER.fullmatch(value) is not None
    return (len(value) >= 3 and not plain) or is_random(value)


_IDENTIFIER = re.compile(r"[a-z]+(?:[_ ][a-z]+)*")


def _spoken(text: str, name: str, at: int, direct: bool) -> Span | None:
    """Return the value in a sentence, if it is one. ``direct`` says that a verb announces it."""
    if text[at] in "\"'`「『“‘„«‹":
        span = _value_span(text, at)
        value = text[slice(*span)] if span else ""
        quoted = direct and text[at] != "`" and len(value) >= 3
        return span if quoted or is_random(value) or _is_code(name, value) else None
    if _PERSON_NAME.search(name) and (number := _PERSON_NUMBER.match(text, at)):
        return number.span()
    word = _ASCII_WORD.match(text, at) if text[at - 1] >= CJK or text[at] < CJK else _ANY_WORD.match(text, at)
    if word is None:
        return None
    if _CODE_NAME.search(name) and (code := _DIGITS.match(text, at)):
        return code.span()
    value = word[0].rstrip(_TRAILING)
    end = at + len(value)
    if is_random(value) or _is_code(name, value) or _LONG_HEX.fullmatch(value):
        return at, end
    if (name == "pass" or not _NO_WORD.search(name)) and (
        is_given(value) if direct else _WORD_AND_DIGITS.fullmatch(value)
    ):
        return at, end
    if not direct or _NO_WORD.search(name):
        return None
    words = (_WORDS if _PHRASE_NAME.search(name) else _CLAUSE).match(text, at)
    if words and _is_phrase(words[0].split()):
        return words.span()
    return (
        (at, end) if _is_password(value) and (text[at - 1] >= CJK or _CLAUSE_END.match(text, end)) else None
    )


_WORD_AND_DIGITS = re.compile(
    r"(?=.{0,20}[a-z])[^\W\d_]{3,20}[-_.!#$%&+=]\d{2,8}[!?]?"
    r"|(?=.{0,60}\d)[a-z]{3,15}(?:[-_.](?:[a-z]{3,15}|\d{1,4})){2,3}"
)


def _is_password(word: str) -> bool:
    """Return whether an ordinary word after "the password is" may be the password."""
    low = word.lower()
    if len(word) < 4 or not word.isalpha() or low in _STOP or low.endswith(_ENDINGS):
        return False
    return not word.isupper() or len(word) > 6


CJK = "\u2e80"
"""The first letter of scripts without blanks between words."""

_ASCII_WORD, _ANY_WORD = re.compile(r"[!-~]+"), re.compile(r"\S+")
_LONG_HEX = re.compile(r"(?:0x)?[0-9A-Fa-f]{32,}")
_CLAUSE_END = re.compile(r"\s*\Z|[.,;!?。、\r\n]|\s{0,4}(?:です|だ|に|で|입니다)")
_WORDS = re.compile(r"[^\n.;\"'」。]{3,400}")
_CLAUSE = re.compile(r"[a-z ]{12,80}(?=[.,;!\n]|$)")


def _is_phrase(words: list[str]) -> bool:
    """Return whether words are those of a passphrase: several without an order, as in no sentence."""
    usual = sum(word.lower() in _STOP or word.lower().endswith(_ENDINGS) for word in words)
    return len(words) >= 4 and usual * 4 <= len(words) and all(map(str.isalpha, words))


_SHORT_LINE, _NEAR = 120, 60
_NEAR_WORD = re.compile(r"[!-~]{4,}")
_SIGN = re.compile(r"[0-9!@#$%^&*+=?~]")
_SENTENCE_END = re.compile(r"[.!。](?:\s|$)")


def _near(text: str, name: str, start: int, end: int) -> Span | None:
    """Return what can only be a password, near the name of one, in a line that is as short as a message."""
    if not _SIGN.search(text, max(0, start - _NEAR), end + _NEAR):
        return None
    if _NO_WORD.search(name) or _CODE_NAME.search(name):
        return None
    begun, ended = text.rfind("\n", max(0, start - 200), start) + 1, text.find("\n", end, end + 200)
    begun = begun or max(0, start - 200)
    if (min(len(text), end + 200) if ended < 0 else ended) - begun > _SHORT_LINE:
        return None
    for first, last in ((end, end + _NEAR), (max(0, start - _NEAR), start)):
        for found in _NEAR_WORD.finditer(text, first, last):
            value = found[0].strip(_TRAILING + "([{<")
            at = found.start() + found[0].index(value)
            between = text[end:at] if at >= end else text[at + len(value) : start]
            if _SENTENCE_END.search(between):
                continue
            if is_random(value) or _WORD_AND_DIGITS.fullmatch(value):
                return at, at + len(value)
    return None


_CONNECTORS_TEXT = "is as was for be becomes ist als es será como est comme é è = が を は هي هو это 가 이 是"
_CONNECTORS = frozenset(_CONNECTORS_TEXT.split())


def _before(text: str, start: int) -> Span | None:
    """Return the value before a name: "X is my password", "use X as the password"."""
    begun = max(0, start - 120)
    head = text[begun:start]
    words = head.split()[-6:]
    for at in range(len(words) - 1, 0, -1):
        if words[at].lower() in _CONNECTORS:
            value = words[at - 1].strip(_TRAILING + "「『“‘(")
            if is_random(value) or _DIGITS.fullmatch(value) or _WORD_AND_DIGITS.fullmatch(value):
                found = begun + head.rfind(value)
                return found, found + len(value)
    spoken = None if head.isascii() else _SUBJECT.search(head)
    if spoken and is_given(spoken[1].strip(_TRAILING)):
        return begun + spoken.start(1), begun + spoken.end(1)
    return None


_DIGITS = re.compile(r"\d{4,8}(?![\w-])")
_SUBJECT = re.compile(r"([!-~]{5,60})[」』]?[ 　]?(?:が|を|は|という|是|为|가|이)[^\s!-~]{0,6}\Z")
