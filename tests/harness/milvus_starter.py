"""Become a Milvus server: ``build/milvus/bin/python milvus_starter.py FOLDER PORT CLIENT_PORT PEER_PORT``.

The last two are those of its etcd, which has fixed ones otherwise: two servers could not run then.

It runs in the environment of the package ``milvus``, whose program is unpacked already, and replaces itself
by the server. So the server's process is the one that was started, and can be killed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_ETCD = """\
name: default
listen-client-urls: http://127.0.0.1:{client}
advertise-client-urls: http://127.0.0.1:{client}
listen-peer-urls: http://127.0.0.1:{peer}
initial-advertise-peer-urls: http://127.0.0.1:{peer}
initial-cluster: default=http://127.0.0.1:{peer}
"""


def main(folder: Path, port: int, client: int, peer: int) -> None:
    from milvus import MilvusServer, MilvusServerConfig  # type: ignore[import-not-found]

    server = MilvusServer(MilvusServerConfig())
    server.set_base_dir(str(folder))
    server.config.resolve()  # chooses free ports
    server.config.set("proxy_port", port)  # which the caller has reserved
    server.config.write_config()
    metrics, taken = server.config.resolve_port(9091)
    taken.close()
    etcd = folder / "etcd.yaml"
    etcd.write_text(_ETCD.format(client=client, peer=peer))
    programs = Path(sys.prefix) / "server" / "bin"
    os.chdir(folder)
    environment = {
        **os.environ,
        "DEPLOY_MODE": "STANDALONE",
        "ETCD_CONFIG_PATH": str(etcd),
        "METRICS_PORT": str(metrics),
        "MILVUS_RUN_DIR": str(folder / "run"),
        "LD_LIBRARY_PATH": str(programs),
    }
    os.execve(programs / "milvus", ["milvus", "run", "standalone"], environment)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
