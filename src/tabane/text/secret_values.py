"""Values that look like secrets: by their form, or by a name beside them, in texts of any kind.

A text is searched in several views: as it is, and without the escapes of JSON, URLs and HTML. Full-width
letters count as ordinary ones. Every search is linear: what may stand between a name and its value is bounded.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Generator, Iterator
from functools import cache

from tabane.text.command_secrets import secrets_of_commands
from tabane.text.lazy_patterns import lazy_pattern
from tabane.text.secret_names import SecretNames, plain_name

HIDDEN = "***"

RUN = 16
"""Characters of the shortest unbroken run of letters and digits that is searched for keys of services."""

_CLASSES = bytes(
    ord("x") if (chr(byte).isalnum() and byte < 128) or byte in b"_-." else ord(" ") for byte in range(256)
)
_RUN = b"x" * RUN

Span = tuple[int, int]


def has_run(text: bytes) -> bool:
    """Return whether a text has a long run of letters, digits, ``_``, ``-`` and ``.``, as keys are."""
    return _RUN in text.translate(_CLASSES)


# -- what may be in a text: quickly, since most texts have nothing ------------------------------------

_HINTS = (
    "pw", "code", "mnemonic", "pin", "auth", "cred", "cookie", "otp", "bearer", "basic", "cvv", "cvc", "wort", "mdp",
    "parola", "haslo", "ssn", "social", "insurance", "ni num", "nino", "session", "sig", "login", "@", "hooks", "heslo",
    "geheim", "kode", "salasana", "tan:", " tan ", "seed", "log in", "sign in", "net use", " /p:", "add_user", "identified", ":*:", ":5432:", ":5433:", ":6432:",
)  # fmt: skip
"""A text in ASCII with a secret that is no long run and no card number contains one of these, or a flag."""

_WORDS = bytes(byte for byte in range(256) if byte >= 128 or chr(byte).isalpha() or byte in b" \"',.:;_-/(){}[]!?@")
_ADJACENT = bytes(
    ord("a") if chr(byte).isalpha() and byte < 128 else ord("0") if 48 <= byte < 58 else ord(" ") for byte in range(256)
)
_DIGITS_ALONE = bytes(ord("0") if 48 <= byte < 58 else byte for byte in range(256))

_HINTS_BEYOND_ASCII = lazy_pattern(
    r"pw|パス|暗証|秘密|トークン|認証|確認コ|合言葉|キー|コード|フレーズ|ニーモ|ナンバー|個人番|カード|シークレ|接続文字"
    r"|密|口令|令牌|私钥|私鑰|验证|驗證|助记|助記|身份证|비밀|암호|토큰|인증|주민|카드|비번|парол|секрет|пин"
    r"|contraseñ|hasł|código|código|lösen|jelsz|şifre|مرور|سر|पास|mật|รห|סיסמ|κωδικ|[！-～]"
)

_NINE_DIGITS = b"0" * 9


def marks_of(text: bytes) -> bytes:
    """Return the digits, signs of operators and escapes of a text, without letters and ordinary punctuation."""
    return text.translate(None, _WORDS)


def has_mixed_word(text: bytes) -> bool:
    """Return whether a digit is beside a letter."""
    beside = text.translate(_ADJACENT)
    return b"a0" in beside or b"0a" in beside


def may_name_secrets(text: str, marks: bool = True) -> bool:
    """Return whether :func:`hide_secrets` may find a secret in a text without long runs, by its words.

    ``marks`` says whether the text has more than words and a short number.
    """
    low = text.lower()
    if _has_password(low):
        return True
    if marks:
        if " -" in text:
            return True
        for hint in _HINTS:
            if hint in low:
                return True
    return not text.isascii() and _HINTS_BEYOND_ASCII.search(low) is not None


def _has_password(low: str) -> bool:
    """Return whether a text in lower case has a word before which and after which ordinary words are secret."""
    return (
        "pass" in low or "secret" in low or "pwd" in low or "kennwort" in low or "contras" in low or "clave" in low
        or "senha" in low or "wachtwoord" in low or "phrase" in low or "token" in low or "key" in low
    )  # fmt: skip


def may_have_number(text: str) -> bool:
    """Return whether a text has the number of a card or of a person's social security."""
    return has_digits(text) and next(_numbers(text), None) is not None


def has_digits(text: str) -> bool:
    """Return whether a text has nine digits in a row, with or without blanks and hyphens among them."""
    return _NINE_DIGITS in text.encode("utf-8", "replace").translate(_DIGITS_ALONE, b" -")


# -- forms ------------------------------------------------------------------------------------------

_TOKENS = lazy_pattern(
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))(?:"
    r"(?:gh[pousr]_|github_pat_|gl[a-z]{2,6}-|xox[a-z]-|xox[a-z]\.|xapp-|AKIA|ASIA|ABIA|ACCA|AIza|ya29\.|GOCSPX-|1//0"
    r"|[srp]k_(?:live|test)_|whsec_|sk-|npm_|pypi-|hf_|tbn_|SG\.|r8_|gsk_|xai-|dckr_(?:pat|oat)_|shp(?:at|ca|pa|ss)_"
    r"|do[opr]_v1_|lin_(?:api|oauth)_|ntn_|sb[ps]_|hv[sbr]\.|PMAK-|figd_|glsa_|NRAK-|pat[A-Za-z0-9]{14}\.|phc_|phx_"
    r"|rubygems_|sq0[a-z]{3}-|EAA[A-Z]|dapi|tskey-|pul-|dp\.(?:pt|st|ct)\.|nvapi-|ATATT3|ATCTT3|AGE-SECRET-KEY-1"
    r"|xprv|PRIVATE-KEY-|sntrys_|vercel_|fly_|FlyV1|key_live_|rk-|pplx-|whk_|cfut_|api_live_)"
    r"(?=[\w+/=~-]{0,200}[0-9A-Z])[\w+/=~-]{8,}(?:\.[\w-]+){0,4}"
    r"|(?:SK|AC)[0-9a-f]{32}|(?:key|pubkey|priv)-[0-9a-f]{32}|secret_[A-Za-z0-9]{32,}"
    r"|eyJ[\w-]{8,}(?:\.[\w-]*){0,4}|\d{6,12}:[A-Za-z0-9_-]{30,})"
)
_HASHES = lazy_pattern(
    r"(?<![\w$])\$(?:[1-7]|2[abxy]?|apr1|y|gy|7|sha1|md5|argon2\w{1,3}|scrypt|bcrypt|pbkdf2[\w-]{0,20})\$[\w./+=,$-]{12,}"
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
_ORACLE = lazy_pattern(r"jdbc:oracle:\w{1,10}:[^\s/@]{1,100}/([^\s@]{1,200})@")
_HOOKS = lazy_pattern(
    r"https?://(?:(?:hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)"
    r"|(?:\w{1,20}\.)?discord(?:app)?\.com/api(?:/v\d+)?/webhooks"
    r"|[\w-]{1,80}\.webhook\.office\.com/webhookb2|outlook\.office(?:365)?\.com/webhook"
    r"|(?:[\w-]{1,60}\.){1,4}logic\.azure\.com(?::443)?/workflows|[\w.-]{1,100}\.powerplatform\.com(?::443)?/\w+"
    r"|hooks\.zapier\.com/hooks|hook\.(?:\w{1,10}\.)?(?:make|integromat)\.com|maker\.ifttt\.com/trigger|webhook\.site"
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
    r"(?:^|[?&;\s\"'])(?:(?:X-(?:Amz|Goog|Oss|Cos)-)?(?:sig|signature|security-token|credential)|sig|hmac|hash|code|state_token|[\w.]{0,20}(?:sessid|sessionid|\.sid)"
    r"|jwt|q-signature|sas|key|auth|access|session|sid|ticket|SAMLResponse|assertion|refresh|device_code)=([^\s&;#\"'<>\\]{6,})",
    re.IGNORECASE,
)
_PGPASS = lazy_pattern(r"(?m)^[^:\s]{1,200}:(?:\*|\d{2,5}):[^:\s]{1,100}:[^:\s]{1,100}:([^\s:][^\s]*)$")
_PIPED = lazy_pattern(
    r"\b(?:echo|printf)\s+(?:-\w+\s+)?(?:[\"']%s(?:\\n)?[\"']\s+)?[\"']?([^\s|\"';&]{3,200})[\"']?\s*\|\s*(?:sudo\s+)?"
    r"(?:chpasswd|passwd|sudo\s+(?:-\w+\s+){0,4}-\w*S|-\w*S\b|docker\s+login|gh\s+auth|podman\s+login|cryptsetup|base64)"
)
_HERE = lazy_pattern(r"(?:login|token|passwd|password|auth|secret)[^\n<]{0,200}<<<\s*[\"']?([^\s\"']{3,200})")
_NET_USER = lazy_pattern(r"\bnet\s+user\s+\S{1,100}\s+([^\s/*]\S{0,100})", re.IGNORECASE)
_USER_CALL = lazy_pattern(
    r"(?:auth|login|credentials?|connect|sign_?in|logon)\w{0,20}\(\s{0,4}[\"'][^\"'\n]{1,100}[\"']\s{0,4},\s{0,4}[\"']([^\"'\n]{1,200})[\"']",
    re.IGNORECASE,
)
_SEED = lazy_pattern(r"(?i)(?:seed|wallet|シード|助记)\W{0,5}(?:words|phrase)?\W{0,5}((?:[a-z]{3,8}[ ,\n]{1,3}){11,23}[a-z]{3,8})\b")
_SENT = lazy_pattern(r"\bsend\s+(?:--\s+)?[\"']([^\"'\\\s]{3,100})\\[rn][\"']")
_LOG_IN = lazy_pattern(
    r"(?i)(?:log(?:ged)?[ -]?in|sign[ -]?in|logon|credentials?|creds|account|anmeld\w{0,3}|ログイン|登录|로그인)[^\n]{0,40}?[\s:：][\w.@+-]{2,60}\s?[/:]\s?"
    r"([^\s/,;]{4,100})"
)
_INSERT = lazy_pattern(r"(?i)\(([^()]{1,500})\)\s{1,10}values?\s{0,10}((?:\([^()]{1,2000}\)[\s,]{0,10}){1,100})")
_ROW = lazy_pattern(r"\(([^()]*)\)")
_NET_USE = lazy_pattern(r"\bnet\s+use\s+(?:\w:\s+)?\\\\\S{1,200}\s+([^\s/*]\S{0,100})\s", re.IGNORECASE)
_IDENTIFIED = lazy_pattern(r"\b(?:identified\s+by|(?:encrypted\s+)?password)\s+(?:as\s+)?(['\"])(.{1,200}?)\1", re.IGNORECASE)
_SECURE = lazy_pattern(r"""ConvertTo-SecureString\s+(?:-String\s+)?["']([^"'\n]{1,200})""", re.IGNORECASE)
_FORM_PART = lazy_pattern(
    r"name=\\?\"([^\"\r\n\\]{1,100})\\?\"[^\r\n]{0,200}(?:\r?\n[^\r\n]{1,200}){0,4}(?:\r?\n){2}([^\r\n]{1,2000})", re.IGNORECASE
)


def _forms(text: str) -> Iterator[Span]:
    """Yield secrets that are recognized without a name."""
    if has_run(text.encode("utf-8", "replace")):
        yield from (found.span() for found in _TOKENS.finditer(text))
    if "$" in text or "{" in text:
        yield from (found.span() for found in _HASHES.finditer(text))
    if "-----BEGIN" in text:
        yield from (found.span() for found in _PRIVATE_KEY.finditer(text))
    if "Private-Lines" in text:
        yield from (found.span(1) for found in _PUTTY_KEY.finditer(text))
    if "://" in text:
        yield from (found.span(1) for found in _HOOKS.finditer(text))
        if "@" in text:
            yield from (found.span(1) for found in _URL_PASSWORD.finditer(text))
            yield from (found.span(1) for found in _URL_TOKEN.finditer(text))
    if "jdbc:oracle" in text:
        yield from (found.span(1) for found in _ORACLE.finditer(text))


# -- numbers of cards and persons ---------------------------------------------------------------------

_CARD = lazy_pattern(
    r"(?<![\d.])(?:3[47]\d{2}[ -]?\d{6}[ -]?\d{5}|(?:3(?:0[0-5]|[689]\d)\d)[ -]?\d{6}[ -]?\d{4}"
    r"|(?:4\d{3}|5[1-5]\d{2}|2[2-7]\d{2}|6(?:011|4[4-9]\d|5\d{2}|2\d{2})|35[2-8]\d)(?:([ -]?)\d{4})(?:\1\d{4}){2}(?:\1\d{3})?)"
    r"(?![\d]|\.\d)"
)
_SOCIAL = lazy_pattern(r"(?<![\w-])(?!000|666)[0-8]\d{2}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])")


def _numbers(text: str) -> Iterator[Span]:
    for found in _CARD.finditer(text):
        if _has_luhn_digit(found[0]):
            yield found.span()
    for found in _SOCIAL.finditer(text):
        yield found.span()


def _has_luhn_digit(number: str) -> bool:
    digits = [int(digit) for digit in number if digit.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


# -- values beside a name -----------------------------------------------------------------------------

_LETTER = r"0-9A-Za-z_\u00c0-\u024f\u0370-\u1fff"
_CORES = (
    "pass", "pwd", "pw", "secret", "token", "key", "cred", "auth", "pin", "pat", "otp", "cvv", "cvc", "code",
    "contrase", "wort", "wachtwoord", "haslo", "heslo", "mdp", "senha", "clave", "palavra", "parola", "mnemonic", "phrase",
    "words", "number", "nummer", "ssn", "social security", "national insurance", "ni no", "nino", "verifier", "login", "session",
    "connection", "geheim", "salasana", "adgangskode", "kata sandi", "digo de ", "tan", "sas", "sifre",
)  # fmt: skip
"""Each name in ASCII contains one of these, from which it is read to both sides."""

_CORE = lazy_pattern(
    r"pass[ _-](?:w(?:or)?[dt]e?s?|phrases?|codes?|keys?)|code de (?:v[ée]rification|s[ée]curit[ée])"
    r"|digo de (?:verifica\w+|seguran\w+|seguridad)|palavra[ -]passe|parola d['’]ordine|contrasen\u0303as?"
    r"|(?:social security|national insurance)(?: (?:number|no\.?))?|connection[ _-]string|key[ _](?:secret|id)"
)
"""Names of several words, from a core on. The word before a core is tried too, as in "API key"."""

_FOREIGN = lazy_pattern(
    r"contraseñas?|hasł[oa]|lösenord|jelszó|şifre|парол\w{0,3}|пин[ -]?код|секрет|κωδικός|סיסמה|mật khẩu|(?:كلمة|رمز) ال(?:مرور|سر)|पासवर्ड"
    r"|รหัสผ่าน|パスワード|パスフレーズ|パスコード|暗証番号|秘密鍵|秘密の(?:言葉|質問の答え)|認証番号|アクセストークン|トークン|認証情報|合言葉"
    r"|(?:api|アクセス|シークレット|秘密)[ _]?キー|(?:シード|リカバリー?|復元)[ ・]?フレーズ|ニーモニック"
    r"|(?:認証|確認|セキュリティー?|リカバリー?|バックアップ|復旧|ワンタイム)[ ・]?コード|マイナンバー|個人番号|カード番号|シークレット"
    r"|密码|密碼|口令|密钥|密鑰|令牌|私钥|私鑰|验证码|驗證碼|助记词|助記詞|身份证号码?|비밀 ?번호|비번|암호|비밀 ?키|토큰|인증 ?번호|인증 ?코드"
)
_QUALIFIERS = frozenset(
    """your my door use gate alarm entry unlock enter lock safe recovery backup verification security one-time time confirmation scratch login access 2fa mfa sms auth authentication api
    private secret signing encryption account license master wallet shared subscription session service seed card credit
    debit cvv ni ssh gpg pgp deploy app application consumer client user pin code id admin root""".split()
)
_SPOKEN_NAMES = frozenset(
    (
        *("ni number", "ni no", "nino", "login", "tan", "privkey"),
        *(f"{word} code" for word in "your my door use gate alarm entry unlock enter lock safe login access sms time".split()),
    )
)
"""Names that count in sentences, although no member is called so."""

_WORD_BEFORE = re.compile(r"(?<![^\W_])(mots? de|[\w-]{2,20})[ ]\Z")
_BEFORE = re.compile(rf"[{_LETTER}.-]{{1,60}}\Z")
_AFTER = re.compile(rf"[{_LETTER}.-]{{0,40}}")

_CLOSERS = r"(?:\\{0,8}[\"'`*’”」』\]]){0,4}"
_ASSIGNED = lazy_pattern(
    _CLOSERS + r"\s{0,8}(?::\s{0,4}[\w&<>. |?]{1,40}?=\s{0,4}(?=[\"'`])|=>|:=|===?|->|<<<|[=:：＝→⇒←])[ \t]{0,8}"
    r"(?:[|>][+-]?[ \t]*\r?\n[ \t]{1,40})?(?:[frb](?=[\"'])|new\s+\w{1,30}\()?",
)
_CALLED = lazy_pattern(r"(?:['\"]\)?\s{0,4}(?:or|\?\?|\|\|)\s{0,4}|['\"]\s{0,4},\s{0,4}|\(\s{0,4}|\(['\"]\s{0,4},?\s{0,4})(?=[\"'])")
_QUOTED_VALUE = re.compile(
    r"""\\{0,8}(?P<open>")(?P<double>(?:[^"\\]|\\(?!"))*)|(?P<single>\\{0,8}')(?P<in>[^'\\]*)|[「『“‘`](?P<other>[^」』”’`]*)"""
)
_PLAIN_VALUE = re.compile(r"(?!\(\s{0,4}[\"'])[^\s&;,\"'}\])<>」』。、，]+")
_REST_OF_LINE = re.compile(r"[^\r\n\"'<>{}\[\]&;]+")
_IS = (
    "is|was|are|be|c['’]est|to|as|equals|now|currently|ist|lautet|lauten|auf|heißt|heisst|war|est|sera|es|será|sea|era|è|é|e'|são|to|jest|"
    "is|blir|är|er|on|adalah|là|है|هي|هو|это|—|–|-|=|:|："
)
_SENTENCE = lazy_pattern(
    rf"""["'`*)\]]{{0,3}}(?:[ \t]+[^\s.:;,!?=<>"']{{1,24}}){{0,6}}?(?:,?[ \t]+(?:{_IS})|(?P<colon>[ \t]*[:：=]))"""
    r"(?:[ \t]+(?:now|currently|jetzt|also|just|ahora|maintenant))?[ \t]*[:：]?\s{1,4}(?P<value>\S)"
)
_CJK = lazy_pattern(
    r"[」』\"'）)]{0,2}[ 　]{0,3}(?:に?は|が|を|も|の値は|として|:|：|是|为|為|就是|改为|改成|设为|设置为|設置為|设成|는|은|이|가|를|을)[ 　]{0,3}"
    r"(?:現在|今|いま|现在|현재|次の)?[、,:：]?[ 　]{0,3}(?P<value>[「『“\"'`]?[!-~]{3,}|[「『“].{1,200})"
)
_BESIDE = re.compile(r"[ 　]{0,4}[\[【(（「]?(?P<value>[!-~]{4,})")
_NEXT = re.compile(r"[\"'`*)\]]{0,3}[ \t]{1,8}[\[【(（]?(?:no\.?[ \t]|number[ \t]|nr\.?[ \t]|#)?(?P<value>\S+)")
_NEXT_LINE = re.compile(r"[ \t]*\r?\n[ \t]*(?P<value>\S+)[ \t]*(?:\r?\n|\Z)")
_TRAILING = ".,;:!?)]}'\"`*。、，！？」』）"

_CODE_NAME = re.compile(r"(?i)c[óo]digo|geheimzahl|pin|otp|tan|cv[vc]|code|コード|番号|ナンバー|验证|驗證|인증|ssn|social|insurance|\bni\b|nino|card")
_NO_WORD = re.compile(r"(?i)^pass$|^auth\w*$|creds?$|keys?$|tokens?$|[a-rt-z]s$|login$|トークン|キー|シークレ|令牌|密钥|密鑰|토큰")
"""Names of secrets that are no ordinary words, and of several secrets."""

_PHRASE_NAME = re.compile(r"(?i)phrase|mnemonic|(?:seed|recovery|backup|secret)[ _-]?words?$|フレーズ|ニーモ|合言葉|助记|助記")
_PERSON_NAME = re.compile(r"(?i)ssn|social|insurance|\bni\b|nino|card|ナンバー|個人番号|カード番号|身份证")
_PERSON_NUMBER = re.compile(r"[A-Z]{0,2}(?:[ -]?\d){4,19}(?:[ -]?[A-DX](?![A-Za-z]))?")
_MANY = re.compile(r"(?i)codes|コード|キー|words")
_LISTED = re.compile(r"(?:[\s,、;•*·-]|\d{1,2}[.)]\s){0,12}([A-Za-z0-9][A-Za-z0-9-]{3,60})(?![\w])")

_STOP = frozenset(
    """before after inside outside during until while within under over into onto about again each every all any some
    a an the is are was be been being not no none null nil undefined empty blank missing required optional needed invalid wrong
    incorrect correct valid expired weak strong secure insecure unknown unset set reset changed stored saved kept hidden visible
    public private secret wrong mandatory too very so only still now never always also just already here there below above
    this that these those it its your my our their his her you me us them in on at of for from to with without by and or but if
    when where which who what how why because since then than as used using sent given shown found lost stolen leaked compromised
    forgotten protected encrypted hashed rotated revoked disabled enabled allowed ready available good bad fine ok okay safe
    unsafe case sensitive between least more less longer shorter stale created generated something anything nothing everything
    different same equal unique random easy hard simple complex default defaults login user username email field page form
    string number text value type name token key password passwords passphrase secrets tokens keys credentials one two three
    true false yes done please can could should would must may might will shall do does did has have had get gets being
    falsch richtig abgelaufen erforderlich nicht kein keine ungültig leer zu sehr noch schon bereits gespeichert vergessen sicher
    unsicher optional notwendig geändert gesetzt in im auf aus von für mit bei und oder aber wenn der die das den dem ein eine
    incorrecta incorrecto correcta obligatoria obligatorio requerida débil segura fuerte no muy la el los las un una de del en
    con por para que demasiado necesaria olvidada incorrect correct requis requise obligatoire expiré oublié faible fort trop pas
    le la les un une des du de en dans avec pour par sur que qui très nécessaire errata scaduta obbligatoria richiesta non il lo
    incorreta obrigatória necessária fraca forte muito não niepoprawne wymagane nie onjuist verplicht niet vereist
    неверный нужен обязателен не на в с и или the-same json jwt api url uri oauth http https null todo tbd n/a""".split()
)
"""Words after "the password is" that are no password."""

_ENDINGS = ("ed", "ing", "ly", "able", "ible", "ful", "less", "lich", "bar", "able.", "mente", "ment")
_COMMON = re.compile(
    r"(?i)v?[\d.,:/+-]+(?:st|nd|rd|th|px|r?em|ms|s|m|h|d|min|kb|mb|gb|tb|[kmg]i?b|%|x|k|bit|bits|\+)?|oauth[\d.]*|sha-?\d+|utf-?\d+|md\d"
    r"|base\d+|[a-z]{1,4}\d{1,3}|[hre]s\d{3}|http/?[\d.]+|ipv[46]|\d+[a-z]{1,4}|x\.?509\w*|ed25519|(?:[a-z]+-)?\d{1,3}(?:-[a-z]+)*"
    r"|[a-z]+(?:[-_/.'’:][a-z]+)*\d{0,2}|https?://\S+|[\w.-]+\.(?:md|py|js|ts|json|ya?ml|toml|txt|html?|pem|key|env|go|rs|c|h|rb|sh)"
    r"|[\w./~-]*/[\w./~-]*|[A-Za-z]+\(.*|.*[(){}\[\]<>|].*|\$\w+|%\w+%|#\d+|@\w+|[A-Z]{2,10}-\d{1,6}|[\w.+-]+@[\w.-]+\.\w+"
)
_FORMULA = re.compile(r"[\w.]+(?:[=!<>]=?|\+|\*)[\w.]*")


def is_random(value: str) -> bool:
    """Return whether a word is no word, number, date, path or address: letters with digits or signs."""
    if len(value) < 5 or len(value) > 500 or not value.isascii() or _COMMON.fullmatch(value):
        return False
    letters = any(character.isalpha() for character in value)
    digits = any(character.isdigit() for character in value)
    signs = any(character in "!@#$%^&*+=?~" for character in value)
    return (letters and (digits or signs)) or (digits and signs)


def _is_code(name: str, value: str) -> bool:
    """Return whether a value is a code that its name announces: digits, or groups of them."""
    return _CODE_NAME.search(name) is not None and re.fullmatch(r"\d[\d -]{1,18}\d", value) is not None


def _names_spans(text: str, low: str, names: SecretNames) -> Iterator[Span]:
    """Yield values that a name in the text announces. ``low`` is the text in lower case."""
    for core in _CORES:
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


def _values_of(text: str, low: str, name: str, start: int, end: int) -> Iterator[Span]:
    if assigned := _ASSIGNED.match(text, end):
        yield from _assigned(text, name, start, assigned.end())
        return
    if name.lower() == "login":
        return
    if called := _CALLED.match(text, end):
        value = _value_span(text, called.end())
        if value and (is_random(inner := text[slice(*value)]) or ("," not in called[0] and _is_plausible(inner))):
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
    if following is None and text[end - 1] >= "\u2e80":
        following = _BESIDE.match(text, end)
    if following and (span := _spoken(text, name, following.start("value"), direct=False)):
        yield span
    elif span := _before(text, start):
        yield span


_ELEMENT = lazy_pattern(r"(?:\s[^<>]{0,200})?>\s{0,20}(?:<!\[CDATA\[)?([^<>\]]{1,4000})")


def _assigned(text: str, name: str, start: int, at: int) -> Iterator[Span]:
    """Yield the value of an assignment that begins at ``at``, and further ones of a list."""
    span = _value_span(text, at)
    if span is None:
        if name.lower() != "login" and (pair := _USER_AND_PASSWORD.match(text, at)):
            yield pair.span(1)
        yield from _listed(text, name, at)
        return
    quoted = span[0] > at
    if not quoted:
        if _PERSON_NAME.search(name) and (number := _PERSON_NUMBER.match(text, span[0])):
            span = number.span()
        elif _PHRASE_NAME.search(name) or _is_line(text, start, at):
            rest = _REST_OF_LINE.match(text, span[0])
            if rest and (_PHRASE_NAME.search(name) or (len(rest[0].split()) <= 6 and not re.search(r"[.,!?。、] |[.!?。]$", rest[0]))):
                span = span[0], max(span[1], rest.end())
        elif re.search("(?i)cred|login", name):
            pair = re.compile(r"\s{0,2}[/|:]\s{0,2}([^\s,;]{3,100})").match(text, span[1])
            if pair and is_random(pair[1]):
                yield pair.span(1)
        if _is_prose(text, *span):
            return
    if re.search("(?i)^login$", name):
        return
    yield span
    yield from _listed(text, name, span[1])


_TYPES = frozenset("str int bytes bool string number integer boolean object array list dict none any optional".split())


def _is_prose(text: str, start: int, end: int) -> bool:
    """Return whether what follows a colon is a type, a bracket or the beginning of a sentence."""
    value = text[start:end].lower()
    if value in _TYPES or not any(character.isalnum() for character in value):
        return len(value) < 8
    return value in _STOP and re.match(r"[ \t]+[^\W\d]+[ \t]+[^\W\d]+", text[end : end + 60]) is not None


_USER_AND_PASSWORD = lazy_pattern(r"""\(\s{0,4}["'][^"'\n]{0,100}["']\s{0,4},\s{0,4}["']([^"'\n]{1,200})""")


def _is_line(text: str, start: int, at: int) -> bool:
    """Return whether an assignment has a line of its own, as in YAML, INI and .env."""
    line = text.rfind("\n", max(0, start - 80), start) + 1
    head = text[line:start] if line or start <= 80 else "long line"
    return text[at - 1] in " \t=:：" and re.fullmatch(r"[\s>*-]{0,40}(?:export\s|set\s|\$env:)?[\w.-]{0,40}", head) is not None


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
    return len(value) >= 3 and value.lower() not in _STOP and re.fullmatch(r"[a-z]+(?:[_ ][a-z]+)*", value) is None or is_random(value)


def _spoken(text: str, name: str, at: int, direct: bool) -> Span | None:
    """Return the value in a sentence, if it is one. ``direct`` says that a verb announces it."""
    if text[at] in "\"'`「『“‘":
        span = _value_span(text, at)
        value = text[slice(*span)] if span else ""
        return span if is_random(value) or _is_code(name, value) or (direct and text[at] != "`" and len(value) >= 3) else None
    if _PHRASE_NAME.search(name) and direct:
        rest = re.compile(r"[^\n.;\"'」。]{3,400}").match(text, at)
        if rest and _is_phrase(rest[0].split()):
            return rest.span()
    if _PERSON_NAME.search(name) and (number := _PERSON_NUMBER.match(text, at)):
        return number.span()
    found = re.compile(r"[!-~]+" if text[at - 1] >= "\u2e80" or text[at] < "\u2e80" else r"[^\s]+").match(text, at)
    if not found:
        return None
    value = found[0].rstrip(_TRAILING)
    span = at, at + len(value)
    if is_random(value) or _is_code(name, value):
        return span
    if re.fullmatch(r"(?i)(?:0x)?[0-9a-f]{32,}", value):
        return span
    rest = _CLAUSE.match(text, at)
    if direct and rest and not _NO_WORD.search(name) and _is_phrase(rest[0].split()):
        return rest.span()
    if not direct or _NO_WORD.search(name) or len(value) < 4 or value.lower() in _STOP or not value.isalpha() or value.lower().endswith(_ENDINGS):
        return None
    rest = text[span[1] : span[1] + 12]
    ends = not rest.strip() or rest[:1] in ".,;!?。、\n" or text[at - 1] >= "\u2e80" or re.match(r"\s*(?:です|だ|に|で|입니다|$)", rest)
    return span if ends and not (value.isupper() and len(value) <= 6) else None


_CLAUSE = re.compile(r"[a-z ]{12,80}(?=[.,;!\n]|$)")


def _is_phrase(words: list[str]) -> bool:
    """Return whether words are those of a passphrase: several without an order, as in no sentence."""
    usual = sum(word.lower() in _STOP or word.lower().endswith(_ENDINGS) for word in words)
    return len(words) >= 4 and usual * 4 <= len(words) and all(map(str.isalpha, words))


_CONNECTORS = frozenset("is as was for ist als es como est comme é è = が を は".split())


def _before(text: str, start: int) -> Span | None:
    """Return the value before a name: "X is my password", "use X as the password"."""
    begun = max(0, start - 120)
    head = text[begun:start]
    words = head.split()[-6:]
    for at in range(len(words) - 1, 0, -1):
        if words[at].lower() in _CONNECTORS:
            value = words[at - 1].strip(_TRAILING + "「『“‘(")
            if is_random(value) or re.fullmatch(r"\d{4,8}", value):
                found = begun + head.rfind(value)
                return found, found + len(value)
    if spoken := re.search(r"([!-~]{5,60})[」』]?[ 　]?(?:が|を|は)[^\s!-~]{0,6}\Z", head):
        if is_random(spoken[1].strip(_TRAILING)):
            return begun + spoken.start(1), begun + spoken.end(1)
    return None


# -- values whose name is somewhere else: markup, tables, pairs -----------------------------------------

_TAG = lazy_pattern(r"<[A-Za-z][^<>]{1,800}>")
_TAG_NAME = lazy_pattern(r"""\b(?:key|name|id|type|k|n|label|property|param)\s{0,4}=\s{0,4}(?:"([^"]{1,100})"|'([^']{1,100})'|([^\s"'<>]{1,100}))""", re.IGNORECASE)
_TAG_VALUE = lazy_pattern(r"""\b(?:value|val|v|content|default)\s{0,4}=\s{0,4}(?:"([^"]+)"|'([^']+)'|([^\s"'<>]+))""", re.IGNORECASE)
_PLIST = lazy_pattern(r"<(?:key|name)>([^<>]{1,100})</(?:key|name)>\s{0,40}<(\w{1,20})>([^<>]{1,4000})")
_PAIR = lazy_pattern(
    r"""\b(?:name|key|field|header|variable|env)["']?\s{0,4}[:=]\s{0,4}["']?([\w .-]{1,60}?)["']?\s{0,4}[,;]?\s{1,40}["']?"""
    r"""(?:value|val)["']?\s{0,4}[:=]\s{0,4}["']?([^\s"',;}\]]+)""",
)


def _markup(text: str, names: SecretNames) -> Iterator[Span]:
    for tag in _TAG.finditer(text):
        named = any(one[one.lastindex or 1] in names for one in _TAG_NAME.finditer(tag[0]))
        if named:
            value = _TAG_VALUE.search(tag[0])
            if value:
                group = value.lastindex or 1
                yield tag.start() + value.start(group), tag.start() + value.end(group)
            elif not tag[0].endswith("/>") and (inner := re.compile(r"\s{0,20}([^<>\s][^<>]{0,4000})").match(text, tag.end())):
                yield inner.span(1)
    for found in _PLIST.finditer(text):
        if found[1] in names:
            yield found.span(3)


_CELL = re.compile(r'\s*("(?:[^"]|"")*"|[^"]*)\s*')
_SEPARATORS = ("|", "\t", ";", ",")
_HEAD_CELL = re.compile(r"[\w .-]{1,40}")


def _tables(text: str, names: SecretNames) -> Iterator[Span]:
    """Yield the cells of columns with a secret name, in Markdown tables and CSV."""
    columns: list[int] = []
    separator, count, at = "", 0, 0
    for line in text.splitlines(keepends=True):
        if not separator or line.count(separator) != count:
            separator, count, columns = next(
                ((each, line.count(each), _header(line, each, names)) for each in _SEPARATORS if _is_header(line, each)),
                ("", 0, []),
            )
        elif columns and (separator != "|" or not re.fullmatch(r"[\s|:-]+", line)):
            cells = _cells(line, separator)
            for start, end in (cells[column] for column in columns):
                if end > start:
                    yield at + start, at + end
        elif not columns and separator != "|" and _is_header(line, separator):
            columns = _header(line, separator, names)
        at += len(line)


def _is_header(line: str, separator: str) -> bool:
    if separator not in line or len(line) > 2000:
        return False
    heads = [line[slice(*cell)] for cell in _cells(line, separator)]
    heads = heads[1:-1] if separator == "|" else heads
    return len(heads) > (separator == ",") and all(_HEAD_CELL.fullmatch(head) and len(head.split()) <= 3 for head in heads)


def _header(line: str, separator: str, names: SecretNames) -> list[int]:
    if not may_name_secrets(line):
        return []
    heads = [line[slice(*cell)] for cell in _cells(line, separator)]
    return [at for at, head in enumerate(heads) if head in names and (head.isascii() or len(head) <= 12)]


def _inserted(text: str, names: SecretNames) -> Iterator[Span]:
    """Yield the values of secret columns that a statement in SQL inserts."""
    for found in _INSERT.finditer(text):
        columns = [at for at, head in enumerate(found[1].split(",")) if head.strip(" \t\n`\"[]'") in names]
        for row in _ROW.finditer(text, found.start(2), found.end(2)) if columns else ():
            cells = _cells(row[1], ",")
            for column in columns:
                if column < len(cells):
                    yield row.start(1) + cells[column][0], row.start(1) + cells[column][1]


def _cells(line: str, separator: str) -> list[Span]:
    """Return the spans of the cells of a line, without blanks and quotation marks around them."""
    spans: list[Span] = []
    at = 0
    for part in line.rstrip("\r\n").split(separator):
        inner = part.strip(" \t\"`*'")
        start = at + (part.index(inner) if inner else 0)
        spans.append((start, start + len(inner)))
        at += len(part) + 1
    return spans


# -- views ----------------------------------------------------------------------------------------------

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_ENCODED = lazy_pattern(r"(?:%[0-9A-Fa-f]{2})+|&(?:quot|apos|amp|lt|gt|#\d{2,3}|#x[0-9A-Fa-f]{2});|\\+(?:u00[0-9A-Fa-f]{2}|[\"'/nrt])")
_MOST_VIEWS = 3
_BACKSLASHED = {"n": "\n", "r": "\r", "t": "\t"}


def _decoded(text: str) -> tuple[str, list[int]] | None:
    """Return a text without escapes of URLs, HTML and JSON, and the position of each character before."""
    parts: list[str] = []
    positions: list[int] = []
    at = 0
    for found in _ENCODED.finditer(text):
        plain = _unescaped(found[0])
        parts += (text[at : found.start()], plain)
        positions += range(at, found.start())
        step = len(found[0]) / max(len(plain), 1)
        positions += (found.start() + int(index * step) for index in range(len(plain)))
        at = found.end()
    if not at:
        return None
    positions += range(at, len(text) + 1)
    return "".join((*parts, text[at:])), positions


def _unescaped(escaped: str) -> str:
    if escaped[0] == "%":
        return bytes.fromhex(escaped.replace("%", "")).decode("utf-8", "replace")
    if escaped[0] == "&":
        return html.unescape(escaped)
    inner = escaped.lstrip("\\")
    return chr(int(inner[1:], 16)) if inner[0] == "u" else _BACKSLASHED.get(inner, inner)


def hide_secrets(text: str, names: SecretNames) -> str:
    """Return a text with the secrets that are recognized in it replaced by ``***``."""
    spans = secret_spans(text, names)
    if not spans:
        return text
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += (text[at:start], HIDDEN)
        at = end
    return "".join((*parts, text[at:]))


def secret_spans(text: str, names: SecretNames) -> list[Span]:
    """Return where a text has secrets, in their order, none within or beside another."""
    view = text if text.isascii() else text.translate(_FULL_WIDTH)
    spans = list(_spans_of(view, names))
    positions: list[int] | None = None
    for _ in range(_MOST_VIEWS):
        decoded = _decoded(view) if "%" in view or "&" in view or "\\" in view else None
        if decoded is None:
            break
        view, steps = decoded
        positions = steps if positions is None else [positions[step] for step in steps]
        spans += ((positions[start], positions[end]) for start, end in _spans_of(view, names))
    return _merged(spans, text)


def _merged(spans: list[Span], text: str) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if start >= end or text[start:end] == HIDDEN:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _spans_of(text: str, names: SecretNames) -> Iterator[Span]:
    yield from _forms(text)
    if has_digits(text):
        yield from _numbers(text)
    if not may_name_secrets(text):
        return
    low = text.lower()
    if len(low) != len(text):  # a few letters are longer in lower case
        low = "".join(lower if len(lower := character.lower()) == 1 else character for character in text)
    for pattern, group, hints in _PATTERNS:
        if any(hint in low for hint in hints):
            yield from (found.span(group) for found in pattern.finditer(text))
    if "bearer" in low or "basic" in low or "digest" in low or "apikey" in low:
        for found in _SCHEME.finditer(text):
            if _is_credential(*found.groups()):
                yield found.span(2)
    if "=" in text:
        yield from (found.span(1) for found in _QUERY.finditer(text) if _is_signature(found[1]))
    if " -" in text or text[:1] == "-" or " /" in text or "login" in low or "setx" in low or "add_user" in low or "mysqladmin" in low:
        yield from secrets_of_commands(text, names)
    if "<" in text:
        yield from _markup(text, names)
    if "name=" in low:
        yield from (found.span(2) for found in _FORM_PART.finditer(text) if found[1] in names)
    if "log" in low or "sign" in low or "cred" in low or "account" in low or not text.isascii():
        yield from (found.span(1) for found in _LOG_IN.finditer(text) if is_random(found[1]))
    if "values" in low and "(" in low:
        yield from _inserted(text, names)
    if "val" in low:
        yield from (found.span(2) for found in _PAIR.finditer(low) if text[slice(*found.span(1))].strip() in names)
    if "\n" in text:
        yield from _tables(text, names)
    yield from _names_spans(text, low, names)


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
    (_IDENTIFIED, 2, ("identified", "password '", 'password "')),
    (_PGPASS, 1, (":",)),
)
"""Patterns, the group that is secret, and texts in lower case of which one is necessary."""


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


# -- one value with its name ----------------------------------------------------------------------

SHORTEST = 4
"""Characters of a secret. A shorter one could not be hidden in logs: it would be found everywhere."""

_LONGEST_NAME = 200

_WHOLE_WORDS = frozenset(
    (
        *(
            "true",
            "false",
            "yes",
            "no",
            "on",
            "off",
            "none",
            "null",
            "nil",
            "auto",
            "default",
            "always",
            "never",
        ),
        *("enabled", "disabled", "required", "optional", "changeme", "header", "cookie"),
        *("bearer", "basic", "digest", "oauth", "oauth2", "token", "apikey", "api_key", "api-key", "jwt"),
        *("key", "secret"),
    )
)
"""Values that say how something is done, or that somebody still has to fill in."""

_PLACEHOLDER = lazy_pattern(
    r"\*+|x+|\.+|…|<[^<>]*>|[\[{]+[\w .-]+[\]}]+|\$[A-Za-z_]\w*|%\w+%"
    r"|(?:your|insert|enter|replace|put|add)[-_ ].*(?:key|token|secret|password|here|value)"
    r"|.*[-_ ]here",
    re.IGNORECASE,
)
"""Texts that stand for a value, as in the examples of a README."""

_FACT = lazy_pattern(
    r"(?:file|filename|path|dir|directory|folder|url|uri|endpoint|host|hostname|port|type|mode|method|region"
    r"|ttl|expiry|expires|expiration|timeout|header|header_?name|prefix|name|algorithm|format|enabled|scopes?"
    r"|issuer|audience|provider)$"
)
"""Ends of names that say something about a secret: API_KEY_FILE, TOKEN_TTL."""

_WEAK = re.compile(r"(?:^|_)(?:keys?|sid|credentials?|secret)(?:_|$)")
"""Names of secrets, and of much else: KEY, SORT_KEY."""

_ADDRESS = lazy_pattern(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
_FOLDERS = lazy_pattern(
    r"(?:~|\.{1,2}|\$HOME)/\S*|[A-Za-z]:[\\/].*"
    r"|/(?:app|data|etc|home|mnt|opt|private|root|run|secrets|srv|tmp|Users|usr|var|Volumes|workspaces?)"
    r"(?:/.*)?",
    re.DOTALL,
)
"""Paths: relative ones, and those in folders that machines have. A key in base64 may begin with a slash."""

_RANDOM = lazy_pattern(r"(?=.*[0-9])(?=.*[A-Za-z])\S{12,}|\S{24,}")


def looks_secret(name: str, value: str) -> bool:
    """Return whether the value of a variable, header, flag or query is likely to be a secret.

    The value has no variables of the servers file. Words such as "true", placeholders such as
    ``YOUR_API_KEY`` and paths are none.
    """
    text = value.strip()
    if len(text) < SHORTEST or text.casefold() in _WHOLE_WORDS or _PLACEHOLDER.fullmatch(text):
        return False
    if has_secret(text):
        return True
    name = name[:_LONGEST_NAME]
    plain = plain_name(name)
    if _FACT.search(plain) or _ADDRESS.fullmatch(text) or _FOLDERS.fullmatch(text):
        return False
    if name in _names():
        return True
    return _WEAK.search(plain) is not None and _RANDOM.fullmatch(text) is not None


def has_secret(text: str) -> bool:
    """Return whether a text has a secret of a known form: a service's key, a password in a URL, a JWT."""
    return hide_secrets(text, _names()) != text


@cache
def _names() -> SecretNames:
    return SecretNames()
