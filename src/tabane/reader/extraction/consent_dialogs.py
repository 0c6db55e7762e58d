"""Consent dialogs of pages: what asks for cookies is removed before the content is looked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tabane.reader.extraction.html_tree import drop

Element = Any

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
_MOST = 200  # candidates that are looked at

_TAGS = ("div", "section", "aside", "dialog", "form", "footer", "header")
_ROLES = frozenset({"dialog", "alertdialog"})


@dataclass(frozen=True, slots=True)
class ConsentDialogs:
    """The consent dialogs of a page: their elements, their letters, and the letters of all other text."""

    elements: tuple[Element, ...] = ()
    letters: int = 0
    rest: int = 0

    def remove(self) -> None:
        """Take them out of the page."""
        for element in self.elements:
            drop(element)


def consent_dialogs(root: Element) -> ConsentDialogs:
    """Find what asks for cookies, by the names that makers of such dialogs use and by what it says.

    A part that holds the content of the page, or that is long, is never one.
    """
    found: list[Element] = []
    inside: set[Element] = set()
    for element in islice(_candidates(root), _MOST):
        if any(above in inside for above in element.iterancestors()) or not _is_dialog(element):
            continue
        found.append(element)
        inside.add(element)
    if not found:
        return ConsentDialogs()
    letters = sum(_letters(element) for element in found)
    return ConsentDialogs(tuple(found), letters, _letters(root) - letters)


def _candidates(root: Element) -> Iterator[Element]:
    """Yield the elements whose names or roles are those of a dialog."""
    judged: dict[str, bool] = {"": False}
    for element in root.iter(*_TAGS):
        get = element.get
        for names in (get("class", ""), get("id", "")):
            found = judged.get(names)
            if found is None:
                found = judged[names] = _is_named(names.split()[:20])
            if found:
                yield element
                break
        else:
            if get("role") in _ROLES or get("aria-modal") == "true":
                yield element


def _is_named(names: list[str]) -> bool:
    return any(_VENDORS.match(name) or _NAMES.search(name[:100]) for name in names)


def _is_dialog(element: Element) -> bool:
    names = [name for name in (element.get("id"), *(element.get("class") or "").split()) if name][:20]
    text = _said(element)
    if any(_VENDORS.match(name) for name in names):
        return len(text) <= _LONGEST_VENDOR and not _holds_content(element)
    asks = element.get("role") in _ROLES or element.get("aria-modal") == "true"
    if not (asks or any(_NAMES.search(name[:100]) for name in names)):
        return False
    if len(text) > _LONGEST or _holds_content(element) or _SAYS.search(text) is None:
        return False
    return _ABOUT.search(text) is not None and (asks or _answers(element))


def _holds_content(element: Element) -> bool:
    """Return whether the page itself, or an article of it, is within."""
    return next(element.iter("main", "article", "h1"), None) is not None and (
        next(element.iter("main", "article"), None) is not None or len(_said(element)) > _LONGEST
    )


def _answers(element: Element) -> bool:
    """Return whether there is a button that answers the question."""
    for button in islice(element.iter("button", "a", "input", "span", "div"), 60):
        if button.tag in ("span", "div") and button.get("role") != "button" and not button.get("onclick"):
            continue
        text = button.get("value") or button.get("aria-label") or "".join(islice(button.itertext(), 10))
        if len(text) <= 60 and _ANSWERS.search(text):
            return True
    return False


def _said(element: Element) -> str:
    return " ".join("".join(islice(_texts(element), 2_000)).split())


def _texts(element: Element) -> Any:
    for at in element.iter():
        if not isinstance(at.tag, str):
            continue
        if at.tag not in ("script", "style", "noscript", "template") and at.text:
            yield at.text
        if at is not element and at.tail:
            yield at.tail


def _letters(element: Element) -> int:
    body = element.find("body") if element.tag == "html" else element
    return sum(len(" ".join(text.split())) for text in _texts(body if body is not None else element))
