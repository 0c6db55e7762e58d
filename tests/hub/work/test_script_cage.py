"""The cage in which workers of scripts run, shown with other programs in the place of the interpreter."""

from __future__ import annotations

import marshal
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tabane.hub.work.script_cage import CagedWorkers, cage_orders

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the cage of Linux")
landlocked = pytest.mark.skipif(
    sys.platform == "linux" and not cage_orders("/bin/sh", 0)["landlock"], reason="a kernel without Landlock"
)


def caged(home: Path, name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in the cage."""
    found = shutil.which(name)
    assert found is not None
    program = CagedWorkers(home, os.environ).program(found, 0)
    return subprocess.run([program, *arguments], capture_output=True, text=True, env=environment, check=False)


def test_a_worker_gets_no_environment_and_no_folder(tmp_path: Path) -> None:
    assert caged(tmp_path, "env", SECRET="hunter2").stdout == ""
    assert caged(tmp_path, "readlink", "/proc/self/cwd").stdout in ("/\n", "")


def test_a_worker_has_no_descriptors_of_its_hub(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.set_inheritable(read, True)
    found = shutil.which("test")
    assert found is not None
    program = CagedWorkers(tmp_path, os.environ).program(found, 0)
    for inherited, status in ((read, 1), (0, 0)):
        done = subprocess.run([program, "-e", f"/dev/fd/{inherited}"], pass_fds=[read], check=False)
        assert done.returncode == status
    os.close(read)
    os.close(write)


@landlocked
def test_a_worker_reads_and_writes_no_file(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("secret")
    assert caged(tmp_path, "cat", str(kept)).stdout == ""
    assert caged(tmp_path, "cat", "/etc/passwd").stdout == ""
    assert caged(tmp_path, "ls", str(tmp_path)).stdout == ""
    assert caged(tmp_path, "touch", str(tmp_path / "made")).returncode != 0
    assert caged(tmp_path, "rm", "-f", str(kept)).returncode != 0
    assert kept.read_text() == "secret"
    assert not (tmp_path / "made").exists()


def test_a_part_that_the_kernel_refuses_is_left_out(tmp_path: Path) -> None:
    program = Path(CagedWorkers(tmp_path, os.environ).program("/bin/sh", 0))
    words = program.read_text().split(" ")
    place = next(place for place, word in enumerate(words) if len(word) > 200)
    words[place] = marshal.dumps(marshal.loads(bytes.fromhex(words[place])) | {"seccomp": bytes(8)}).hex()
    program.write_text(" ".join(words))
    done = subprocess.run([program, "-c", "echo runs"], capture_output=True, text=True, check=False)
    assert done.stdout == "runs\n"


def test_without_programs_in_the_home_the_interpreter_runs_as_it_is(tmp_path: Path) -> None:
    workers = CagedWorkers(tmp_path, os.environ)
    program = workers.program("/bin/sh", 0)
    assert program == str(tmp_path / "script-worker")
    assert Path(program).stat().st_mode & 0o777 == 0o700
    Path(program).chmod(0o600)
    assert workers.program("/bin/sh", 0) == "/bin/sh"
