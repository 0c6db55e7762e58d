"""Features of each block: numbers that mean the same in every script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from math import log1p

from tabane.reader.extraction.blocks import FAR, NAMES, TAGS, ContentBlock, ElementBox, size, up

_END = re.compile(r"[.!?。!?…:;][\"'”’」』)\]]*$")
_COMMAS = re.compile(r"[,、，;]|(?<=[^\d])\.(?=\s)|。")
_DATE = re.compile(r"\b(19|20)\d\d\b|\d{1,2}:\d\d|\bago\b|年|前$")
_PRICE = re.compile(r"[$€£¥￥]\s?\d|\d\s?[€円]")
_LEGAL = re.compile(
    r"©|\(c\)\s|all rights reserved|copyright|cookies?\b|terms (?:of|and)|無断", re.IGNORECASE
)
_CALL = re.compile(
    r"^(?:share|tweet|pin it|follow|subscribe|sign (?:in|up)|log ?in|register|read more|learn more|more"
    r"|related|view|see (?:all|more)|show|load more|add to|buy|shop|download|skip to|back to|reply|report"
    r"|print|e-?mail|copy|next|prev|previous|home|menu|search|close|contact|advertisement|sponsored"
    r"|you (?:may|might)|popular|trending|recommended|latest|recent|tags?|categor|posted|published|by\b"
    r"|filed|comments?|leave a|join|シェア|フォロー|登録|ログイン|続きを|もっと|関連|おすすめ|人気|検索"
    r"|メニュー|ホーム|トップ|前の|次の|お問い?合|広告|一覧|コメント|タグ|カテゴリ|ランキング|新着|最新"
    r"|利用規約|会員)",
    re.IGNORECASE,
)
_REACH = 6  # blocks before and after a block whose prose counts
_NEAR = 8  # boxes around a block that are looked at
_FAR_APART = 20
_LEVELS = ("h1", "h2", "h3", "h4", "h5", "h6")


def rows(
    boxes: Sequence[ElementBox],
    blocks: Sequence[ContentBlock],
    title: str = "",
    declared: Sequence[float] = (),
    only: Iterable[int] | None = None,
) -> list[list[float]]:
    """Return a row of features for each block, or for those of the numbers in ``only``, in rising order.

    ``title`` is the title in the page's head, ``declared`` are the numbers of what the page declares to be.
    """
    if not blocks:
        return []
    best = _best(boxes)
    page = _page(boxes, blocks, best)
    own = _BlockFeatures(blocks) if only is not None else [_own(block) for block in blocks]
    root = boxes[0]
    repeated = _repeated(blocks)
    paths = _paths(blocks)
    around: dict[int, list[float]] = {}
    apart = {id(at): min(_FAR_APART, best.depth - at.depth) for at in up(best)}
    found: list[list[float]] = []
    before = 0
    total = max(1, root.letters)
    ends = _ends(best, blocks)
    heading_at = title_at = -1
    heading = [0.0, 0.0, 0.0]
    titles = _titles(blocks, title)
    asked = None if only is None else frozenset(only)
    prose = _prose(own, asked)
    for number, block in enumerate(blocks):
        box = block.box
        tag = box.element.tag
        if tag in _LEVELS:
            heading_at = number
            heading = [own[number][13], float(_LEVELS.index(tag) + 1), own[number][2]]
        if number in titles:
            title_at = number
        if asked is not None and number not in asked:
            before += block.letters
            continue
        key = id(box)
        outside = around.get(key)
        if outside is None:
            outside = around[key] = _around(box, root, apart)
        row = [
            *own[number],
            *outside,
            before / total,
            number / len(blocks),
            log1p(number),
            log1p(len(blocks) - number - 1),
            repeated[number],
            *paths[box.path],
            min(30, number - heading_at) if heading_at >= 0 else 40,
            *heading,
            min(60, number - title_at) if title_at >= 0 else (-2 if titles else -1),
            min(40, number - ends[0]) if number >= ends[0] else max(-40, number - ends[0]),
            max(-40, min(40, ends[1] - number)),
            *page,
        ]
        before += block.letters
        for step in (-2, -1, 1, 2):
            at = number + step
            if 0 <= at < len(blocks):
                other = own[at]
                row += [other[0], other[2], other[4], 1.0 if blocks[at].box.path == box.path else 0.0]
            else:
                row += [-1.0, -1.0, -1.0, -1.0]
        row += [_mean(prose, number), *declared]
        found.append(row)
    return found


class _BlockFeatures:
    """Features of each block by itself, computed on first use."""

    def __init__(self, blocks: Sequence[ContentBlock]) -> None:
        self._blocks = blocks
        self._found: dict[int, list[float]] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, number: int) -> list[float]:
        found = self._found.get(number)
        if found is None:
            found = self._found[number] = _own(self._blocks[number])
        return found


def _own(block: ContentBlock) -> list[float]:
    text, letters = block.text, max(1, block.letters)
    tag = block.box.element.tag
    head = text[:400]
    length = max(1, len(head))
    return [
        log1p(block.letters - block.linked),
        log1p(min(60, block.linked)),
        block.linked / letters,
        block.links,
        1.0 if _END.search(text[-4:]) else 0.0,
        len(_COMMAS.findall(head)) / length,
        sum(map(str.isdigit, head)) / length,
        sum(map(str.isupper, head)) / length,
        size(text) / max(1, block.words),
        block.bold / letters,
        1.0 if _DATE.search(head) else 0.0,
        1.0 if _PRICE.search(head) else 0.0,
        1.0 if _LEGAL.search(head) else 0.0,
        1.0 if _CALL.match(text) else 0.0,
        _LEVELS.index(tag) + 1 if tag in _LEVELS else 0,
        {
            "p": 1,
            "li": 2,
            "td": 3,
            "th": 3,
            "table": 3,
            "div": 4,
            "pre": 5,
            "dd": 6,
            "dt": 6,
            "button": 7,
            "label": 7,
        }.get(tag, 0),
        len(block.pieces),
        1.0 if block.pictures else 0.0,
    ]


def _prose(own: _BlockFeatures | list[list[float]], asked: Iterable[int] | None) -> list[float]:
    """Return how much prose each block has; 0 for those that are not near one that is asked for."""
    found = [0.0] * len(own)
    near = range(len(own)) if asked is None else {at for number in asked for at in _window(number, len(own))}
    for at in near:
        row = own[at]
        found[at] = row[0] * (1 - row[2])
    return found


def _window(number: int, count: int) -> range:
    return range(max(0, number - _REACH), min(count, number + _REACH + 1))


def _mean(prose: list[float], number: int) -> float:
    near = _window(number, len(prose))
    return sum(prose[near.start : near.stop]) / len(near)


def _around(box: ElementBox, root: ElementBox, apart: dict[int, int]) -> list[float]:
    depth, near = box.depth, box.near
    row: list[float] = [float(depth)]
    row += [min(FAR, depth - at) if at >= 0 else FAR + 1 for at in near]
    total = max(1, root.letters)
    chain = list(islice(up(box), _NEAR))
    for step in (0, 1, 2, 3, 5):
        at = chain[min(step, len(chain) - 1)]
        letters = max(1, at.letters)
        row += [
            letters / total,
            at.linked / letters,
            at.long / letters,
            log1p(letters / max(1, at.blocks)),
            log1p(at.blocks),
        ]
    repeated = max(chain, key=lambda at: at.repeats)
    row += [
        log1p(repeated.repeats),
        repeated.nth / repeated.repeats,
        log1p(repeated.letters),
        repeated.linked / max(1, repeated.letters),
    ]
    row += [log1p(box.repeats), log1p(box.nth)]
    row.append(float(_apart(box, apart)))
    return row


def _apart(box: ElementBox, known: dict[int, int]) -> int:
    """Return how many steps up from the best box a box is around it; 0 within it.

    ``known`` has the boxes around the best one, and is completed with those that were asked for.
    """
    below: list[ElementBox] = []
    found = _FAR_APART
    for at in up(box):
        if (before := known.get(id(at))) is not None:
            found = before
            break
        below.append(at)
    known.update((id(at), found) for at in below)
    return found


def _best(boxes: Sequence[ElementBox]) -> ElementBox:
    """Return the box that holds most of the long, unlinked text and not much else: as Readability would
    choose.
    """
    scores: dict[int, float] = {}
    of: dict[int, ElementBox] = {}
    for box in boxes:
        if box.long and box.blocks <= 2:
            for step, at in enumerate(islice(up(box), 4)):
                if step:
                    scores[id(at)] = scores.get(id(at), 0.0) + box.long / (1, 1, 2, 4)[step]
                    of[id(at)] = at
    if not scores:
        return boxes[0]
    return of[max(scores, key=lambda key: scores[key] * (1 - of[key].linked / max(1, of[key].letters)))]


def _ends(best: ElementBox, blocks: Sequence[ContentBlock]) -> tuple[int, int]:
    """Return numbers of the first and last block within a box."""
    inside: dict[int, bool] = {}
    within = [number for number, block in enumerate(blocks) if _within(block.box, best, inside)]
    return (within[0], within[-1]) if within else (0, len(blocks) - 1)


def _within(box: ElementBox, best: ElementBox, inside: dict[int, bool]) -> bool:
    """Return whether a box is in another. What is known of the boxes around it is not searched again."""
    below: list[ElementBox] = []
    found = False
    for at in up(box):
        known = inside.get(id(at))
        if known is None:
            below.append(at)
        found = known if known is not None else at is best
        if found or known is not None:
            break
    inside.update((id(at), found) for at in below)
    return found


def _titles(blocks: Sequence[ContentBlock], title: str) -> set[int]:
    """Return numbers of the headings that repeat the page's title."""
    title = title.casefold()
    found = set()
    for number, block in enumerate(blocks):
        text = block.text.casefold()
        if (
            len(text) > 3
            and block.box.element.tag in _LEVELS[:3]
            and text in title
            and 2 * len(text) > len(title)
        ):
            found.add(number)
    return found


def _repeated(blocks: Sequence[ContentBlock]) -> list[float]:
    counts: dict[str, int] = {}
    for block in blocks:
        counts[block.text] = counts.get(block.text, 0) + 1
    return [log1p(counts[block.text] - 1) for block in blocks]


def _paths(blocks: Sequence[ContentBlock]) -> dict[int, list[float]]:
    """Of all blocks at the same path: how many, how long, how much of it links."""
    sums: dict[int, list[int]] = {}
    for block in blocks:
        kept = sums.setdefault(block.box.path, [0, 0, 0])
        kept[0] += 1
        kept[1] += block.letters
        kept[2] += block.linked
    total = max(1, sum(kept[1] for kept in sums.values()))
    return {
        path: [log1p(n), log1p(letters / n), linked / max(1, letters), letters / total]
        for path, (n, letters, linked) in sums.items()
    }


def _page(boxes: Sequence[ElementBox], blocks: Sequence[ContentBlock], best: ElementBox) -> list[float]:
    root = boxes[0]
    letters = max(1, root.letters)
    tags: dict[str, int] = {}
    for box in boxes:
        tags[box.element.tag] = tags.get(box.element.tag, 0) + 1
    prose = sum(block.letters for block in blocks if block.box.element.tag == "p")
    talk = sum(1 for box in boxes if box.near[len(TAGS) + NAMES.index("talk")] == box.depth)
    shop = sum(1 for box in boxes if box.near[len(TAGS) + NAMES.index("shop")] == box.depth)
    card = sum(1 for box in boxes if box.near[len(TAGS) + NAMES.index("card")] == box.depth)
    return [
        log1p(letters),
        root.linked / letters,
        root.long / letters,
        best.long / max(1, root.long),
        best.linked / max(1, best.letters),
        log1p(best.long),
        prose / letters,
        log1p(len(blocks)),
        tags.get("article", 0),
        tags.get("main", 0),
        tags.get("h1", 0),
        log1p(talk),
        log1p(shop),
        log1p(card),
        log1p(sum(1 for block in blocks if _PRICE.search(block.text[:200]))),
    ]
