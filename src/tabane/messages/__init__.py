"""Messages to people, in their language.

A :class:`Message` is a sentence that has not been said yet: an English template (the msgid) and
its fields. ``{count} {count:tool|tools}`` chooses the singular or the plural, and ``{server!n}`` quotes a
name that would be read as a word of the sentence. A message travels
with errors and results and is rendered at the face that shows it, in that face's language.
The Japanese catalog is ``locales/ja/LC_MESSAGES/tabane.po``.
"""

from __future__ import annotations

import gettext
import string
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from tabane.messages.quoting import command_word, quoted_name

Lang = Literal["en", "ja"]

_LOCALES = Path(__file__).parent / "locales"


class PageLang(str):
    """A language in which the page shows messages. It equals the language that it is made of.

    ``reword`` changes a template before it is translated.
    """

    reword: Callable[[str], str]


class Message:
    """A sentence with named fields, rendered when and where it is shown.

    ``template`` is English and is the key of the catalog; fields stand in it as ``{name}``.
    A field may be another Message.
    """

    __slots__ = ("fields", "template")

    def __init__(self, template: str, **fields: object) -> None:
        self.template = template
        self.fields = fields

    def render(self, lang: Lang = "en") -> str:
        """Return the sentence in ``lang``. Never raises: an untranslated template is rendered in English.

        In a language :func:`~tabane.messages.page_words.for_page`, the commands in it are left out.
        """
        fields = {k: v.render(lang) if isinstance(v, Message) else v for k, v in self.fields.items()}
        # gettext answers the empty sentence with the head of its catalog.
        template = _translations(lang).gettext(self.template) if self.template else ""
        if isinstance(lang, PageLang):
            template = lang.reword(template)
        return _FORMATTER.vformat(template, (), fields) if fields else template

    def __str__(self) -> str:
        return self.render("en")

    def __repr__(self) -> str:
        return f"Message({self.template!r}, {self.fields!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self.template == other.template and self.fields == other.fields

    def __hash__(self) -> int:
        return hash((self.template, tuple(sorted(self.fields))))


class _PluralFormatter(string.Formatter):
    """Format as ``str.format`` does; ``{count:tool|tools}`` is the first word for 1, else the second.

    ``{server!n}`` is a name in a sentence, ``{server!c}`` a word of a command.
    """

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion == "n":
            return quoted_name(value)
        if conversion == "c":
            return command_word(value)
        return super().convert_field(value, conversion)

    def format_field(self, value: object, format_spec: str) -> str:
        one, bar, many = format_spec.partition("|")
        if bar:
            return one if str(value) in ("1", "1.0") else many
        return format(value, format_spec)


_FORMATTER = _PluralFormatter()


def say(template: str, **fields: object) -> Message:
    """Return a Message. Babel finds the templates by the name of this function.

    A template without fields is shown as it stands: braces in it need no doubling.
    """
    return Message(template, **fields)


def filled(message: Message, *facts: Any) -> Message:
    """Return a sentence with the members of these objects as its fields; those of later ones count."""
    done = Message(message.template)
    done.fields = {name: value for each in facts if isinstance(each, dict) for name, value in each.items()}
    return done


def language(setting: str, *locales: str | None) -> Lang:
    """Return the language: the setting, else the first locale that is given (``ja_JP.UTF-8`` → ja).

    ``setting`` is ``auto``, ``ja`` or ``en``; anything that is not Japanese is answered in English.
    """
    if setting in ("ja", "en"):
        return "ja" if setting == "ja" else "en"
    for locale in locales:
        if locale and locale.split(".")[0] not in ("C", "POSIX"):
            return "ja" if locale.lower().startswith("ja") else "en"
    return "en"


@lru_cache(maxsize=4)  # each language, and each of the page
def _translations(lang: Lang) -> gettext.NullTranslations:
    if lang == "en":
        return gettext.NullTranslations()
    return gettext.translation("tabane", str(_LOCALES), [lang], fallback=True)
