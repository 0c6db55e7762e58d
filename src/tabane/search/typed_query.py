"""Typed queries: how the text that a person or an assistant types or pastes becomes a query; pure.

A query is keywords or a question. In it, ``"two words"`` is a phrase, if white space or an end of the query
is on both sides. ``-word`` and ``-"two words"`` are excluded, after white space: whole words, of three
letters or more in scripts that have spaces between words. ``word*`` at the end is a prefix. Full-width
quotes, 「」, and the minus and star of Japanese keyboards have the same effect.

A *pasted text* has no syntax: all of it is text. It is a query with a line break, more than 300 characters,
or a sign of code, of a command or of a log (:func:`is_pasted`). In a sentence, which has words of grammar,
quotes of one or two words name something, and are text.

Anything else is read as text, such as an unclosed quote or a star elsewhere. Nothing is an error. Of a long
text, the lines that say what happened are read first (:func:`shortened`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import structs

from tabane.search.analysis import GAP, content, is_cjk, normalize, placed_runs, positioned, visible
from tabane.search.engine import LexicalQuery, Mode
from tabane.search.records import LONGEST_NEEDLE, And, Contains, Filter
from tabane.search.source import SearchRequest
from tabane.text.lazy_patterns import lazy_pattern

LONGEST = 2_000
"""Characters of a query that are searched. Of a longer one, :func:`shortened` chooses them."""

MOST_PHRASES = 16
_LONGEST_PHRASE = 64  # words that are compared
_LONGEST_TYPED = 300  # characters: nobody types more with quotes and dashes that mean something
_MOST_READ = 20_000  # characters of which LONGEST are chosen
_LONG_QUOTE = 3  # words in quotes that are a phrase also in a sentence

_QUOTED = r'"([^"]+)"|“([^”]+)”|＂([^＂]+)＂|「([^」]+)」|『([^』]+)』'
_QUOTE = lazy_pattern(_QUOTED)
_PIECE = lazy_pattern(rf"(?P<minus>(?<!\S)[-－−])?(?:{_QUOTED}|(?P<word>[^\s\"“＂「『]+|[\"“＂「『]))")
_STAR = re.compile(r"(?<=[^\W_])[*＊]\s*$")
# Quotes with something else beside them name a thing in running text, as in 小説「こころ」の作者.
_BEFORE = re.compile(r"(?:^|\s)[-－−]?$")
_BEHIND = re.compile(r"\s|$")

# A word that can be excluded: it begins with a letter; inside also digits, hyphens and apostrophes.
_WORD = re.compile(r"[^\W\d_](?:[^\W_]|[-'’](?=[^\W_]))*")
_MARKS = ",.!?、。，．！？"  # behind a word
_SHORTEST = 3  # letters of an excluded word

# Signs of code, paths, logs and shells.
_CODE = lazy_pattern(r"[{}\[\]<>=;\\|`^]|\$[A-Za-z_({]|&&|://|\w\(|(?<!\S)[~.]*/\w|[^\W_]:(?!\w)|[A-Za-z]:\d")
# Options: ``-x``, ``--long``, ``-Xmx1g``, ``-DskipTests``, ``-std=c11``.
_OPTION = lazy_pattern(
    r"(?<!\S)(?:--[A-Za-z]|-[A-Za-z]{1,2}(?![A-Za-z'’-])|-[A-Z][A-Za-z]*\d|-[A-Za-z]*[a-z][A-Z]|-[A-Za-z-]+[=:./]\S)"
)
_CMDLET = re.compile(r"(?<!\S)[A-Z][a-z]+-[A-Z][A-Za-z]+(?!\S)")  # of PowerShell
_EXCLUDED_QUOTE = re.compile(r'(?<!\S)[-－−]["“＂「『]')
_DASHED = re.compile(r"(?<!\S)-([A-Za-z][A-Za-z-]*)(?!\S)")

_OF_SHELLS = """
7z adb ant apachectl apk apt apt-get arp awk aws az bash brew bzip2 certutil chgrp chmod choco chown cmake
conda cpio createdb crontab curl df dnf docker-compose dotnet dpkg du egrep eksctl ffmpeg ffplay ffprobe
fgrep flatpak ftp fuser g++ gcc gcloud gdb gpg gradle grep gs gunzip gzip hdiutil httpd icacls ifconfig
iostat ip iptables javac journalctl keytool kubectl latexmk lftp ln ls lsblk lsof minikube mkdir mongod
mongodump mount msbuild msiexec mvn mysql mysqldump nc netsh netstat nmap nohup npm nslookup nuget openssl
pacman pdflatex pg_dump pg_restore pgrep pip pip3 pkill powershell ps psql pwsh qemu-img rclone redis-cli
robocopy rpm rsync scp sed sftp sh sips sqlcmd sqlplus ss ssh ssh-keygen strace sudo systemctl tar taskkill
tcpdump telnet terraform traceroute tracert umount unzip useradd usermod vmstat wget whois winget wsl xargs
xcodebuild xcrun xelatex xrandr yum zip zsh
"""
_OF_BOTH = """
cat clang convert cp cut date dig docker echo find git go head helm host identify java kill less make mv
node perl php ping python python3 rm route ruby rust rustc screen set snap sort swift tail time top touch
tree vagrant watch which
"""
_LONG_OPTIONS = """
acodec all amin approve atime auto-approve bench benchmem classpath connect count cover coverprofile cpu
crop ctime daemon delete density depth ef empty encoding euo exec execdir file files format gnu group help
iname inum ipath iregex jar jobs ldflags links list maxdepth memprofile mindepth mmin mod mount mtime name
newer newermt newkey nocache nodes noleaf okdir path perm preset print printf prune quality quiet race
recursive regex regextype resize rotate run server servername short showcerts size strip tags test timeout
trim type user vcodec verbose version vet xdev xtype
"""
_PROGRAMS = frozenset(_OF_SHELLS.split())
_ALSO_WORDS = frozenset(_OF_BOTH.split())  # programs that are also other words
_OPTIONS = frozenset(_LONG_OPTIONS.split())


def typed(text: str, mode: Mode = Mode.ANY) -> LexicalQuery:
    """Parse a typed text into a query. ``mode`` says how its words are combined."""
    text = visible(shortened(text)).strip()
    if is_pasted(text):
        return LexicalQuery(text, mode)
    prefix = _STAR.search(text) is not None
    text = _STAR.sub("", text)
    if mode is Mode.PHRASE:
        return LexicalQuery(text, mode, prefix=prefix)
    sentence = _is_sentence(text)
    words: list[str] = []
    phrases: list[str] = []
    exclude: list[str] = []
    last = 0
    for piece in _PIECE.finditer(text):
        quoted = next((found for found in piece.groups()[1:6] if found is not None), None)
        words.append(" " if piece.start() > last else "")
        last = piece.end()
        alone = _BEFORE.search(text[: piece.start()]) and _BEHIND.match(text, last)
        word = quoted or piece["word"].rstrip(_MARKS)
        if piece["minus"] and alone and (quoted or _is_excludable(word)):
            exclude.append(word)
        elif quoted is not None and alone and not (sentence and _is_name(quoted)):
            phrases.append(quoted)
        else:
            words.append(piece.group())
    query = LexicalQuery("".join(words).strip(), mode, tuple(exclude[:MOST_PHRASES]), prefix)
    return structs.replace(query, phrases=tuple(phrases[:MOST_PHRASES]))


def _is_excludable(word: str) -> bool:
    """Return whether it is a word that a dash can exclude: no number, and no option of a program."""
    if is_cjk(word):
        return True
    return len(word) >= _SHORTEST and _WORD.fullmatch(word) is not None


def _is_name(quoted: str) -> bool:
    """Return whether what is in quotes is short. Two characters of Chinese or Japanese count as a word."""
    size = sum((len(run) + 1) // 2 if is_cjk(run) else 1 for _, run in placed_runs(quoted))
    return size < _LONG_QUOTE


def _is_sentence(text: str) -> bool:
    """Return whether there are words of grammar outside of quotes, in English or in hiragana."""
    outside = " ".join(_QUOTE.sub(" ", text).split())
    return content(outside) != outside or _PARTICLE.search(outside) is not None


_PARTICLE = re.compile(
    r"(?<!\S)(?:cannot|can't|no|not|unknown|missing|invalid)(?!\S)|[がをにでとはもへ](?:\s|$)|[ぁ-ゖ]{2}",
    re.I,
)


def is_pasted(text: str) -> bool:
    """Return whether all of a query is text: it is long, of several lines, or looks like code or a command.

    A word with a dash is an option directly after the name of a program (``tar -xzf``), or if the query
    begins with the name and does not end with the option. Elsewhere, or after a name that is also another
    word, only options that programs have are options: ``java -jar``, not ``java -coffee``.
    """
    text = text.strip()
    if len(text) > _LONGEST_TYPED or "\n" in text or "\r" in text:
        return True
    outside = _QUOTE.sub(' "" ', text)
    if _CODE.search(outside):
        return True
    if _EXCLUDED_QUOTE.search(text):  # no command has this
        return False
    if _OPTION.search(outside) or _CMDLET.search(outside):
        return True
    dashed = _DASHED.search(outside)
    if dashed is None:
        return False
    before = re.findall(r"[\w.+-]+", outside[: dashed.start()].lower())
    if before and before[-1] in _PROGRAMS:
        return True
    if before and before[0] in _PROGRAMS and outside[dashed.end() :].strip():
        return True
    programs = not _PROGRAMS.isdisjoint(before) or not _ALSO_WORDS.isdisjoint(before)
    return programs and not _OPTIONS.isdisjoint(_DASHED.findall(outside))


def is_program(word: str) -> bool:
    """Return whether a word is the name of a program of shells. Some of them are other words too."""
    return word in _PROGRAMS or word in _ALSO_WORDS


_HIRAGANA = re.compile(r"[ぁ-ゖゝゞー]{2,}")

# Lines of a stack trace say where something happened, not what.
_FRAME = re.compile(
    r"""\s*(?:File\ ".*",\ line\ \d+|at\s+\S.*[():]|\#\d+\s|\d+:\s+0x|goroutine\ \d|\.\.\.\ \d+\ more
    |[\^~]+\s*$|Traceback\ \(most|from\ \S+:\d+:in)""",
    re.VERBOSE,
)
_TELLING = re.compile(
    r"error|exception|fatal|panic|caused by|failed|cannot|denied|refused|not found|エラー|例外|失敗|警告",
    re.IGNORECASE,
)


def shortened(text: str) -> str:
    """Return at most :data:`LONGEST` characters of a text, those that say most about it.

    Of a stack trace or a log, lines that say what happened come first and frames last. Of a text of more than
    20,000 characters, the middle is not read.
    """
    if len(text) > _MOST_READ:
        text = f"{text[: _MOST_READ // 2]}\n{text[-_MOST_READ // 2 :]}"
    lines = text.splitlines()
    if len(text) > _LONGEST_TYPED and any(map(_FRAME.match, lines)):
        lines.sort(key=lambda line: 2 if _FRAME.match(line) else 0 if _TELLING.search(line) else 1)
        text = "\n".join(lines)
    return text[:LONGEST]


def sense(query: LexicalQuery) -> str:
    """Return the text of a query that is embedded: all but the excluded words."""
    return " ".join(filter(None, (query.spelled or query.text, *query.phrases)))


def marked_terms(query: LexicalQuery) -> list[str]:
    """Return the words and phrases of a query that are marked in a hit: no words of grammar."""
    spellings = (each for word in query.spellings for each in word if each not in normalize(query.text))
    return [content(query.text), *query.phrases, *spellings]


def demands(query: LexicalQuery) -> Filter:
    """Return the condition for hits that vectors find: they contain the phrases of the query.

    Compared are characters. :class:`TextTest` compares words, and knows the exclusions.
    """
    return And(
        tuple(Contains(phrase[:LONGEST_NEEDLE]) for phrase in query.phrases if normalize(phrase).strip())
    )


class TextTest:
    """The test of texts by the phrases and exclusions of a query: whole words, as the index compares them.

    It is true if there is anything to test.
    """

    def __init__(self, query: LexicalQuery) -> None:
        self._wanted = [phrase for text in query.phrases if (phrase := _Phrase.of(text))]
        self._unwanted = [phrase for text in query.exclude if (phrase := _Phrase.of(text))]

    def __bool__(self) -> bool:
        return bool(self._wanted or self._unwanted)

    def accepts(self, texts: Iterable[str]) -> bool:
        """Return whether each phrase is in one of the texts, and no exclusion in any."""
        read = [_ReadText(" ".join(positioned(text)), normalize(text)) for text in texts]
        return all(any(phrase.within(text) for text in read) for phrase in self._wanted) and not any(
            phrase.within(text) for phrase in self._unwanted for text in read
        )


class _ReadText(NamedTuple):
    """The tokens of a text, joined by spaces, and its spelling."""

    tokens: str
    spelling: str


class _Phrase(NamedTuple):
    """Words side by side, and the runs of hiragana in them, which have no tokens."""

    words: re.Pattern[str] | None
    runs: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> _Phrase | None:
        places = positioned(text)[:_LONGEST_PHRASE]
        runs = tuple(dict.fromkeys(_HIRAGANA.findall(normalize(text))))
        places = " ".join(places).strip(f" {GAP}").split()
        if not places:
            return cls(None, runs) if runs else None
        if len(places) == 1 and len(places[0]) == 1 and is_cjk(places[0]):
            return cls(None, (places[0], *runs))
        words = " ".join(r"\S+" if place == GAP else re.escape(place) for place in places)
        return cls(re.compile(rf"(?<!\S){words}(?!\S)"), runs)

    def within(self, text: _ReadText) -> bool:
        """Return whether a text has the words and the runs."""
        if not all(run in text.spelling for run in self.runs):
            return False
        return self.words is None or self.words.search(text.tokens) is not None


_LAST_LETTER = re.compile(r"(?:^|(?<=\s))[A-Za-z0-9]$")


def words_of(request: SearchRequest) -> LexicalQuery:
    """Return a request as keywords. In a query that is being typed, the last word is a prefix.

    A last letter alone is no prefix: it begins a tenth of all words, and 220,000 posts take 0.1 s.
    """
    words = typed(request.query)
    if request.keywords != "typing":
        return words
    if _LAST_LETTER.search(words.text) is None:
        return structs.replace(words, prefix=True)
    return structs.replace(words, text=_LAST_LETTER.sub("", words.text) or words.text)
