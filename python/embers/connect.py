"""How a program gets its job."""
from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Optional, Union

from . import _core
from .arguments import check_count, check_flag, check_path, check_seconds, check_section, check_text
from .errors import BadInput
from .job import Job
from .toml import text_of

Path = Union[str, "os.PathLike[str]"]


def connect(master: Optional[str] = None, *, job_dir: Optional[Path] = None, secret_file: Optional[Path] = None,
            insecure: bool = False, connect_timeout: float = 20, timeout: float = 60,
            owner: Union[None, bool, Mapping[str, Any]] = None) -> Job:
    """A job that runs elsewhere: `embers launch`, or `embers master` with `embers shard` processes.

    master: its address, "host:port", "unix:/path" or "unix:@name". job_dir: the directory in which its master wrote the address
    (`--job-dir`), and which has its secret. Without either, the environment says where the job is, as below `embers launch`
    and in Slurm: EMBERS_MASTER or EMBERS_JOB_DIR. secret_file: the secret of a job whose directory is not here. insecure: do
    without, beyond this host. connect_timeout: seconds to wait for the master, and for each shard. timeout: seconds for
    joining, for a look-up and for leaving.

    owner: this program also joins as one of the job's shards, when it joins as a worker: it holds a share of the rows, reads
    and updates that share without a socket, and serves it to the others. A job whose workers all do so, as many as it has
    shards, needs no `embers shard` processes. The rows are needed until the job has ended, so job.close() waits for that; a
    program that leaves while there is work left, by close(), an exception or Ctrl-C, has the master save and end the job first.
    Instead of True, a dict says where others reach the share, as the options of `embers worker --owner` do: "listen" (an
    address, or a list of them), "advertise", "port_range". With None, the environment says so where it says where the job is,
    too: below `embers launch --owner` the program is an owner (EMBERS_OWNER=1, EMBERS_PORT_RANGE).

    Nothing is connected yet: that is done by the first call that needs it. It raises BadInput where all shards of the job are
    there already.

    Raises BadInput for arguments of the wrong type, empty ones, seconds below 0, and arguments that contradict each other."""
    if master is not None and job_dir is not None:
        raise BadInput("give the master's address or the job's directory, not both")
    return Job(dict(master="" if master is None else check_text("master", master),
                    job_dir="" if job_dir is None else check_path("job_dir", job_dir),
                    secret_file="" if secret_file is None else check_path("secret_file", secret_file),
                    insecure=check_flag("insecure", insecure), connect_timeout=check_seconds("connect_timeout", connect_timeout),
                    timeout=check_seconds("timeout", timeout)),
               owner=_owner_place(_owner_of_environment() if owner is None and master is None and job_dir is None else owner))


def _owner_of_environment() -> Union[bool, Mapping[str, Any]]:
    """What a launcher has set; see orders.cc."""
    text = os.environ.get("EMBERS_OWNER", "")
    if text not in ("", "0", "1"):
        raise BadInput(f"EMBERS_OWNER={text}: it is 1 for a program that holds a share of the rows, or 0")
    return text == "1" and {"port_range": os.environ.get("EMBERS_PORT_RANGE", "")}


def _owner_place(owner: Union[None, bool, Mapping[str, Any]]) -> Any:
    """What _core is told; None for a program that is no owner."""
    if owner is None or isinstance(owner, bool):
        return _core.OwnerPlace() if owner else None
    if not isinstance(owner, Mapping):
        raise BadInput(f"owner is {owner!r}: it is True, False, or a dict of listen, advertise and port_range")
    given = dict(owner)
    listen = given.pop("listen", [])
    listen = [listen] if isinstance(listen, str) else listen
    advertise, port_range = given.pop("advertise", ""), given.pop("port_range", "")
    if given:
        raise BadInput(f"owner has no '{next(iter(given))}': there are listen, advertise and port_range")
    if not isinstance(listen, (list, tuple)) or not all(isinstance(text, str) for text in (*listen, advertise, port_range)):
        raise BadInput(f"owner is {owner!r}: addresses, advertise and port_range are str")
    return _core.OwnerPlace(list(listen), advertise, port_range)


def local(shards: int = 1, *, mode: str = "async", optimizer: Any = None, seed: int = 1, workers: int = 1,
          name: str = "local", output: Optional[Path] = None, resume: Optional[Path] = None,
          timeout: float = 60, **sections: Dict[str, Any]) -> Job:
    """A job whose master and shards are threads of this process. It ends with job.close(), or with the program.

    shards: into how many parts tables are divided. mode: "async", "bounded" or "sync". optimizer: the update rule of tables and
    parameters that have none of their own, such as embers.Adam(1e-3). seed: of first values. workers: how many must join
    before the job begins; more than this process are others, at job.address. output: a directory for a checkpoint at the
    end. resume: one to go on from. Further arguments are sections of the job file: training={"grads_to_wait": 2},
    storage={"dtype": "float16"}.

    Raises BadInput for values that a job file may not have."""
    def given(section: str) -> Mapping[str, Any]:
        return check_section(section, sections.pop(section, {}))

    text: Dict[str, Dict[str, Any]] = {
        "job": {"name": check_text("name", name), "seed": seed, **given("job")},
        "training": {"mode": check_text("mode", mode), "workers": check_count("workers", workers), **given("training")},
        "storage": {"shards": check_count("shards", shards), **given("storage")},
    }
    output_dir = "" if output is None else check_path("output", output)
    resume_dir = "" if resume is None else check_path("resume", resume)
    timeout = check_seconds("timeout", timeout)
    if sections:
        raise BadInput(f"local() has no section '{next(iter(sections))}': there are job, training and storage")
    lines = []
    if optimizer is not None:  # else the program may give one when it joins
        lines.append(f"optimizer = {text_of({'name': optimizer} if isinstance(optimizer, str) else optimizer)}")
    for section, values in text.items():
        lines += [f"{section} = {text_of(values, section)}"]
    job_file = "\n".join(lines) + "\n"

    def cluster(checkpoint: str) -> Any:
        return _core.LocalJob(job_file, output_dir, checkpoint)

    return Job(dict(job_dir="", secret_file="", insecure=False, connect_timeout=20, timeout=timeout), cluster, resume_dir)
