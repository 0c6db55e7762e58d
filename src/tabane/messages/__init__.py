"""What Tabane says to people, in their language.

A :class:`Message` is a sentence that has not been said yet: an English template (the msgid) and
its fields. It travels with errors and results and is rendered at the face that shows it, in that
face's language. The Japanese catalogue is ``locales/ja/LC_MESSAGES/tabane.po``.
"""

from tabane.messages.catalogue import Lang, Message, language, say

__all__ = ["Lang", "Message", "language", "say"]
