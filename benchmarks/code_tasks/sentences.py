"""Sentences that fill the notes, bodies and pages of the world."""

from __future__ import annotations

import random

_ENGLISH = (
    "The meeting began with a review of open points from the week before.",
    "Support reported that most customers ask about invoices and delivery dates.",
    "The new build server halves the waiting time, but the cache needs more disk.",
    "Two customers asked for an export in a format that their accountant can read.",
    "We agreed to keep the old interface until the end of the quarter.",
    "The supplier confirmed the dates for the next delivery of sensors.",
    "Tests on slow connections showed that the first page loads too many images.",
    "The contract with the hosting company ends in autumn, and an offer is due.",
    "A draft of the guide for new colleagues is in the shared folder.",
    "The migration of the mailing list went well, apart from three bounced addresses.",
    "Marketing wants numbers by region, and finance wants them by product.",
    "The backup of Tuesday was restored on a spare machine without any error.",
    "Nobody could reproduce the crash, so we added more details to the log.",
    "The kitchen on the second floor is closed until the pipes are repaired.",
    "Training for the new tool takes half a day, and six people have signed up.",
    "The audit found no serious problem, and four small ones that are fixed.",
)
_JAPANESE = (
    "前回の議事録を確認し、修正なしで承認した。",
    "問い合わせは請求書と納期に関するものが多い。",
    "新しいサーバーへの移行は予定どおり進んでいる。",
    "見積もりは三社から取り、来週までに比較表を作る。",
    "古い画面は今期の終わりまで残すことになった。",
    "倉庫の棚卸しで、部品の不足が二件見つかった。",
    "研修の日程は参加者の予定を聞いて決める。",
    "契約の更新について、法務の確認を待っている。",
    "障害の原因は設定の誤りで、手順書を直した。",
    "展示会の準備は、担当者を増やして進める。",
    "海外の取引先とは、月に一度の定例会を開く。",
    "備品の購入は、月末にまとめて申請する。",
)


def english(chance: random.Random, count: int) -> str:
    """Return a paragraph of so many sentences."""
    return " ".join(chance.choice(_ENGLISH) for _ in range(count))


def japanese(chance: random.Random, count: int) -> str:
    """Return a paragraph of so many sentences."""
    return "".join(chance.choice(_JAPANESE) for _ in range(count))
