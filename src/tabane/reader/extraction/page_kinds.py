"""Detection of pages that are shown instead of the content: logins, consent requests, paywalls, bot walls ….

The rules use what only such pages have (forms, scripts of a check, titles) together with how little they say:
an article about walls, cookies or logins is long, has links around it, or says it within longer paragraphs.

A bot wall is a page that a site shows in place of its own until a browser has passed a check. Most are
recognized by marks that only the page of the check has: scripts of normal pages that measure visitors are
from the same vendors and must not count.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from tabane.messages import Message, say
from tabane.reader.plain_text import title_of, visible_text

Element = Any

_SHORT = 1_500  # letters: a page that says more than this is content
_BRIEF = 600
_PARAGRAPH = 500  # letters of a paragraph that no page of a wall has
_TEASER = 1_500  # letters of an article that its site shows to everyone
_MOST_SCRIPTS = 40
_MOST_NAMED = 600  # elements whose names are looked at: the page of a check has few
_MOST_LINKS = 60
_OF_A_SCRIPT = 3_000  # characters of a script that are looked at
_PARTS = re.compile(r"\s*(?:[|–—·•»:：｜/]|\s-\s|－)\s*")


@dataclass(frozen=True, slots=True)
class PageKind:
    """A kind of page that is not what was asked for; ``warning`` says what it is and what can be done."""

    name: str
    warning: Message


@dataclass(frozen=True, slots=True)
class PageEvidence:
    """Evidence of a page's kind, taken before its content is cut out of its tree. Texts are in lower case.

    ``source`` has scripts, frames, ids and targets of forms; ``inputs`` are the types of visible fields.
    ``consent``: it shows a consent dialog and nothing else.
    """

    url: str
    title: str
    headings: tuple[str, ...]
    source: str
    inputs: tuple[str, ...]
    labels: str
    links: int
    closed: bool = False
    scripted: bool = False
    consent: bool = False


def evidence(
    root: Element,
    url: str,
    *,
    closed: bool = False,
    scripted: bool = False,
    consent: bool = False,
    without: Collection[Element] = (),
) -> PageEvidence:
    """Gather what is known of a page, except for the elements ``without``.

    ``closed``: its metadata says that not all of it is for everyone.
    """
    title = root.find(".//title")
    return PageEvidence(
        url,
        _short_text(title) if title is not None else "",
        tuple(text for at in _first_elements(root, without, "h1", "h2", "h3") if (text := _short_text(at))),
        _page_sources(root),
        tuple(
            (at.get("type") or at.tag).lower()
            for at in _first_elements(root, without, "input", "textarea", "select")
        ),
        " ".join(_button_labels(root, without)).lower(),
        sum(1 for _ in islice(root.iter("a"), _MOST_LINKS)),
        closed,
        scripted,
        consent,
    )


def page_kind(known: PageEvidence, visible: Sequence[str], kept: Sequence[bool]) -> PageKind | None:
    """Return the kind of a page, or None for content.

    ``visible`` are all its texts in order, and ``kept`` says which of them were taken for content.
    """
    seen = _Said(known, visible, kept)
    return _bot_wall(seen) or next((kind for is_kind, kind in _KINDS if is_kind(seen)), None)


class _Said:
    """The texts of a page, with the numbers that every rule asks for."""

    def __init__(self, known: PageEvidence, visible: Sequence[str], kept: Sequence[bool]) -> None:
        self.known = known
        self.visible, self.kept = visible, kept
        self.letters = sum(map(len, visible))
        self.longest = max(map(len, visible), default=0)
        self.content = sum(len(text) for text, keep in zip(visible, kept, strict=True) if keep)
        self.text = "\n".join(visible)[:8_000] if self.letters <= 2 * _SHORT else ""

    @property
    def short(self) -> bool:
        """Return whether the page says so little that it may be a wall."""
        return self.letters <= _SHORT and self.longest <= _PARAGRAPH

    def titled(self, pattern: re.Pattern[str]) -> bool:
        """Return whether the title, a part of it, or the first heading is one of the pattern."""
        names = (*_title_parts(self.known.title), *self.known.headings[:2])
        return any(pattern.fullmatch(name.strip(" .!。！…")) is not None for name in names)


# -- walls ---------------------------------------------------------------------------------------------

_CAPTCHA = re.compile(
    r"recaptcha/(?:api|enterprise)|\bg-recaptcha\b|\bh-captcha\b|hcaptcha\.com/"
    r"|challenges\.cloudflare\.com/turnstile"
    r"|\bcf-turnstile\b|\bfuncaptcha\b|arkoselabs\.com|friendlycaptcha|geetest|captcha\.(?:php|aspx?|jpg"
    r"|png|cgi)|/captcha\b",
    re.IGNORECASE,
)


_WIDGET = re.compile(r"^(?:g-recaptcha|h-captcha|cf-turnstile)\b", re.MULTILINE)


def wall_of(vendor: str | None) -> PageKind:
    """Return the kind of a page on which ``vendor`` checks that a browser is there."""
    if vendor:
        warning = say(
            "The site shows a bot check ({vendor}) instead of the page. Ask the user to open the page in a "
            "browser, or to import that browser's cookies: tabane reader cookies HOST FILE.",
            vendor=vendor,
        )
    else:
        warning = say(
            "The site shows a bot check instead of the page. Ask the user to open the page in a "
            "browser, or to "
            "import that browser's cookies: tabane reader cookies HOST FILE."
        )
    return PageKind("bot-wall", warning)


def _bot_wall(seen: _Said) -> PageKind | None:
    if not seen.short:
        return None
    known = seen.known
    if vendor := by_marks(known.source) or by_marks(seen.text[:2_000]):
        return wall_of(vendor)
    if known.links > 15 or seen.letters > 1_200:
        return None
    said = phrases(seen.text)
    titled = any(map(is_title, (known.title, *_title_parts(known.title), *known.headings[:2])))
    captcha = _CAPTCHA.search(known.source) is not None and not _asks_more(known)
    # A script alone is not a check: many pages measure their visitors with one.
    alone = seen.letters < 80 and not known.scripted and _WIDGET.search(known.source) is not None
    certain = said >= 3 or (said >= 1 and (titled or captcha)) or (captcha and alone)
    return wall_of(None) if certain else None


def _asks_more(known: PageEvidence) -> bool:
    """Return whether a page has a form for something else: a message, a search, a login."""
    return bool({"textarea", "password", "email", "select", "tel"} & set(known.inputs))


_CONSENT_HOST = re.compile(
    r"(?:consent|guce|cmp|privacy-?gate|myprivacy|cookiewall|privacy-?wall)\.[\w.-]+"
    r"|[\w.-]*\.consent\.[\w.-]+"
)
_CONSENT_PATH = re.compile(
    r"/(?:cookie-?wall|consent-?wall|privacy-?(?:wall|gate)|collectconsent|cookie-?consent|gdpr-?consent"
    r"|consent)(?:[/.?]|$)",
    re.IGNORECASE,
)
_CONSENT_TITLE = re.compile(
    r"before you continue(?: to .{1,40})?|(?:we value )?your privacy(?: (?:matters|choices))?"
    r"|we (?:value|respect|care about) your privacy"
    r"|(?:cookie|privacy) (?:consent|settings|preferences|choices|wall|notice)|consent(?: required)?"
    r"|privacy (?:gate|wall)"
    r"|cookies?|we use cookies|manage (?:your )?(?:cookies|privacy|consent)"
    r"|(?:your )?data\. your (?:experience|choice)"
    r"|cookie(?:の)?(?:使用|利用|設定|ポリシー)?(?:(?:に関する|への|に|の)?(?:同意|お知らせ|確認|設定))(?:のお願い|について|ください)?"
    r"|クッキー(?:の(?:使用|利用))?(?:に関する|への|に)?(?:同意|お知らせ|確認)"
    r"|プライバシー(?:の)?(?:設定|確認)|続行する前に",
    re.IGNORECASE,
)
_COOKIES = re.compile(
    r"(?<![a-z])cookies?(?![a-z])|クッキー|\bconsent\b|\bgdpr\b|tracking technolog|個人(?:情報|データ)",
    re.IGNORECASE,
)
_ACCEPT = re.compile(
    r"\b(?:accept|agree|reject|allow|consent|manage|decline|got it)\b|同意|承諾|許可|拒否|受け入れ|accepter"
    r"|akzeptieren|zustimmen|aceptar|accetta|akkoord|accepteren",
    re.IGNORECASE,
)


def _is_consent(seen: _Said) -> bool:
    known = seen.known
    if known.consent and not known.scripted:
        return True
    if seen.letters > 5_000:
        return False
    parts = urlsplit(known.url)
    if _CONSENT_HOST.fullmatch(parts.hostname or "") or _CONSENT_PATH.search(parts.path):
        return _COOKIES.search(seen.text) is not None and _ACCEPT.search(known.labels + seen.text) is not None
    if seen.letters > 2_500 or known.links > 25:
        return False
    return (
        seen.titled(_CONSENT_TITLE)
        and len(_COOKIES.findall(seen.text)) >= 2
        and _ACCEPT.search(known.labels) is not None
    )


_LOGIN_PATH = re.compile(
    r"/(?:log-?in|sign-?in|signon|sso|auth(?:orize|enticate)?|servicelogin|accounts?/log-?in"
    r"|users?/sign_in|session(?:s)?/new"
    r"|wp-login\.php|login\.(?:php|aspx?|html?|jsp|do)|oauth2?/authorize|checkpoint|member/login"
    r"|saml2?)(?:[/?;]|$)",
    re.IGNORECASE,
)
_LOGIN_HOST = re.compile(r"(?:login|signin|sso|auth|accounts?|id|idp)\.[\w.-]+")
_LOGIN_TITLE = re.compile(
    r"(?:(?:member|customer|account|user|client|admin|staff|student|subscriber|secure|please"
    r"|welcome back[,.!]?)\s+)?(?:log|sign)[ -]?(?:in|on)"
    r"(?: (?:to|with|or|required|page|first|/)\b.{0,60})?|welcome back|(?:login|authentication"
    r"|sign[ -]in) required|single sign-?on|you must (?:be logged|log|sign) in.{0,60}"
    r"|(?:会員|ユーザー?|お客様|管理者|マイページ)?(?:専用)?(?:の)?(?:ログイン|サインイン)(?:画面|ページ|フォーム|認証|してください|が必要です|する)?"
    r"|(?:会員)?認証(?:画面|ページ)?|.{1,20}(?:に|へ)ログイン(?:する)?",
    re.IGNORECASE,
)
_LOGIN_NEEDED = re.compile(
    r"you (?:must|need to|have to) (?:be (?:logged|signed) in|log ?in|sign ?in)|(?:please|kindly) (?:log"
    r"|sign) ?in (?:to|before|first)"
    r"|(?:log|sign) ?in (?:is )?(?:required )?to (?:view|see|access|continue|read) (?:this|the)?"
    r"|login (?:is )?required|requires? (?:you to be logged in|a login|authentication)"
    r"|session (?:has )?(?:expired|timed out)"
    r"|(?:ログイン|サインイン)(?:が必要|してください|して(?:から|下さい)|すると(?:閲覧|表示))"
    r"|(?:閲覧|ご覧になる|表示する|アクセスする)(?:に|ため)(?:は|に)、?(?:ログイン|サインイン|会員登録)",
    re.IGNORECASE,
)


def _is_login(seen: _Said) -> bool:
    known = seen.known
    if not 0 < seen.letters <= 2 * _SHORT or seen.longest > _PARAGRAPH:
        return False
    password = "password" in known.inputs
    parts = urlsplit(known.url)
    there = _LOGIN_PATH.search(parts.path) is not None or (
        _LOGIN_HOST.fullmatch(parts.hostname or "") is not None and bool(known.inputs)
    )
    titled = seen.titled(_LOGIN_TITLE)
    if password and (there or titled):
        return seen.content <= _SHORT
    if password and seen.letters < 400 and known.links <= 15:
        return True
    needed = _LOGIN_NEEDED.search(seen.text) is not None
    if there and (titled or needed) and seen.letters <= _SHORT and (known.inputs or known.links <= 15):
        return True
    return needed and seen.letters <= _BRIEF and (titled or password or known.links <= 15)


_AGE = re.compile(
    r"(?:are you|i am|i(?:'|’)m|you (?:must|have to|need to) be|confirm (?:that )?you(?:'|’"
    r"| a)re) (?:at least |over |above |of legal (?:drinking |smoking )?age|1[689]\b|2[01]\b)"
    r"|enter your (?:date of birth|birth ?(?:date|day|year)|age)|verify your age|age (?:verification"
    r"|gate|check|restricted)|legal drinking age|must be (?:18|19|20|21)\b"
    r"|年齢(?:確認|認証|制限)|(?:18|20|１８|２０|十八|二十)(?:歳|才)(?:以上|未満)|生年月日を(?:ご)?入力|成人向け|未成年",
    re.IGNORECASE,
)
_AGE_TITLE = re.compile(
    r"(?:age|birthday) (?:verification|gate|check|restriction|restricted|confirmation|required)"
    r"|verify (?:your )?age|adults? only|are you (?:over|at least|of) .{1,30}"
    r"|adult content|年齢(?:の)?(?:確認|認証|制限)(?:ページ|画面)?|成人向け(?:コンテンツ)?"
    r"|(?:content|mature content) warning"
    r"|confirm your age|enter your (?:age|date of birth)",
    re.IGNORECASE,
)
_AGE_BUTTONS = re.compile(
    r"\b(?:yes|no|enter|leave|exit|i am|i'm|over|under|confirm|continue|agree)\b"
    r"|はい|いいえ|以上|未満|入場|退場"
    r"|enter|同意",
    re.IGNORECASE,
)


def _is_age_gate(seen: _Said) -> bool:
    known = seen.known
    # The rest of the page may be in its source already; then it is content.
    if not seen.short or known.links > 25 or _AGE.search(seen.text) is None:
        return False
    answer = bool({"date", "select", "number", "tel"} & set(known.inputs)) or _AGE_BUTTONS.search(
        known.labels
    )
    return bool(answer) and (seen.titled(_AGE_TITLE) or seen.letters < _BRIEF)


# -- nothing there ----------------------------------------------------------------------------------------

_GONE_TITLE = re.compile(
    r"(?:(?:http )?(?:error|status|code|http)[ :]*)?404(?:[ :,.!-]*(?:error|not found|page not found"
    r"|file not found|file or directory not found|ページが見つかりません(?:でした)?))?"
    r"|(?:sorry[,.!]? )?(?:the |this |that )?(?:page|file|article|content|document|url|post|item|product"
    r"|resource|story|listing)(?: you(?:'|’)?(?:re| are)? (?:requested|looking for|are looking for))?"
    r"(?: is|(?:'|’)s| was| could| can| does| has| cannot be)?(?: not| no longer|n(?:'|’)t)*(?: be"
    r"| been)? ?(?:found|exists?|available|missing|removed|deleted|gone)(?: \(?(?:error )?404\)?| error)?"
    r"|not found(?: \(?(?:error )?404\)?)?|oops[!.,]?(?: (?:page|that page|404).{0,40})?"
    r"|nothing (?:was )?found(?: here)?|we can(?:'|’)?(?:no)?t find (?:that|the|this|your) page.{0,30}"
    r"|we couldn(?:'|’)t find (?:that|the|this) page.{0,30}|this page isn(?:'|’)t available"
    r"|page unavailable"
    r"|(?:お探し|ご(?:指定|要求)|アクセスしようとした|指定された|該当)?(?:の|する)?(?:ページ|記事|ファイル|url|コンテンツ|商品|画面)(?:が"
    r"|は)?(?:現在)?(?:、)?(?:見つかりません(?:でした)?|見つかりませんでした|存在しません|ありません(?:でした)?|表示できません|削除されました|公開されていません"
    r"|お取り扱いがございません)"
    r"|404(?:エラー|\s*ページ)?",
    re.IGNORECASE,
)
_GONE_TEXT = re.compile(
    r"(?:you(?:'|’)?(?:re| are| were| have)? ?(?:looking for|requested|trying to (?:reach|access|find"
    r"|view)|followed|clicked))"
    r"|(?:requested|specified) (?:url|page|file|resource|document)|(?:may|might|has"
    r"|have) (?:have )?(?:been )?(?:moved|removed|deleted|renamed|expired|changed)"
    r"|(?:does|did)(?: not|n(?:'|’)t) exist|no longer (?:exists?|available)|(?:can(?:'|’)?t|cannot"
    r"|could(?: not|n(?:'|’)t)|unable to) (?:be )?f(?:ind|ound)|check the (?:url|address|spelling)"
    r"|mistyped|broken link|(?:back|return|go) (?:to (?:the )?)?home"
    r"|お探しの|指定された|(?:移動|削除|変更)(?:され|した|、|または|もしくは)|(?:url|アドレス)(?:を|が|に)(?:ご)?(?:確認|間違|誤り|変更)|見つかりません"
    r"|存在しません|(?:トップ|ホーム)(?:ページ)?(?:へ|に)(?:戻る|もどる)|掲載(?:期間)?(?:が)?終了",
    re.IGNORECASE,
)


_OF_A_PAGE = re.compile(r"404|page|url|ページ")


def _is_missing(seen: _Said) -> bool:
    # Menus and footers may be long; what is neither may not.
    if seen.content > 800 or seen.longest > _PARAGRAPH or seen.letters > 4 * _SHORT:
        return False
    names = (*_title_parts(seen.known.title), *seen.known.headings[:2])
    titles = [name for name in names if _GONE_TITLE.fullmatch(name.strip(" .!。！…😕"))]
    if not titles:
        return False
    rest = "\n".join(text for text in seen.visible if text.strip().lower() not in titles)[:8_000]
    alone = len(titles) >= 2 and seen.content < 250 and _OF_A_PAGE.search(" ".join(titles))
    return bool(alone) or _GONE_TEXT.search(rest) is not None


_PARKED = re.compile(
    r"(?:this |the )?(?:web)?(?:domain|site)(?: name)? (?:[\w.-]{1,80} )?(?:is|may be|has been"
    r"|was) (?:for sale|parked|available for (?:sale|purchase)|registered (?:at|with|by)|pending renewal"
    r"|expired)"
    r"|buy this domain|domain (?:is )?parking|parked (?:free|domain|page|courtesy)"
    r"|inquire about this domain|get this domain|related searches?:?\s+ads by|domain has expired"
    r"|(?:この|当|本)ドメイン(?:名)?は.{0,40}(?:取得|販売|登録|売り出|失効|期限)"
    r"|ドメイン(?:パーキング|の有効期限)|welcome to nginx"
    r"|apache2? (?:ubuntu |debian |http server )?(?:default|test) page"
    r"|^it works!$|default web site page|iis windows server|index of /$"
    r"|site (?:is )?(?:under construction|coming soon|not (?:yet )?(?:published|configured))"
    r"|website is (?:under construction|coming soon)"
    r"|your (?:new )?(?:web ?site|web ?server|hosting) is (?:ready|working|up and running)"
    r"|there is no website configured|このサイトは(?:現在)?(?:準備中|工事中|公開されていません)"
    r"|サイトは(?:ただいま)?(?:準備中|工事中)",
    re.IGNORECASE | re.MULTILINE,
)
_PARKING = re.compile(
    r"sedoparking\.com|parkingcrew\.net|\bbodis\.com|\babove\.com/|\bdan\.com/buy-domain|afternic\.com"
    r"|\bhugedomains\.com|parklogic|\bsedo\.com/|img1\.wsimg\.com/parking-lander|d38psrni17bvxu"
    r"|undeveloped\.com|domainparking",
    re.IGNORECASE,
)


def _is_parked(seen: _Said) -> bool:
    if not seen.short or seen.letters >= _BRIEF:
        return False
    stated = seen.known.links <= 25 and _PARKED.search(f"{seen.known.title}\n{seen.text}") is not None
    return stated or _PARKING.search(seen.known.source) is not None


# -- paywalls ------------------------------------------------------------------------------------------

_PAY = re.compile(
    r"subscribe (?:now |today )?to (?:continue|keep|read|unlock|finish)|to (?:continue|keep"
    r"|finish) reading[,.]?|continue reading (?:with|by|for|your)|(?:keep|continue) reading with a"
    r"|(?:want|wish) to (?:keep|continue) reading"
    r"|this (?:article|content|story|post|page|issue) is (?:only |exclusively )?(?:for"
    r"|available (?:only )?to|reserved for|exclusive to"
    r"|available exclusively)(?: \w+){0,3} (?:subscribers|members|users)"
    r"|(?:subscriber|member)s?[- ]only (?:content|article|story|post)|already (?:a |an )?(?:subscriber"
    r"|subscribed|member)\b|(?:create|sign up for) (?:an|a free) account to (?:read|continue|unlock"
    r"|view)|register (?:for free )?to (?:continue|read|keep)|unlock (?:this|the (?:full|rest)|full)"
    r"|you(?:'|’)ve (?:reached|hit|used|read) (?:your|all|the) .{0,40}(?:limit|free|articles)"
    r"|free articles? (?:remaining|left|this month)|(?:log|sign) in (?:or subscribe "
    r"|or register )?to (?:read|continue|keep) (?:reading|the)|rest of this (?:article|story|post)"
    r"|(?:会員|有料(?:会員)?|購読者|読者|登録会員|プレミアム会員|有料プラン)(?:の(?:方)?|様|登録者)?(?:だけ|のみ|専用|限定)(?:の|に|が|で|記事|コンテンツ|公開"
    r"|です|閲覧|ページ)|(?:会員|有料)限定(?:記事|コンテンツ)?|この(?:記事|コンテンツ|続き)は(?:、)?(?:会員|有料|購読)"
    r"|残り\s*[:：]?\s*[\d,，０-９]+\s*文字|(?:全文|続き)を(?:読む|お読みいただく|ご覧になる|ご覧いただく)(?:に|ため)(?:は|に)"
    r"|(?:会員)?(?:登録|ログイン)(?:して|すると|いただくと)(?:、)?(?:続き|全文|記事)|続きは(?:、)?(?:会員|有料|ログイン|購読|登録)|(?:ここ"
    r"|これ)から先は(?:、)?(?:有料|会員|ログイン|購読)|有料(?:記事|部分|エリア|コンテンツ)(?:です|は)|この記事の続き(?:を|は)|購入(?:すると|して)(?:続き|全文)"
    r"|(?:月額|税込).{0,30}(?:読み放題|購読)|先は、?(?:会員|有料)",
    re.IGNORECASE,
)
_PROMPT = 260  # letters of a block that asks for a subscription; a paragraph about that is longer
_AFTER = 600  # letters of content that may follow it: what follows more is shown


def _is_cut(seen: _Said) -> bool:
    """Return whether the content ends at a request to subscribe."""
    if seen.content > 4 * _TEASER or not seen.content:
        return False
    at = _last_prompt(seen)
    if at is None:
        return False
    after = sum(
        len(text)
        for text, keep in zip(seen.visible[at + 1 :], seen.kept[at + 1 :], strict=True)
        if keep and len(text) > 80
    )
    before = sum(len(text) for text, keep in zip(seen.visible[:at], seen.kept[:at], strict=True) if keep)
    limit = 4 * _TEASER if seen.known.closed else 2 * _TEASER
    return after <= _AFTER and after <= before and before <= limit


def _last_prompt(seen: _Said) -> int | None:
    """Return the number of the block that asks for a subscription, near the end of the content."""
    last = max((at for at, keep in enumerate(seen.kept) if keep), default=-1)
    near = range(max(0, last - 8), min(len(seen.visible), last + 25))
    first = 0 if seen.known.closed else near.start
    strong = 1 if seen.known.closed else 2
    found: list[int] = []
    said: set[str] = set()
    for at in range(first, near.stop):
        text = seen.visible[at]
        if 4 <= len(text) <= _PROMPT and (match := _PAY.search(text)):
            found.append(at)
            said.add(match[0].lower())
    enough = len(said) >= strong or (found and seen.content < _BRIEF) or _STRONG.search(" ".join(said))
    return found[0] if found and enough else None


_STRONG = re.compile(
    r"残り|subscribe .{0,12}to (?:continue|keep|unlock|finish)|to (?:continue|keep|finish) reading"
    r"|for (?:\w+ )?(?:subscribers|members)|(?:keep|continue) reading with|full story|to read"
    r"|(?:create|sign up for) an?|続きを"
    r"|全文を|から先は|この(?:記事|続き)|続きは|subscribers|paid"
)


_KINDS = (
    (_is_consent, PageKind("consent-wall", say(
        "The site shows a cookie consent request instead of the page. Ask the user to answer it in a "
        "browser, and to import that browser's cookies: tabane reader cookies HOST FILE."))),
    (_is_login, PageKind("login", say(
        "The site shows a login page instead of the content. If the user has an account, ask them to import "
        "the cookies of a browser that is logged in: tabane reader cookies HOST FILE."))),
    (_is_age_gate, PageKind("age-gate", say(
        "The site asks for the reader's age instead of showing the page. Ask the user to answer in a "
        "browser, and to import that browser's cookies: tabane reader cookies HOST FILE."))),
    (_is_missing, PageKind("not-found", say(
        "The site says that this page does not exist, although the status is 200. Check the URL."))),
    (_is_parked, PageKind("parked", say(
        "There is no website at this address, only a placeholder page of the domain or the server."))),
    (_is_cut, PageKind("paywall", say(
        "Only a part of the page is readable. The rest is for subscribers or members. If the user is one, "
        "ask them to import their browser's cookies: tabane reader cookies HOST FILE."))),
)  # fmt: skip
"""What decides whether a page is of a kind, and the kind, in the order in which they are asked."""


# -- pages that go on ------------------------------------------------------------------------------------

LOADS_MORE = say(
    "The page loads more content when it is scrolled. To read it, set scrolls to a number of screens. This "
    "requires reader_render = auto."
)
_ENDLESS = re.compile(r"(?<!animate-)(?<!animation-)infinite[-_]?(?:scroll|list|load|feed)", re.IGNORECASE)
_MOST_LISTS = 20
_OF_A_LIST = 300  # letters of the content that is in the list


def endless_lists(root: Element) -> list[Element]:
    """Return the lists of a page that its scripts make longer when it is scrolled."""
    names = (
        (at, f"{at.get('class', '')} {at.get('id', '')}") for at in root.iter("div", "section", "ul", "main")
    )
    found = (at for at, name in names if "nfinite" in name and _ENDLESS.search(name[:1_000]))
    return list(islice(found, _MOST_LISTS))


def loads_more(lists: Sequence[Element], root: Element) -> bool:
    """Return whether content is in one of these lists: what is not has been removed from the page."""
    return any(
        root in at.iterancestors() and sum(map(len, islice(at.itertext(), 200))) > _OF_A_LIST for at in lists
    )


# -- evidence ---------------------------------------------------------------------------------------------


_ON_DEMAND = re.compile(
    r"(?:^|[\s_-])(?:d-none|hidden|modal|popup|dropdown|drawer|offcanvas|lightbox)(?:$"
    r"|[\s_-])",
    re.IGNORECASE,
)


def _short_text(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())[:300].lower()


def _title_parts(title: str) -> tuple[str, ...]:
    """Return a title and its parts, which separate the name of a page from that of its site."""
    return (title, *_PARTS.split(title))


def _is_hidden(element: Element) -> bool:
    """Return whether a field is in a part that is shown on demand, such as a login of a menu."""
    for at in (element, *islice(element.iterancestors(), 12)):
        style = (at.get("style") or "").replace(" ", "").lower()
        if at.get("hidden") is not None or at.get("aria-hidden") == "true" or "display:none" in style:
            return True
        if _ON_DEMAND.search(f"{at.get('class') or ''} {at.get('id') or ''}") and at.tag != "body":
            return True
    return False


def _elements_outside(elements: Iterator[Element], without: Collection[Element]) -> Iterator[Element]:
    """Return the elements that are not within others."""
    if not without:
        return elements
    return (at for at in elements if not any(above in without for above in at.iterancestors()))


def _first_elements(root: Element, without: Collection[Element], *tags: str) -> list[Element]:
    """Return the first elements of these tags: more tell nothing more."""
    found = []
    for element in _elements_outside(root.iter(*tags), without):
        if element.tag == "input" and (
            (element.get("type") or "").lower() == "hidden" or _is_hidden(element)
        ):
            continue
        found.append(element)
        if len(found) >= 40:
            break
    return found


def _button_labels(root: Element, without: Collection[Element]) -> list[str]:
    """Return the texts of buttons and of what looks like one."""
    found = []
    for element in _elements_outside(root.iter("button", "input", "a"), without):
        kind = (element.get("type") or "").lower()
        if element.tag == "a" and not (
            element.get("role") == "button" or "b" in (element.get("class") or "")
        ):
            continue
        if element.tag == "input" and kind not in ("submit", "button"):
            continue
        found.append(element.get("value") or _short_text(element)[:60])
        if len(found) >= 60:
            break
    return found


def _page_sources(root: Element) -> str:
    """Return what scripts, frames and forms are made of, for marks that are not text."""
    found: list[str] = []
    count = 0
    for element in islice(root.iter("script", "iframe", "form"), _MOST_NAMED):
        if element.tag == "script":
            count += 1
            if count > _MOST_SCRIPTS:
                continue
            found.append((element.text or "")[:_OF_A_SCRIPT])
        found.extend(value[:500] for name in ("src", "action") if (value := element.get(name)))
    for element in islice(root.iter("div", "form", "script", "span", "p", "body", "input"), _MOST_NAMED):
        if key := element.get("id"):
            found.append(f"id={key[:80]}")
        if (name := element.get("class")) and "aptcha" in name:
            found.append(name[:80])
    return "\n".join(found)


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
         r"|\bpowered and protected by akamai\b"
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
        r"|automation tools|think (?:that )?you (?:were|are|might be|may be) a (?:ro)?bot",
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
    text = visible_text(source)[:_LONGEST]
    # The text too: its characters may be written as entities.
    if vendor := by_marks(source) or by_marks(text):
        return vendor
    said = phrases(text) if len(text) < _LITTLE else 0
    titled = is_title(title_of(source) or "")
    return "" if said >= 3 or (said >= 2 and titled) else None
