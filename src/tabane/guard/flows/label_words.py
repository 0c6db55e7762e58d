"""Words that tell what a tool does and on what: verbs, objects and places, in English and Japanese."""

from __future__ import annotations

from typing import Literal

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
"""Nouns for content that strangers can write."""

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
"""Private objects that may hold what a stranger wrote, if the description says so."""

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
"""Nouns for settings and objects whose change a stranger must not cause."""

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
