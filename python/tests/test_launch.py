"""embers launch runs Python workers, which find the job by themselves."""
import json
import os
import subprocess
import sys

import pytest

import embers

PROGRAM = os.environ.get("EMBERS_PROGRAM")

WORKER = """
import os, sys, numpy as np, embers
with embers.connect() as job:
    counts = job.table("count", dim=1, initializer="zeros")
    for batch in job.minibatches(400, 10, epochs=2):
        counts.push(batch.records, -np.ones_like(counts.lookup(batch.records)))
        if 0 in batch.records and sys.argv[1:] and not os.path.exists(sys.argv[1]):  # in the first epoch only
            batch.finish()
            job.save(sys.argv[1])
    keys, rows = counts.export()
    print("counted", len(keys), float(rows.min()), float(rows.max()), flush=True)
"""
JOB = """
[optimizer]
name = "sgd"
learning_rate = 1.0
[training]
reduction = "sum"
minibatches_per_lease = 1
"""


def launch(folder, *words, worker=(), members=("--shards", "2", "--workers", "2")):
    (folder / "train.py").write_text(WORKER)
    (folder / "job.toml").write_text(JOB)
    command = [PROGRAM, "launch", "job.toml", *members, "--report", "report.json",
               "--job-dir", "job", *words, "--", sys.executable, "train.py", *worker]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    logs = "".join(path.read_text() for path in (folder / "job").rglob("*.log"))
    return done.stdout + done.stderr + logs, json.loads((folder / "report.json").read_text())


@pytest.mark.skipif(not PROGRAM, reason="EMBERS_PROGRAM says where embers is")
def test_python_workers_find_the_job_save_it_and_go_on(tmp_path):
    said, report = launch(tmp_path, worker=[str(tmp_path / "saved")])
    assert "counted 400 2.0 2.0" in said and report["examples"] == 800
    said, report = launch(tmp_path, "--resume", "saved")
    assert "counted 400 2.0 2.0" in said and 0 < report["examples"] < 800


@pytest.mark.skipif(not PROGRAM, reason="EMBERS_PROGRAM says where embers is")
def test_python_workers_hold_the_rows_where_the_launcher_says_so(tmp_path):
    said, report = launch(tmp_path, "--output", "saved", members=["--owner", "--workers", "2"])
    assert "starting 2 workers; job directory" in said and report["examples"] == 800
    assert not (tmp_path / "job" / "logs" / "s0.log").exists()
    assert (tmp_path / "saved").exists()


def test_what_the_environment_says_of_owners_must_make_sense(monkeypatch):
    monkeypatch.setenv("EMBERS_OWNER", "yes")
    with pytest.raises(embers.BadInput, match="EMBERS_OWNER=yes: it is 1"):
        embers.connect()
    embers.connect("127.0.0.1:1")  # the program says where its job is
    embers.connect(owner=False)
