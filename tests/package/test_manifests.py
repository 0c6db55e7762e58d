"""Files for registries and hosts agree with the package: version, name, skill.

The rules are those of server.schema.json of 2025-12-11 (modelcontextprotocol/registry), as far as our file
uses them, and of the registry itself.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema_rs

from tabane import __version__

ROOT = Path(__file__).parents[2]
INPUT = {
    "value": {"type": "string"},
    "description": {"type": "string"},
    "default": {"type": "string"},
    "choices": {"type": "array", "items": {"type": "string"}},
    "format": {"enum": ["string", "number", "boolean", "filepath"]},
    "isRequired": {"type": "boolean"},
    "isSecret": {"type": "boolean"},
}
PACKAGE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["registryType", "identifier", "version", "transport"],
    "properties": {
        "registryType": {"const": "pypi"},
        "registryBaseUrl": {"const": "https://pypi.org"},
        "identifier": {"const": "tabane"},
        "version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        "runtimeHint": {"enum": ["npx", "uvx", "docker", "dnx"]},
        "transport": {"const": {"type": "stdio"}},
        "packageArguments": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "value"],
                "properties": {"type": {"const": "positional"}, **INPUT},
                "additionalProperties": False,
            },
        },
        "environmentVariables": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, **INPUT},
                "additionalProperties": False,
            },
        },
    },
}
SERVER = {
    "type": "object",
    "additionalProperties": False,
    "required": ["$schema", "name", "description", "version", "packages"],
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"},
        "name": {"type": "string", "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$", "maxLength": 200},
        "title": {"type": "string", "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": {"type": "string", "maxLength": 255},
        "packages": {"type": "array", "items": PACKAGE, "minItems": 1},
    },
}


def read(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def test_the_registry_would_take_the_server() -> None:
    jsonschema_rs.validate(SERVER, read("server.json"))


def test_every_file_has_the_version_of_the_package() -> None:
    server = read("server.json")
    found = {server["version"], *(package["version"] for package in server["packages"])}
    assert found | {read("plugin/.claude-plugin/plugin.json")["version"]} == {__version__}


def test_the_build_and_the_image_take_the_version_from_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/tabane/__init__.py"
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert not re.search(r"tabane[=@~:<>]+\d|image\.version", image), "the image is built from the checkout"
    assert "COPY src ./src" in image


def test_the_changelog_has_a_section_for_the_version() -> None:
    assert re.search(rf"^## {re.escape(__version__)}\b", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)


def test_the_readme_and_the_image_prove_the_name_to_the_registry() -> None:
    name = read("server.json")["name"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"<!-- mcp-name: {re.escape(name)} -->", readme)
    assert f'io.modelcontextprotocol.server.name="{name}"' in (ROOT / "Dockerfile").read_text()


def test_the_marketplace_names_the_plugin_and_the_plugin_has_the_skill() -> None:
    (entry,) = read(".claude-plugin/marketplace.json")["plugins"]
    plugin = ROOT / entry["source"]
    assert read("plugin/.claude-plugin/plugin.json")["name"] == entry["name"]
    assert read("plugin/.mcp.json")["mcpServers"]["tabane"]["command"] == "tabane"
    skill = plugin / "skills" / "tabane" / "SKILL.md"
    assert skill.read_bytes() == (ROOT / "src/tabane/cli/skill/SKILL.md").read_bytes()
