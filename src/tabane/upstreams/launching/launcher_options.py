"""Options of the launchers that stand before the package, from their own help texts and sources.

npm: bin/npx-cli.js and the definitions of @npmcli/config 11. uv: ``uv tool run --help`` 0.13. pipx:
``pipx run --help`` 1.8. docker: ``docker run --help`` 28. podman: podman-run(1) 5. deno: ``deno run --help``.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

Unknown = Literal["refused", "switch", "npx"]
"""The kind of an option that no table has.

``refused``: the command is not understood. ``switch``: it takes no value. ``npx``: its value is the next
argument if that does not begin with a hyphen, as npx decides.
"""


class OptionTable(Struct, frozen=True):
    """Options of a program, without their hyphens: ``values`` take a value, ``switches`` take none.

    Names of one letter are short options. ``clusters`` says whether short options may be joined
    (``-it``), and a short option with its value (``-eNAME=value``).
    """

    values: frozenset[str]
    switches: frozenset[str]
    unknown: Unknown = "refused"
    clusters: bool = field(default=True)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


NPM = OptionTable(
    values=_names("""
        package p call c shell script-shell cache userconfig globalconfig prefix C workspace w registry reg
        scope tag loglevel L location otp proxy https-proxy noproxy cafile ca cert key before
        fetch-retries fetch-timeout fetch-retry-mintimeout fetch-retry-maxtimeout fetch-retry-factor
        maxsockets node-options user-agent include omit node-arg allow-scripts min-release-age
    """),
    switches=_names("""
        yes y no n quiet q silent s d dd ddd verbose version v help h ignore-existing always-spawn
        shell-auto-fallback offline prefer-offline prefer-online ignore-scripts audit fund progress
        update-notifier strict-ssl workspaces ws include-workspace-root iwr force f global g color
        legacy-peer-deps engine-strict foreground-scripts install-links json long l parseable timing
        unicode usage save S all a bin-links dry-run optional package-lock production dev local
    """),
    unknown="npx",
    clusters=False,
)

UV = OptionTable(
    values=_names("""
        from with w with-editable with-requirements constraints constraint c build-constraints
        build-constraint b overrides override env-file python-platform torch-backend index default-index
        index-url i extra-index-url find-links f index-strategy keyring-provider upgrade-package P
        upgrade-group resolution prerelease prerelease-package fork-strategy exclude-newer
        exclude-newer-package no-sources-package reinstall-package link-mode config-setting
        config-settings C config-settings-package no-build-isolation-package no-build-package
        no-binary-package cache-dir refresh-package python p color allow-insecure-host directory project
        config-file excludes exclude python-preference
    """),
    switches=_names("""
        compile-bytecode no-compile-bytecode isolated lfs managed-python no-managed-python no-binary
        no-build no-build-isolation no-config no-env-file no-index no-progress no-python-downloads
        no-require-build-hashes require-build-hashes no-sources offline no-offline refresh no-refresh
        reinstall no-reinstall system-certs no-system-certs native-tls no-native-tls upgrade no-upgrade U
        pre help h no-cache no-cache-dir n quiet q verbose v preview no-preview show-resolution
        generate-shell-completion
    """),
)

PIPX = OptionTable(
    values=_names("spec python fetch-python index-url i pip-args backend with"),
    switches=_names("""
        no-cache path pypackages fetch-missing-python system-site-packages editable e quiet q verbose v
        global help h skip-maintenance
    """),
)

BUN = OptionTable(
    values=_names("package p cwd config c registry cache-dir"),
    switches=_names("bun b no-install verbose silent yes y prefer-offline prefer-latest smol"),
    unknown="switch",
    clusters=False,
)

DENO = OptionTable(
    values=_names("""
        config c import-map location seed cert ext preload require log-level L conditions
        minimum-dependency-age
    """),
    switches=frozenset("ARWNESIrq"),
    unknown="switch",
)
"""An option of deno's with an optional value takes it after ``=`` only; the others are above."""

_CONTAINER_VALUES = """
    add-host annotation attach a blkio-weight blkio-weight-device cap-add cap-drop cgroup-parent cgroupns
    cidfile cpu-count cpu-percent cpu-period cpu-quota cpu-rt-period cpu-rt-runtime cpu-shares c cpus
    cpuset-cpus cpuset-mems detach-keys device device-cgroup-rule device-read-bps device-read-iops
    device-write-bps device-write-iops dns dns-opt dns-option dns-search domainname entrypoint env e
    env-file expose gpus group-add health-cmd health-interval health-retries health-start-interval
    health-start-period health-timeout hostname h io-maxbandwidth io-maxiops ip ip6 ipc isolation
    kernel-memory label l label-file link link-local-ip log-driver log-opt mac-address memory m
    memory-reservation memory-swap memory-swappiness mount name net network net-alias network-alias
    oom-score-adj pid pids-limit platform publish p pull restart runtime security-opt shm-size
    stop-signal stop-timeout storage-opt sysctl tmpfs ulimit user u userns uts volume v volume-driver
    volumes-from workdir w
"""

_CONTAINER_SWITCHES = """
    detach d disable-content-trust help init interactive i no-healthcheck oom-kill-disable privileged
    publish-all P quiet q read-only rm sig-proxy tty t use-api-socket
"""

DOCKER = OptionTable(values=_names(_CONTAINER_VALUES), switches=_names(_CONTAINER_SWITCHES))

PODMAN = OptionTable(
    values=_names(_CONTAINER_VALUES)
    | _names("""
        arch authfile cert-dir cgroup-conf cgroups chrootdirs conmon-pidfile creds decryption-key env-merge
        gidmap group-entry health-log-destination health-max-log-count health-max-log-size
        health-on-failure health-startup-cmd health-startup-interval health-startup-retries
        health-startup-success health-startup-timeout hosts-file hostuser image-volume init-ctr init-path
        os passwd-entry personality pidfile pod pod-id-file preserve-fd preserve-fds rdt-class requires
        retry retry-delay sdnotify seccomp-policy secret shm-size-systemd subgidname subuidname systemd
        timeout tz uidmap umask unsetenv variant
    """),
    switches=_names(_CONTAINER_SWITCHES)
    | _names("""
        env-host http-proxy no-hostname no-hosts passwd read-only-tmpfs replace rmi tls-verify unsetenv-all
    """),
)

DOCKER_ITSELF = OptionTable(
    values=_names("config context c host H log-level l tlscacert tlscert tlskey"),
    switches=_names("debug D tls tlsverify version v help"),
)
"""Options between the program and its command, as in ``docker --context far run …``."""

PODMAN_ITSELF = OptionTable(
    values=_names("""
        config connection c url identity log-level root runroot runtime runtime-flag storage-driver
        storage-opt tmpdir cgroup-manager conmon network-cmd-path network-config-dir events-backend
        hooks-dir imagestore module namespace out ssh volumepath
    """),
    switches=_names("remote r syslog help h version v noout transient-store"),
)
