"""Secrets in arguments of commands: ``--token X``, ``mysql -pX``, ``sshpass -p X``, ``curl -u user:X``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tabane.text.lazy_patterns import lazy_pattern
from tabane.text.secret_names import SecretNames

MOST_WORDS = 400
"""Words of one command that are read."""

_FLAGS = {
    "-p": "sshpass docker podman nerdctl az mongo mongosh mongodump mongorestore mongoexport mongoimport oc "
    "skopeo buildah helm twine cf ibmcloud useradd usermod",
    "-p…": "mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlcheck mysqlpump mysqlsh mariadb "
    "mariadb-dump mariadb-admin mariadb-import mariadb-check mycli 7z 7za 7zr sshpass",
    "-N": "ssh-keygen",
    "-P": "ssh-keygen zip unzip zipcloak sqlcmd bcp osql tsql isql ipmitool mosquitto_pub mosquitto_sub",
    "-a": "redis-cli valkey-cli keydb-cli",
    "-w": "ldapsearch ldapmodify ldapadd ldapdelete ldapwhoami ldappasswd ldapcompare",
    "-A": "snmpwalk snmpget snmpset snmpbulkwalk snmptrap",
    "-X": "snmpwalk snmpget snmpset snmpbulkwalk snmptrap",
    "-k": "openssl",
    "-P…": "zip unzip",
    "-b": "curl gh",
    "--cookie": "curl",
    "--body": "gh",
}
"""What gives a command its secret: the next argument, or with ``…`` the rest of the same one."""

_USERS = {
    "-u": ":curl ,lftp :http :https :wget :jira :ncftp",
    "--user": ":curl ,lftp",
    "--proxy-user": ":curl",
    "-U": ":curl %smbclient %rpcclient %net %smbget :smbmap",
    "-a": ":http :https :httpie",
    "--auth": ":http :https :httpie",
}
"""Where a command takes a user and a secret, and what separates them."""

_PLACES: tuple[tuple[tuple[str, ...], str, int], ...] = (
    (("htpasswd",), "-b", -1),
    (("rabbitmqctl", "add_user"), "", 2),
    (("rabbitmqctl", "change_password"), "", 2),
    (("mysqladmin", "password"), "", 1),
    (("vault", "login"), "", 1),
    (("ConvertTo-SecureString",), "", 1),
    (("setx",), "", 2),
    (("passwd", "--stdin"), "", 1),
)
"""Commands with a secret at a place after their words, counted without flags; -1 is the last argument."""

_ONLY_WITH = {
    **dict.fromkeys(
        ("docker", "podman", "nerdctl", "az", "oc", "skopeo", "buildah", "helm", "cf", "ibmcloud"), "login"
    ),
    "twine": "upload",
    "gh": "secret",
}
"""Commands whose flag means something else without this word: ``docker run -p 8080:80``."""

_BY_COMMAND: dict[str, list[tuple[str, str]]] = {}
for _flag, _commands in _FLAGS.items():
    for _command in _commands.split():
        _BY_COMMAND.setdefault(_command, []).append((_flag, ""))
for _flag, _commands in _USERS.items():
    for _command in _commands.split():
        _BY_COMMAND.setdefault(_command[1:], []).append((_flag, _command[0]))
_PLACED = frozenset(words[0] for words, _, _ in _PLACES)
_COMMANDS = frozenset(_BY_COMMAND) | _PLACED

_COMMAND_NAME = re.compile(r"(?<![\w.+-])[A-Za-z0-9][\w.+-]*\Z")
_BUNDLE = re.compile(r"-[A-Za-z]{2,6}\Z")
_WINDOWS = re.compile(r"/([A-Za-z]{1,20}):")
_ASSIGNED = re.compile(r"-{1,2}([\w.-]{1,60})[=:]")
_FLAG = re.compile(r"-{1,2}[A-Za-z][\w.-]{0,60}\Z")
_SHORT = re.compile(r"--[A-Za-z]|-[A-Za-z]\Z")
_PASS_FLAGS = frozenset(("-passin", "-passout", "-storepass", "-keypass"))
_USER_FLAGS = frozenset(("-u", "-U", "--user", "--username"))
_ATTACHED = re.compile(
    r"-p(?!(?:ort|ath|rint|rofile|retty|arallel|roxy|refix)\b)(?=\S{0,40}[\d\W])\S*\D\S*\Z"
)
_PASSED = re.compile(r"(?:pass|env|file|stdin|fd|base64):")

_NO_VALUE_TEXT = (
    "flag flags option options argument arguments parameter parameters param switch value values to  and "
    "or in for is  with without as if the a an that which when where on of by from can may must should "
    "will be are  was has into  then so you it this your not only instead via using "
)
_NO_VALUE = frozenset(_NO_VALUE_TEXT.split())
"""Words after a flag in a sentence: "pass --token to the command"."""


def secrets_of_words(words: Sequence[str], names: SecretNames) -> Iterator[tuple[int, int]]:
    """Yield which words of a command are secret, as index and first secret character of the word."""
    command = ""
    begun = 0
    for at, word in enumerate(words[:MOST_WORDS]):
        found = name[0].removesuffix(".exe") if (name := _COMMAND_NAME.search(word[-40:])) else ""
        if found in _COMMANDS and not word.startswith("-"):
            command, begun = found, at
            if command in _PLACED:
                yield from _placed(words, begun)
        elif word[:1] in "-/" and len(word) > 1:
            yield from _flagged(words, at, command, names)


def _flagged(words: Sequence[str], at: int, command: str, names: SecretNames) -> Iterator[tuple[int, int]]:
    word = words[at]
    following = words[at + 1] if at + 1 < len(words) else ""
    has_value = following != "" and not _SHORT.match(following)
    if assigned := _ASSIGNED.match(word):
        if assigned[1] in names:
            yield at, assigned.end()
    elif windows := _WINDOWS.match(word):
        if windows[1] in names or (windows[1] in "pP" and "freerdp" in words[0]):
            yield at, windows.end()
    elif has_value and _FLAG.match(word) and (word.lstrip("-") in names or word in _PASS_FLAGS):
        if following.lower() not in _NO_VALUE:
            yield at + 1, len(found[0]) if (found := _PASSED.match(following)) else 0
    elif not command:
        if word[1:2] in "pP" and not _USER_FLAGS.isdisjoint(words[:MOST_WORDS]):
            if word in ("-p", "-P") and has_value:
                yield at + 1, 0
            elif _ATTACHED.match(word):
                yield at, 2
    elif command not in _ONLY_WITH or _ONLY_WITH[command] in words[:MOST_WORDS]:
        yield from _flagged_of(command, word, at, following if has_value else "")


def _flagged_of(command: str, word: str, at: int, following: str) -> Iterator[tuple[int, int]]:
    """Yield what a flag of a known command makes secret. ``following`` is the next word, if it is a value."""
    for flag, separator in _BY_COMMAND.get(command, ()):
        if flag.endswith("…"):
            if word.startswith(flag[:-1]) and len(word) > len(flag) - 1 and word != "-port":
                yield at, len(flag) - 1
        elif word == flag or (separator and _BUNDLE.match(word) and word[-1] == flag[1:]):
            if following:
                yield from _after(at + 1, following, separator)
        elif separator and flag[1] != "-" and word.startswith(flag) and separator in word:
            yield at, word.index(separator) + 1


def _after(at: int, word: str, separator: str) -> Iterator[tuple[int, int]]:
    if not separator:
        yield at, 0
    elif separator in word:
        yield at, word.index(separator) + 1


def _placed(words: Sequence[str], begun: int) -> Iterator[tuple[int, int]]:
    for wanted, flag, place in _PLACES:
        if not words[begun].removesuffix(".exe").endswith(wanted[0]):
            continue
        rest = words[begun + 1 : begun + 20]
        if flag and not any(one.startswith("-") and flag[1] in one for one in rest):
            continue
        plain = [begun + 1 + at for at, one in enumerate(rest) if not one.startswith("-")]
        if wanted[1:]:
            named = [at for at in plain if words[at] == wanted[1]]
            plain = [at for at in plain if named and at > named[0]]
        if place == -1 and len(plain) > 1:
            yield plain[-1], 0
        elif 0 < place <= len(plain):
            yield plain[place - 1], 0


_WORDS = lazy_pattern(
    r"""(?:"(?:[^"\\\n]|\\.){0,2000}"|'[^'\n]{0,2000}'|\\.|[^\s"';|&<>()`\\]+|["'\\])+|[;|&\n()`]+|[<>]+"""
)
_ENDS = re.compile(r"[;|&\n()`]")
_QUOTED = re.compile(r"""(["'])(.*)\1\Z""", re.DOTALL)


def secrets_of_commands(text: str, names: SecretNames, nested: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the spans of secrets in the commands of a text, which may be a script or a sentence."""
    words: list[str] = []
    spans: list[tuple[int, int]] = []
    for found in _WORDS.finditer(text):
        word, start = found[0], found.start()
        if word[0] in "<>":
            continue
        if _ENDS.match(word):
            yield from _spans(words, spans, names)
            words, spans = [], []
            continue
        end = found.end()
        if quoted := _QUOTED.match(word):
            word, start, end = quoted[2], start + 1, end - 1
            if " -" in word and not nested:  # a command for another shell
                for inner in secrets_of_commands(word, names, nested=True):
                    yield start + inner[0], start + inner[1]
        words.append(word)
        spans.append((start, end))
        if len(words) >= MOST_WORDS:
            yield from _spans(words, spans, names)
            words, spans = words[-8:], spans[-8:]
    yield from _spans(words, spans, names)


def _spans(words: list[str], spans: list[tuple[int, int]], names: SecretNames) -> Iterator[tuple[int, int]]:
    for at, offset in secrets_of_words(words, names):
        start, end = spans[at]
        start += offset
        if offset and end - start > 1 and words[at][offset] in "\"'" and words[at][-1] == words[at][offset]:
            start, end = start + 1, end - 1
        if end > start:
            yield start, end
