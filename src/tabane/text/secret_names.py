"""Names of secrets in many languages: API_KEY, Passwort, contraseña, 暗証番号."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from fnmatch import translate
from functools import cache

MOST_REMEMBERED = 4096
"""Harmless names, and secret ones, that are remembered; beyond it, the memory begins again."""

_LONGEST = 200
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BETWEEN = re.compile(r"[\W_]+")

_HINTS = (
    "pass", "secret", "cookie", "cred", "auth", "key", "token", "pwd", "pw", "pat", "pin", "otp", "jwt",
    "bearer", "cvv",
    "cvc", "session", "csrf", "redirected", "code", "card", "ssn", "social", "mnemonic", "phrase", "wort",
    "contras",
    "clave", "mdp", "senha", "parola", "wachtwoord", "haslo", "heslo", "geheim", "jelsz", "webhook",
    "connection", "dsn",
    "insurance", "kode", "salasana", "answer", "unlock", "psk", "wifi", "wi_fi", "wlan", "schl",
    "cpf", "rrn", "aadha",
    "pesel", "curp", "nino", "number", "steuer", "tax", "fiscal", "national", "resident", "sandi",
)  # fmt: skip
"""Each secret name in ASCII contains one of these."""

_SECRET = (
    r"pass_?w(?:or)?d|pass_?phrase|pass_?code|pass_?key(?:_|$)|secrets?(?:_|$)|secret_?key|client_?secret"
    r"|cookie|credential"
    r"|authori[sz]ation|^redirected_?url$|code_?verifier|mnemonic|(?:seed|recovery|backup"
    r"|secret)_?(?:phrase|word)s?$"
    r"|(?:api|access|private|signing|encryption|decryption|master|ssh|account|auth|service|shared"
    r"|subscription|functions"
    r"|license|licence|priv|recovery|wallet|webhook|hmac|consumer|ocp|deploy|gpg|pgp|root|admin)_?key(?:s|$|_)"
    r"|(?:^|_)psk$|pre_?shared_?key|(?:wpa2?|wep|wi_?fi|wlan|network)_?(?:key|pass|schl(?:ü|ue)ssel)$"
    r"|(?:^|_)tokens?(?:_|$)"
    r"|(?:access|auth|refresh|id|bearer|bot|api|session|csrf|xsrf|device|user|client|personal)tokens?$"
    r"|(?:^|_)(?:pass|passwd|pwd|pw|pat|pin|otp|totp|auth|jwt|bearer|cv[vc]2?|session_?id|csrf|creds?|mdp|ssn"
    r"|pin_?(?:code|number)|clave|user_?pass)$"
    r"|(?:user|db|sql|smtp|ftp|root|admin|become|sudo|sftp|http|proxy|store|key)_?pass$"
    r"|(?:recovery|backup|verification|security|one_?time|otp|2fa|mfa|tan|sms|confirmation|scratch|unlock"
    r"|door|gate|alarm"
    r"|entry|access)_?codes?$|security_answers?$"
    r"|auth(?:entication)?_?codes?$"
    r"|(?:credit|debit|bank)_?card(?:_?n(?:umbe|o|um)r?)?$|card_?(?:number|num|no|pan)$|cc_?(?:number|num)$"
    r"|social_?security(?:_?(?:number|no))?$|national_?insurance(?:_?(?:number|no))?$|my_?number_?card$"
    r"|(?:^|_)(?:cpf|rrn|aadhaa?r|pesel|curp|nino)(?:_?(?:number|no|num))?$|^my_?number$|steuer_?(?:id|nummer)$"
    r"|(?:^|_)tax(?:payer)?_?(?:id|number)$|codice_?fiscale$|national_?id(?:entity)?(?:_?(?:number|no))?$"
    r"|passport_?(?:number|no|num)$|resident_?(?:id|registration)(?:_?(?:number|no))?$"
    r"|connection_?string|(?:^|_)dsn$|webhook_?url$"
    r"|(?:pass|kenn|losungs)wor(?:t|te|ts|ter)(?:_|$)|contrase(?:ñ|n)as?|clave_(?:secreta|de_acceso|privada)"
    r"|mots?_?de_?passe|(?:^|_)senhas?(?:_|$)|palavra_passe|parola_(?:d_ordine|chiave)|wachtwoord|has(?:ł"
    r"|l)o(?:_|$)"
    r"|(?:^|_)heslo|jelsz(?:ó|o)|l(?:ö|o)senord|adgangskode|salasana|geheimnis|geheimzahl|şifre|(?:^|_)sifre"
    r"|парол|секрет|ключ_доступа|пин_код|κωδικ|סיסמ|باسورد|(?:كلمة|رمز)_(?:ال)?(?:مرور|سر)|प_सवर_ड|mật_khẩu"
    r"|kata_sandi|รห_สผ_าน"
    r"|c(?:ó|o)digo_de_(?:verificaci(?:ó|o)n|seguridad|verifica(?:ç|c)(?:ã|a)o|seguran(?:ç|c)a)"
    r"|code_de_(?:v(?:é|e)rification|s(?:é|e)curit(?:é|e))|sicherheitscode|best(?:ä|ae)tigungscode"
    r"|パスワード|パスフレーズ|パスコード|暗証|秘密鍵|秘密の|認証番号|トークン|認証情報|合言葉|(?:api"
    r"|アクセス|シークレット|秘密|公開せず)_?キー"
    r"|シードフレーズ|(?:リカバリー?|復元)_?フレーズ|ニーモニック|(?:認証|確認|セキュリティー?|リカバリー?"
    r"|バックアップ|復旧|ワンタイム)_?コード"
    r"|マイナンバー|個人番号|(?:カード|クレジットカード)_?番号|接続文字列|シークレット(?:_|$)"
    r"|密码|密碼|口令|密钥|密鑰|令牌|私钥|私鑰|验证码|驗證碼|助记词|助記詞|身份证号|信用卡号"
    r"|비밀_?번호|비번|암호|비밀_?키|토큰|인증_?번호|인증_?코드|주민_?등록_?번호|카드_?번호|api_?키"
)
_HARMLESS = (
    r"(?:^|_)(?:max|min|num|n|total|count|input|output|prompt|completion|used|saved|budget|limit|context"
    r"|new|thinking|reasoning|page|next|cursor|continuation|sync|result|of)_tokens?$"
    r"|^tokens$|(?:secret|token|key|password|cookie|credentials?)s?_(?:name|ref|reference|type|path|store|version"
    r"|namespace|class|provider|scope|manager|policy|length|rotation|count|url|file|arn|(?:hash_)?algorithm)$"
    r"|palabra_clave|tokens?_(?:count|limit|budget|usage|type|index|length|size)$|(?:pin"
    r"|auth)_?(?:ned|hor)"
)


class SecretNames:
    """Decides by name whether a value is hidden. ``more`` are further names; ``*`` stands for any text."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        patterns = [translate(name.casefold()) for name in more]
        self._more = re.compile("|".join(patterns)) if patterns else None
        self._secret: set[str] = set()
        self.harmless: set[str] = set()
        """Names that were found harmless: a quick answer for most members."""

    def __contains__(self, name: str) -> bool:
        if name in self.harmless:
            return False
        if name in self._secret:
            return True
        secret = self._is_secret(name[:_LONGEST])
        remembered = self._secret if secret else self.harmless
        if len(remembered) >= MOST_REMEMBERED:
            remembered.clear()
        if len(name) <= _LONGEST:
            remembered.add(name)
        return secret

    def _is_secret(self, name: str) -> bool:
        if self._more is not None and self._more.match(name.casefold()):
            return True
        if name.isascii():
            lower = name.lower()
            if not any(hint in lower for hint in _HINTS):
                return False
        secret, harmless = _patterns()
        plain = plain_name(name).rstrip("0123456789_")
        return secret.search(plain) is not None and harmless.search(plain) is None


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what secret names match, and what those of them match that only look so."""
    return re.compile(_SECRET), re.compile(_HARMLESS)


def plain_name(name: str) -> str:
    """Return a name in one spelling: ``apiKey``, ``API-KEY`` and ``ＡＰＩ＿ＫＥＹ`` become ``api_key``."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
    return _BETWEEN.sub("_", _CAMEL.sub("_", name)).casefold()


# -- names beside their values ------------------------------------------------------------------------

PAIR_NAMES = frozenset(
    (
        *(
            "name",
            "key",
            "header",
            "field",
            "variable",
            "env",
            "k",
            "id",
            "label",
            "param",
            "parameter",
            "property",
        ),
        *(
            "attribute",
            "column",
            "selector",
            "element",
            "locator",
            "target",
            "placeholder",
            "question",
            "prompt",
        ),
        *("キー", "名前", "項目", "項目名", "ヘッダー", "変数", "键", "名称", "이름", "키"),
    )
)
PAIR_VALUES = frozenset(
    ("value", "values", "val", "v", "wert", "valor", "valeur", "valore", "waarde", "値", "值", "값")
)
WEAK_PAIR_VALUES = frozenset(
    ("content", "text", "data", "default", "answer", "input", "body", "plaintext", "string", "内容", "回答")
)
"""Names of members that hold a value, or much else: only a short value is hidden."""

_PAIR_KINDS = PAIR_NAMES | {"type"}  # a type names a value only if it is "password"
_LONGEST_PAIR_NAME = 60


def may_be_pair(members: Mapping[str, object], names: SecretNames) -> bool:
    """Return whether a member of an object names the value in another one as secret."""
    held = (PAIR_VALUES | WEAK_PAIR_VALUES).intersection(map(str.casefold, members))
    return bool(held) and any(
        type(value) is str and name.casefold() in _PAIR_KINDS and names_secret(value, names)
        for name, value in members.items()
    )


def may_hold_named(items: Iterable[object], names: SecretNames) -> bool:
    """Return whether a string of a list may name another one, or a column, as secret."""
    return any(type(item) is str and names_secret(item, names) for item in items)


def names_secret(text: str, names: SecretNames) -> bool:
    """Return whether a value is the name of a secret, such as "password" in a list of pairs."""
    return 0 < len(text) <= _LONGEST_PAIR_NAME and text in names
