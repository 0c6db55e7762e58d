"""Settings of what is stored, searched, read and recorded: models, posts, documents, reader, audit log.

They are a part of :class:`tabane.settings.Settings`, whose table would be too long with them.
"""

# ruff: noqa: RUF009  (the calls make dataclass fields with their help, which is what a table is)
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tabane.messages import say
from tabane.settings import option
from tabane.settings.option import GIB, KIB, MIB

ModelLoader = Literal["auto", "onnx", "sentence-transformers"]
ModelPooling = Literal["auto", "mean", "cls", "last"]
READER_SITES = (
    "github", "notion", "wikipedia", "stackoverflow", "qiita", "zenn", "note", "arxiv", "youtube",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, init=False, eq=False, repr=False)
class ContentSettings:
    """The settings of models, posts, documents, reader and audit log."""

    model: str = option.text(
        "auto",
        say(
            "Embedding model for semantic search: auto (the model for 16 languages that is "
            "installed with Tabane), none, a name on huggingface.co (org/name, or org/name@revision), or a "
            "folder that contains the model. With model_url: the model's name on that server."
        ),
    )
    model_url: str = option.text(
        "",
        say(
            "A server with the OpenAI endpoint /v1/embeddings, such as "
            "http://127.0.0.1:11434/v1 for Ollama. All texts to embed are sent to it."
        ),
    )
    model_key: str = option.text(
        "",
        say(
            "The key for that server, written as a variable: ${NAME}. Its value is looked up "
            "in secrets.env, the keyring and the environment. Never write the key itself here."
        ),
    )
    model_loader: ModelLoader = option.choice(
        "auto",
        ("auto", "onnx", "sentence-transformers"),
        say("How the model runs: as an ONNX graph if it has one, or with the package sentence-transformers."),
    )
    model_quantisation: Literal["none", "int8"] = option.choice(
        "none",
        ("none", "int8"),
        say(
            "int8 makes the weights smaller. The model is two to three times as fast, and its "
            "vectors change slightly."
        ),
    )
    model_pooling: ModelPooling = option.choice(
        "auto",
        ("auto", "mean", "cls", "last"),
        say(
            "How a vector is computed from the states of a text's tokens; auto is the method "
            "that the model was trained with."
        ),
    )
    model_max_tokens: int = option.whole(
        0,
        0,
        1_000_000,
        say("tokens"),
        say("Maximum number of tokens of a text; 0 is the model's own limit, at most 2048."),
    )
    model_dimension: int = option.whole(
        0,
        0,
        65_536,
        say("components"),
        say("Keep only the first components of each vector, for models trained for that; 0 keeps all."),
    )
    model_query_prefix: str = option.text(
        "auto",
        say(
            "Text put before a query when it is embedded; auto is the one that the model was "
            "trained with. \\n is a line break."
        ),
    )
    model_document_prefix: str = option.text(
        "auto", say("Text put before a document when it is embedded; written as model_query_prefix.")
    )
    model_offline: bool = option.switch(
        False, say("Do not download models: use only what is in the cache, as with HF_HUB_OFFLINE=1.")
    )
    model_threads: int = option.whole(
        0,
        0,
        256,
        say("threads"),
        say("Number of threads for a model; 0 means one for each core, at most four."),
    )
    model_batch_tokens: int = option.whole(
        1024,
        64,
        1_048_576,
        say("tokens"),
        say(
            "Number of tokens that a model processes together. Higher values need more memory "
            "and are hardly faster."
        ),
    )
    model_idle: float = option.limited(
        "number",
        10,
        0,
        10_080,
        say("minutes"),
        say("A model's process stops after this idle time and is started again when needed; 0 means never."),
    )
    reranker: str = option.text(
        "none",
        say(
            "A second model that reads the first hits of a search together with the query and "
            "sorts them again: none, auto (a small model for Japanese), a name on "
            "huggingface.co, or a folder."
        ),
    )
    embedding_cache: int = option.size(
        GIB,
        MIB,
        1024 * GIB,
        say(
            "Size of the embedding cache, which avoids embedding the same text twice. The "
            "entries unused for longest are removed first. A change takes effect after a "
            "restart."
        ),
    )
    posts_zone: str = option.text(
        "",
        say(
            "Time zone of post timestamps that have none, such as Asia/Tokyo or +09:00; empty "
            "means the time zone of this machine. It applies to posts imported from now on, "
            "and to dates in searches."
        ),
    )
    posts_embeddings: Path | None = option.optional_path(
        say(
            "A folder with embeddings of posts (the folder embeddings of twilog). The hub "
            "imports it at startup, together with the twilog.csv that its meta.json names, if "
            "it is new or has changed."
        )
    )
    posts_reasoning: Path | None = option.optional_path(
        say(
            "A folder with embeddings of the posts' reasoning (batch/reasoning of twilog), "
            "imported in the same way."
        )
    )
    posts_summary: Path | None = option.optional_path(
        say(
            "A folder with embeddings of the posts' summaries (batch/summary of twilog), "
            "imported in the same way."
        )
    )
    documents_roots: tuple[str, ...] = option.texts(
        say(
            "Folders, with their subfolders, from which assistants may save files as documents "
            "(put_file). Empty: none. Files that a person adds with tabane docs need no "
            "permission."
        )
    )
    documents_size: int = option.size(
        10 * MIB, KIB, 12 * MIB, say("Maximum size of the text of one document.")
    )
    reader_allow: tuple[str, ...] = option.texts(
        say(
            "Private hosts that may still be read: names, addresses or networks, with a port "
            "to allow only that port, such as wiki.home or 127.0.0.1:3000."
        )
    )
    reader_robots: Literal["never", "assistants", "always"] = option.choice(
        "assistants",
        ("never", "assistants", "always"),
        say(
            "When a site's robots.txt decides whether a page is read: for requests of an "
            "assistant, always, or never. A page that a person names is not a crawl; a whole site is."
        ),
    )
    reader_size: int = option.size(
        20 * MIB, 64 * KIB, GIB, say("Maximum size of a page or file, after decompression.")
    )
    reader_timeout: float = option.seconds(
        30, 1, 600, say("Time limit for one request for a page, redirects included.")
    )
    reader_fresh: float = option.limited(
        "number",
        15,
        0,
        10_080,
        say("minutes"),
        say("A page is served from the cache for this time. After that, its site is asked again."),
    )
    reader_cache: int = option.size(
        500 * MIB,
        MIB,
        1024 * GIB,
        say("Size of the page cache. The pages read longest ago are removed first."),
    )
    reader_tokens: int = option.whole(
        8_000,
        500,
        200_000,
        say("tokens"),
        say("How much of a page an assistant gets at once if it does not set a limit itself."),
    )
    reader_cookies: Literal["never", "owner", "keys"] = option.choice(
        "owner",
        ("never", "owner", "keys"),
        say(
            "Who may read pages with the cookies that you imported (tabane reader cookies): never, nobody; "
            "owner, you and the assistants on this machine that have no profile; or keys, everybody who may "
            "read pages, also with an API key."
        ),
    )
    reader_ca: Path | None = option.optional_path(
        say(
            "A file of certificates (PEM) to trust in addition to the system's, for example "
            "for your company's own sites."
        )
    )
    reader_proxy: str = option.text(
        "",
        say(
            "Proxy through which pages are fetched, such as http://proxy:3128. The proxy then "
            "resolves names, so the guard against private addresses can check only names and "
            "literal addresses."
        ),
    )
    reader_render: Literal["never", "auto", "unsandboxed"] = option.choice(
        "never",
        ("never", "auto", "unsandboxed"),
        say(
            "Whether a page that shows nothing without JavaScript is opened in an installed "
            "Chromium or Chrome: never; auto, only if the browser's own sandbox works; or "
            "unsandboxed, also without a sandbox, for a hub that is isolated as a whole."
        ),
    )
    reader_browser: str = option.text(
        "",
        say(
            "Path or name of the browser that renders such pages. Empty: the first Chromium or "
            "Chrome that is found."
        ),
    )
    reader_sites_off: tuple[str, ...] = option.chosen(
        (),
        READER_SITES,
        say(
            "Sites whose pages are read like any other page, and not through the site's own interface (API): "
            "for example when tabane doctor --online reports that a site answers differently than expected."
        ),
    )
    reader_scrolls: int = option.whole(
        0,
        0,
        50,
        say("screens"),
        say(
            "How far a page is scrolled down when it is opened in a browser, so that it loads more "
            "content. A request can set its own number with scrolls."
        ),
    )
    audit: Literal["on", "metadata", "off"] = option.choice(
        "on",
        ("on", "metadata", "off"),
        say(
            "Whether calls are recorded in the audit log of TABANE_HOME: on, metadata (without arguments), "
            "or off. Secrets in arguments are always hidden."
        ),
    )
    audit_size: int = option.size(
        64 * MIB,
        64 * KIB,
        GIB,
        say("Maximum size of a file of the audit log before the next one is started."),
    )
    audit_files: int = option.whole(
        16,
        2,
        10_000,
        say("files"),
        say("Number of files of the audit log to keep, including the current one."),
    )
    audit_days: int = option.whole(
        90,
        0,
        36_500,
        say("days"),
        say("Files of the audit log that are older than this are deleted. 0 keeps them, up to audit_files."),
    )
    audit_arguments: int = option.size(
        4 * KIB,
        0,
        64 * KIB,
        say("Maximum size of the arguments of a call in the audit log. Longer ones are cut."),
    )
    audit_redact: tuple[str, ...] = option.texts(
        say(
            "More names of arguments whose values are hidden in the audit log, in addition to password, "
            "token and the like; * stands for any text, as in *_pin."
        )
    )
    audit_sync: Literal["1s", "strict"] = option.choice(
        "1s",
        ("1s", "strict"),
        say(
            "When an entry of the audit log is on disk: within a second, or strict, before the answer of "
            "the call. In both cases a crash of the hub loses no entry of an answered call."
        ),
    )
    audit_full: Literal["stop", "drop"] = option.choice(
        "drop",
        ("stop", "drop"),
        say(
            "What happens when the audit log cannot be written, for example because the disk is full: "
            "stop refuses calls, drop serves them and records how many entries were lost."
        ),
    )
