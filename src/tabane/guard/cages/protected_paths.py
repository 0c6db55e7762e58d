"""Files that no cage shows unless the user lists them: credentials, keys, profiles of browsers.

Names are relative to the user's home folder. Everything here is pure.
"""

from __future__ import annotations

import os

_KEYS = (
    *(".ssh", ".gnupg", ".password-store", ".local/share/keyrings", ".config/age", ".config/sops"),
    *(".pki", "Library/Keychains"),
)
_CLOUDS = (
    *(".aws", ".azure", ".config/gcloud", ".kube", ".docker", ".config/containers", ".terraform.d"),
    *(".config/doctl", ".config/hcloud", ".config/rclone", ".fly", ".vault-token"),
)
_TOKENS = (
    *(".netrc", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/glab-cli"),
    *(".pypirc", ".cargo/credentials", ".cargo/credentials.toml", ".npmrc", ".yarnrc.yml", ".pgpass"),
    *(".my.cnf", ".config/op", ".config/Bitwarden CLI"),
)
_BROWSERS = (
    *(".mozilla", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware"),
    *(".config/microsoft-edge", ".config/vivaldi", ".config/opera", ".thunderbird"),
    *("snap/firefox", "snap/chromium", ".var/app/org.mozilla.firefox", ".var/app/com.google.Chrome"),
    *("Library/Application Support/Google/Chrome", "Library/Application Support/Firefox"),
    *("Library/Application Support/BraveSoftware", "Library/Safari", "Library/Cookies"),
)
_ASSISTANTS = (
    *(".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json"),
    *(".config/github-copilot", ".cursor/mcp.json", ".codeium"),
)
_HISTORIES = (
    *(".bash_history", ".zsh_history", ".local/share/fish/fish_history", ".python_history"),
    *(".node_repl_history", ".psql_history", ".mysql_history", ".sqlite_history"),
)

PROTECTED = (*_KEYS, *_CLOUDS, *_TOKENS, *_BROWSERS, *_ASSISTANTS, *_HISTORIES)


def protected_paths(home: str) -> list[str]:
    """Return the absolute paths that are protected for the user whose home folder that is."""
    return [os.path.join(home, name) for name in PROTECTED]


SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix/store", "/gnu/store"),
    *("/sys", "/run/systemd/resolve", "/run/current-system", "/snap", "/home/linuxbrew", "/var/lib/flatpak"),
)
"""Folders of the system that every program may read, also if its reads are limited."""

DEVICES = (*("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"),)
"""Devices that hold nothing of anybody. Terminals do: other programs of the user have them open."""

KERNEL = (
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/mtrr",
)
"""Settings of the kernel in /proc, which root owns."""


def command_sockets(user: int) -> list[str]:
    """Return sockets whose programs run any command for everybody who connects."""
    system = ("docker.sock", "containerd", "podman", "crio", "dbus", "systemd/private", "snapd.socket", "lxd")
    own = ("bus", "systemd", "docker.sock", "podman", "containerd-rootless", "i3", "sway-ipc.sock")
    return [
        *(os.path.join("/run", name) for name in system),
        *(os.path.join(f"/run/user/{user}", name) for name in own),
        *("/run/libvirt", "/run/incus", "/var/lib/lxd/unix.socket", "/var/lib/incus/unix.socket"),
        "/tmp/.X11-unix",
    ]


def tool_folders(home: str) -> list[str]:
    """Return the folders in a user's home that hold runtimes and tools, which limited reads include."""
    names = (
        *(".nvm", ".fnm", ".local/share/fnm", ".volta", ".nodenv", ".bun", ".deno", ".pyenv", ".rbenv"),
        *(".asdf", ".local/share/mise", ".local/share/uv/python", ".local/share/uv/tools", ".local/bin"),
        *(
            ".local/lib",
            ".local/pipx/venvs",
            ".local/share/pipx",
            ".cargo/bin",
            ".rustup",
            "go/bin",
            "miniconda3",
        ),
        *(
            ".sdkman/candidates",
            ".dotnet",
            ".npm-global",
            ".local/share/pnpm",
            ".local/state/fnm_multishells",
        ),
    )
    return [os.path.join(home, name) for name in names]
