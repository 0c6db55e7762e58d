"""Sources of settings, in this order: flags, environment, tabane.toml, defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tabane.errors import CallerError, ConfigurationError
from tabane.messages import Message, say
from tabane.settings.addresses import (
    check_advertise,
    check_engine,
    check_listening,
    check_oauth,
    check_vector_index,
    removed_index,
)
from tabane.settings.files import config_folder, data_folder, read_trusted
from tabane.settings.limit_rules import DEFAULT_RULES, LimitRules
from tabane.settings.option import InvalidSetting, SettingOption, expanded, value_of
from tabane.settings.table import OPTIONS, Settings, SettingSource
from tabane.text.nearest_names import nearest

PREFIX = "TABANE_"
ELSEWHERE = ("URL", "TOKEN", "CA", "INSTANCE", "TERMINAL")
"""Variables with the prefix that are no settings: for clients of the hub, a hub, and servers that it runs."""

TABLES = ("limits", "profiles", "tiers")
"""Tables of the file. They have no flags and no variables."""

_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_BY_NAME = {option.name: option for option in OPTIONS}


def load_settings(
    flags: Mapping[str, object], environ: Mapping[str, str], *, text: str | None = None
) -> Settings:
    """Return the settings, each from the first of flags, environment and tabane.toml that gives it.

    ``text`` is read instead of the content of tabane.toml, to check it before it is written.

    ``flags`` have the names of the fields; None is a flag that was not given. Paths in flags and environment
    are relative to the working directory, and those in tabane.toml to its folder. Raises ConfigurationError
    that names the setting, its source, and the allowed values.
    """
    reader = _SettingsReader(flags, environ)
    config = reader.take(_BY_NAME["config"]) or config_folder(environ) / "tabane.toml"
    if text is None:
        required = "config" in reader.sources
        try:
            text = read_trusted(config).decode("utf-8-sig")
        except FileNotFoundError:
            if required:
                raise ConfigurationError(say("There is no settings file {path}.", path=config)) from None
            text = ""
        except UnicodeDecodeError:
            raise ConfigurationError(say("{path} is not UTF-8. Save it as UTF-8.", path=config)) from None
    file = reader.file = _parse_file(config, text)
    values = {option.name: reader.take(option) for option in OPTIONS if option.name != "config"}
    given = {name: value for name, value in values.items() if value is not None}
    given.setdefault("servers", config.parent / "mcp-servers.json")
    if "home" not in given:
        given["home"] = data_folder(environ)
    vector_index = given.get("vector_index", "")
    check_vector_index(vector_index, given.get("engine", ""))
    removed = removed_index(vector_index)
    warnings = (*file.warnings(), *_misspelled(environ), *reader.warnings, *([removed] if removed else ()))
    settings = Settings(
        config=config, sources=reader.sources, warnings=warnings, limits=file.limits(), **given
    )
    check_listening(settings)
    _check_model(settings)
    _check_origins(settings)
    check_oauth(settings)
    check_engine(settings.engine)
    check_advertise(settings.advertise, settings.engine)
    if settings.restart_first > settings.restart_max:
        raise ConfigurationError(
            say(
                "restart_first ({first} s) must not be longer than restart_max ({longest} s).",
                first=settings.restart_first,
                longest=settings.restart_max,
            )
        )
    return settings


def flags_of(arguments: Sequence[str]) -> dict[str, object]:
    """Parse settings: ``--name=value``, ``--switch``, ``--no-switch``. Raises CallerError for others."""
    known = {option.flag: option for option in OPTIONS}
    found: dict[str, object] = {}
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        positive = flag.replace("--no-", "--", 1)
        if flag in known and (equals or known[flag].kind == "switch"):
            found[known[flag].name] = value if equals else True
        elif positive in known and known[positive].kind == "switch" and not equals:
            found[known[positive].name] = False
        else:
            raise CallerError(say("There is no flag {flag}.", flag=argument))
    return found


class _SettingsFile(NamedTuple):
    """The content of tabane.toml: its top-level values, and its text, in which their lines are found."""

    path: Path
    values: Mapping[str, Any]
    text: str

    def where(self, key: str) -> str:
        for number, line in enumerate(self.text.splitlines(), 1):
            name = line.partition("=")[0].strip(" \t[]").strip("\"'")
            if name == key:
                return f"{self.path}:{number}"
        return str(self.path)

    def warnings(self) -> tuple[Message, ...]:
        return tuple(self._unknown(key) for key in self.values if key not in _BY_NAME and key not in TABLES)

    def limits(self) -> LimitRules:
        """Return the limits in the tables of the file. Raises ConfigurationError."""
        if "limits" not in self.values and "tiers" not in self.values:
            return DEFAULT_RULES
        from tabane.settings.limit_tables import LimitTables  # needed only if there are such tables

        return LimitTables(self.path, self.text).rules(self.values)

    def _unknown(self, key: str) -> Message:
        near = nearest(key, (option.name for option in OPTIONS if option.in_file))
        if not near:
            return say(
                "{where}: there is no setting {key}, so it is ignored.", where=self.where(key), key=key
            )
        return say(
            "{where}: there is no setting {key}, so it is ignored. Did you mean {near}?",
            where=self.where(key),
            key=key,
            near=", ".join(near),
        )


class _SettingsReader:
    """Reads settings one by one, and records the source of each."""

    def __init__(self, flags: Mapping[str, object], environ: Mapping[str, str]) -> None:
        self._flags = flags
        self._environ = environ
        self.file = _SettingsFile(Path(), {}, "")
        self.sources: dict[str, SettingSource] = {}
        self.warnings: list[Message] = []

    def take(self, option: SettingOption) -> Any:
        """Return the checked value, or None if no source gives one."""
        if self._flags.get(option.name) is not None:
            return self._use(
                option, self._flags[option.name], SettingSource("flag", option.flag), os.getcwd()
            )
        if self._environ.get(option.environment):
            source = SettingSource("environment", option.environment)
            return self._use(option, self._environ[option.environment], source, os.getcwd())
        if option.also and self._environ.get(option.also):
            # other programs read this variable too, so its value may not be meant for Tabane
            given = self._environ[option.also]
            try:
                value = value_of(option, given.lower(), typed=False)
            except InvalidSetting as unfit:
                self.warnings.append(
                    say(
                        "{variable}={given} is ignored. Tabane supports {allowed}.",
                        variable=option.also,
                        given=given,
                        allowed=unfit.allowed,
                    )
                )
                return self._take_from_file(option)
            self.sources[option.name] = SettingSource("environment", option.also)
            return value
        return self._take_from_file(option)

    def _take_from_file(self, option: SettingOption) -> Any:
        if option.name not in self.file.values:
            return None
        source = SettingSource("file", self.file.where(option.name))
        if not option.in_file:
            raise ConfigurationError(
                say(
                    "{where}: {name} cannot be set in this file. Use {flag} or {variable}.",
                    where=source.where,
                    name=option.name,
                    flag=option.flag,
                    variable=option.environment,
                )
            )
        return self._use(option, self.file.values[option.name], source, str(self.file.path.parent))

    def _use(self, option: SettingOption, given: object, source: SettingSource, folder: str) -> Any:
        try:
            value = value_of(option, given, typed=source.kind == "file")
        except InvalidSetting as unfit:
            raise ConfigurationError(
                say(
                    "{where}: {name} must be {allowed}, not {given}.",
                    where=source.where,
                    name=option.name,
                    allowed=unfit.allowed,
                    given=repr(given),
                )
            ) from None
        self.sources[option.name] = source
        return expanded(value, self._environ, folder) if option.kind == "path" else value


def _parse_file(path: Path, text: str) -> _SettingsFile:
    if not text:
        return _SettingsFile(path, {}, "")
    import tomllib  # needed only if the file exists

    try:
        return _SettingsFile(path, tomllib.loads(text), text)
    except tomllib.TOMLDecodeError as error:
        detail, where = _place(str(error))
        raise ConfigurationError(
            say("{where} is not valid TOML: {detail}.", where=f"{path}{where}", detail=detail)
        ) from None


def _place(error: str) -> tuple[str, str]:
    """Return an error of tomllib, "detail (at line 3, column 5)", as (detail, ":3:5")."""
    detail, _, place = error.rpartition(" (at line ")
    line, _, column = place.rstrip(")").partition(", column ")
    return (detail, f":{line}:{column}") if line.isdigit() and column.isdigit() else (error, "")


def _misspelled(environ: Mapping[str, str]) -> list[Message]:
    known = {option.environment.removeprefix(PREFIX): option for option in OPTIONS}
    names = (name.removeprefix(PREFIX) for name in sorted(environ) if name.startswith(PREFIX))
    found = ((name, nearest(name, known, 1)) for name in names if name not in known and name not in ELSEWHERE)
    return [
        say(
            "{variable} is not a setting of Tabane. Did you mean {near}?",
            variable=PREFIX + name,
            near=PREFIX + near[0],
        )
        for name, near in found
        if near
    ]


def _check_model(settings: Settings) -> None:
    if settings.model_key and not _VARIABLE.fullmatch(settings.model_key):
        raise ConfigurationError(  # without the value, which may be the key itself
            say(
                "model_key must be a variable, such as ${{OPENAI_API_KEY}}. Write the key itself "
                "to {path} as OPENAI_API_KEY=…",
                path=settings.home / "secrets.env",
            )
        )
    if settings.model_url and not settings.model_url.startswith(("http://", "https://")):
        raise ConfigurationError(
            say("model_url must start with http:// or https://, not {given}.", given=settings.model_url)
        )
    if settings.model_url and settings.model == "auto":
        raise ConfigurationError(
            say(
                "model_url is set, but model is not. Set model to the name of a model on that "
                "server, such as multilingual-e5-small."
            )
        )


def _check_origins(settings: Settings) -> None:
    if not settings.origins:
        return
    from tabane.settings.origins import allowed_entry

    for given in settings.origins:
        if allowed_entry(given) is None:
            raise ConfigurationError(
                say(
                    "origins: {given} is not the origin of a web page. Write scheme, host and port, such as "
                    "http://localhost:3000.",
                    given=given[:200],
                )
            )
