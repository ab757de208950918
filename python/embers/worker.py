"""The worker of a job file whose model is a Python module; `embers worker` becomes this.

    python3 -m embers.worker --master ADDRESS       # options are those of embers worker
    python3 -m embers.worker check JOB              # what the model has, for embers check
    python3 -m embers.worker numeric THREADS        # what decides the bits of a gradient here, for embers doctor
"""
from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
from typing import Any, Dict, List, NoReturn, Optional

from . import _core
from .errors import BadInput, Error, Fenced, Lost, Timeout

log = logging.getLogger("embers")


def main(words: List[str]) -> int:
    """Exit status: 0; 2 for what the user can fix; 1 for anything else."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    command = words[0] if words and not words[0].startswith("-") else "work"
    try:
        run = {"work": _work, "check": _check, "numeric": _numeric}.get(command)
        if run is None:
            raise BadInput(f"there is no command '{command}': there are work, check and numeric")
        run(words[1:] if words[:1] == [command] else words)
        return 0
    except Error as e:
        _core.drain_log()
        print(f"embers: error: {e}", file=sys.stderr)
        return 2 if isinstance(e, BadInput) else 1


def _job_worker() -> Any:
    try:
        from .torch import job_worker
    except ImportError as e:
        raise BadInput(f"the model of this job is a Python module, but {sys.executable} cannot run it: {e}. Name another "
                       "interpreter in EMBERS_PYTHON") from e
    return job_worker


def _parser(command: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(prog=f"python3 -m embers.worker {command}", allow_abbrev=False)


def _work(words: List[str]) -> None:
    parser = _parser("work")
    parser.add_argument("--master", default="", metavar="HOST:PORT")
    parser.add_argument("--job-dir", default="", metavar="DIR")
    parser.add_argument("--secret-file", default="", metavar="FILE")
    parser.add_argument("--insecure", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--connect-timeout", type=float, default=20)
    parser.add_argument("--owner", action="store_true")
    parser.add_argument("--listen", action="append", default=[])
    parser.add_argument("--advertise", default="")
    parser.add_argument("--port-range", default="")
    parser.add_argument("--run", type=int, help=argparse.SUPPRESS)  # that this process was a worker of before
    options = parser.parse_args(words)
    place: Dict[str, Any] = dict(master=options.master, job_dir=options.job_dir, secret_file=options.secret_file,
                 insecure=options.insecure, connect_timeout=options.connect_timeout)
    watch = _Signals()  # importing torch and the model takes its time
    job_worker = _job_worker()
    # A master that reads its data says nothing before, and a job may wait for other members for as long as it likes.
    place["timeout"] = FOREVER
    job = _core.JobFile.of_master(**place, set=options.set)
    if job.version != _core.__version__:
        raise BadInput(f"this package is of embers {_core.__version__}, but the master is of embers {job.version}: install "
                       "the same version on both sides")
    if options.run not in (None, job.run):
        raise Lost(f"the master at {options.master or options.job_dir} is now that of another job: this worker's is gone")
    owner = _core.OwnerPlace(options.listen, options.advertise, options.port_range) if options.owner else None
    worker = job_worker.JobWorker(job, place, owner)
    watch.worker = worker
    if watch.came is not None:
        worker.leave()
    try:
        worker.run()
    except Error as e:
        if owner is not None:
            worker.close()
            raise
        if not isinstance(e, (Fenced, Timeout)) or worker.leaves or worker.finished == 0:
            raise
        log.warning("%s", e)
        _begin_anew(job.run)


FOREVER = 10 * 365 * 86400.0


class _Signals:
    """SIGINT and SIGTERM have the worker leave, with status 0; a second one ends the process at once."""

    worker: Any = None
    came: Optional[str] = None

    def __init__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on)

    def _on(self, number: int, _: Any) -> None:
        if self.came is not None:
            os._exit(128 + number)
        self.came = signal.Signals(number).name
        if self.worker is None:
            log.info("%s: leaving, with nothing under way", self.came)
            sys.exit(0)  # through what builds the model, which may catch it
        log.info("%s: finishing what is under way, then leaving", self.came)
        self.worker.leave()


def _begin_anew(run: int) -> NoReturn:
    """This process becomes a worker that has just been started, with the same command line, of no other run."""
    log.info("joining again, as a new worker")
    _core.drain_log()
    sys.stdout.flush()
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.set_inheritable(int(name), False)
            except OSError:
                pass  # the one of this listing
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], f"--run={run}"])


def _check(words: List[str]) -> None:
    parser = _parser("check")
    parser.add_argument("job")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args(words)
    for line in _job_worker().JobModel(_core.JobFile.read(options.job, options.set)).lines():
        print(line)


def _numeric(words: List[str]) -> None:
    parser = _parser("numeric")
    parser.add_argument("threads", type=int)
    print(json.dumps(_job_worker().threads_of(parser.parse_args(words).threads)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
