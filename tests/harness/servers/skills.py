"""Skills that the child serves with ``--skills`` (SEP-2640): each with a SKILL.md and a template.

A skill ``generated`` has no list of files. A skill ``unlisted`` is served, but not listed.
"""

from __future__ import annotations

from tests.harness.servers.answers import Json, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tests.harness.servers.protocol import Server

SKILLS = "io.modelcontextprotocol/skills"


class Skills:
    def __init__(self, server: Server) -> None:
        self._server = server
        self.names: list[str] = server.options.skills or []

    @property
    def extensions(self) -> Json:
        if not self.names:
            return {}
        return {SKILLS: {"directoryRead": True} if self._server.options.folders else {}}

    def answer(self, method: str, params: Json) -> Json | None:
        if not self.names:
            return None
        answers = {"skills/list": self._list, "skills/get": self._get, "resources/read": self._read}
        if self._server.options.folders:
            answers["resources/directory/read"] = self._folder
        return answers[method](params) if method in answers else None

    def files(self, name: str) -> dict[str, str]:
        owner = self._server.options.name
        matter = f"---\nname: {name}\ndescription: {name} of {owner}\nlicense: MIT\n---\n"
        text = f"{matter}\n# {name}\nUse templates/a.md. Served by {owner}.\n"
        root = f"skill://team/{name}"
        return {f"{root}/SKILL.md": text, f"{root}/templates/a.md": f"A template of {owner}\n"}

    def entry(self, name: str) -> Json:
        import hashlib  # few tests have skills

        owner = self._server.options.name
        matter = {"name": name, "description": f"{name} of {owner}", "license": "MIT", "x-own": [1, None]}
        listed = [
            {
                "uri": uri,
                "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}",
                "size": len(text.encode()),
            }
            for uri, text in self.files(name).items()
        ]
        generated = name == "generated"
        return {
            "uri": f"skill://team/{name}/SKILL.md",
            "frontmatter": matter,
            "resources": "dynamic" if generated else listed,
        }

    def _list(self, params: Json) -> Json:
        names = [name for name in self.names if name != "unlisted"]
        at = int(params.get("cursor") or 0)
        page: Json = {"skills": [self.entry(name) for name in names[at : at + 1]]}
        if at + 1 < len(names):
            page["nextCursor"] = str(at + 1)
        return page | {"ttlMs": self._server.options.ttl, "cacheScope": "public"}

    def _get(self, params: Json) -> Json:
        for name in self.names:
            if params["uri"] == f"skill://team/{name}/SKILL.md":
                return {"skill": self.entry(name), "ttlMs": 1000, "cacheScope": "public"}
        raise Refused(-32602, f"No skill is served at {params['uri']}")

    def _read(self, params: Json) -> Json | None:
        uri = params["uri"]
        if not uri.startswith("skill://"):
            return None
        for name in self.names:
            if uri in self.files(name):
                contents = [{"uri": uri, "mimeType": "text/markdown", "text": self.files(name)[uri]}]
                return {"contents": contents, "ttlMs": 1000, "cacheScope": "public"}
        raise Refused(-32602, f"Resource not found: {uri}")

    def _folder(self, params: Json) -> Json:
        for name in self.names:
            if params["uri"] == f"skill://team/{name}":
                folder = {"uri": f"{params['uri']}/templates", "name": "templates"}
                file = {"uri": f"{params['uri']}/SKILL.md", "name": "SKILL.md", "x-own": 1}
                return {"resources": [file, folder | {"mimeType": "inode/directory"}]}
        raise Refused(-32602, f"{params['uri']} is not a directory resource")
