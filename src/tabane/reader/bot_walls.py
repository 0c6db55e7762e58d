"""Bot walls: pages that a site shows in place of its own until a browser has passed a check. Pure.

Most are recognized by marks that only the page of the check has: scripts of normal pages that measure
visitors are from the same vendors and must not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tabane.reader.plain_text import title_of, visible_text

_MARKS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (vendor, re.compile(marks, re.IGNORECASE))
    for vendor, marks in (
        (
            "Cloudflare",
            r"\b_?cf_chl_(?:opt|ctx|prog|jschl_tk)|/challenge-platform/h/\w{1,4}/orchestrate/"
            r"|cf-challenge-running"
            r"|\bchallenge-error-text\b|\bcf-browser-verification\b|\bcf-im-under-attack\b"
            r"|\bcf-captcha-container\b",
        ),
        ("DataDome", r"\bct\.captcha-delivery\.com/|\bgeo\.captcha-delivery\.com/"),
        ("PerimeterX", r"\bpx-captcha\b|\bcaptcha\.px-(?:cdn|cloud)\.net|\bcaptcha\.perimeterx\.net"),
        ("Akamai", r"\bsec-if-cpt-container\b|/_sec/cp_challenge/|\berrors\.edgesuite\.net\b"
         r"|\bsec-bc-tile-container\b"),
        ("Imperva", r"/_Incapsula_Resource\?(?:\w{1,20}=[^\s\"'&]{0,80}&(?:amp;)?){0,6}(?:edet"
         r"|incident_id|cinfo|xinfo)=|\bincapsula incident id\b"),
        ("AWS WAF", r"\bgokuProps\b|\bchallenge-container\b.{0,400}AwsWaf"
         r"|\bawsWafCookieDomainList\b.{0,400}\bgokuProps\b"),
        ("Anubis", r"\banubis_(?:challenge|version|public_url|base_prefix)\b"
         r"|/\.within\.website/x/cmd/anubis/"),
        ("Kasada", r"\bips\.js\?(?:[\w.-]{1,40}=[^\s\"'&]{0,200}&(?:amp;)?){0,4}KP_UIDz"),
        ("Sucuri", r"\bsucuri_cloudproxy_js\b"),
        ("DDoS-Guard", r"/\.well-known/ddos-guard/js-challenge/|\bddg-captcha\b"),
        ("Vercel", r"/\.well-known/vercel/security/(?:static/)?challenge|\bvercel security checkpoint\b"),
        ("go-away", r"/\.well-known/\.git\.gammaspectra\.live/git/go-away/"),
        ("F5", r"\bthe requested url was rejected\. please consult with your administrator"),
        ("Radware", r"\bradware (?:bot manager )?captcha\b|\bvalidate\.perfdrive\.com/"),
        ("Google", r"\bid=[\"']?captcha-form\b|/sorry/index\?continue="),
        ("Amazon", r"/errors/validateCaptcha\b"),
    )
)  # fmt: skip

_TITLES = re.compile(
    r"just a moment(?:\.{1,3}|…)?|attention required!?|please wait(?:\.{1,3}|…)?"
    r"|access (?:to this page has been )?denied"
    r"|pardon our interruption(?:\.{1,3}|…)?|robot check|making sure you(?:'|’)re not a (?:ro)?bot!?"
    r"|(?:vercel )?security check(?:point)?|ddos-guard|are you (?:a )?(?:robot|human|not a robot)\??"
    r"|captcha(?: (?:page|check|challenge))?"
    r"|(?:human|bot|browser|captcha|security) (?:verification|check|challenge)"
    r"|one moment,? please(?:\.{1,3}|…)?"
    r"|client challenge|(?:verifying|checking|validating) your (?:browser|connection)(?:\.{1,3}|…)?"
    r"|(?:sorry, )?you (?:have been|are|were) blocked|request (?:rejected|blocked|unsuccessful)|blocked"
    r"|please (?:verify|confirm|prove) (?:that )?you are (?:a )?human|too many requests"
    r"|unusual traffic(?: detected)?"
    r"|bot detected|verify (?:that )?you are (?:a )?human|performing security verification|human check"
    r"|セキュリティ(?:の)?(?:チェック|確認|検証)|アクセス(?:が)?(?:拒否(?:されました)?|制限(?:されています|されました)?)|画像認証|認証ページ"
    r"|ロボット(?:で(?:は)?ない|では(?:ない|ありません))?(?:こと)?(?:の)?(?:確認|チェック)|(?:ブラウザ(?:ー)?|人間であること|通信)(?:の|を)(?:確認"
    r"|検証)(?:しています|中)?"
    r"|しばらくお待ちください(?:\.{1,3}|…)?",
    re.IGNORECASE,
)
_PHRASES: tuple[re.Pattern[str], ...] = tuple(
    re.compile(phrase, re.IGNORECASE)
    for phrase in (
        r"(?:verify|verifying|confirm|confirming|prove|make sure|making sure|ensure|check if"
        r"|whether) (?:that )?you(?:'|’| a)re (?:a )?(?:real )?(?:human|person|not (?:a )?(?:ro)?bot)",
        r"(?:i(?:'|’)m|i am|you(?:'|’)re|you are) not a (?:ro)?bot",
        r"checking (?:if the site connection is secure|your (?:browser|connection)"
        r"|the security of your connection)|verifying your (?:browser|connection)",
        r"enable (?:javascript|js) and (?:cookies to continue|disable any ad blocker)"
        r"|javascript and cookies (?:are|must be) (?:required|enabled)",
        r"(?:security by|protected by|ray id:?|protection by) ?(?:cloudflare|ddos-guard|datadome"
        r"|perimeterx|human security|anubis|akamai|imperva|sucuri|[0-9a-f]{16}\b)",
        r"unusual (?:traffic|activity|behavio(?:u)?r)",
        r"(?:needs? to|must) (?:review|check|verify) the security of your connection"
        r"|security service to protect (?:itself|against)",
        r"press (?:&|and) hold|complete (?:the|a|this) (?:security check|captcha|challenge|verification)"
        r"|solve (?:the|this|a) (?:captcha|puzzle|challenge)|enter the characters you see",
        r"(?:your )?support id is\b|incident id:?|reference (?:#|id|number)",
        r"don(?:'|’)t have permission to access .{1,300} on this server"
        r"|access (?:to this page )?has been (?:denied|blocked)|(?:have|has) been blocked",
        r"(?:automated|automatic) (?:access|requests?|traffic|queries|tools?|scripts?)|(?:like|as"
        r"|by) a (?:ro)?bot\b|\bbots? (?:activity|traffic|detection)|not a crawler"
        r"|think (?:that )?you (?:were|are|might be|may be) a (?:ro)?bot",
        r"ロボットでは(?:ない|ありません)|ロボットでない",
        r"人間であること(?:を|の)(?:確認|証明|検証)|人間による(?:操作|アクセス)",
        r"(?:不正|異常|過剰|大量)な(?:アクセス|通信|リクエスト)|通常と異なる(?:トラフィック|アクセス)",
        r"アクセス(?:が|を)(?:拒否|制限|遮断|ブロック)(?:され|し)",
        r"(?:ブラウザ(?:ー)?|接続の安全性|接続)(?:を|の)?(?:確認|検証)(?:しています|中)|接続のセキュリティ(?:を|の)(?:確認|検証)",
        r"自動(?:アクセス|プログラム|化され|的な(?:アクセス|リクエスト))|機械的なアクセス",
        r"画像(?:に表示され|認証|の文字)|表示され(?:て|た)(?:いる)?文字を(?:入力|ご入力)",
        r"(?:javascript|cookie)(?:と|および|や)(?:javascript|cookie)を有効に",
    )
)  # fmt: skip

_BY_HEADER: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (vendor, name, re.compile(value, re.IGNORECASE))
    for vendor, name, value in (
        ("Cloudflare", "cf-mitigated", r"challenge"),
        ("AWS WAF", "x-amzn-waf-action", r"captcha|challenge"),
        ("DataDome", "x-datadome", r"protected"),
        ("DataDome", "x-dd-b", r"."),
        ("Vercel", "x-vercel-mitigated", r"challenge|deny"),
        ("Kasada", "x-kpsdk-ct", r"."),
        ("Sucuri", "x-sucuri-block", r"."),
    )
)
_ALWAYS = frozenset({"cf-mitigated", "x-amzn-waf-action", "x-vercel-mitigated"})
"""Headers that only the response of a check has; the others count only with an error status."""

_LONGEST = 65_536  # characters in which marks are looked for
_LITTLE = 1_500  # letters: a page that says more is not one of a check


def by_headers(status: int, headers: Mapping[str, str]) -> str | None:
    """Return the vendor of the wall that the headers of a response name, or None."""
    for vendor, name, value in _BY_HEADER:
        if (status >= 400 or name in _ALWAYS) and value.search(headers.get(name, "")[:1000]):
            return vendor
    return None


def by_marks(source: str) -> str | None:
    """Return the vendor whose marks are in HTML or parts of it, or None."""
    source = source[:_LONGEST]
    return next((vendor for vendor, marks in _MARKS if marks.search(source)), None)


def is_title(text: str) -> bool:
    """Return whether a title or heading is one that pages of checks have."""
    return (
        _TITLES.fullmatch(text.strip().rstrip(".。")) is not None
        or _TITLES.fullmatch(text.strip()) is not None
    )


def phrases(text: str) -> int:
    """Return how many different things of those are said that pages of checks say."""
    text = text[:_LONGEST]
    return sum(phrase.search(text) is not None for phrase in _PHRASES)


def of_refusal(status: int, headers: Mapping[str, str], body: bytes) -> str | None:
    """Return the vendor of the wall that an error page is, "" if it is one of nobody known, None if none."""
    if vendor := by_headers(status, headers):
        return vendor
    if "html" not in headers.get("content-type", "text/html"):
        return None
    source = body[:_LONGEST].decode("utf-8", "replace")
    if vendor := by_marks(source):
        return vendor
    text = visible_text(source)[:_LONGEST]
    said = phrases(text) if len(text) < _LITTLE else 0
    titled = is_title(title_of(source) or "")
    return "" if said >= 3 or (said >= 2 and titled) else None
