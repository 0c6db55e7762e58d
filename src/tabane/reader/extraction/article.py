"""Extraction of an article: HTML to a page, with its content as Markdown and its metadata.

Dialogs that ask for consent to cookies are not content.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tabane.messages import Message, say
from tabane.reader.extraction.content import PageContent, content
from tabane.reader.extraction.html_tree import parsed, parsed_within_limits
from tabane.reader.extraction.metadata import (
    base_of,
    beginning,
    metadata,
    onward_addresses,
    open_documents,
    used,
)
from tabane.reader.extraction.page_kinds import (
    LOADS_MORE,
    endless_lists,
    evidence,
    loads_more,
    page_kind,
)
from tabane.reader.hidden_text import hidden_warnings, warnings_of
from tabane.reader.markdown import markdown
from tabane.reader.page import Page
from tabane.reader.plain_text import visible_text
from tabane.text.encodings import decode_leniently

_PLEA = re.compile(
    r"(?:enable|need|requires?|turn on|activate|without)\s+(?:\w+\s+){0,3}java\s?script"
    r"|java\s?script\s+(?:\w+\s+){0,3}(?:enabled|required|disabled)"
    r"|JavaScript\s*(?:を|が)(?:有効|必要|無効)", re.IGNORECASE
)  # fmt: skip
_ROOTS = frozenset(
    ("root", "app", "__next", "__nuxt", "___gatsby", "svelte", "main-app", "app-root", "react-root")
)
_MOST_ROOTS = 100  # elements that may be an empty place for a script, or plead for one
_MUCH_LOST = 0.05  # share of the prose of the content's container
_LITTLE_TEXT = 250  # letters: pages are seldom published with less


def extract(html: str | bytes, url: str, charset: str | None = None) -> Page:
    """Return the page that HTML is: its content as Markdown, its title, author, date, site, language and
    address.

    Bytes are decoded as they say themselves, or else by ``charset``, which a header gave. Links are absolute
    against ``url``. Any input gives a page; ``markdown`` is empty if nothing was found.
    """
    text = decode_leniently(html, charset, "text/html") if isinstance(html, bytes) else html
    root, limits = parsed_within_limits(text)
    base = base_of(root, url)
    open_documents(root, parsed)
    about = metadata(root, url)
    script = _is_scripted(root)
    dialogs = consent_dialogs(root)
    aside = frozenset(() if dialogs.alone and not script else dialogs.elements)
    seen = evidence(root, url, closed=about.closed, scripted=script, consent=dialogs.alone, without=aside)
    onward = onward_addresses(root, url)
    for element in root.iter("noframes"):
        element.text = visible_text(element.text or "")  # the parser reads no markup there
    lists = endless_lists(root)
    main = content(root, aside)
    more = loads_more(lists, root)
    kind = page_kind(seen, main.visible, main.kept)
    removed: Counter[str] = Counter()
    written = markdown(main.elements, base, removed=removed)
    letters = main.letters
    machine = used(about.body, main.visible, main.kept, closed=about.closed) if about.body else None
    if machine is not None and machine.text:
        written, letters, removed = machine.text, len(machine.text), Counter()
    warnings = [*limits]
    if machine is not None:
        warnings.append(machine.warning)
    if more and kind is None:
        warnings.append(LOADS_MORE)
    if kind is not None:
        warnings.append(kind.warning)
    from_machine = machine is not None and bool(machine.text)
    warnings += _content_warnings(main, letters, script=script, odd=kind is not None, whole=not from_machine)
    return Page(
        url=url,
        markdown=written,
        title=about.title,
        author=about.author,
        date=about.date,
        site=about.site,
        lang=about.lang,
        canonical=about.canonical,
        way="json-ld" if from_machine else "extracted",
        share=round(main.share, 3),
        warnings=(*warnings, *warnings_of(removed)),
        kind=kind.name if kind else "",
        onward=onward,
    )


def _content_warnings(
    main: PageContent, letters: int, *, script: bool, odd: bool, whole: bool
) -> Iterator[Message]:
    """Yield what a reader should know of the content. ``odd``: it is not what was asked for; ``whole``: it is
    not the text for machines, which has no marked parts.
    """
    if odd:
        pass
    elif script and letters < _LITTLE_TEXT:
        yield say("The page seems to need JavaScript. This is only the text that it shows without it.")
    elif not letters:
        yield say("No content was found on the page.")
    elif letters < _LITTLE_TEXT and main.share < 0.2:
        yield say(
            "Only little content was found on the page: {percent}% of its text.",
            percent=round(100 * main.share),
        )
    elif main.lost >= _MUCH_LOST and whole:
        yield say(
            "{percent}% of the text in the main part of the page was left out, because it does not look like "
            "content.",
            percent=round(100 * main.lost),
        )
    yield from hidden_warnings(main.hidden)
    if main.collapsed and whole:
        yield say(
            "{count} {count:part|parts} that the page shows only after a click {count:is|are}"
            " included and marked.",
            count=main.collapsed,
        )
    if main.late and whole:
        yield say(
            "{count} {count:part|parts} that the page hides until a script shows {count:it|them}"
            " {count:is|are} included and marked.",
            count=main.late,
        )
    if main.limited:
        yield say(
            "The style sheets of the page are too large to apply completely."
            " Visible text may be missing, or hidden text included."
        )


def _is_scripted(root: Element) -> bool:
    """Return whether a page seems to be made by a script: it pleads for one, or has an empty place for it."""
    if root.find(".//script") is None:
        return False
    for element in islice(root.iter("noscript"), _MOST_ROOTS):
        if _PLEA.search(beginning(element, 2000)[:2000]):
            return True
    roots = (at for at in root.iter("div", "app-root", "main") if (at.get("id") or at.tag).lower() in _ROOTS)
    if any(not any(text.strip() for text in at.itertext()) for at in islice(roots, _MOST_ROOTS)):
        return True
    texts: list[str] = []
    length = 0
    for element in root.iter("p", "h1", "h2"):
        texts.append(beginning(element, 400)[:400])
        length += len(texts[-1]) + 1
        if length > 4000:
            break
    return _PLEA.search(" ".join(texts)[:4000]) is not None


_VENDORS = re.compile(
    r"^(?:onetrust-(?:consent-sdk|banner-sdk|pc-sdk)|ot-sdk-|optanon|cybotcookiebotdialog|cookiebanner$"
    r"|usercentrics-(?:root|cmp-ui)|uc-banner"
    r"|didomi-(?:host|popup|notice)|qc-cmp2?-(?:container|main|ui)|truste-(?:consent|show)"
    r"|trustarc-banner|consent_blackbar|teconsent"
    r"|sp_message_container|sp_message_iframe|cky-(?:consent|modal|overlay|preference)"
    r"|cookie-law-info-(?:bar|again)|cliSettingsPopup"
    r"|iubenda-cs-banner|osano-cm-|borlabs-?cookie|brlbs-|cmplz-(?:cookiebanner|soft)|klaro|termly-"
    r"|t-consentprompt|fc-(?:consent-root|dialog-overlay)"
    r"|moove_gdpr|gdpr-cookie-(?:message|notice)|_evidon|evidon-|axeptio|tarteaucitron|cc-(?:window"
    r"|banner|grower|revoke)$|cookieconsent|cookie-?first-root|cookiefirst-"
    r"|ketch-|lanyard_root|transcend-|hs-eu-cookie|hs-banner|eu-cookie-compliance|sliding-popup$|sd-cmp"
    r"|cmpbox|cmpwrapper|consentmanager|ppms_cm_|pdcc-|pandectes"
    r"|shopify-pc__|ccm-(?:root|modal|widget)|cm-ov|cookiehub|ch2-|wt-cli-|catapult-cookie|fides-"
    r"|gravitoCMP|privacy-manager|appconsent|sibbo|tc-privacy|popin_tc_privacy|webtru|gmo-cmp|datasign"
    r"|__tealiumgdpr|stcm|trust-?360)",
    re.IGNORECASE,
)  # fmt: skip
_NAMES = re.compile(
    r"(?:cookies?|consent|gdpr|ccpa|privacy|tracking)[-_ ]?(?:(?:policy|law|info|use|usage|setting"
    r"|s)[-_ ]?)?"
    r"(?:banner|bar|notice|notification|popup|pop-up|modal|dialog|overlay|message|alert|consent"
    r"|disclaimer|warning|container|wrapper|wall|prompt|box|layer|panel|accept|agree|manager|toast|sheet"
    r"|drawer|footer|info)"
    r"|(?:banner|bar|notice|notification|popup|modal|dialog|overlay|alert|toast|accept|eu|js"
    r"|site)[-_ ]?(?:cookies?|consent|gdpr)|^cookies?$|^gdpr$|^consent$",
    re.IGNORECASE,
)
_SAYS = re.compile(
    r"(?<![a-z])cookies?(?![a-z])|クッキー|\bgdpr\b|kekse|\bconsent\b|tracking technolog|your privacy",
    re.IGNORECASE,
)
_ANSWERS = re.compile(
    r"\b(?:accept|agree|allow|reject|decline|refuse|deny|got it|i understand|okay|ok|dismiss|close"
    r"|manage|customi[sz]e|preferences|settings|options|continue|yes|no thanks)\b"
    r"|同意|承諾|許可|拒否|受け入れ|了承|了解|わかりました|閉じる|設定|accepter|refuser|akzeptieren|ablehnen|zustimmen"
    r"|einverstanden|aceptar|rechazar|accetta|rifiuta|akkoord|aanvaarden|accepteren|godkänn|hyväksy"
    r"|aceitar|принять|согласен|接受|동의",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"\bcookies?\b.{0,300}\b(?:accept|agree|consent|allow|reject|decline|refuse|preferences|settings"
    r"|by (?:continuing|using)|policy|got it|we use|uses?)\b"
    r"|\b(?:accept|agree|consent|allow|we use|uses?|by (?:continuing|using))\b.{0,300}\bcookies?\b"
    r"|(?:cookie|クッキー).{0,300}(?:同意|使用|利用|許可|拒否|設定)|(?:同意|使用|利用|許可).{0,300}(?:cookie|クッキー)",
    re.IGNORECASE | re.DOTALL,
)  # fmt: skip

_LONGEST_VENDOR = 30_000  # letters: lists of partners and purposes are long
_LONGEST = 3_000
_NOTHING_ELSE = 60  # letters around a dialog that are not a page
_MOST = 200  # candidates that are looked at

_TAGS = ("div", "section", "aside", "dialog", "form", "footer", "header")
_ROLES = frozenset({"dialog", "alertdialog"})


@dataclass(frozen=True, slots=True)
class ConsentDialogs:
    """The consent dialogs of a page: their elements, their letters, and the letters of all other text."""

    elements: tuple[Element, ...] = ()
    letters: int = 0
    rest: int = 0

    @property
    def alone(self) -> bool:
        """Return whether the page shows nothing else."""
        return self.letters > self.rest and self.rest < _NOTHING_ELSE


def consent_dialogs(root: Element) -> ConsentDialogs:
    """Find what asks for cookies, by the names that makers of such dialogs use and by what it says.

    A part that holds the content of the page, or that is long, is never one.
    """
    dialogs: list[Element] = []
    inside: set[Element] = set()
    for element in islice(_candidates(root), _MOST):
        if any(above in inside for above in element.iterancestors()) or not _is_dialog(element):
            continue
        dialogs.append(element)
        inside.add(element)
    if not dialogs:
        return ConsentDialogs()
    letters = sum(_letters(element) for element in dialogs)
    return ConsentDialogs(tuple(dialogs), letters, _letters(root) - letters)


def _candidates(root: Element) -> Iterator[Element]:
    """Yield the elements whose names or roles are those of a dialog."""
    judged: dict[str, bool] = {"": False}
    for element in root.iter(*_TAGS):
        get = element.get
        for names in (get("class", ""), get("id", "")):
            is_named = judged.get(names)
            if is_named is None:
                is_named = judged[names] = any(
                    _VENDORS.match(name) or _NAMES.search(name[:100]) for name in names.split()[:20]
                )
            if is_named:
                yield element
                break
        else:
            if get("role") in _ROLES or get("aria-modal") == "true":
                yield element


def _is_dialog(element: Element) -> bool:
    names = [name for name in (element.get("id"), *(element.get("class") or "").split()) if name][:20]
    text = _spoken_text(element)
    if any(_VENDORS.match(name) for name in names):
        return len(text) <= _LONGEST_VENDOR and not _holds_content(element)
    asks = element.get("role") in _ROLES or element.get("aria-modal") == "true"
    if not (asks or any(_NAMES.search(name[:100]) for name in names)):
        return False
    if len(text) > _LONGEST or _holds_content(element) or _SAYS.search(text) is None:
        return False
    return _ABOUT.search(text) is not None and (asks or _has_answer_button(element))


def _holds_content(element: Element) -> bool:
    """Return whether the page itself, or an article of it, is within."""
    return next(element.iter("main", "article", "h1"), None) is not None and (
        next(element.iter("main", "article"), None) is not None or len(_spoken_text(element)) > _LONGEST
    )


def _has_answer_button(element: Element) -> bool:
    """Return whether there is a button that answers the question."""
    for button in islice(element.iter("button", "a", "input", "span", "div"), 60):
        if button.tag in ("span", "div") and button.get("role") != "button" and not button.get("onclick"):
            continue
        text = button.get("value") or button.get("aria-label") or "".join(islice(button.itertext(), 10))
        if len(text) <= 60 and _ANSWERS.search(text):
            return True
    return False


def _spoken_text(element: Element) -> str:
    return " ".join("".join(islice(_text_nodes(element), 2_000)).split())


def _text_nodes(element: Element) -> Any:
    for at in element.iter():
        if not isinstance(at.tag, str):
            continue
        if at.tag not in ("script", "style", "noscript", "template") and at.text:
            yield at.text
        if at is not element and at.tail:
            yield at.tail


def _letters(element: Element) -> int:
    body = element.find("body") if element.tag == "html" else element
    return sum(len(" ".join(text.split())) for text in _text_nodes(body if body is not None else element))


Element = Any
