"""Become a Milvus server: ``build/milvus/bin/python milvus_starter.py FOLDER NAME=PORT …``.

The names are those of ``PORTS``. Milvus listens at all of them. Its own choices are free when it looks, and
may be taken when it listens: each of its ports is given by the caller, who has reserved it.

It runs in the environment of the package ``milvus``, whose program is unpacked already, and replaces itself
by the server. So the server's process is the one that was started, and can be killed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_SETTINGS = (
    "proxy_port",
    "proxy_internal_port",
    "root_coord_port",
    "query_coord_port",
    "query_node_port",
    "index_coord_port",
    "index_node_port",
    "data_coord_port",
    "data_node_port",
)
PORTS = (*_SETTINGS, "metrics", "etcd_client", "etcd_peer")
_ETCD = """\
name: default
listen-client-urls: http://127.0.0.1:{client}
advertise-client-urls: http://127.0.0.1:{client}
listen-peer-urls: http://127.0.0.1:{peer}
initial-advertise-peer-urls: http://127.0.0.1:{peer}
initial-cluster: default=http://127.0.0.1:{peer}
"""


def main(folder: Path, ports: dict[str, str]) -> None:
    from milvus import MilvusServer, MilvusServerConfig  # type: ignore[import-not-found]

    server = MilvusServer(MilvusServerConfig())
    server.set_base_dir(str(folder))
    server.config.resolve()
    for name in _SETTINGS:
        server.config.set(name, int(ports[name]))
    server.config.write_config()
    etcd = folder / "etcd.yaml"
    etcd.write_text(_ETCD.format(client=ports["etcd_client"], peer=ports["etcd_peer"]))
    programs = Path(sys.prefix) / "server" / "bin"
    os.chdir(folder)
    environment = {
        **os.environ,
        "DEPLOY_MODE": "STANDALONE",
        "ETCD_CONFIG_PATH": str(etcd),
        "METRICS_PORT": ports["metrics"],
        "MILVUS_RUN_DIR": str(folder / "run"),
        "LD_LIBRARY_PATH": str(programs),
    }
    os.execve(programs / "milvus", ["milvus", "run", "standalone"], environment)


if __name__ == "__main__":
    main(Path(sys.argv[1]), dict(given.split("=") for given in sys.argv[2:]))
