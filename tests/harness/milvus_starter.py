"""Become a Milvus server: ``build/milvus/bin/python milvus_starter.py FOLDER PORT``.

It runs in the environment of the package ``milvus``, whose program is unpacked already, and replaces itself
by the server. So the server's process is the one that was started, and can be killed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main(folder: Path, port: int) -> None:
    from milvus import MilvusServer, MilvusServerConfig  # type: ignore[import-not-found]

    server = MilvusServer(MilvusServerConfig())
    server.set_base_dir(str(folder))
    server.config.resolve()  # chooses free ports
    server.config.set("proxy_port", port)  # which the caller has reserved
    server.config.write_config()
    metrics, taken = server.config.resolve_port(9091)
    taken.close()
    programs = Path(sys.prefix) / "server" / "bin"
    os.chdir(folder)
    environment = {
        **os.environ,
        "DEPLOY_MODE": "STANDALONE",
        "METRICS_PORT": str(metrics),
        "MILVUS_RUN_DIR": str(folder / "run"),
        "LD_LIBRARY_PATH": str(programs),
    }
    os.execve(programs / "milvus", ["milvus", "run", "standalone"], environment)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
