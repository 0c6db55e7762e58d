"""Names of environment variables by what they are for: which reach a server, and which only a download.

Sources: the manuals of npm (Config), pip (Configuration), uv (Environment variables), Node.js (CLI), Deno
(Environment variables), Bun (bunfig), curl, Go (cmd/go), and the names in the programs, November 2026.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache


class VariableKind(Enum):
    """The use of a hub's variable for a server that names nothing in ``inherit``.

    An ``ADDRESS`` may hold credentials: of a proxy or a package registry. If it does, only a download
    gets it. A ``CREDENTIAL`` is for a package registry alone, so that no running server needs it.
    ``DOWNLOAD`` says where such credentials are. A ``SESSION`` variable gives access to the user's desktop.
    A ``SECRET`` is one by its name.
    """

    PLAIN = "plain"
    ADDRESS = "address"
    CREDENTIAL = "credential"
    DOWNLOAD = "download"
    SESSION = "session"
    SECRET = "secret"
    OTHER = "other"


BASIC = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""Variables without which few programs work. They are never recorded, except PATH."""

ON_TERMINAL = "TABANE_TERMINAL"
"""Variable of a hub that a person started in a terminal: what is unset there stays unset."""

SECRET_WORDS = ("TOKEN", "AUTH", "SECRET", "KEY", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "COOKIE")
"""A name that contains one of these is passed only if ``inherit`` names it."""

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY")
"""Variables of proxies, in capitals. Programs read them in small letters, too."""

CERTIFICATES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "DENO_CERT", "DENO_TLS_CA_STORE"),
    *("UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "PIP_CERT", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"),
    *("AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "HTTPLIB2_CA_CERTS"),
    *("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "NIX_SSL_CERT_FILE", "PIP_USE_FEATURE"),
)
"""Files and folders of certificate authorities, and whether those of the system are trusted."""

_REGISTRIES = (
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_PROXY", "PIP_TRUSTED_HOST"),
    *("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"),
    *("UV_INSECURE_HOST", "UV_PYTHON_INSTALL_MIRROR", "UV_PYPY_INSTALL_MIRROR"),
    *("UV_PYTHON_DOWNLOADS_JSON_URL", "UV_PYTHON_INSTALL_REGISTRY", "UV_ASTRAL_MIRROR_URL"),
    *("BUN_CONFIG_REGISTRY", "JSR_URL", "COREPACK_NPM_REGISTRY", "YARN_NPM_REGISTRY_SERVER"),
    *("GOPROXY", "GOSUMDB", "NVM_NODEJS_ORG_MIRROR", "FNM_NODE_DIST_MIRROR", "NODEJS_ORG_MIRROR"),
    *("GLOBAL_AGENT_HTTP_PROXY", "GLOBAL_AGENT_HTTPS_PROXY", "GLOBAL_AGENT_NO_PROXY"),
)

_PLAIN = (
    *CERTIFICATES,
    "NODE_USE_ENV_PROXY",
    # How packages are chosen: without these, a download would ignore what the user forbids.
    *("PIP_NO_INDEX", "PIP_CONFIG_FILE", "PIP_DEFAULT_TIMEOUT", "PIP_TIMEOUT", "PIP_RETRIES"),
    *("PIP_CONSTRAINT", "PIP_ONLY_BINARY", "PIP_NO_BINARY", "PIP_CACHE_DIR", "PIP_UPLOADED_PRIOR_TO"),
    *("UV_NO_INDEX", "UV_INDEX_STRATEGY", "UV_CONFIG_FILE", "UV_NO_CONFIG", "UV_OFFLINE"),
    *("UV_EXCLUDE_NEWER", "UV_EXCLUDE_NEWER_PACKAGE", "UV_CONSTRAINT", "UV_OVERRIDE", "UV_NO_BUILD"),
    *("UV_NO_BINARY", "UV_REQUIRE_HASHES", "UV_MALWARE_CHECK", "UV_HTTP_TIMEOUT", "UV_HTTP_RETRIES"),
    *("UV_HTTP_CONNECT_TIMEOUT", "UV_CONCURRENT_DOWNLOADS", "UV_LINK_MODE"),
    *("UV_PYTHON", "UV_PYTHON_PREFERENCE", "UV_PYTHON_DOWNLOADS", "UV_MANAGED_PYTHON"),
    *("UV_NO_MANAGED_PYTHON", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOTOOLCHAIN"),
    # Language, time, and places of files
    *("LANG", "LANGUAGE", "TZ", "TZDIR", "TMPDIR", "TMP", "TEMP"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_BIN_HOME"),
    *("XDG_CONFIG_DIRS", "XDG_DATA_DIRS"),
    *("UV_CACHE_DIR", "UV_TOOL_DIR", "UV_TOOL_BIN_DIR", "UV_PYTHON_INSTALL_DIR", "UV_PYTHON_BIN_DIR"),
    *("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_SHARED_LIBS", "PIPX_DEFAULT_PYTHON"),
    *("NVM_DIR", "NVM_BIN", "FNM_DIR", "FNM_MULTISHELL_PATH", "VOLTA_HOME", "N_PREFIX", "NODENV_ROOT"),
    *("PNPM_HOME", "BUN_INSTALL", "BUN_INSTALL_CACHE_DIR", "BUN_INSTALL_BIN", "COREPACK_HOME"),
    *("DENO_DIR", "DENO_INSTALL", "DENO_INSTALL_ROOT"),
    *("ASDF_DIR", "ASDF_DATA_DIR", "ASDF_CONFIG_FILE"),
    *("MISE_DATA_DIR", "MISE_CONFIG_DIR", "MISE_CACHE_DIR", "MISE_STATE_DIR", "MISE_GLOBAL_CONFIG_FILE"),
    *("PYENV_ROOT", "RBENV_ROOT", "GOENV_ROOT", "JENV_ROOT", "SDKMAN_DIR", "JAVA_HOME", "DOTNET_ROOT"),
    *("CARGO_HOME", "RUSTUP_HOME", "GOPATH", "GOROOT", "GOBIN", "GOCACHE", "GOMODCACHE"),
    *("HOMEBREW_PREFIX", "HOMEBREW_CELLAR", "HOMEBREW_REPOSITORY"),
    # Which Docker runs the servers that are containers
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
    "NODE_OPTIONS",
)

_CREDENTIALS = (
    *("NPM_TOKEN", "NODE_AUTH_TOKEN", "BUN_AUTH_TOKEN", "DENO_AUTH_TOKENS", "YARN_NPM_AUTH_TOKEN"),
    *("COREPACK_NPM_TOKEN", "COREPACK_NPM_PASSWORD", "DOCKER_AUTH_CONFIG"),
)

_DOWNLOAD = (
    *("UV_KEYRING_PROVIDER", "UV_CREDENTIALS_DIR", "PIP_KEYRING_PROVIDER", "PIP_CLIENT_CERT"),
    *("SSL_CLIENT_CERT", "NETRC", "GOAUTH", "COREPACK_NPM_USERNAME"),
)

_SESSION = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK")

_UV_INDEX = "UV_INDEX_"
"""Begins the names of a user and a password of each index: ``UV_INDEX_MINE_PASSWORD``."""

_DBUS = "DBUS_"

_NPM = "npm_config_"
_NPM_ADDRESSES = ("registry", "proxy", "http_proxy", "https_proxy", "noproxy")
_NPM_PLAIN = (
    *("ca", "cafile", "strict_ssl", "cache", "prefix", "userconfig", "globalconfig", "node_gyp"),
    *("offline", "prefer_offline", "before", "min_release_age", "ignore_scripts", "allow_scripts"),
    *("strict_allow_scripts", "allow_git", "allow_remote", "maxsockets"),
    *("fetch_retries", "fetch_retry_factor", "fetch_retry_mintimeout", "fetch_retry_maxtimeout"),
    *("fetch_timeout", "replace_registry_host", "libc"),
)

_KINDS: dict[str, VariableKind] = {
    **dict.fromkeys((*BASIC, *_PLAIN), VariableKind.PLAIN),
    **dict.fromkeys((*PROXIES, *_REGISTRIES), VariableKind.ADDRESS),
    **dict.fromkeys((name.lower() for name in PROXIES), VariableKind.ADDRESS),
}


@lru_cache(maxsize=1024)
def kind_of(name: str) -> VariableKind:
    """Return what a variable of that name is for. Each server asks for all variables of the hub."""
    of_index = name[len(_UV_INDEX) :] if name.startswith(_UV_INDEX) else ""
    if name in _CREDENTIALS or of_index.endswith("_PASSWORD"):
        return VariableKind.CREDENTIAL
    if name in _DOWNLOAD or of_index.endswith("_USERNAME"):
        return VariableKind.DOWNLOAD
    if name.lower().startswith(_NPM):
        return _kind_of_npm(name[len(_NPM) :].lower().replace("-", "_"))
    if name in _SESSION or name.startswith(_DBUS):
        return VariableKind.SESSION
    if has_secret_word(name):
        return VariableKind.SECRET
    if name.startswith("LC_"):
        return VariableKind.PLAIN
    return _KINDS.get(name, VariableKind.OTHER)


def has_secret_word(name: str) -> bool:
    """Return whether a name contains one of :data:`SECRET_WORDS`, in capitals or not."""
    upper = name.upper()
    return any(word in upper for word in SECRET_WORDS)


def is_proxy(name: str) -> bool:
    """Return whether a variable is one of :data:`PROXIES`, in capitals or not."""
    return name.upper() in PROXIES


def _kind_of_npm(option: str) -> VariableKind:
    """Return what an option of npm is for. npm reads its names with any case, and - like _."""
    if option.endswith((":_authtoken", ":_auth", ":_password", ":username")) or option in (
        "_auth",
        "_authtoken",
    ):
        return VariableKind.CREDENTIAL
    if has_secret_word(option):
        return VariableKind.SECRET
    if option in _NPM_ADDRESSES or (option.startswith("@") and option.endswith(":registry")):
        return VariableKind.ADDRESS
    return VariableKind.PLAIN if option in _NPM_PLAIN else VariableKind.OTHER
