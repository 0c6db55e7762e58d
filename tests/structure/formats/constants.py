"""Numbers and names by which builds recognize what others wrote."""

from __future__ import annotations

from typing import Any

from tabane.access import key_store
from tabane.audit import index, usage_rollups
from tabane.catalog.tools import index as index_file
from tabane.catalog.tools import listings
from tabane.code import result_types as shapes
from tabane.engine import query_plans as text_spaces
from tabane.engine.embedded import database as migrations
from tabane.engine.embedded.vectors import space_files, vector_format
from tabane.guard.definitions import pins as pin_file
from tabane.hub.backup import archive_format as manifest
from tabane.hub.backup import home_content
from tabane.hub.clients.questions import parked_files
from tabane.hub.local import connector as launch
from tabane.hub.local import handshake, lock
from tabane.hub.process import home_version
from tabane.hub.work import tasks as task_file
from tabane.operations.caller import Face, Privilege
from tabane.servers import labels
from tabane.wire.era import Era


def constants() -> dict[str, Any]:
    return {
        "formats": {
            "home": home_version.FORMAT,
            "backup": manifest.FORMAT,
            "parked calls": parked_files.FORMAT,
            "tasks": task_file.VERSION,
            "pins": pin_file.VERSION,
            "catalog": listings.VERSION,
            "index of tools": index_file.VERSION,
            "keys": key_store.VERSION,
            "index of the audit log": index.VERSION,
            "usage": usage_rollups.VERSION,
            "analysis of texts": text_spaces.VERSION,
            "store": migrations.APPLICATION,
            "vectors": vector_format.VERSION,
            "codes of vectors": space_files.FORMAT,
            "rows of vectors": space_files._ROWS_FORMAT,
        },
        "words": {
            "roles of a hello": list(handshake.ROLES),
            "who started a hub": [lock.HAND, lock.BRIDGE, lock.STANDALONE],
            "outcomes of a launch": [launch.READY, launch.LOST, launch.FAILED],
            "faces of a call": [each.value for each in Face],
            "privileges of an operation": [each.value for each in Privilege],
            "eras": [each.value for each in Era],
            "labels of a flow": labels.LABELS_BY_NAME,
            "kinds of a shape": {
                name: getattr(shapes, name.upper())
                for name in ("null", "boolean", "integer", "number", "string", "any")
            },
        },
        "files of a home": {
            "in a backup": sorted({*home_content._DATABASES, *home_content._FILES}),
            "in a backup with secrets": sorted({*home_content.SECRET_FILES, home_content.SECRETS}),
            "made again": sorted(home_content._MADE_AGAIN),
        },
    }
