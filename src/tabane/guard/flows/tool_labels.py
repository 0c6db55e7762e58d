"""The labels of a tool: what the user says, then its server's annotations, then the table, then its words.

An annotation may add labels. It removes only what was guessed from words: a server that claims to be harmless
stays untrusted.

The shipped table, ``known_servers.json``, has one object a server: the packages that start it, the hosts that
it is reached at, and labels by pattern of the tools' names. The first pattern that fits decides. Patterns are
joined by ``|``, and ``external?attendees`` is external only if that parameter is given.

Labels from words are guesses, for tools that the table does not know. Only the name, the title and the first
sentence are read, because the rest of a description tells what else there is.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from tabane.servers.labels import (
    DESTRUCTIVE,
    EXTERNAL,
    NO_CHANGE,
    NO_LABELS,
    PRIVATE,
    UNTRUSTED,
    CallLabels,
    LabelChange,
    label_bits,
)


@dataclass(frozen=True, slots=True)
class DescribedTool:
    """One tool as its server describes it. The three hints are its annotations; None if it says nothing.

    ``parameters`` are the names of its parameters, ``meanings`` their descriptions, in the same order.
    """

    name: str
    title: str = ""
    description: str = ""
    parameters: tuple[str, ...] = ()
    read_only: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None
    meanings: tuple[str, ...] = ()

    @property
    def words(self) -> frozenset[str]:
        """The words of its name, in lower case."""
        return frozenset(words_of(self.name[:_LONGEST_NAME]))


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server as the user configured it: how it is started or reached, and the labels that the user gave.

    ``words`` are its command and arguments. ``change`` is for all of its tools, ``tools`` for single ones.
    """

    name: str
    words: tuple[str, ...] = ()
    url: str = ""
    change: LabelChange = NO_CHANGE
    tools: tuple[tuple[str, LabelChange], ...] = field(default=())


Deed = Literal[
    "read", "fetch", "send", "share", "upload", "delete", "pay", "execute", "control", "update", "create"
]
"""Effects of a tool. ``fetch`` reads an address that the caller chooses, ``share`` gives others access,
``control`` moves something in the world, and ``pay`` spends or moves money or goods."""


def _terms(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VERBS: tuple[tuple[Deed, str], ...] = (
    (
        "read",
        "get read list search find view show query lookup check retrieve describe count summarize recall "
        "scan inspect track monitor see display browse load peek analyze analyse explain compare calculate "
        "compute convert validate verify estimate preview select filter watch listen detect "
        "translate extract classify recommend suggest predict generate render draw plot login signin return "
        "give provide obtain retrieve gather collect discover identify resolve observe diagnose ping look",
    ),
    ("fetch", "fetch navigate visit goto crawl scrape curl wget"),
    (
        "send",
        "send publish forward tweet retweet broadcast notify announce submit reply respond repost dm sms",
    ),
    ("share", "invite grant"),
    ("upload", "upload export sync push"),
    (
        "delete",
        "delete remove erase drop purge clear revoke wipe destroy truncate unlink rm trash discard expire "
        "uninstall unsubscribe unfriend unfollow terminate kill shutdown reset overwrite deactivate "
        "cancel evict ban expel kick deprovision unregister",
    ),
    (
        "pay",
        "pay buy purchase checkout withdraw deposit sell donate redeem bid refund reserve rent subscribe "
        "charge",
    ),
    ("execute", "execute exec eval evaluate"),
    ("control", "unlock disarm dispatch prescribe administer launch"),
    (
        "update",
        "update edit modify change set rename replace patch adjust configure rotate enable disable "
        "switch toggle move merge approve reject assign manage reschedule allow block mark close reopen",
    ),
    (
        "create",
        "create add make insert write save new append draft upsert store remember register put "
        "schedule copy clone compose duplicate upsert init initialize",
    ),
)

CLEAR_VERBS: dict[str, Deed] = {word: deed for deed, verbs in _VERBS for word in verbs.split()}
"""Verbs that are no nouns in names of tools."""

_UNCLEAR: tuple[tuple[Deed, str], ...] = (
    ("send", "post message email mail text call chat answer deliver contact"),
    ("create", "comment review report"),
    ("share", "share"),
    ("pay", "order book transfer trade tip transact"),
    ("execute", "run command shell bash terminal"),
    ("fetch", "request download open"),
    ("control", "start stop turn lock arm"),
    ("update", "pin"),
    ("read", "print tail"),
)

NOUNS_ALONE = _words("answer report review request")
"""Unclear verbs that are nouns if they are the whole name, or begin a description."""

WEAK_VERBS = _words("give gives provide provides")
"""Verbs of a description that say less than a verb in the name."""

UNCLEAR_VERBS: dict[str, Deed] = {word: deed for deed, verbs in _UNCLEAR for word in verbs.split()}
"""Verbs that are nouns too: they count only if no other word of the name says what it does."""

UNTRUSTED_OBJECTS = _words(
    "email emails mail mails inbox gmail mailbox message messages msg msgs chat chats dm dms drive thread "
    "threads conversation conversations comment comments review reviews rating ratings post posts tweet "
    "tweets feed feeds timeline web website websites webpage webpages page pages url urls site article "
    "articles news rss headline headlines blog issue issues pr prs pull ticket tickets product products "
    "listing listings repo repository repositories readme mention mentions notification notifications "
    "forum subreddit reddit video videos transcript transcripts subtitle subtitles caption captions "
    "attachment attachments sms voicemail voicemails newsletter reply replies discussion discussions gist "
    "gists invoice invoices bill bills tweetfeed linkedin twitter facebook instagram youtube tiktok "
    "telegram whatsapp discord slack internet online html wiki wikipedia question questions answer "
    "answers bug bugs submission submissions response responses hackernews story stories podcast podcasts "
    "browser crawl scrape rental rentals property advertisement ads job jobs resume resumes cv "
    "application applications testimonial feedback event events invitation invitations calendar "
    "transaction transactions shared guestbook letter letters fax paper papers package packages snippet "
    "snippets profile profiles bio biography"
)
"""Nouns for content that anybody can write."""

PRIVATE_OBJECTS = _words(
    "revenue earnings income expense expenses budget budgets finance finances contract contracts sales "
    "vault email emails mail mails inbox gmail mailbox message messages chat chats dm dms conversation "
    "conversations thread threads sms voicemail voicemails calendar event events contact contacts address "
    "addresses file files document documents note notes drive folder folders directory account accounts "
    "balance balances transaction transactions payment payments card cards iban bank banking wallet "
    "health medical patient patients allergy allergies prescription prescriptions record records "
    "diagnosis passport password passwords credential credentials secret secrets apikey keychain token "
    "tokens profile history order orders purchase purchases photo photos picture pictures memory memories "
    "todo todos task tasks reminder reminders employee employees customer customers client clients lead "
    "leads deal deals invoice invoices bill bills salary payroll database table tables row rows sql voice "
    "recording recordings device devices camera cameras genetic dna genome location locations position "
    "trip trips booking bookings reservation reservations itinerary meeting meetings attachment "
    "attachments diary journal fitness sleep heart bookmark bookmarks saved subscription subscriptions "
    "inventory portfolio loan loans insurance tax taxes identity ssn birthday birthdate personal private "
    "user username workspace channel channels clipboard screen screenshot screenshots keystroke log logs "
    "env environment config household home vehicle grade grades student students logbook preferences "
    "membership ticket tickets page pages wiki entity entities node nodes graph schedule schedules"
)
"""Nouns for content of the user."""

PUBLIC_OBJECTS = _words(
    "web website websites webpage webpages url urls internet online public news rss article articles "
    "wikipedia hackernews reddit subreddit twitter tweet tweets youtube video videos product products "
    "hotel hotels restaurant restaurants flight flights weather forecast stock stocks price prices crypto "
    "paper papers arxiv package packages npm pypi documentation docs library libraries recipe recipes "
    "movie movies book books rating ratings review reviews listing listings property properties podcast "
    "podcasts song songs music map maps place places geocode"
)
"""Nouns for content that everybody can read: the result is public unless the tool speaks of the user."""

CONTAINERS = _words(
    "file files document documents folder folders directory note notes record records history private "
    "saved personal workspace channel"
)
"""Private objects that may hold untrusted content, if the description says so."""

OWNER_WORDS = _words("my own user users user's owner account personal private inbox saved your current")

MONEY_OBJECTS = _words(
    "money payment payments transaction transactions fund funds transfer crypto bitcoin ether ethereum "
    "eth btc coin coins wallet bill bills invoice tip cash order orders trade trades stock stocks shares "
    "deposit loan cheque check purchase subscription donation payout refund charge bet ticket tickets "
    "booking reservation reservations withdrawal"
)

GUARDED_OBJECTS = _words(
    "password passwords credential credentials passcode pin permission permissions access role roles "
    "policy policies firewall rule rules account accounts user users token tokens key keys apikey secret "
    "secrets dns domain webhook webhooks lock locks door doors garage alarm alarms camera cameras "
    "security appointment appointments prescription prescriptions medication patient record records "
    "payment payments transaction transactions scheduled beneficiary address profile settings setting "
    "configuration production deployment database signature certificate member members membership "
    "collaborator visibility privacy mfa 2fa will traffic signal emergency valve pump vehicle robot "
    "thermostat oven heater vote ownership filter autoreply insurance"
)
"""Nouns for settings and objects that untrusted content must not change."""

SPOKEN_OBJECTS = _words(
    "message messages email emails mail comment comments reply replies post posts tweet tweets issue "
    "issues pull pr discussion gist review reviews announcement status story thread dm sms invitation "
    "invite notification newsletter campaign release advertisement petition webpage article feedback "
    "complaint"
)
"""Nouns for content that others read once it is created."""

PUBLISHED_OBJECTS = _words("pull pr issue issues ticket discussion merge")
"""Nouns whose creation publishes them: "open an issue"."""

DRAFTS = _words("draft drafts template templates note notes")

RECIPIENTS = _words(
    "to cc bcc recipient recipients participant participants attendee attendees invitee invitees guest "
    "guests collaborators share_with shared_with emails email_addresses attendees_emails invitations"
)
"""Parameters that name who else gets it."""

ADDRESSES = _words("url urls uri link links href webhook webhook_url endpoint website page_url")
"""Parameters that name a place on the network."""

PROGRAM_OBJECTS = _words(
    "command commands shell script scripts bash terminal code python javascript js program sql statement "
    "process powershell"
)
"""Nouns for programs, which run with the rights of the user."""

OPENED_OBJECTS = _words("door doors garage lock gate valve safe blinds")

TRIVIAL_OBJECTS = _words(
    "background label labels tag tags highlight selection cache cart reaction star breakpoint draft "
    "drafts bookmark marker overlay"
)
"""Nouns for objects that can be deleted without harm."""

STRANGERS = (
    "other others people guest guests customer customers visitor visitors buyer buyers user users applicant "
    "applicants stranger strangers client clients sender senders public author authors third-party viewer "
    "viewers member members"
)
WRITING = (
    "wrote write written writes sent send filed file uploaded upload posted post left leave submitted submit "
    "reported shared"
)
RECEIVED = _words(
    "received incoming inbound unread forwarded scraped crawled user-generated third-party unsolicited"
)
"""Words of a description that say where something comes from: together with who wrote it, or alone."""

WEB_OBJECTS = _words(
    "url urls web webpage webpages page pages site website websites link links uri browser http https "
    "html internet"
)

# -- Japanese ---------------------------------------------------------------------------------------

JAPANESE_DEEDS: tuple[tuple[Deed, tuple[str, ...]], ...] = (
    ("delete", _terms("削除 消去 取り消 取消 キャンセル 解約 破棄 無効化 初期化 退会")),
    ("pay", _terms("送金 振込 振り込 支払 購入 注文 予約する 予約を作成 決済 出金 課金 返金 売却")),
    ("send", _terms("送信 投稿 返信 転送 公開 通知する 配信 メールを送 メッセージを送 発信 提出")),
    ("share", _terms("共有する 招待 共有し 権限を付与 権限を与")),
    ("upload", ("アップロード",)),
    ("execute", _terms("コマンドを実行 スクリプトを実行 コードを実行 シェル 実行する")),
    ("control", _terms("解錠 施錠 開錠 起動する 停止する 操作する 出動")),
    ("update", _terms("更新 変更 編集 修正 設定する")),
    ("create", _terms("作成 追加 登録 保存 記録")),
    ("read", _terms("取得 検索 一覧 読み 読む 表示 確認 参照 閲覧 調べ 返す 返します 要約")),
)
"""The last of these in a sentence says what the tool does, because a Japanese sentence ends with its verb."""

JAPANESE_UNTRUSTED = _terms(
    "メール 受信 メッセージ チャット コメント レビュー 口コミ 投稿 ツイート "
    "タイムライン ウェブ Web ページ サイト "
    "記事 ニュース イシュー プルリクエスト チケット 商品 掲示板 動画 字幕 添付 スレッド チャンネル 予定 "
    "カレンダー 取引 明細 請求書 共有された 通知 問い合わせ"
)
JAPANESE_PRIVATE = _terms(
    "メール 受信 メッセージ チャット 予定 カレンダー 連絡先 ファイル 文書 ドキュメント メモ ノート "
    "口座 残高 取引 "
    "明細 支払い履歴 カード 健康 患者 カルテ パスワード 個人 履歴 写真 タスク 顧客 社員 従業員 給与 "
    "データベース 位置情報 利用者の ユーザーの 自分の 日記"
)
JAPANESE_PUBLIC = _terms("ウェブ Web サイト ニュース 記事 商品 口コミ レビュー 天気 動画")
JAPANESE_GUARDED = _terms(
    "パスワード 権限 アカウント 鍵 口座 設定を変更 ファイアウォール 処方 予約 カルテ 住所 認証"
)
JAPANESE_SPOKEN = _terms("コメント 投稿 返信 イシュー プルリクエスト レビュー お知らせ")

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z\u00df-\u024f]+(?:'s)?|[0-9]+[a-z]*|[^\W\d_\u0000-\u024f]+")
_SENTENCE = re.compile(r"[.。!?\n]\s|[。\n]|\.$")
_LONGEST_SENTENCE = 240
_LONGEST_NAME = 128
_WRITTEN_BY_OTHERS = re.compile(
    rf"\b(?:{'|'.join(STRANGERS.split())})\s+(?:has\s+|have\s+)?(?:{'|'.join(WRITING.split())})\b"
    r"|\b(?:written|sent|posted|uploaded|submitted|filed|left|created|shared)\s+by\s+(?!you\b|the user\b)",
    re.IGNORECASE,
)
_OPENING = 6
"""Words of a description that may hold its verb: "This tool sends …"."""


@dataclass(frozen=True, slots=True)
class _Described:
    """A tool's words: of its name, and of name and first sentence together."""

    name: frozenset[str]
    objects: frozenset[str]
    sentence: str
    parameters: tuple[str, ...]

    @property
    def recipients(self) -> tuple[str, ...]:
        return tuple(each for each in self.parameters if each.lower() in RECIPIENTS)

    @property
    def takes_address(self) -> bool:
        return any(each.lower() in ADDRESSES for each in self.parameters)

    def says(self, terms: tuple[str, ...]) -> bool:
        """Return whether the first sentence has one of these Japanese terms."""
        return any(term in self.sentence for term in terms)


def inferred_labels(facts: DescribedTool) -> CallLabels:
    """Return the labels that a tool's own words suggest."""
    text = (facts.description or facts.title).strip()[: 2 * _LONGEST_SENTENCE]
    sentence = _SENTENCE.split(text, maxsplit=1)[0][:_LONGEST_SENTENCE]
    named = words_of(facts.name[:_LONGEST_NAME])
    described = _Described(
        frozenset(named), frozenset((*named, *words_of(sentence))), sentence, facts.parameters
    )
    found = NO_LABELS
    for deed in _deeds_of(facts.name[:_LONGEST_NAME], named, sentence):
        bits, if_given = _BY_DEED[deed](described)
        found = found.with_labels(bits, "name", if_given)
    return found


def words_of(text: str) -> list[str]:
    """Return the words of a name or text in lower case: ``sendEmail`` and ``send-email`` have two."""
    return [part.lower() for part in _PARTS.findall(text)]


WORDS_FILE = Path(__file__).with_name("tool_words.toml")


@cache
def tool_words(table: str, entry: str) -> frozenset[str]:
    """Return the words of one entry of ``tool_words.toml``."""
    return frozenset(_word_tables()[table][entry].split())


@cache
def _word_tables() -> dict[str, dict[str, str]]:
    return tomllib.loads(WORDS_FILE.read_text("utf-8"))


_TELLING = frozenset({"send", "share", "pay", "delete", "execute", "control"})
"""Effects for which the description counts too, because names such as ``make_offer`` hide them."""


# -- effects ---------------------------------------------------------------------------------------


def _deeds_of(name: str, named: list[str], sentence: str) -> Iterator[Deed]:
    """Yield what a tool does: usually one thing; more if its name joins verbs with ``and``."""
    is_prefixed = "_" not in name and name[:1].isupper()  # by its service, as in GmailSendEmail
    clear = [_clear_deed(part, last=is_prefixed) for part in _split_at_and(named)]
    certain = [deed for deed in clear if deed is not None]
    spoken = _described_deed(sentence)
    if certain:
        yield from dict.fromkeys(certain)
        if spoken in _TELLING and not {"read", "fetch"} & set(certain):
            yield spoken
        return
    nouns = NOUNS_ALONE if len(named) == 1 else frozenset()
    unclear = next((UNCLEAR_VERBS[word] for word in named if word in UNCLEAR_VERBS.keys() - nouns), None)
    weak = words_of(sentence)[:1] and words_of(sentence)[0] in WEAK_VERBS
    if unclear is not None and (spoken is None or weak):
        yield unclear
    elif spoken is not None:
        yield spoken


def _split_at_and(named: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in named:
        if word in ("and", "then"):
            yield part
            part = []
        else:
            part.append(word)
    yield part


def _clear_deed(part: list[str], *, last: bool) -> Deed | None:
    if len(part) > 1 and part[-2] in UNCLEAR_VERBS:
        part = part[:-1]  # "PostUpdate" is a post
    found = [CLEAR_VERBS[word] for word in part if word in CLEAR_VERBS]
    if not found:
        return None
    return found[-1] if last and part[0] not in CLEAR_VERBS else found[0]


def _described_deed(sentence: str) -> Deed | None:
    spoken = words_of(sentence)[:_OPENING]
    for place, word in enumerate(spoken):
        for stem in _stems_of(word):
            if stem in CLEAR_VERBS:
                return CLEAR_VERBS[stem]
            if place == 0 and stem in UNCLEAR_VERBS and stem not in NOUNS_ALONE:
                return UNCLEAR_VERBS[stem]
    return _japanese_deed(sentence)


def _japanese_deed(sentence: str) -> Deed | None:
    """Return what a Japanese sentence says: its verb comes last."""
    if sentence.isascii():
        return None
    places = [
        (sentence.rfind(term) + len(term), len(term), deed)
        for deed, terms in JAPANESE_DEEDS
        for term in terms
        if term in sentence
    ]
    return max(places)[2] if places else None


def _stems_of(word: str) -> Iterator[str]:
    yield word
    if word.endswith("ies"):
        yield word[:-3] + "y"
    if word.endswith("es"):
        yield word[:-2]
    if word.endswith("s"):
        yield word[:-1]


# -- labels of what it does -------------------------------------------------------------------------

_Found = tuple[int, tuple[str, ...]]


def _nothing() -> _Found:
    return 0, ()


def _read(tool: _Described) -> _Found:
    if tool.takes_address and tool.objects & WEB_OBJECTS:
        return UNTRUSTED | EXTERNAL, ()
    hit = tool.objects & PRIVATE_OBJECTS or tool.says(JAPANESE_PRIVATE)
    public = tool.name & PUBLIC_OBJECTS or (tool.says(JAPANESE_PUBLIC) and not tool.name & PRIVATE_OBJECTS)
    is_private = hit and not (public and not tool.objects & OWNER_WORDS)
    return (PRIVATE if is_private else 0) | _untrusted(tool), ()


def _untrusted(tool: _Described) -> int:
    """Return UNTRUSTED if others write it, else 0. A name with an object decides, else the description."""
    if tool.name & UNTRUSTED_OBJECTS or tool.objects & RECEIVED:
        return UNTRUSTED
    if _WRITTEN_BY_OTHERS.search(tool.sentence):
        return UNTRUSTED
    if tool.name & (PRIVATE_OBJECTS - CONTAINERS):
        return 0
    said = tool.objects & UNTRUSTED_OBJECTS or tool.says(JAPANESE_UNTRUSTED)
    return UNTRUSTED if said else 0


def _fetch(tool: _Described) -> _Found:
    if tool.name & OPENED_OBJECTS:
        return DESTRUCTIVE, ()
    if tool.takes_address or tool.objects & WEB_OBJECTS:
        return UNTRUSTED | EXTERNAL, ()
    if "open" in tool.name and tool.name & PUBLISHED_OBJECTS:
        return EXTERNAL, ()
    return _read(tool)


def _send(tool: _Described) -> _Found:
    if tool.name & DRAFTS:
        return _nothing()
    return EXTERNAL | DESTRUCTIVE, ()


def _upload(tool: _Described) -> _Found:
    if tool.name & {"upload", "push"} or tool.takes_address:
        return EXTERNAL, ()
    return (EXTERNAL, tool.recipients) if tool.recipients else _nothing()


def _delete(tool: _Described) -> _Found:
    return _nothing() if tool.name & TRIVIAL_OBJECTS else (DESTRUCTIVE, ())


def _pay(tool: _Described) -> _Found:
    return (EXTERNAL | DESTRUCTIVE if tool.name & {"send", "transfer"} else DESTRUCTIVE), ()


def _execute(tool: _Described) -> _Found:
    if not tool.objects & PROGRAM_OBJECTS and not tool.says(("コマンド", "スクリプト", "コード", "シェル")):
        return _nothing()
    return PRIVATE | DESTRUCTIVE, ()


def _control(tool: _Described) -> _Found:
    clear = any(CLEAR_VERBS.get(word) == "control" for word in tool.name)
    guarded = tool.name & GUARDED_OBJECTS or tool.says(JAPANESE_GUARDED)
    return (DESTRUCTIVE, ()) if clear or guarded else _nothing()


def _update(tool: _Described) -> _Found:
    if "trash" in tool.name:
        return DESTRUCTIVE, ()
    risky = tool.name & (GUARDED_OBJECTS | MONEY_OBJECTS | {"approve", "merge"})
    if risky or tool.says(JAPANESE_GUARDED):
        return DESTRUCTIVE, ()
    return (EXTERNAL, tool.recipients) if tool.recipients else _nothing()


def _create(tool: _Described) -> _Found:
    if tool.name & DRAFTS:
        return _nothing()
    if tool.name & (MONEY_OBJECTS | GUARDED_OBJECTS) or tool.says(JAPANESE_GUARDED):
        return DESTRUCTIVE, ()
    if tool.name & SPOKEN_OBJECTS or tool.says(JAPANESE_SPOKEN):
        return EXTERNAL, ()
    return (EXTERNAL, tool.recipients) if tool.recipients else _nothing()


_BY_DEED: dict[Deed, Callable[[_Described], _Found]] = {
    "read": _read,
    "fetch": _fetch,
    "send": _send,
    "share": _send,
    "upload": _upload,
    "delete": _delete,
    "pay": _pay,
    "execute": _execute,
    "control": _control,
    "update": _update,
    "create": _create,
}

TABLE_FILE = Path(__file__).with_name("known_servers.json")


class KnownServer(msgspec.Struct, frozen=True):
    """One server of the table."""

    name: str
    packages: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    tools: dict[str, tuple[str, ...]] = {}
    memory: bool = False
    """It keeps texts and gives them back."""

    def labels(self, tool: str) -> CallLabels | None:
        """Return the labels of a tool; None if no pattern fits."""
        tool = tool.lower()
        for patterns, given in self.tools.items():
            if any(fnmatchcase(tool, pattern) for pattern in patterns.split("|")):
                found = NO_LABELS
                for text in given:
                    name, _, condition = text.partition("?")
                    found = found.with_labels(
                        label_bits((name,)), "table", tuple(condition.split(",")) if condition else ()
                    )
                return found
        return None


class LabelTable:
    """Finds well-known servers by their package or address. The file is read on first use."""

    def __init__(self, file: Path = TABLE_FILE) -> None:
        self._file = file

    @cached_property
    def servers(self) -> Sequence[KnownServer]:
        """The known servers."""
        return msgspec.json.decode(self._file.read_bytes(), type=list[KnownServer])

    def find(self, server: ServerFacts) -> KnownServer | None:
        """Return what the table knows of a server; None if nothing."""
        try:
            host = (urlsplit(server.url).hostname or "").lower() if server.url else ""
        except ValueError:
            host = ""
        if host:
            return next(
                (
                    known
                    for known in self.servers
                    if any(host == domain or host.endswith("." + domain) for domain in known.hosts)
                ),
                None,
            )
        for word in server.words:
            if (known := self._packages.get(_package_name(word))) is not None:
                return known
        return None

    @cached_property
    def _packages(self) -> dict[str, KnownServer]:
        return {package: known for known in self.servers for package in known.packages}


def _package_name(word: str) -> str:
    """Return the package in a word of a command: without version, tag, folder and source."""
    word = word.rpartition("git+")[2] if "git+" in word else word
    if word.startswith(("/", ".", "~")) or "://" in word:
        word = word.rstrip("/").rpartition("/")[2].removesuffix(".git")
    for mark in ("==", ">=", "["):
        word = word.partition(mark)[0]
    scope, at, name = word[:1], word[1:].partition("@")[1], word[1:].partition("@")[0]
    word = scope + name if at else word
    return word.partition(":")[0].lower()


def labels_of_tool(tool: DescribedTool, server: ServerFacts, table: LabelTable) -> CallLabels:
    """Return the labels of a tool, and where each comes from."""
    change = server.change  # what the user says of the single tool wins
    for pattern, single in server.tools:
        if fnmatchcase(tool.name, pattern):
            change = change.then(single)
    found = NO_LABELS.with_labels(change.added, "settings")
    known = table.find(server)
    listed = known.labels(tool.name) if known is not None else None
    annotated = NO_LABELS
    if tool.destructive and not tool.read_only:
        annotated = annotated.with_labels(DESTRUCTIVE, "annotation")
    if tool.open_world and listed is None:
        annotated = annotated.with_labels(UNTRUSTED if tool.read_only else EXTERNAL, "annotation")
    if not listed:
        listed = inferred_labels(tool)
        listed = listed.without(DESTRUCTIVE) if tool.read_only else listed
    for rest in (annotated, listed):
        for bit, origin in rest.origins:
            found = found.with_labels(bit & ~change.removed, origin, rest.if_given)
    return found
