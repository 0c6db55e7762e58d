"""The key "sandbox" of a server in the servers file: its allowed values, and the values as one object."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct, structs

from tabane.messages import say
from tabane.servers.key_values import InvalidKeyValue, is_plain
from tabane.text.lazy_patterns import lazy_pattern

Preset = Literal["files", "network", "none"]
PRESETS: tuple[Preset, ...] = ("files", "network", "none")

Network = Literal["on", "off", "hosts"]

MOST_PATHS = 200
MOST_HOSTS = 200
LEAST_MEMORY = 16 << 20
MOST_MEMORY = 1 << 44
MOST_SECONDS = 31_536_000
MOST_PROCESSES = 100_000

_LONGEST = 4_096
_HOST = lazy_pattern(
    r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]{0,252}[a-z0-9_])?\.?|\[[0-9a-f:.]{2,45}\]", re.IGNORECASE
)
_SIZE = lazy_pattern(r"(\d{1,9}(?:\.\d{1,3})?)\s*([kmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class SandboxProfile(Struct, frozen=True):
    """What the process of a server may do, as the user wrote it.

    ``writes`` are the folders and files that it may change, besides its own folder for temporary files.
    ``reads`` are those that it may read besides the system's; None: all but the protected ones. ``hides`` are
    further protected ones. ``hosts`` are names that it may connect to if ``network`` is ``hosts``: a name,
    ``*.name`` or an address, with ``:port`` if only that port. ``memory`` is in bytes and ``cpu`` in seconds
    of CPU time. ``processes`` are processes and threads at the same time. ``sockets``: it may connect to Unix
    sockets. A limit that is 0 is not set.
    """

    preset: Preset = "files"
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] | None = None
    hides: tuple[str, ...] = ()
    network: Network = "off"
    hosts: tuple[str, ...] = ()
    memory: int = 0
    cpu: int = 0
    processes: int = 0
    sockets: bool = False

    def texts(self) -> list[str]:
        """Return the paths, in which variables are expanded: writes, reads and hides."""
        return [*self.writes, *(self.reads or ()), *self.hides]

    def with_texts(self, texts: list[str]) -> SandboxProfile:
        """Return the same profile with other paths, given in the order of :meth:`texts`."""
        first, second = len(self.writes), len(self.writes) + len(self.reads or ())
        reads = None if self.reads is None else tuple(texts[first:second])
        return structs.replace(self, writes=tuple(texts[:first]), reads=reads, hides=tuple(texts[second:]))


def sandbox(value: object) -> SandboxProfile | None:
    """Return the profile of the key "sandbox"; None if the server runs without a cage."""
    if isinstance(value, bool):
        return SandboxProfile() if value else None
    if isinstance(value, str):
        return _of_preset(_preset("", value))
    if not isinstance(value, dict):
        raise InvalidKeyValue(say('"files", "network", "none", or an object such as {"write": ["~/notes"]}'))
    if "filesystem" in value or isinstance(value.get("network"), dict):
        return _elsewhere(value)
    return _of_members(value)


def _of_members(value: Mapping[str, Any]) -> SandboxProfile | None:
    profile = _of_preset(_preset(".preset", value.get("preset") or "files"))
    found: dict[str, Any] = {}
    for key, given in value.items():
        if key not in _CHECKS:
            raise InvalidKeyValue(say("an object with {keys}", keys=", ".join(_CHECKS)), f".{key}")
        if given is not None and key != "preset":
            found |= _CHECKS[key](f".{key}", given)
    if profile is None and found:
        raise InvalidKeyValue(say("files or network beside other members"), ".preset")
    return profile and structs.replace(profile, **found)


def sandbox_of_editor(root: object) -> SandboxProfile:
    """Return the profile of a server with VS Code's ``sandboxEnabled``: ``root`` is the file's "sandbox"."""
    return _elsewhere(root if isinstance(root, dict) else {})


def _elsewhere(value: Mapping[str, Any]) -> SandboxProfile:
    """Return the profile that VS Code's object describes: ``filesystem`` and ``network``."""
    files, network = value.get("filesystem", {}), value.get("network", {})
    if not isinstance(files, dict):
        raise InvalidKeyValue(say("an object with allowWrite and denyRead"), ".filesystem")
    if not isinstance(network, dict):
        raise InvalidKeyValue(say("an object with allowedDomains"), ".network")
    hosts = _hosts(".network.allowedDomains", network.get("allowedDomains") or [])
    return SandboxProfile(
        writes=_paths(".filesystem.allowWrite", files.get("allowWrite") or []),
        hides=_paths(".filesystem.denyRead", files.get("denyRead") or []),
        network="hosts" if hosts else "off",
        hosts=hosts,
    )


def _of_preset(preset: Preset) -> SandboxProfile | None:
    if preset == "none":
        return None
    return SandboxProfile(preset=preset, network="on" if preset == "network" else "off")


def _preset(where: str, value: object) -> Preset:
    for preset in PRESETS:
        if value == preset:
            return preset
    raise InvalidKeyValue(say("one of {choices}", choices=", ".join(PRESETS)), where)


def _paths(where: str, value: object) -> tuple[str, ...]:
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or len(paths) > MOST_PATHS:
        raise InvalidKeyValue(say("a list of at most {most} {most:path|paths}", most=MOST_PATHS), where)
    for index, path in enumerate(paths):
        if not isinstance(path, str) or not path or not is_plain(path) or len(path) > _LONGEST:
            raise InvalidKeyValue(say("a path in quotes"), f"{where}[{index}]")
    return tuple(dict.fromkeys(paths))


def _hosts(where: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MOST_HOSTS:
        raise InvalidKeyValue(say("a list of at most {most} {most:host|hosts}", most=MOST_HOSTS), where)
    for index, host in enumerate(value):
        if not isinstance(host, str) or not _is_host(host):
            raise InvalidKeyValue(
                say("a host such as api.example.com, *.example.com or example.com:443"), f"{where}[{index}]"
            )
    return tuple(dict.fromkeys(host.lower().replace(".:", ":").rstrip(".") for host in value))


def _is_host(text: str) -> bool:
    name, colon, port = text.rpartition(":")
    if colon and not text.endswith("]") and not port.isdigit():
        return False
    if not colon or text.endswith("]"):
        return _HOST.fullmatch(text) is not None
    return _HOST.fullmatch(name) is not None and port.isascii() and 0 < int(port) < 65_536


def _network(where: str, value: object) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"network": "on" if value else "off"}
    if isinstance(value, list):
        hosts = _hosts(where, value)
        return {"network": "hosts" if hosts else "off", "hosts": hosts}
    raise InvalidKeyValue(say("true, false, or a list of hosts"), where)


def _memory(where: str, value: object) -> dict[str, Any]:
    size: float = -1
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        size = float(match[1]) * _UNITS[match[2].lower()]
    if LEAST_MEMORY <= size <= MOST_MEMORY:
        return {"memory": int(size)}
    raise InvalidKeyValue(say('a size of at least 16 MB, such as "512M" or "2G"'), where)


def _whole(field: str, most: int) -> Callable[[str, object], dict[str, Any]]:
    def check(where: str, value: object) -> dict[str, Any]:
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
            return {field: value}
        raise InvalidKeyValue(say("a whole number from {lowest} to {highest}", lowest=1, highest=most), where)

    return check


def _sockets(where: str, value: object) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"sockets": value}
    raise InvalidKeyValue(say("true or false"), where)


_CHECKS: Mapping[str, Callable[[str, Any], dict[str, Any]]] = {
    "preset": lambda where, value: {},
    "write": lambda where, value: {"writes": _paths(where, value)},
    "read": lambda where, value: {"reads": _paths(where, value)},
    "hide": lambda where, value: {"hides": _paths(where, value)},
    "network": _network,
    "memory": _memory,
    "cpu": _whole("cpu", MOST_SECONDS),
    "processes": _whole("processes", MOST_PROCESSES),
    "unixSockets": _sockets,
}


def written(profile: SandboxProfile) -> dict[str, Any]:
    """Return the value of the key "sandbox" for a profile, without what the preset says already."""
    network: object = {"on": True, "off": False, "hosts": list(profile.hosts)}[profile.network]
    usual = "on" if profile.preset == "network" else "off"
    found = {
        "preset": profile.preset,
        "write": list(profile.writes),
        "read": None if profile.reads is None else list(profile.reads),
        "hide": list(profile.hides),
        "network": None if profile.network == usual else network,
        "memory": profile.memory,
        "cpu": profile.cpu,
        "processes": profile.processes,
        "unixSockets": profile.sockets,
    }
    return {
        key: value
        for key, value in found.items()
        if value or (value is not None and key in ("read", "network"))
    }
