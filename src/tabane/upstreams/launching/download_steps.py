"""Commands of each launcher: to download a package without running it, and to run what is there.

The step fills the same cache entry that the run uses. Where a launcher has no such invocation (pipx, bunx),
there is no step, and the run itself is given the time of a download.
"""

from __future__ import annotations

import re

from tabane.upstreams.launching.package_run import PackageRun

_EXACT = re.compile(r"(@[^/@]+/)?[^/@]+@\d+\.\d+\.\d+[\w.+-]*")
_OFFLINE = ("offline", "prefer-offline", "prefer-online", "n", "no-cache", "refresh", "U", "upgrade")


def download_command(run: PackageRun) -> list[str] | None:
    """Return the command that downloads the package and runs nothing of it; None if there is none."""
    match run.runner:
        case "npx":
            packages = [f"--package={package}" for package in (run.package, *run.others)]
            named = run.option("package", "p") is not None
            options = _without_call(run.options)
            shell = ["--yes", *([] if named else packages), "-c", "exit 0"]
            return [run.program, *run.subcommand, *options, *shell]
        case "uvx":
            named = run.option("from") is not None
            source = [] if named else ["--from", _uv_requirement(run.package)]
            python = ["python", "-c", ""]
            return [run.program, *run.subcommand, *_without_end(run.options), *source, *python]
        case "docker" | "podman":
            platform = run.option("platform")
            before = _without_run(run.subcommand)
            return [
                run.program,
                *before,
                "pull",
                *(["--platform", platform] if platform else []),
                run.package,
            ]
        case "deno":
            return [run.program, *run.subcommand[:-1], "cache", *_cached_by_deno(run.options), run.package]
        case _:
            return None


def present_command(run: PackageRun) -> list[str] | None:
    """Return the command that succeeds if the package is there already, for launchers that have one."""
    if run.runner in ("docker", "podman"):
        return [run.program, *_without_run(run.subcommand), "image", "inspect", run.package]
    return None


def offline_args(run: PackageRun) -> list[str]:
    """Return the arguments of a run that uses what is in the cache, if the launcher can be told so."""
    option = {"npx": "--prefer-offline", "uvx": "--offline"}.get(run.runner)
    own = list(run.options)
    inserted = [] if option is None or run.option(*_OFFLINE) is not None else [option]
    behind = [run.executable] if run.executable else []
    end = ["--"] if run.runner == "npx" and run.subcommand and behind and own[-1:] != ["--"] else []
    return [*run.subcommand, *inserted, *own, *end, *behind, *run.arguments]


def is_exact(run: PackageRun) -> bool:
    """Return whether the packages of an npx run are named with exact versions, which never change."""
    return all(_EXACT.fullmatch(package) for package in (run.package, *run.others))


def _uv_requirement(package: str) -> str:
    """Return what ``--from`` understands: ``uvx ruff@0.9`` means ``ruff==0.9``, ``@latest`` the newest."""
    name, at, version = package.partition("@")
    if not at or "/" in package or " " in package:
        return package
    return name if version == "latest" else f"{name}=={version}"


def _without_end(options: tuple[str, ...]) -> list[str]:
    return list(options[:-1] if options[-1:] == ("--",) else options)


def _without_call(options: tuple[str, ...]) -> list[str]:
    """Leave out ``-c COMMAND`` and ``--``: the step has its own command."""
    kept, skip = list[str](), False
    for word in _without_end(options):
        if skip or word.startswith("--call="):
            skip = False
        elif word in ("-c", "--call"):
            skip = True
        else:
            kept.append(word)
    return kept


def _without_run(subcommand: tuple[str, ...]) -> list[str]:
    kept = list(subcommand[:-1])
    return kept[:-1] if kept[-1:] == ["container"] else kept


def _cached_by_deno(options: tuple[str, ...]) -> list[str]:
    """Return the options of ``deno run`` that say what is downloaded; permissions do not."""
    names = ("--config", "-c", "--import-map", "--cert", "--lock", "--no-lock", "--node-modules-dir")
    kept, follows = list[str](), False
    for word in options:
        name, equals, _ = word.partition("=")
        if follows or name in names or word.startswith(("--reload", "--unstable", "--allow-import")):
            kept.append(word)
            follows = not follows and not equals and name in names[:4]
    return kept
