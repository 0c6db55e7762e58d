"""Downloads of packages before their servers start: one at a time for each package, a few in parallel.

One quick look at where packages come from, or at the proxy before it, shows whether there is a network.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import structs

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message, say
from tabane.servers.redaction import Redactor
from tabane.servers.server import Server
from tabane.upstreams.launching.kept_package import (
    LINE_LIMIT,
    DownloadJournal,
    KeptPackage,
    OutputDrain,
    in_use,
    installed_program,
    is_there,
    journal_folder,
    needs_removal,
    note_end,
    npx_entry,
    remove,
    runs_without_download,
    written_bytes,
)
from tabane.upstreams.launching.package_run import (
    download_command,
    is_exact,
    offline_args,
    package_run,
    present_command,
)
from tabane.upstreams.launching.start_preparation import (
    ConnectedCages,
    DownloadLimits,
    OnProgress,
    PackageProgress,
    PreparedStart,
)
from tabane.upstreams.processes.child_environment import child_environment, download_environment
from tabane.upstreams.processes.processes import ChildProcess, ChildProcesses
from tabane.upstreams.processes.stderr import StderrLog

log = logging.getLogger(__name__)

WAIT = 3.0
"""Seconds until a network that answers nothing counts as none."""

VALID = 10.0
"""Seconds for which an answer is used again."""

SITES = ("https://www.npmjs.com", "https://pypi.org")
"""Sites that answer wherever packages can be downloaded by default."""

_NAMED = ("NPM_CONFIG_REGISTRY", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
_FILES = {"NPM_CONFIG_USERCONFIG": ".npmrc", "UV_CONFIG_FILE": ".config/uv/uv.toml"}
"""Settings of launchers, in which a company names its registry: by variable, the path in the home folder."""

_MOST_ADDRESSES = 8
_find_addresses = re.compile(r"https?://[^\s\"',\]]+").findall

IMPATIENT = {
    "npm_config_prefer_offline": "true",
    "npm_config_fetch_retries": "0",
    "npm_config_fetch_timeout": "4000",
    "npm_config_update_notifier": "false",
    "UV_HTTP_RETRIES": "0",
    "UV_HTTP_TIMEOUT": "4",
    "UV_HTTP_CONNECT_TIMEOUT": "4",
}
"""Variables with which launchers give up soon. A registry that the probe does not know may still answer."""


class NetworkProbe:
    """Looks for the network at most once in :data:`VALID` seconds. ``environment`` names proxies.

    ``known`` is whether there is one, if somebody has looked already.
    """

    def __init__(self, environment: Mapping[str, str], known: bool | None = None) -> None:
        self._environment, self._known = environment, known
        self._looking: asyncio.Future[bool] | None = None
        self._until = 0.0

    async def online(self) -> bool:
        """Return whether a registry, or a proxy before one, answers within :data:`WAIT` seconds."""
        if self._known is not None:
            return self._known
        if self._looking is None or (self._looking.done() and time.monotonic() > self._until):
            self._looking = asyncio.ensure_future(asyncio.to_thread(is_online, self._environment))
            self._until = time.monotonic() + WAIT + VALID
        return await asyncio.shield(self._looking)


def is_online(environment: Mapping[str, str], wait: float = WAIT) -> bool:
    """Return whether a registry that the user names answers, or one of :data:`SITES`.

    Blocks for at most ``wait`` seconds.
    """
    from tabane.net.routes import environment_proxy  # a hub that starts does not look

    addresses = list(dict.fromkeys((*_named_registries(environment), *SITES)))
    found, left = threading.Event(), threading.Semaphore(0)

    def look(address: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            if _answers(address, environment_proxy(address, environment), wait):
                found.set()
        left.release()

    # Not the threads of a pool: nothing ends the search for a name, and nobody waits for these.
    for address in addresses:
        threading.Thread(target=partial(look, address), daemon=True, name="network probe").start()
    end = time.monotonic() + wait
    for _ in addresses:
        if not left.acquire(timeout=max(0.0, end - time.monotonic())) or found.is_set():
            break
    return found.is_set()


def _named_registries(environment: Mapping[str, str]) -> list[str]:
    """Return the registries of the user's environment and of the settings of launchers."""
    upper = {name.upper(): value for name, value in environment.items()}
    named = [upper[name] for name in _NAMED if "://" in upper.get(name, "")]
    for variable, usual in _FILES.items():
        path = upper.get(variable) or os.path.join(upper.get("HOME") or "", usual)
        with contextlib.suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as file:
            named += _find_addresses(file.read(1 << 16))
    return named[:_MOST_ADDRESSES]


def found_hosts(hosts: Iterable[str], wait: float = 1.0) -> frozenset[str]:
    """Return the hosts whose address is known within ``wait`` seconds. Blocks for that long.

    A search for a name cannot be ended: whoever waits for its thread waits for the whole time of a resolver.
    """
    found: set[str] = set()

    def look(host: str) -> None:
        with contextlib.suppress(OSError, UnicodeError):
            socket.getaddrinfo(host, None)
            found.add(host)

    threads = [threading.Thread(target=partial(look, host), daemon=True) for host in dict.fromkeys(hosts)]
    end = time.monotonic() + wait
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return frozenset(found)


def _answers(address: str, proxy: str | None, wait: float) -> bool:
    """Return whether a server, or the proxy before it, says anything. Raises OSError and ValueError."""
    target = urlsplit(address)
    port = target.port or (443 if target.scheme == "https" else 80)
    via = urlsplit(proxy if "://" in proxy else f"http://{proxy}") if proxy else None
    host, at = (via.hostname, via.port or 80) if via else (target.hostname, port)
    with socket.create_connection((host or "", at), wait) as connection:
        connection.settimeout(wait)
        if via is not None and via.scheme == "http":
            line = f"{target.hostname}:{port}"
            connection.sendall(f"CONNECT {line} HTTP/1.1\r\nHost: {line}\r\n\r\n".encode())
            return bool(connection.recv(1))
        if target.scheme != "https" or via is not None:
            return True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # Only whether somebody answers is asked: nothing is sent, and nothing is believed.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with contextlib.suppress(ssl.SSLError):
            context.wrap_socket(connection, server_hostname=target.hostname).close()
    return True


LOOK = 0.2
"""Seconds between two looks at a lock that another holds, and at a cache entry that is in use."""

OFFLINE = 6.0
"""Seconds for a download if there is no network: some launchers know a registry that the probe does not."""

SETTLE = 8.0
"""Seconds to wait until nothing uses an entry that is to be removed: npm's lock outlives npm by five."""

STOP_GRACE = 0.5
"""Seconds from end of file to SIGTERM, and from there to SIGKILL: a download reads no input."""

_CACHES = (
    "HOME",
    "XDG_CACHE_HOME",
    "NPM_CONFIG_CACHE",
    "UV_CACHE_DIR",
    "UV_PYTHON",
    "DENO_DIR",
    "DOCKER_HOST",
)
"""Variables that decide where a launcher keeps its packages."""


class PackageDownloads:
    """Downloads packages in child processes of their own, with what only registries may see.

    ``environment`` is the hub's. ``logs`` is the folder of the servers' logs.
    """

    def __init__(
        self,
        processes: ChildProcesses,
        logs: Path,
        environment: Mapping[str, str],
        limits: DownloadLimits,
        cages: ConnectedCages,
        network: NetworkProbe | None = None,
    ) -> None:
        self._network = network or NetworkProbe(environment)
        self._loop, self._processes, self._logs = asyncio.get_running_loop(), processes, logs
        self._environment, self._limits, self._cages = environment, limits, cages
        self._running = 0
        self._freed = asyncio.Condition()
        self._noticing: set[asyncio.Task[None]] = set()

    async def prepare(self, server: Server, on_progress: OnProgress) -> PreparedStart:
        """Download the package of a server that is a program, as :meth:`StartPreparation.prepare` does."""
        if package_run(server.command, server.args) is None:
            return PreparedStart(server)
        try:
            package = await asyncio.to_thread(self._package, server)
            if package is None:
                return PreparedStart(server)
            if await asyncio.to_thread(is_there, package):
                # What asks its registry at each start tries for minutes without a network.
                asks = package.run.runner in ("npx", "uvx")
                return self._prepared(server, package, fresh=asks and not await self._network.online())
            return await self._downloaded(server, package, on_progress)
        except OSError as error:
            # Without its journal a download is not protected, but the server may well start.
            log.warning("%s: the download cannot be prepared: %s", server.name, error)
            return PreparedStart(server, downloads=True)

    def use_limits(self, limits: DownloadLimits) -> None:
        """Apply other limits, also to the downloads that wait for a place."""
        self._limits = limits
        noticing = self._loop.create_task(self._notify())
        self._noticing.add(noticing)
        noticing.add_done_callback(self._noticing.discard)

    def ended(self, server: Server, failure: Message | None) -> None:
        """Note how the start of a server that is a program went; ``failure`` is None if it works."""
        if package_run(server.command, server.args) is not None:
            self._loop.run_in_executor(None, self._note_end, server, failure)

    def _note_end(self, server: Server, failure: Message | None) -> None:
        package = self._package(server)
        if package is not None:
            note_end(package, failure)

    def _package(self, server: Server) -> KeptPackage | None:
        """Return what the server runs; None if it is not known where that is kept. Blocks."""
        run = package_run(server.command, server.args)
        folder = journal_folder(self._environment)
        if run is None or folder is None:
            return None
        shared = child_environment(self._environment, server.env, server.inherit)
        private = download_environment(self._environment, server.env, server.inherit)
        entry = npx_entry(run, shared, server.cwd)
        caches = {name: value for name, value in shared.items() if name.upper() in _CACHES}
        what: list[object] = [run.runner, run.program, run.options, run.package, run.others, caches]
        identity = [str(entry)] if entry else what
        journal, caged = DownloadJournal(folder, identity), server.sandbox is not None
        return KeptPackage(run, journal, entry, server.cwd, shared, private, caged)

    def _prepared(self, server: Server, package: KeptPackage, *, fresh: bool) -> PreparedStart:
        """Return the start of a package that is there. With a fresh one, no registry is asked again.

        Nor with an exact version, which never changes, and if only the step can ask it. In a cage, the
        program is run without npx.
        """
        if package.caged and package.entry is not None:
            program = installed_program(package.run, package.entry)
            if program is not None:
                return PreparedStart(
                    structs.replace(server, command=str(program), args=package.run.arguments)
                )
        exact = package.run.runner == "npx" and is_exact(package.run)
        if runs_without_download(package) or not (fresh or exact or package.only_downloads_ask):
            return PreparedStart(server)
        addresses = package.addresses if package.has_secrets else {}
        args = tuple(offline_args(package.run))
        return PreparedStart(structs.replace(server, args=args, env={**addresses, **server.env}))

    async def _downloaded(
        self, server: Server, package: KeptPackage, on_progress: OnProgress
    ) -> PreparedStart:
        progress = PackageProgress(package.run.package)
        on_progress(progress)
        patience = self._limits.seconds
        online = await self._network.online()
        if not online:
            patience = min(patience, OFFLINE)
            if download_command(package.run) is None:
                return PreparedStart(structs.replace(server, env={**IMPATIENT, **server.env}))
        try:
            async with asyncio.timeout(patience), self._locked(package.journal):
                if await asyncio.to_thread(is_there, package):
                    return self._prepared(server, package, fresh=False)
                await self._repair(package)
                await asyncio.to_thread(package.journal.write, "downloading")
                async with self._place():
                    progress.waits, progress.began = False, time.monotonic()
                    on_progress(progress)
                    finished = await self._run_step(server, package, progress, on_progress, online)
                if finished:
                    await asyncio.to_thread(package.journal.write, "done")
                    return self._prepared(server, package, fresh=True)
        except TimeoutError:
            if not online:
                raise _no_network(package) from None
            raise UpstreamUnavailable(say(
                "{package} was not downloaded within {seconds:g} s. If your connection is slow, raise the "
                "setting download_timeout. The launcher said: {line}",
                package=package.run.package, seconds=patience, line=progress.line or "–",
            )) from None  # fmt: skip
        if not online:
            raise _no_network(package)
        return PreparedStart(server, downloads=True)

    @contextlib.asynccontextmanager
    async def _locked(self, journal: DownloadJournal) -> AsyncIterator[None]:
        while not journal.lock():  # noqa: ASYNC110  another process holds it, which sends no event
            await asyncio.sleep(LOOK)
        try:
            yield
        finally:
            journal.release()

    @contextlib.asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Wait for one of the places. Their number may change while the hub runs."""
        async with self._freed:
            while self._running >= self._limits.places:
                await self._freed.wait()
            self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            await self._notify()

    async def _notify(self) -> None:
        async with self._freed:
            self._freed.notify_all()

    async def _repair(self, package: KeptPackage) -> None:
        """Remove what a download that was cut off has left, once nothing uses it."""
        entry = package.entry
        if entry is None:
            return
        for _ in range(round(SETTLE / LOOK)):
            if not await asyncio.to_thread(needs_removal, package, entry):
                return
            if not await asyncio.to_thread(in_use, entry):
                log.warning("Removing a broken entry of npx's cache, to download it again: %s", entry.name)
                await asyncio.to_thread(remove, entry)
                return
            await asyncio.sleep(LOOK)

    async def _run_step(
        self,
        server: Server,
        package: KeptPackage,
        progress: PackageProgress,
        on_progress: OnProgress,
        online: bool,
    ) -> bool:
        """Download the package. Return whether that worked; False also if the launcher has no such step."""
        present, command = present_command(package.run), download_command(package.run)
        if not online:
            package = structs.replace(package, private={**IMPATIENT, **package.private})
            if command is not None and package.run.runner == "uvx":
                # It may be in a cache that others have filled.
                cached = structs.replace(package, private={**package.private, "UV_OFFLINE": "1"})
                if await self._succeeds(server, cached, command):
                    return True
        if present is not None and await self._succeeds(server, package, present):
            return True
        return command is not None and await self._succeeds(server, package, command, progress, on_progress)

    async def _succeeds(
        self,
        server: Server,
        package: KeptPackage,
        command: Sequence[str],
        progress: PackageProgress | None = None,
        on_progress: OnProgress = lambda progress: None,
    ) -> bool:
        if server.sandbox is None:
            child = await self._processes.spawn(command, package.private, package.cwd)
        else:
            start = await asyncio.to_thread(
                self._cages.builder.build_download, server, command, package.private
            )
            child = await self._processes.spawn(start.argv, start.env, start.cwd, start.orders)
        os.close(child.stdin_fd)
        redact = Redactor(server.secrets).text
        name = server.name if progress else f"{server.name}.image"
        stderr = StderrLog(self._loop, child.stderr_fd, self._logs, name, redact)
        drain = OutputDrain(self._loop, child.stdout_fd)
        try:
            while not child.exited.done():
                await asyncio.wait([child.exited], timeout=1.0)
                if progress is not None:
                    lines = stderr.last_words().splitlines()
                    progress.line = lines[-1][:LINE_LIMIT] if lines else redact(drain.line)
                    progress.written = await asyncio.to_thread(written_bytes, child.pid)
                    on_progress(progress)
            ended = child.exited.result()
            if ended.code != 0 and progress is not None:
                await asyncio.sleep(0)
                if _is_final(stderr.last_words()):
                    from tabane.upstreams.launching.failure_causes import failed_start

                    how, lines = ended.describe(), stderr.lines()
                    asked = server.name, server.command, server.args
                    raise UpstreamUnavailable(await asyncio.to_thread(failed_start, how, *asked, lines, ()))
                log.info("%s: the download step failed (%s); the server is started all the same",
                         server.name, ended)  # fmt: skip
            return ended.code == 0
        finally:
            await asyncio.shield(_end(child))
            drain.close()
            stderr.close()


def _no_network(package: KeptPackage) -> UpstreamUnavailable:
    return UpstreamUnavailable(say(
        "{package} is not on this machine yet, and there is no network to download it. Behind a proxy, set "
        "HTTPS_PROXY, then run: tabane restart",
        package=package.run.package,
    ))  # fmt: skip


def _is_final(words: str) -> bool:
    """Return whether a registry was reached and refused, or was not trusted: the start would fail likewise.

    Anything else may be the fault of the step, which an old launcher does not understand, or of a network
    that a program which is installed already does not need.
    """
    return bool(
        re.search(
            r"npm (?:error|ERR!) code (?:E4\d\d|ETARGET|EINTEGRITY|\w*(?:CERT|SIGNATURE)\w*)"
            r"|invalid peer certificate|was not found in the package registry|No solution found",
            words,
        )
    )


async def _end(child: ChildProcess) -> None:
    """End all of it, also what a finished launcher has left."""
    await child.stop(STOP_GRACE)
