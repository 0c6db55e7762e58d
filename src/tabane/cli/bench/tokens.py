"""Tokens of what a model is sent: counted with o200k_base, or estimated as bytes/4."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tabane.errors import CallerError
from tabane.messages import say

Count = Callable[[str], int]

_URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
"""URL from which tiktoken downloads the ranks; its cache names the file by the SHA-1 of this URL."""

_PATTERN = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
"""Pattern by which o200k_base splits a text. Source: tiktoken_ext/openai_public.py."""


class PromptTokens:
    """Counts the tokens of texts and JSON values, the latter without spaces. ``unit`` says how."""

    def __init__(self, exact: Count | None = None) -> None:
        self._exact = exact
        self.unit = "o200k_base" if exact else "bytes/4"

    def __call__(self, value: Any) -> float:
        text = value if isinstance(value, str) else compact(value)
        return self._exact(text) if self._exact else len(text.encode("utf-8", "replace")) / 4


def compact(value: Any) -> str:
    """Return a value as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def token_counter(ranks: Path | None = None) -> PromptTokens:
    """Return the best counter that works without a network.

    ``ranks`` is a file of o200k_base: that of npm's js-tiktoken, or that of tiktoken. Without it, the cache
    of tiktoken is used if it has the file, else tokens are estimated. Raises CallerError if ``ranks`` cannot
    be used.
    """
    if ranks is None:
        folders = (
            os.environ.get("TIKTOKEN_CACHE_DIR"),
            os.environ.get("DATA_GYM_CACHE_DIR"),
            os.path.join(tempfile.gettempdir(), "data-gym-cache"),
        )
        name = hashlib.sha1(_URL.encode(), usedforsecurity=False).hexdigest()
        cached = next((file for folder in folders if folder and (file := Path(folder, name)).is_file()), None)
        ranks, named = cached, False
    else:
        named = True
    try:
        return PromptTokens(o200k(ranks)) if ranks else PromptTokens()
    except (ImportError, OSError, ValueError, KeyError) as error:
        if not named:
            return PromptTokens()
        raise CallerError(
            say(
                "Tokens cannot be counted with {file}: {reason}. The package tiktoken must be installed, and "
                "the file must be o200k_base.js of js-tiktoken or o200k_base.tiktoken.",
                file=str(ranks),
                reason=str(error) or type(error).__name__,
            )
        ) from None


def o200k(ranks: Path) -> Count:
    """Return the tokenizer o200k_base with the ranks of a file: js-tiktoken's or tiktoken's own.

    Raises ImportError without the package tiktoken, ValueError or KeyError if the file has another format.
    """
    import tiktoken  # type: ignore[import-not-found,unused-ignore]

    source = ranks.read_text(encoding="utf-8")
    if '{"pat_str"' in source:
        table = json.loads(source[source.index('{"pat_str"') : source.rindex("}") + 1])
        pattern, found, special = table["pat_str"], _numbered(table["bpe_ranks"]), table["special_tokens"]
    else:
        pattern, found, special = _PATTERN, _listed(source), {}
    encoding = tiktoken.Encoding("o200k_base", pat_str=pattern, mergeable_ranks=found, special_tokens=special)
    return lambda text: len(encoding.encode(text, disallowed_special=()))


def _numbered(lines: str) -> dict[bytes, int]:
    """Each line reads ``! first token token …``: tokens in base64, numbered from the first."""
    found: dict[bytes, int] = {}
    for line in lines.splitlines():
        _, first, *tokens = line.split(" ")
        found.update((base64.b64decode(token), int(first) + n) for n, token in enumerate(tokens))
    return found


def _listed(lines: str) -> dict[bytes, int]:
    """Each line reads ``token rank``, the token in base64."""
    pairs = (line.split() for line in lines.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}
