"""How a program gets its job."""
from __future__ import annotations

from typing import Any, Dict, Optional

from . import _core
from .errors import BadInput
from .job import Job
from .toml import text_of


def connect(master: Optional[str] = None, *, job_dir: Optional[str] = None, secret_file: Optional[str] = None,
            insecure: bool = False, connect_timeout: float = 20, timeout: float = 60) -> Job:
    """A job that runs elsewhere: `embers launch`, or `embers master` with `embers shard` processes.

    master: its address, "host:port", "unix:/path" or "unix:@name". job_dir: the directory in which its master wrote the address
    (`--job-dir`), and which has its secret. Without either, the environment says where the job is, as below `embers launch`
    and in Slurm: EMBERS_MASTER or EMBERS_JOB_DIR. secret_file: the secret of a job whose directory is not here. insecure: do
    without, beyond this host. connect_timeout: seconds to wait for the master, and for each shard. timeout: seconds for
    joining, for a look-up and for leaving.

    Nothing is connected yet: that is done by the first call that needs it."""
    if master is not None and job_dir is not None:
        raise BadInput("give the master's address or the job's directory, not both")
    return Job(dict(master=master or "", job_dir=job_dir or "", secret_file=secret_file or "", insecure=insecure,
                    connect_timeout=connect_timeout, timeout=timeout))


def local(shards: int = 1, *, mode: str = "async", optimizer: Any = None, seed: int = 1, workers: int = 1,
          name: str = "local", output: Optional[str] = None, resume: Optional[str] = None,
          timeout: float = 60, **sections: Dict[str, Any]) -> Job:
    """A job whose master and shards are threads of this process. It ends with job.close(), or with the program.

    shards: into how many parts tables are divided. mode: "async", "bounded" or "sync". optimizer: the update rule of tables and
    parameters that have none of their own, such as embers.Adam(1e-3). seed: of first values. workers: how many must join
    before the job begins; more than this process are others, at job.address. output: a directory for a checkpoint at the
    end. resume: one to go on from. Further arguments are sections of the job file: training={"grads_to_wait": 2},
    storage={"dtype": "float16"}.

    Raises BadInput for values that a job file may not have."""
    text: Dict[str, Dict[str, Any]] = {
        "job": {"name": name, "seed": seed, **sections.pop("job", {})},
        "training": {"mode": mode, "workers": workers, **sections.pop("training", {})},
        "storage": {"shards": shards, **sections.pop("storage", {})},
    }
    if sections:
        raise BadInput(f"local() has no section '{next(iter(sections))}': there are job, training and storage")
    lines = []
    if optimizer is not None:  # else the program may give one when it joins
        lines.append(f"optimizer = {text_of({'name': optimizer} if isinstance(optimizer, str) else optimizer)}")
    for section, values in text.items():
        lines += [f"{section} = {text_of(values, section)}"]
    job_file = "\n".join(lines) + "\n"

    def cluster(checkpoint: str) -> Any:
        return _core.LocalJob(job_file, output or "", checkpoint)

    return Job(dict(job_dir="", secret_file="", insecure=False, connect_timeout=20, timeout=timeout), cluster, resume or "")
