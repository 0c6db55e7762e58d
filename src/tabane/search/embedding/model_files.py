"""Recipes of embeddings, and files of models: the shared cache, and what is needed to run a model.

The cache is shared by all programs of a user, in the layout of huggingface_hub: ``models--org--name/``
has ``refs/<revision>`` with a commit, ``blobs/<checksum>`` with contents, and links to blobs as
``snapshots/<commit>/<path>``. An empty file ``.no_exist/<commit>/<path>`` means that the commit has no
such file. The cache is read without importing huggingface_hub, which takes 25 MB.

Functions that read a folder block.

Embedding recipe: everything that a vector depends on, and its fingerprint. Pure.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import util
from typing import Any, Literal

import msgspec
from msgspec import structs

from tabane.errors import ConfigurationError, ModelMissing
from tabane.extras import extra_command
from tabane.messages import say
from tabane.search.embedding.embedder import Kind
from tabane.search.embedding.model_families import ModelTraits, Pooling, family_of
from tabane.settings.files import home_folder

Quantization = Literal["none", "int8"]

MOST_TOKENS = 2048
"""Tokens of a text where nobody asks for more: memory grows with their square."""

_NOTHING = ModelTraits()


@dataclass(frozen=True, slots=True)
class Recipe:
    """The steps from a text to a vector. ``revision`` is the commit, or checksum, of the model's files.

    ``dimension`` 0 keeps all components; ``output`` "" is the graph's usual one. Vectors always have length
    one.
    """

    model: str
    revision: str = ""
    quantisation: Quantization = "none"
    pooling: Pooling = Pooling.MEAN
    max_tokens: int = 512
    query: str = ""
    document: str = ""
    topic: str = ""
    dimension: int = 0
    output: str = ""

    def prefix(self, kind: Kind) -> str:
        """Return the prefix for a text of this kind."""
        return {"query": self.query, "document": self.document, "topic": self.topic}[kind]

    def fingerprint(self, dimension: int) -> str:
        """Return the model's id and 16 hexadecimal digits over everything else and the vectors' dimension."""
        facts = msgspec.json.encode({**asdict(self), "dimension": dimension}, order="sorted")
        return f"{self.model}#{hashlib.sha256(facts).hexdigest()[:16]}"


def settled(
    model: str,
    revision: str = "",
    *,
    overrides: ModelTraits = _NOTHING,
    own: ModelTraits = _NOTHING,
    quantisation: Quantization = "none",
) -> Recipe:
    """Return the recipe of a model: from the overrides, else from its family, else from its own files.

    Lengths that were not requested are limited to :data:`MOST_TOKENS`. Raises ConfigurationError if a number
    is below one.
    """
    family = family_of(model)
    traits = overrides.over(family.traits if family else _NOTHING).over(own)
    for name, value in (("max_tokens", overrides.max_tokens), ("dimension", overrides.dimension)):
        if value is not None and value < 1:
            raise ConfigurationError(say("{name} of the embedding model must be at least 1.", name=name))
    if traits.max_tokens and not overrides.max_tokens:
        traits = structs.replace(traits, max_tokens=min(traits.max_tokens, MOST_TOKENS))
    stated = {name: value for name, value in structs.asdict(traits).items() if value is not None}
    return Recipe(model, revision, quantisation, **stated)


def own_traits(files: Mapping[str, bytes]) -> ModelTraits:
    """Return the traits in a model's files: sentence-transformers' configuration, then the tokenizer's.

    ``files`` are the contents of those of :data:`DESCRIBING` that exist.
    """
    pooling = object_in(files.get("1_Pooling/config.json"))
    prompts = object_in(files.get("config_sentence_transformers.json")).get("prompts") or {}
    lengths = (
        object_in(files.get("sentence_bert_config.json")).get("max_seq_length"),
        object_in(files.get("tokenizer_config.json")).get("model_max_length"),
    )
    # Tokenizers without a limit write 1e30.
    limits = (int(size) for size in lengths if isinstance(size, int | float) and 1 <= size <= 1_000_000)
    return ModelTraits(
        pooling=next((pool for flag, pool in _POOLINGS.items() if pooling.get(flag)), None),
        max_tokens=next(limits, None),
        query=_prompt(prompts, "query", "search_query"),
        document=_prompt(prompts, "document", "passage", "search_document"),
        topic=_prompt(prompts, "topic", "clustering"),
    )


DESCRIBING = (
    "config.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "tokenizer_config.json",
    "1_Pooling/config.json",
)
"""Files that describe a model; any of them may be missing."""

_POOLINGS = {
    "pooling_mode_cls_token": Pooling.CLS,
    "pooling_mode_lasttoken": Pooling.LAST,
    "pooling_mode_mean_tokens": Pooling.MEAN,
}


def _prompt(prompts: Any, *names: str) -> str | None:
    texts = (prompts.get(name) for name in names) if isinstance(prompts, dict) else ()
    return next((text for text in texts if isinstance(text, str)), None)


_ENDPOINT = "https://huggingface.co"
_TRUE = ("1", "on", "yes", "true")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class HubPlace:
    """The source and the folder of models, from the variables that huggingface_hub reads.

    ``offline``: nothing is downloaded (HF_HUB_OFFLINE). ``token`` is for models that require a login
    (HF_TOKEN). ``environ`` are variables that a download gets besides those of this process.
    """

    folder: str
    endpoint: str = _ENDPOINT
    offline: bool = False
    token: str | None = field(default=None, repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)


def hub_place(environ: Mapping[str, str], token: str | None = None) -> HubPlace:
    """Return HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HF_ENDPOINT, HF_HUB_OFFLINE and HF_TOKEN, or their
    defaults.
    """
    caches = environ.get("XDG_CACHE_HOME") or os.path.join(home_folder(environ), ".cache")
    home = environ.get("HF_HOME") or os.path.join(caches, "huggingface")
    folder = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE") or os.path.join(home, "hub")
    return HubPlace(
        os.path.expanduser(folder),
        (environ.get("HF_ENDPOINT") or _ENDPOINT).rstrip("/"),
        environ.get("HF_HUB_OFFLINE", "").lower() in _TRUE,
        token or environ.get("HF_TOKEN") or None,
        environ,
    )


def is_model_id(name: str) -> bool:
    """Return whether it can be a model's id: one or two parts, which cannot lead out of the cache."""
    return _ID.fullmatch(name) is not None and ".." not in name and "--" not in name


class ModelCache:
    """The part of the cache that belongs to one model."""

    def __init__(self, folder: str, model: str) -> None:
        self.folder = os.path.join(folder, "models--" + model.replace("/", "--"))
        self.locks = os.path.join(folder, ".locks", "models--" + model.replace("/", "--"))

    def commit(self, revision: str) -> str | None:
        """Return the commit of a branch or tag when it was last requested. A commit is its own."""
        if _COMMIT.fullmatch(revision):
            return revision
        try:
            with open(os.path.join(self.folder, "refs", *revision.split("/")), encoding="ascii") as file:
                commit = file.read(100).strip()
        except (OSError, UnicodeDecodeError):
            return None
        return commit if _COMMIT.fullmatch(commit) else None

    def snapshot(self, commit: str) -> str:
        """Return the folder of a commit's files, whether it exists or not."""
        return os.path.join(self.folder, "snapshots", commit)

    def blob(self, checksum: str) -> str:
        """Return the path of the content with this checksum, whether it exists or not."""
        return os.path.join(self.folder, "blobs", checksum)

    def lacks(self, commit: str, path: str) -> bool:
        """Return whether the commit is known not to have this file."""
        return os.path.exists(os.path.join(self.folder, ".no_exist", commit, *path.split("/")))

    def note_lack(self, commit: str, path: str) -> None:
        """Note that the commit has no such file."""
        place = os.path.join(self.folder, ".no_exist", commit, *path.split("/"))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "ab"):
            return

    def remember(self, revision: str, commit: str) -> None:
        """Note the commit of a branch or tag."""
        if revision == commit:
            return
        path = os.path.join(self.folder, "refs", *revision.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        part = f"{path}.{os.getpid()}.part"
        with open(part, "w", encoding="ascii") as file:
            file.write(commit)
        os.replace(part, path)

    def link(self, commit: str, path: str, checksum: str) -> None:
        """Link a blob into a commit's folder under its path."""
        place = os.path.join(self.snapshot(commit), *path.split("/"))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        target = os.path.relpath(self.blob(checksum), os.path.dirname(place))
        part = f"{place}.{os.getpid()}.part"
        os.symlink(target, part)
        os.replace(part, place)


_CHUNK = 1 << 20


def importable(package: str) -> bool:
    """Return whether a package is installed. It is not imported."""
    return util.find_spec(package) is not None


def paths_of(folder: str) -> list[str]:
    """Return the files below a folder. Links that lead nowhere are left out."""
    return [
        os.path.relpath(os.path.join(parent, name), folder)
        for parent, _, names in os.walk(folder)
        for name in names
        if os.path.exists(os.path.join(parent, name))  # links may lead nowhere
    ]


def describing_of(folder: str) -> dict[str, bytes]:
    """Return the contents of the files that describe the model."""
    contents = {}
    for path in describing_files(paths_of(folder)):
        with open(os.path.join(folder, path), "rb") as file:
            contents[path] = file.read(_CHUNK)
    return contents


def config_of(folder: str) -> dict[str, Any]:
    """Return the model's config.json; empty if there is none that can be read."""
    return object_in(describing_of(folder).get("config.json"))


def object_in(content: bytes | None) -> dict[str, Any]:
    """Return a JSON object; empty if the content is none."""
    try:
        value = msgspec.json.decode(content or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def checksum_of(path: str) -> str:
    """Return the SHA-256 of a file. Raises ModelMissing if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelMissing(
            say("{path} cannot be read: {reason}.", path=path, reason=error.strerror)
        ) from None


_GRAPHS = ("onnx/model.onnx", "model.onnx")
_WEIGHTS = "model.safetensors"
_TOKENIZER = "tokenizer.json"
_FOREIGN = ("onnx/", "openvino/", "coreml/", "gguf/")  # the same weights for other programs
_FOREIGN_ENDINGS = (".h5", ".ot", ".msgpack", ".gguf", ".onnx", ".onnx_data", ".tflite", ".mlmodel")


def describing_files(paths: Sequence[str]) -> list[str]:
    """Return the files that describe the model. Any of them may be missing."""
    return [path for path in DESCRIBING if path in paths]


def graph_of(paths: Sequence[str], config: Mapping[str, Any]) -> str:
    """Return the ONNX graph, or the weights if one can be built from them (BERT). Raises ModelMissing."""
    if _TOKENIZER in paths:
        for graph in _GRAPHS:
            if graph in paths:
                return graph
        if _WEIGHTS in paths and config.get("model_type") == "bert" and config.get("hidden_act") == "gelu":
            return _WEIGHTS
    raise ModelMissing(
        say(
            "The model has no ONNX graph with a tokenizer. Choose another model, or run: {command}",
            command=extra_command("sentence-transformers"),
        )
    )


def running_files(paths: Sequence[str], config: Mapping[str, Any]) -> list[str]:
    """Return the files that onnxruntime and tokenizers need, the graph first. Raises ModelMissing."""
    graph = graph_of(paths, config)
    beside = [path for path in paths if path.startswith((f"{graph}_data", f"{graph}.data"))]
    return [graph, *beside, _TOKENIZER, *describing_files(paths)]


def scoring_files(paths: Sequence[str]) -> list[str]:
    """Return the files of a model that scores pairs, the graph first. Raises ModelMissing."""
    graph = next((graph for graph in _GRAPHS if graph in paths), None)
    if graph is None or _TOKENIZER not in paths:
        raise ModelMissing(say("The reranker has no ONNX graph with a tokenizer. Choose another one."))
    return running_files([path for path in paths if path != _WEIGHTS], {})


def sentence_transformers_files(paths: Sequence[str]) -> list[str]:
    """Return the files that sentence-transformers needs. Raises ModelMissing if it is none of its models."""
    if "modules.json" not in paths:
        raise ModelMissing(say("The model is not a sentence-transformers model."))
    kept = [
        path
        for path in paths
        if not path.startswith((*_FOREIGN, ".")) and not path.endswith(_FOREIGN_ENDINGS)
    ]
    safe = any(path.endswith(".safetensors") for path in kept)
    # Pickled weights run what they please, and are the same once more.
    return [path for path in kept if not (safe and path.endswith((".bin", ".pt", ".pth")))]
