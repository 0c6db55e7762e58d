"""Detection of parts beside the content: comments of an article, lists of other pages, boxes that ask for a
subscription, rows that lead to the previous and next page.

Such parts are recognized before the content is chosen, by their headings, by the names of their elements and
by what repeats in them. Thus comments cannot win over the article that they are about. A thread of a forum,
a page of questions and answers and a list of dated cards are content: without a story on the page, comments
and lists of what is popular are left in place.

Every rule reads the page once, and takes time in proportion to its blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, islice
from typing import Any, NamedTuple

from tabane.reader.extraction.blocks import BlockSegmentation, ContentBlock, ElementBox, nearest, up

Element = Any

_LONG_HEADING = 70  # characters
_PROSE = 80  # unlinked letters of a block from which on it is prose
_STORY = 400  # letters of prose that are a story
_EXCERPT = 320  # unlinked letters of a card's excerpt
_SHORT = 140  # letters of an item without a link
_PER_LINK = 400  # letters of a card
_LONGEST_LIST = 12_000  # letters
_MOST_IN_LIST = 400  # blocks among the siblings of a heading
_MOST_STEPS = 200_000  # blocks that are looked at so, of one page: the sections of headings overlap
_CLIMB = 8  # boxes around a heading that may be its section
_ROW_OF_HEADING = 3  # blocks of a heading with "See all" beside it
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_PAGES = frozenset(("html", "body", "main"))

# -- words -------------------------------------------------------------------------------------------------

_OF_THINGS = (
    r"(?:articles?|posts?|stor(?:y|ies)|news|reading|reads|products?|items?|content|links?|videos?|topics?"
    r"|coverage|entries|recipes?|books?|jobs|blogs?|guides?|resources|searches|tags|pages|reports|features"
    r"|for you)"
)
_ELSEWHERE = re.compile(
    rf"related(?: {_OF_THINGS})?(?: (?:from|on|in|by|to) .{{1,40}})?|(?:similar|recommended|suggested"
    r"|other)"
    rf" {_OF_THINGS}(?: for you)?|recommended(?: (?:reading|by .{{1,30}}))?"
    r"|(?:you|we think you|readers|people|customers|users|others|shoppers)(?:'ll|’ll)?"
    r" (?:(?:who .{1,40} )?also |(?:may|might|could|will|would)(?: also)? )?"
    r"(?:bought|viewed|liked?|love|enjoy|read|purchased|looked at|be interested in|want to (?:read|see))"
    r"(?: .{1,30})?"
    r"|frequently bought together|(?:your )?recently viewed(?: (?:items|products))?"
    r"|(?:customers|people)(?: who)? (?:viewed|bought) .{1,40}"
    r"|sponsored (?:links?|content|products|stories)|(?:from )?around the web|promoted (?:links|stories"
    r"|content)"
    r"|(?:what to )?read (?:next|also)|also read|up next|keep reading|more like this"
    r"|complete the look|pairs well with|goes well with"
    r"|(?:関連|おすすめ|オススメ|お勧め|類似)(?:する|の|した)?"
    r"(?:記事|リンク|ニュース|商品|製品|ページ|トピックス?|キーワード|エントリー?|動画|コンテンツ|情報"
    r"|特集|書籍|アイテム|本|タグ|サイト)?(?:一覧)?"
    r"|(?:related|recommend(?:ed)?) ?(?:entry|articles?|posts?|items?)"
    r"|(?:こちら|これ|あわせて|合わせて|併せて|一緒に|次に)(?:の記事)?(?:も|に)?(?:読みたい"
    r"|読まれて(?:いる|います)|おすすめ|オススメ|どうぞ|チェック|ご覧ください)"
    r"(?:記事|関連記事)?"
    r"|(?:この|その)(?:記事|商品|ページ|動画)(?:を|も|に)(?:読んだ|見た|買った|購入した|チェックした"
    r"|興味).{0,30}"
    r"|よく一緒に(?:購入|買)われている.{0,6}|最近(?:見た|チェックした|閲覧した)(?:商品|アイテム|記事)"
    r"|スポンサー(?:ド)?リンク"
    r"|(?:ähnliche|verwandte|weitere) (?:artikel|beiträge|themen|nachrichten|produkte|meldungen)"
    r"|das könnte (?:sie|dich|ihnen|dir) auch .{1,20}|mehr zum thema|(?:lesen sie auch|auch interessant)"
    r"|kunden (?:kauften|kaufen|haben) auch.{0,30}|kunden, die .{1,60}"
    r"|(?:articles?|contenus?|produits?|sujets?) (?:similaires?|liés|associés|connexes|recommandés)"
    r"|(?:à lire (?:aussi|également|ensuite)|sur le même (?:sujet|thème)|lire aussi|voir aussi"
    r"|vous (?:aimerez|pourriez) (?:aussi|également|aimer).{0,20})"
    r"|(?:artículos|noticias|entradas|contenidos?|productos|temas|notas) (?:relacionad[oa]s|similares"
    r"|recomendad[oa]s)|(?:te|le|os) (?:puede|podría)(?: también)? (?:interesar|gustar)(?: también)?"
    r"|también te puede .{1,20}|lee también|ver también|más (?:noticias|información) (?:sobre|de) .{1,40}"
    r"|(?:artigos|notícias|posts|produtos|conteúdos?|matérias) (?:relacionad[oa]s|semelhantes"
    r"|recomendad[oa]s)"
    r"|(?:leia|veja|leia) (?:também|mais)|(?:você )?(?:também )?pode(?: também)? (?:gostar"
    r"|interessar).{0,20}"
    r"|(?:articoli|notizie|prodotti|contenuti) (?:correlat[ie]|simili|consigliat[ie]|recenti)"
    r"|(?:leggi|vedi) anche|potrebbe(?:ro)? (?:anche )?interessarti.{0,20}"
    r"|ti potrebbe(?:ro)? interessare.{0,20}"
    r"|(?:gerelateerde|verwante|soortgelijke) (?:artikelen|berichten|producten|artikels)|lees (?:ook"
    r"|verder|meer)"
    r"|(?:relaterade|liknande|relaterte|relaterede|lignende) (?:artiklar|artikler|nyheter|inlägg|innlegg"
    r"|produkter)|läs (?:också|även|mer)|les (?:også|mer)|læs (?:også|mere)|lue myös|aiheeseen liittyvää"
    r"|(?:powiązane|podobne|polecane) (?:artykuły|wpisy|tematy|produkty)|czytaj (?:też|także|również)"
    r"|zobacz (?:też|także|również)"
    r"|(?:похожие|связанные|рекомендуем(?:ые)?) (?:статьи|новости|материалы|записи|товары)|читайте также"
    r"|(?:по|материалы по) теме|смотрите также"
    r"|читайте також|схожі (?:статті|новини)|související (?:články|produkty)|čtěte (?:také|dále)"
    r"|(?:ilgili|benzer) (?:haberler|yazılar|konular|ürünler|içerikler)|(?:baca|lihat) juga|(?:artikel"
    r"|berita) terkait"
    r"|相关(?:文章|阅读|新闻|推荐|内容|链接|报道|产品)|推荐(?:阅读|文章)|延伸(?:阅读|閱讀)|猜你喜欢"
    r"|相關(?:文章|閱讀|新聞|報導|商品)|您可能也喜歡"
    r"|관련 ?(?:기사|뉴스|글|상품|콘텐츠)|추천 ?(?:기사|뉴스|상품|글)|함께 ?(?:보면|읽으면) .{1,10}",
    re.IGNORECASE,
)
"""Headings of lists that lead to other pages, whatever the page is."""

_RANKED = re.compile(
    rf"(?:most|top|more|latest|trending|popular|recent|featured|best|breaking|today(?:'|’)s)"
    rf"(?: (?:top|most|recent|popular|related|trending|read|{_OF_THINGS}))* {_OF_THINGS}"
    r"(?: (?:on|in|from|this|of) .{1,30})?"
    r"|most (?:read|popular|viewed|commented|shared|watched|recent|discussed|emailed)(?: (?:in|on|this"
    r"|from)"
    r" .{1,30})?|trending(?: now| today| topics)?|popular(?: now| today)?"
    r"|(?:more|latest|new|news) (?:from|in|on|about|by) .{1,40}|the latest|latest"
    r"|(?:editor(?:'|’)?s?(?:'|’)?|our|staff) (?:picks?|choice)|don(?:'|’)?t miss(?: out)?"
    r"|in case you missed it"
    r"|must[- ]reads?|explore more|in other news|what(?:'|’)s (?:hot|new|trending)"
    r"|.{0,14}(?:ランキング|ranking)(?:\s*(?:top)?\s*\d+)?(?:[（(].{1,12}[)）])?"
    r"|.{0,8}アクセス(?:数)?(?:の多い|上位)?(?:記事)?"
    r"|(?:人気|注目|話題|新着|最新|最近|よく読まれている|今読まれている|急上昇|その他|他"
    r"|編集部おすすめ)(?:の|な)?"
    r"(?:記事|ニュース|エントリー?|情報|トピックス?|キーワード|投稿|動画|ワード|商品|コンテンツ)(?:一覧)?"
    r"|(?:いま|今)(?:、)?(?:読まれている|話題の|注目の).{0,10}|ピックアップ(?:記事|ニュース)?|pick ?up"
    r"|新着|.{1,20}の(?:最新|新着)?記事(?:一覧)?"
    r"|(?:meist|am meisten|viel)[- ]?gelesen(?:e artikel|en artikel)?|(?:neueste|aktuelle"
    r"|beliebte) (?:artikel|beiträge"
    r"|nachrichten|meldungen)|mehr (?:aus|von|zu|über) .{1,40}|meistgelesen.{0,20}"
    r"|(?:les )?(?:articles? )?(?:les )?plus (?:lus|populaires|récents|commentés)|derniers? (?:articles"
    r"|actualités)|dernières (?:actualités"
    r"|nouvelles|infos)|à la une"
    r"|(?:lo )?más (?:leído|visto|popular|reciente|comentado)s?(?: .{1,20})?|últimas (?:noticias|entradas)"
    r"|(?:as )?mais (?:lidas|lidos|vistas|populares|recentes|acessadas)|últimas notícias|mais (?:em|de"
    r"|sobre) .{1,30}"
    r"|(?:i |gli |le )?(?:articoli )?più (?:letti|lette|visti|popolari|recenti)|ultime notizie"
    r"|(?:meest|best) gelezen(?: .{1,20})?|laatste nieuws|mest (?:lästa?|leste?|læste?)(?: .{1,20})?"
    r"|senaste nytt|luetuimmat"
    r"|najczęściej czytane|najnowsze|najpopularniejsze|популярное|самое (?:читаемое|популярное|интересное)"
    r"|последние (?:новости|записи|статьи)|свежие записи|другие новости|热门(?:文章|新闻|推荐)"
    r"|最新(?:文章|新闻)|排行榜|熱門(?:文章|新聞)|最新(?:新聞|消息)"
    r"|(?:많이|가장 많이) 본 (?:뉴스|기사)|인기 ?(?:기사|뉴스|글)|최신 ?(?:기사|뉴스|글)|실시간 .{1,10}",
    re.IGNORECASE,
)
"""Headings of lists of what is new or much read. On a front page such lists are content."""

_COMMENTS = re.compile(
    r"(?:(?:all|show|view|read|latest|recent|user|readers?(?:'|’)?|facebook"
    r"|top) )?(?:the )?\(?\d{0,6}\)?\s?"
    r"(?:comments?|responses?|replies|reviews? and comments)(?: (?:on|to|for) .{1,200}"
    r"| (?:are )?(?:closed|off)| section)?\s?[(\[（]?\d{0,6}[)\]）]?"
    r"|\d{1,6} thoughts? on .{1,200}|no (?:comments|responses)(?: yet)?(?: (?:on|to) .{1,200})?"
    r"|(?:leave|post|write|add|submit|make) (?:a|your|an?other) (?:reply|comment"
    r"|response)(?: to .{1,80})?(?: cancel reply)?"
    r"|(?:join (?:the|in the) )?(?:conversation|discussion)(?: \(\d{1,6}\))?|what do you think\?"
    r"|have your say"
    r"|share your thoughts"
    r"|(?:この記事への|みんなの|読者の|最新の?|新着)?(?:コメント|トラックバック|ブックマークコメント"
    r"|ご意見)\s?[(（:：]?\s?\d{0,6}\s?件?[)）]?(?:一覧)?"
    r"|コメントを(?:残す|書く|投稿(?:する)?|送信|書き込む)|(?:この)?(?:投稿|記事)?(?:への"
    r"|「.{1,80}」への)(?:\d{1,5}件の)?(?:コメント|返信|フィードバック)"
    r"|\d{1,6}\s?件の(?:コメント|フィードバック)(?:があります)?"
    r"|\(?\d{0,6}\)?\s?(?:leser)?kommentare?(?: zu .{1,200})?\s?\(?\d{0,6}\)?|schreibe? einen kommentar"
    r"|kommentar (?:schreiben|verfassen)"
    r"|\(?\d{0,6}\)?\s?commentaires?(?: sur .{1,200})?\s?\(?\d{0,6}\)?|laisser un commentaire"
    r"|réagir à .{1,40}"
    r"|\(?\d{0,6}\)?\s?comentarios?(?: en .{1,200})?\s?\(?\d{0,6}\)?|deja (?:un|tu) comentario"
    r"|dejar una respuesta"
    r"|\(?\d{0,6}\)?\s?comentários?(?: (?:em|para) .{1,200})?\s?\(?\d{0,6}\)?|deixe (?:um"
    r"|seu) comentário|deixe uma resposta"
    r"|\(?\d{0,6}\)?\s?commenti\s?\(?\d{0,6}\)?|lascia un commento"
    r"|\(?\d{0,6}\)?\s?reacties?\s?\(?\d{0,6}\)?|geef een reactie"
    r"|\(?\d{0,6}\)?\s?kommentar(?:er)?\s?\(?\d{0,6}\)?|(?:dodaj )?komentarz(?:e|y)?\s?\(?\d{0,6}\)?"
    r"|\(?\d{0,6}\)?\s?(?:комментари(?:и|ев|я|й)|коментар(?:і|ів))\s?[(:]?\s?\d{0,6}\)?"
    r"|добавить комментарий|оставить комментарий"
    r"|\(?\d{0,6}\)?\s?(?:条)?(?:评论|評論|留言|回應)\s?[(（]?\d{0,6}[)）]?|发表(?:评论|回复)"
    r"|댓글\s?\(?\d{0,6}\)?(?:개|쓰기)?|yorumlar?\s?\(?\d{0,6}\)?",
    re.IGNORECASE,
)

_MAIL_ROW = re.compile(
    r"(?:(?:previous|next) message(?: \(by (?:thread|date)\))?|(?:previous|next|prev) (?:by|in) (?:date"
    r"|thread)"
    r"|(?:contemporary )?messages? sorted(?: by)?|sorted by|index\(es\)|mail actions|mail domain)\s?[:：]"
    r"|(?:\W{0,3}(?:date|thread) (?:prev(?:ious)?|next|index)\W{1,4}){2,}"
    r"|more information about the .{1,80} mailing list$|(?:\W{0,3})back to the (?:list|thread|archives?)$"
    r"|(?:前|次)の(?:メッセージ|メール)\s?[:：]",
    re.IGNORECASE,
)
_NEIGHBOR = re.compile(
    r"(?:[«‹<←⟵]{1,3}\s?)?(?:previous|prev|next|older|newer)(?: (?:post|article|entry|story|issue|news"
    r"|page|item|in .{1,30}"
    r"|project|episode))?s?(?:\s?[:»›>→⟶]{1,3}|$|\s.{1,160}$)"
    r"|(?:[«‹<←]{1,3}\s?)(?:older|newer|previous|next|back)\b.{0,120}"
    r"|(?:[«‹<←]\s?)?(?:前|次)(?:の|へ)(?:記事|ページ|エントリー?|投稿|ニュース)?(?:を読む"
    r"|へ)?(?:\s?[:：»›>→]|$|\s).{0,120}"
    r"|(?:vorheriger|nächster) (?:artikel|beitrag)\b.{0,120}|(?:article|billet) (?:précédent"
    r"|suivant)\b.{0,120}"
    r"|(?:artículo|entrada|noticia) (?:anterior|siguiente)\b.{0,120}"
    r"|(?:предыдущая|следующая) (?:статья|запись|новость)\b.{0,120}",
    re.IGNORECASE,
)
_COMMENTS_NAME = re.compile(
    r"(?:^|[\s_-])(?:comments|comments?(?:[_-]?(?:list|area|section|wrap(?:per)?|container|thread|block"
    r"|box|feed|template"
    r"|form|respond|module|widget|app|root|main|page|holder|outer|region))|commentlist|commentarea"
    r"|disqus[_-]?thread|fb-comments|respond|trackbacks?|pingbacks?|kommentare|commentaires"
    r"|comentarios)(?:$|[\s_])"
    r"|(?:^|\s)(?:[a-z0-9]+(?:__|--?))?comments(?:$|\s)|(?:^|\s)comment-?(?:list|area|section)s?\b",
    re.IGNORECASE,
)
_STORY_NAME = re.compile(
    r"(?:^|[\s_-])(?:entry[_-]?(?:content|body|text)|post[_-]?(?:content|body|text|entry)"
    r"|article[_-]?(?:body|content"
    r"|text|main|inner|detail|wrap(?:per)?|container)?|story[_-]?(?:body|content|text)?"
    r"|blog[_-]?(?:post|content|body|entry)"
    r"|articlebody|news[_-]?(?:body|content|text|detail)|single[_-]?(?:post|content)"
    r"|main[_-]?(?:article|text)|hentry|recipe"
    r"|body[_-]?text|h-entry|e-content)(?:$|[\s_-])",
    re.IGNORECASE,
)
_NEWSLETTER_NAME = re.compile(
    r"newsletter|mc[_-]?embed|mc4wp|mailchimp|(?:email|e-mail)[_-]?(?:sign[_-]?up|subscri)|subscri(?:be"
    r"|ption)[_-]?(?:box|form|widget|cta"
    r"|block|banner|module)|(?:^|[\s_-])subscribe(?:$|[\s_])|sign[_-]?up[_-]?(?:box|form|widget|cta"
    r"|block)|メルマガ",
    re.IGNORECASE,
)
_AUTHOR_NAME = re.compile(
    r"(?:^|[\s_-])(?:about[_-]?(?:the[_-]?)?author|author[_-]?(?:box|bio|card|profile|description|about)"
    r"|bio[_-]?box|post[_-]?author[_-]?box|writer[_-]?profile)(?:$|[\s_])",
    re.IGNORECASE,
)
_AUTHOR = re.compile(
    r"about the (?:authors?|writer)|about the author: .{1,40}"
    r"|(?:この記事を書いた|書いた|執筆した)(?:人|ライター|記者|著者)|(?:著者|執筆者|筆者|ライター|記者"
    r"|監修者)(?:の?(?:紹介|プロフィール))"
    r"|über (?:den|die) autor(?:in|en)?|à propos de l(?:'|’)auteur|(?:sobre|acerca de) (?:el|la|o"
    r"|a) autora?"
    r"|(?:sull(?:'|’)|l(?:'|’))autore|over de auteur|об авторе|作者(?:简介|簡介)|关于作者",
    re.IGNORECASE,
)
_ANSWER = re.compile(
    r"(?:reply|reply to .{1,40}|like(?: \(\d{1,6}\))?|likes?\W.{0,12}repl(?:y|ies)\b.{0,40}"
    r"|like \(?\d{0,6}\)? report|report(?: (?:abuse|comment))?|permalink|返信(?:する)?|いいね!?"
    r"|通報(?:する)?|違反(?:を)?報告(?:する)?|antworten|répondre"
    r"|responder|rispondi|reageren|beantwoorden|svara|svar|odpowiedz|ответить|回复|回覆|답글"
    r"|log in to (?:reply|comment)|share)",
    re.IGNORECASE,
)


_WHEN = re.compile(
    r"\b(?:19|20)\d\d\b|\d{1,2}:\d\d|\bago\b|\d\s?[hdwm]\b|[年前]$|\d日|\bvor \d|\bil y a\b|\bhace \d|назад"
)
_GOODS = re.compile(
    r"\balso (?:bought|viewed|like|love)|bought together|viewed|related|similar|products|items|関連"
    r"|類似|商品|買"
    r"|購入|kauf|produ|товар",
    re.IGNORECASE,
)

# -- parts -------------------------------------------------------------------------------------------------


def asides(cutting: BlockSegmentation, declared: Sequence[float] = ()) -> list[bool]:
    """Return of each block whether it is beside the content.

    ``declared`` are the numbers of what the page declares to be (``metadata.declared``).
    """
    page = _Page(cutting, declared)
    for rule in (page.find_comments, page.find_lists, page.find_boxes, page.find_rows):
        rule()
    return page.found


@dataclass(frozen=True, slots=True)
class _Range:
    """A run of blocks, from the first up to, but not including, the end."""

    first: int
    end: int


class _Story(NamedTuple):
    """The names of the box of a story, "" for none, and the ``id()`` of the box."""

    name: str = ""
    box: int = 0


_NO_STORY = _Story()


class _Page:
    """The blocks of a page, with sums that every rule asks for."""

    def __init__(self, cutting: BlockSegmentation, declared: Sequence[float]) -> None:
        self.boxes, self.blocks = cutting.boxes, cutting.blocks
        self.found = [False] * len(self.blocks)
        self.declared = declared
        self._steps = _MOST_STEPS
        self._ranges = _block_ranges(cutting)
        self._letters = [0, *accumulate(block.letters for block in self.blocks)]
        self._linked = [0, *accumulate(block.linked for block in self.blocks)]
        self._links = [0, *accumulate(block.links for block in self.blocks)]
        self._longest_plain = [block.letters - block.linked for block in self.blocks]
        known: dict[int, _Story] = {}
        self._stories = [self._story_around(block, known) for block in self.blocks]
        plain = (
            number if story.name else 0
            for number, story in zip(self._longest_plain, self._stories, strict=True)
        )
        self._story = [0, *accumulate(plain)]

    @cached_property
    def is_thread(self) -> bool:
        """Return whether the page declares to be a discussion, or questions and answers."""
        if len(self.declared) > _DISCUSSION and self.declared[_DISCUSSION]:
            return True
        return any(
            _THREAD_TYPE.search(box.element.get("itemtype") or "") is not None
            or (box.element.tag in ("html", "body") and _is_forum(box.element))
            for box in self.boxes
        ) or _is_forum(self.boxes[0].element)

    @cached_property
    def _is_declared_story(self) -> bool:
        return len(self.declared) > _PUBLISHED and bool(
            self.declared[_ARTICLE] or self.declared[_GRAPH] == 1.0 or self.declared[_PUBLISHED]
        )

    @property
    def story(self) -> int:
        return self._story[-1]

    def _story_around(self, block: ContentBlock, known: dict[int, _Story]) -> _Story:
        """Return the story that prose is in, or none if it is in none, or in a comment."""
        if block.letters - block.linked <= _PROSE:
            return _NO_STORY
        return nearest(block.box, known, _story_of, _NO_STORY)

    def _mark(self, run: _Range) -> None:
        self.found[run.first : run.end] = [True] * (run.end - run.first)

    def _range(self, box: ElementBox) -> _Range:
        return self._ranges.get(id(box), _Range(0, 0))

    # -- comments

    def find_comments(self) -> None:
        """Mark the comments below a story."""
        if self.is_thread or self.story < _STORY:
            return
        for box in self.boxes:
            run = self._range(box)
            if run.first == run.end or self.found[run.first]:
                continue
            if _is_named_comments(box) and self._is_below_story(run):
                self._mark(run)
        for number, block in enumerate(self.blocks):
            if self.found[number] or not _is_short(block) or not _COMMENTS.fullmatch(_bare(block.text)):
                continue
            section = self._section(number, self._is_talk)
            if section is not None:
                self._mark(section)

    def _is_below_story(self, run: _Range) -> bool:
        """Return whether the story is before these blocks, not in them, and not only their occasion.

        Boxes with the names of a story, such as ``post-body``, may be in comments too. If the story before
        them has the same names, they are posts of a thread. The box that the story is in may hold both.
        """
        before = self._story[run.first]
        most = (_MOST_DECLARED if self._is_declared_story else _MOST_TALK) * before
        letters = self._letters[run.end] - self._letters[run.first]
        if before < _STORY or letters > most:
            return False
        if self._story[run.end] == before:
            return True
        self._steps -= run.end
        if self._steps <= 0:
            return False
        stories = frozenset(story for story in self._stories[: run.first] if story.name)
        within = {story.name for story in self._stories[run.first : run.end] if story not in stories}
        return within.isdisjoint(story.name for story in stories)

    def _is_talk(self, run: _Range) -> bool:
        """Return whether people answer each other below the story: they have buttons or a form
        to reply, or several of them say when they wrote.
        """
        if not self._is_below_story(run):
            return False
        inside = self.blocks[run.first : run.end]
        short = [block.text for block in inside if _is_short(block)]
        if any(_ANSWER.fullmatch(_bare(text)) for text in short):
            return True
        if sum(_WHEN.search(text) is not None for text in short) > 1:
            return True
        return any(box.element.tag == "form" for block in inside for box in islice(up(block.box), 3))

    # -- lists of links

    def find_lists(self) -> None:
        """Mark the lists that lead to other pages, by their headings."""
        for number, block in enumerate(self.blocks):
            if self.found[number] or not _is_short(block):
                continue
            text = _bare(block.text)
            if _ELSEWHERE.fullmatch(text) or (self.story >= _STORY and _RANKED.fullmatch(text)):
                section = self._section(number, self._is_list)
                if section is not None:
                    self._mark(section)

    def _is_list(self, run: _Range) -> bool:
        """Return whether all that follows a heading are links, cards, or short items."""
        first, end = run.first + 1, run.end
        if first >= end or self._is_eyebrow(first):
            return False
        letters = self._letters[end] - self._letters[first]
        story = self._story[end] - self._story[first]
        if letters > _LONGEST_LIST or story > min(letters // 2, self.story // 4):
            return False
        links = self._links[end] - self._links[first]
        linked = self._linked[end] - self._linked[first]
        plain = max(self._longest_plain[first:end])
        if links == 0:
            return (
                end - first > 1 and plain <= _SHORT and _GOODS.search(self.blocks[run.first].text) is not None
            )
        cards = self.story >= _STORY and letters <= _PER_LINK * links
        return plain <= _EXCERPT and (2 * linked >= letters or cards)

    def _is_eyebrow(self, first: int) -> bool:
        """Return whether a line stands above the heading of a section, and is not its heading."""
        block, above = self.blocks[first], self.blocks[first - 1]
        return (
            block.box.element.tag in ("h1", "h2")
            and not block.links
            and above.box.element.tag not in _HEADINGS
        )

    def _section(self, number: int, belongs: Callable[[_Range], bool]) -> _Range | None:
        """Return the longest run of blocks under a heading for which ``belongs`` says so.

        It is an element that begins with the heading. If there is none, or no more than the row of the
        heading, it is what follows the heading among its siblings.
        """
        top = self.blocks[number].box
        best: _Range | None = None
        for box in islice(up(top), _CLIMB):
            run = self._range(box)
            if run.first != number or box.element.tag in _PAGES:
                break
            if run.end > number + 1:
                if not belongs(run):
                    break
                best = run
            top = box
        if (best is None or best.end - number <= _ROW_OF_HEADING) and top.parent is not None:
            run = _Range(number, self._end_of_section(number, top.parent))
            if run.end > max(number + 1, best.end if best else 0) and belongs(run):
                best = run
        return best

    def _end_of_section(self, number: int, around: ElementBox) -> int:
        """Return where the section of a heading ends among its siblings: at the next heading of its level, at
        the first prose if it is no heading for browsers, and at the last sibling with a link.
        """
        tag = self.blocks[number].box.element.tag
        end = linked = number + 1
        if self._steps <= 0:
            return end
        for at in range(number + 1, min(number + 1 + _MOST_IN_LIST, self._range(around).end)):
            self._steps -= 1
            other = self.blocks[at].box.element.tag
            if other in _HEADINGS and (tag not in _HEADINGS or other <= tag):
                break
            if tag not in _HEADINGS and self._longest_plain[at] > _SHORT:
                break
            end = at + 1
            if self.blocks[at].links:
                linked = at
        siblings = (
            (box for box in up(self.blocks[linked].box) if box.parent is around) if linked < end else ()
        )
        return min(end, max((self._range(box).end for box in siblings), default=end))

    # -- boxes and rows

    def find_boxes(self) -> None:
        """Mark boxes that ask for a subscription, or are about the author; of a book, that is content."""
        if self.story < _STORY:
            return
        sells = len(self.declared) > _PUBLISHED and (self.declared[_PRODUCT] or self.declared[_GRAPH] == 2.0)
        for box in self.boxes:
            run = self._range(box)
            if run.first == run.end or self.found[run.first] or box.element.tag in _PAGES:
                continue
            names = _names(box)
            if self._is_box(run) and (
                _newsletter_name(names) is not None or (not sells and _author_name(names) is not None)
            ):
                self._mark(run)
        for number, block in enumerate(self.blocks):
            if self.found[number] or sells or not _is_short(block):
                continue
            if _AUTHOR.fullmatch(_bare(block.text)) and self._story[number] >= _STORY:
                section = self._section(number, self._is_box)
                if section is not None:
                    self._mark(section)

    def _is_box(self, run: _Range) -> bool:
        """Return whether blocks are few and not of the story."""
        letters = self._letters[run.end] - self._letters[run.first]
        return letters <= _BOX and self._story[run.end] == self._story[run.first]

    def find_rows(self) -> None:
        """Mark rows that lead to the neighbors of the page."""
        for number, block in enumerate(self.blocks):
            if not block.links or block.letters > _ROW:
                continue
            text = block.text
            if _MAIL_ROW.match(text) or (2 * block.linked >= block.letters and _NEIGHBOR.fullmatch(text)):
                self.found[number] = True


_PRODUCT, _ARTICLE, _DISCUSSION, _GRAPH, _PUBLISHED = 0, 2, 3, 8, 9  # numbers among what a page declares
_MOST_TALK = 10  # times as long as their story
_MOST_DECLARED = 100  # times as long as the story of a page that declares to be an article
_BOX = 900
_ROW = 300
_THREAD_TYPE = re.compile(r"schema\.org/(?:DiscussionForumPosting|QAPage|Question|Answer)\b")
_FORUM = re.compile(
    r"(?:^|[\s_-])(?:forums?|phpbb|vbulletin|xenforo|discourse|smf|mybb|topic(?:_page)?|viewtopic"
    r"|showthread|question-page"
    r"|thread(?:_view|-view)?|bbpress|ipsapp|ips[_-]\w+)(?:$|[\s_-])",
    re.IGNORECASE,
)


def _is_forum(element: Element) -> bool:
    return _FORUM.search(f"{element.get('class') or ''} {element.get('id') or ''}"[:1000]) is not None


def _block_ranges(cutting: BlockSegmentation) -> dict[int, _Range]:
    """Return the blocks within each box that has some, by its ``id()``."""
    firsts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for number, block in enumerate(cutting.blocks):
        firsts.setdefault(id(block.box), number)
        ends[id(block.box)] = number + 1
    for box in reversed(cutting.boxes):
        above = box.parent
        if above is not None and id(box) in firsts:
            firsts[id(above)] = min(firsts.get(id(above), firsts[id(box)]), firsts[id(box)])
            ends[id(above)] = max(ends.get(id(above), 0), ends[id(box)])
    return {key: _Range(first, ends[key]) for key, first in firsts.items()}


# The names of elements repeat.
_comments_name, _story_name, _newsletter_name, _author_name = (
    lru_cache(maxsize=4096)(pattern.search)
    for pattern in (_COMMENTS_NAME, _STORY_NAME, _NEWSLETTER_NAME, _AUTHOR_NAME)
)


def _names(box: ElementBox) -> str:
    return f"{box.element.get('class') or ''} {box.element.get('id') or ''}"[:300]


def _is_named_comments(box: ElementBox) -> bool:
    return box.element.tag not in _PAGES and _comments_name(_names(box)) is not None


def _story_of(box: ElementBox) -> _Story | None:
    """Return the story that a box is, none for one of comments, and None for others."""
    if _is_named_comments(box):
        return _NO_STORY
    named = box.element.get("itemprop") in ("articleBody", "text") or _story_name(_names(box)) is not None
    return (
        _Story(f"{box.element.tag} {_names(box)}", id(box)) if named or box.element.tag == "article" else None
    )


def _is_short(block: ContentBlock) -> bool:
    return bool(block.pieces) and len(block.text) <= _LONG_HEADING


def _bare(text: str) -> str:
    return text.strip(" :：.…»›>→▶▼■●◆◇□★☆【】《》「」『』[]|-–—・•!！#＃+＋")


def without_empty_headings(
    blocks: Sequence[ContentBlock], kept: Sequence[bool], beside: Sequence[bool]
) -> list[bool]:
    """Return which blocks to keep, without the headings of which nothing is left.

    Of such a section nothing is kept, and some of it is beside the content, or it is the end of the page. It
    ends at the next heading of its level or above. A heading of a card, which has a link, stays.
    """
    choice = list(kept)
    full = [False] * 7  # whether something of the section is kept, by the level of its heading
    lost = [True] * 7  # whether some of it is beside the content, or nothing that is kept follows
    for number in range(len(blocks) - 1, -1, -1):
        block = blocks[number]
        tag = block.box.element.tag
        if tag not in _HEADINGS:
            if choice[number] and block.pieces:
                full, lost = [True] * 7, [False] * 7
            elif beside[number]:
                lost = [True] * 7
            continue
        level = int(tag[1])
        if level > 1 and lost[level] and not full[level] and not block.links:
            choice[number] = False
        full[level:] = [False] * (7 - level)
        if choice[number]:
            full[:level] = [True] * level
            lost = [False] * 7
        elif beside[number]:
            lost[:level] = [True] * level
    return choice
