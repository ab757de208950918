"""Job files whose model is a Python module: what their model gets, and jobs in processes of their own."""
import contextlib
import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
import textwrap

import numpy as np
import pytest
import torch

import embers
import embers.torch as et
from embers import _core
from embers.torch.job_model import Batch, load_model, make_config
from embers.torch.job_worker import JobModel

PROGRAM = os.environ.get("EMBERS_PROGRAM")
processes = pytest.mark.skipif(not PROGRAM, reason="EMBERS_PROGRAM says where embers is")
RECORDS, TEST_RECORDS = 600, 150

MODEL = '''
import os, signal, time
import torch
import embers.torch as et

class Net(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        dim = config.get("dim", 4)
        self.user = et.Embedding(None, dim, table="user")
        self.tags = et.EmbeddingBag(None, dim, table="tags", keys="bytes", mode="sum")
        self.norm = torch.nn.BatchNorm1d(len(config.numeric))
        self.drop = torch.nn.Dropout(0.1)
        self.out = torch.nn.Linear(2 * dim + len(config.numeric), 1)

    def forward(self, batch):
        x = torch.cat([self.user(batch.ids["user"]), self.tags(batch.ids["tags"]), self.norm(batch.numeric)], 1)
        return self.out(self.drop(x)).squeeze(1)

class Raises(Net):
    def forward(self, batch):
        if batch.number == 3:
            raise ValueError("no good")
        return super().forward(batch)

class Wide(Net):
    def forward(self, batch):
        return super().forward(batch).unsqueeze(1)

class Exits(Net):
    def forward(self, batch):
        os._exit(3)

class Dies(Net):
    """The first process that comes to the second epoch's fourth minibatch is killed."""
    def forward(self, batch):
        if batch.epoch == 2 and batch.number == 3 and self.training:
            try:
                os.close(os.open(os.environ["EMBERS_TEST_DIED"], os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(batch)

class Slow(Net):
    def forward(self, batch):
        time.sleep(0.05)
        return super().forward(batch)

class Held(Net):
    """Says that it is under way, and goes on when it may."""
    def forward(self, batch):
        open(f"began.{os.getpid()}", "w").close()
        while not os.path.exists("go"):
            time.sleep(0.02)
        return super().forward(batch)

class Squares(Net):
    """Predicts a number: a loss and a score of its own."""
    def loss(self, output, batch):
        return ((output - batch.labels) ** 2).mean()
    def score(self, output):
        return output

def number(config):
    return 3
'''

JOB = '''
[model]
python = "{model}"
[data]
train = "train.csv"
test = "test.csv"
columns = [
  {{ name = "label", type = "label" }}, {{ name = "user", type = "int" }}, {{ name = "tags", separator = "|" }},
  {{ name = "x", type = "float" }}, {{ name = "number", type = "ignore" }},
]
[features]
user = {{ as = "categorical", keys = "int64" }}
tags = {{ as = "categorical" }}
x = {{ as = "numeric" }}
[optimizer]
name = "adam"
learning_rate = 0.01
[training]
batch_size = 25
epochs = 2
'''


def rows_of(path):
    with open(path) as f:
        return list(csv.reader(f))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with job.toml, the module my_model and the data."""
    monkeypatch.setattr(sys, "path", list(sys.path))  # models add to it
    generator = random.Random(1)
    for name, count in (("train.csv", RECORDS), ("test.csv", TEST_RECORDS)):
        with open(tmp_path / name, "w") as f:
            for i in range(count):
                user, tags, x = generator.randrange(40), [f"t{generator.randrange(9)}" for _ in range(generator.randrange(4))], generator.random()
                label = int((user % 2 == 0) + x + 0.3 * len(tags) > 1.2)
                f.write(f"{label},{user},{'|'.join(tags)},{x:.4f},{i}\n")
    (tmp_path / "my_model.py").write_text(MODEL)
    (tmp_path / "job.toml").write_text(JOB.format(model="my_model:Net"))
    return tmp_path


def job_of(folder, *overrides):
    sys.modules.pop("my_model", None)  # of another test
    return _core.JobFile.read(str(folder / "job.toml"),
                              [f'data.dir="{folder}"', f'model.python_path="{folder}"', *overrides])


def environment():
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "EMBERS_PYTHON": sys.executable}
    for name in ("EMBERS_JOB_DIR", "EMBERS_MASTER"):
        found.pop(name, None)
    return found


def start(folder, *words, **more):
    return subprocess.Popen([PROGRAM, *words], cwd=folder, env={**environment(), **more}, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def embers_does(folder, *words, status=0, **more):
    """What it said."""
    process = start(folder, *words, **more)
    try:
        out, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == status, out
    return out


def wait_for(path, process):
    """Until the file is there; fails if the process ends before."""
    while not path.exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)


# --- what the model gets ---------------------------------------------------------------------------


def test_a_batch_has_what_the_data_pipeline_reads(folder):
    job = job_of(folder, "data.shuffle=false")
    train, test, records = job.open_data()
    assert records == RECORDS
    config = make_config(job)
    assert config.numeric == ["x"] and [f.name for f in config.categorical] == ["user", "tags"]
    rows = rows_of(folder / "train.csv")[50:75]
    batch = Batch(train.start(1, 2).wait(), config, 1, 2)
    assert len(batch) == 25 and batch.records.tolist() == list(range(50, 75))
    assert batch.labels.tolist() == [float(row[0]) for row in rows]
    assert torch.allclose(batch.numeric[:, 0], torch.tensor([float(row[3]) for row in rows]))
    assert torch.equal(batch.number_of("x"), batch.numeric[:, 0])
    assert batch.ids["user"].values.tolist() == [int(row[1]) for row in rows]
    tags = batch.ids["tags"]
    assert tags is batch.ids["tags"], "layers recognize what was announced"
    lists = [row[2].split("|") if row[2] else [] for row in rows]
    assert [key.decode() for key in np.asarray(tags.values).tolist()] == [key for bag in lists for key in bag]
    assert tags.lengths.tolist() == [len(bag) for bag in lists] and len(tags) == 25
    with pytest.raises(embers.BadInput, match="no categorical feature 'usr'; did you mean 'user'"):
        batch.ids["usr"]
    with pytest.raises(embers.BadInput, match="no numeric feature 'user'"):
        batch.number_of("user")


def test_minibatches_come_in_the_order_in_which_they_are_asked_for(folder):
    train, _, _ = job_of(folder).open_data()
    readings = [train.start(epoch, number) for epoch in (1, 2) for number in range(RECORDS // 25)]
    seen = [reading.wait().records for reading in readings]
    for epoch in (seen[:RECORDS // 25], seen[RECORDS // 25:]):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(RECORDS))
    assert seen[0].tolist() != seen[RECORDS // 25].tolist(), "each epoch has an order of its own"
    with pytest.raises(embers.BadInput, match="there is no minibatch 24 in epoch 1: an epoch has 24"):
        train.start(1, 24).wait()


def test_keys_that_numpy_cannot_hold_are_lists(folder):
    (folder / "train.csv").write_text(f"1,1,{'a' * 100000},0.5,0\n" + "0,2,b,0.5,0\n" * 24)
    batch = Batch(job_of(folder, "data.shuffle=false").open_data()[0].start(1, 0).wait(), make_config(job_of(folder)), 1, 0)
    assert batch.ids["tags"].values == [b"a" * 100000] + [b"b"] * 24


def test_weights_of_a_feature_are_those_of_its_bag(folder):
    job = job_of(folder, 'features.x = "no"') if False else job_of(folder)
    ids = et.FeatureIds(torch.tensor([3, 4, 3]), torch.tensor([0, 2, 2, 3]), torch.tensor([0.5, 2.0, 1.0]), "f")
    bag = torch.nn.Sequential(et.EmbeddingBag(None, 2, table="f", mode="sum"))
    rows = np.array([[1, 2], [10, 20]], np.float32)
    with embers.local() as local:
        et.Optimizer(bag, local)
        # Without a job's rows, those of a look-up will do.
        from embers.torch.rows import ReadRows
        from embers.torch.table import bind_all, collect

        layers, _, uses = collect(bag)
        bind_all(layers, uses, ReadRows(lambda table, keys: rows[np.asarray(keys) - 3]))
        assert bag(ids).tolist() == [[20.5, 41.0], [0.0, 0.0], [1.0, 2.0]]
    assert job.name == "job"


def test_an_embedding_takes_features_with_as_many_ids_in_each_example():
    from embers.torch.rows import ReadRows
    from embers.torch.table import bind_all, collect

    layer = torch.nn.Sequential(et.Embedding(None, 1, table="f"))
    layers, _, uses = collect(layer)
    bind_all(layers, uses, ReadRows(lambda table, keys: np.asarray(keys, np.float32)[:, None]))
    one = et.FeatureIds(torch.tensor([3, 4]), torch.tensor([0, 1, 2]))
    two = et.FeatureIds(torch.tensor([3, 4, 5, 6]), torch.tensor([0, 2, 4]))
    assert layer(one).tolist() == [[3], [4]]
    assert layer(two).tolist() == [[[3], [4]], [[5], [6]]]
    with pytest.raises(embers.BadInput, match="different lengths"):
        layer(et.FeatureIds(torch.tensor([3, 4]), torch.tensor([0, 2, 2])))


def test_settings_have_types():
    config = et.ModelConfig({"dim": 4, "rate": 1, "wide": True, "hidden": [3]})
    assert config.get("dim", 8) == 4 and config.get("rate", 0.5) == 1.0 and config.get("wide", False) is True
    assert config.get("hidden", [1]) == [3] and config.get("deep", 7) == 7 and config["dim"] == 4
    for key, otherwise, what in (("wide", 1, "a whole number"), ("dim", "a", "a string"), ("hidden", 2.0, "a number"), ("dim", False, "true or false")):
        with pytest.raises(embers.BadInput, match=f"{key} = .* is not {what}"):
            config.get(key, otherwise)


@pytest.mark.parametrize("overrides, message", [
    (['model.python="my_model:Nett"'], "has no 'Nett'; did you mean 'Net'"),
    (['model.python="none:Net"'], "there is no Python module 'none' in .* or in PYTHONPATH"),
    (['model.python="my_model:number"'], "no torch.nn.Module, but a int"),
    (["model.dimm=3"], "--set model.dimm=3: model my_model:Net has no setting 'dimm'; did you mean 'dim'"),
    (['model.dim="x"'], 'dim = \'x\' is not a whole number'),
    (["storage.tables.tag.dim=3"], "matches no table of the model; did you mean 'tags'"),
    (["storage.tables.tags.dim=3"], "gives table 'tags' dim 3, but the model made it with dim 4"),
])
def test_a_model_that_does_not_fit_says_why(folder, overrides, message):
    with pytest.raises(embers.BadInput, match=message):
        JobModel(job_of(folder, *overrides)).lines()


def test_a_job_file_decides_dims(folder):
    job = job_of(folder, "storage.tables.tags.dim=3")
    assert (make_config(job).dim("tags", 8), make_config(job).dim("user", 8)) == (3, 8)


def test_a_module_that_fails_says_where(folder, capsys):
    (folder / "my_model.py").write_text("import no_such_module\n")
    with pytest.raises(embers.BadInput, match="cannot import 'my_model': .*no_such_module"):
        load_model(job_of(folder), make_config(job_of(folder)))
    assert "my_model.py\", line 1" in capsys.readouterr().err


# --- jobs ------------------------------------------------------------------------------------------


@processes
def test_train_evaluate_predict_and_resume(folder):
    embers_does(folder, "train", "job.toml", "--report", "report.json", "--output", "saved")
    report = json.loads((folder / "report.json").read_text())
    assert report["examples"] == 2 * RECORDS and report["auc"] > 0.8
    embers_does(folder, "evaluate", "job.toml", "--model", "saved", "--report", "evaluated.json")
    evaluated = json.loads((folder / "evaluated.json").read_text())
    assert evaluated["auc"] == report["auc"] and evaluated["test_loss"] == report["test_loss"]
    embers_does(folder, "predict", "job.toml", "--model", "saved", "--out", "scores.csv")
    table = rows_of(folder / "scores.csv")[1:]
    labels = [row[0] for row in rows_of(folder / "test.csv")]
    assert [row[0] for row in table] == [str(i) for i in range(TEST_RECORDS)] and [row[2] for row in table] == labels
    right = np.mean([(float(score) >= 0.5) == (label == "1") for _, score, label in table])
    assert right == pytest.approx(report["accuracy"])
    embers_does(folder, "train", "job.toml", "--resume", "saved", "--set", "training.epochs=3", "--report", "on.json")
    assert json.loads((folder / "on.json").read_text())["examples"] == RECORDS
    other = embers_does(folder, "evaluate", "job.toml", "--model", "saved", "--set", "model.dim=5", status=2)
    assert "saved was saved by another model: table 'user': dim 4" in other


@processes
def test_a_loss_and_a_score_of_the_models_own(folder):
    embers_does(folder, "train", "job.toml", "--set", "model.python=my_model:Squares", "--report", "report.json")
    report = json.loads((folder / "report.json").read_text())
    assert report["test_loss"] < 0.25 and report["auc"] > 0.7


SYNC = ["--set", "training.mode=sync", "--set", "training.grads_to_wait=3", "--set", "storage.shards=2"]


def learned(folder, name):
    return sorted((folder / name).read_text().splitlines())


@processes
def test_sync_jobs_learn_the_same_bits(folder):
    """With 1, 2 and 3 workers, although the model has dropout and running means."""
    for workers in (1, 2, 3):
        embers_does(folder, "train", "job.toml", *SYNC, "--set", f"training.workers={workers}", "--dump-rows", f"rows{workers}")
    assert learned(folder, "rows1") == learned(folder, "rows2") == learned(folder, "rows3")


@processes
def test_sync_jobs_learn_the_same_bits_when_a_worker_is_killed(folder):
    embers_does(folder, "train", "job.toml", *SYNC, "--dump-rows", "rows")
    out = embers_does(folder, "launch", "job.toml", *SYNC, "--workers", "2", "--dump-rows", "killed", "--set",
                      "model.python=my_model:Dies", "--report", "report.json", EMBERS_TEST_DIED=str(folder / "died"))
    assert (folder / "died").exists(), out
    report = json.loads((folder / "report.json").read_text())
    assert report["examples"] == 2 * RECORDS and report["workers_lost"] + report["workers_joined"] >= 3
    assert learned(folder, "rows") == learned(folder, "killed")


@processes
@pytest.mark.parametrize("model, status, message", [
    ("my_model:Raises", 2, "model my_model:Raises cannot train on minibatch 3 of epoch 1: ValueError: no good"),
    ("my_model:Wide", 2, r"forward must return logits of shape \(25,\)"),
    ("my_model:Exits", 1, "has ended with status 3"),
    ("my_model:Nett", 2, "has no 'Nett'; did you mean 'Net'"),
])
def test_a_model_that_fails_ends_the_job(folder, model, status, message):
    import re

    assert re.search(message, embers_does(folder, "train", "job.toml", "--set", f"model.python={model}", status=status))


@processes
def test_a_bad_record_ends_the_job_and_is_named(folder):
    with open(folder / "train.csv", "a") as f:
        f.write("1,none,,0.5,0\n")
    assert f"train.csv:{RECORDS + 1}: " in embers_does(folder, "train", "job.toml", status=2)
    embers_does(folder, "train", "job.toml", "--set", "data.on_bad_row=skip", "--set", "training.batch_size=43", "--report",
                "report.json")
    report = json.loads((folder / "report.json").read_text())
    assert report["skipped_rows"] == 2 and report["examples"] == 2 * RECORDS


@processes
def test_check_lists_the_tables(folder):
    out = embers_does(folder, "check", "job.toml")
    assert "table 'user': dim 4" in out and "parameter 'out.weight'" in out and f"ok; {RECORDS} training records" in out
    with open(folder / "job.toml", "a") as f:
        f.write("[storage.tables.usr]\ndim = 4\n")
    assert "job.toml:21: [storage.tables.\"usr\"] matches no table" in embers_does(folder, "check", "job.toml", status=2)


@processes
def test_an_interpreter_that_cannot_run_it_is_named(folder):
    assert "cannot start /no/python" in embers_does(folder, "train", "job.toml", status=2, EMBERS_PYTHON="/no/python")
    (folder / "torch.py").write_text("raise ImportError('not here')")  # in the place of PyTorch
    out = embers_does(folder, "train", "job.toml", status=2, PYTHONPATH=os.pathsep.join([str(folder), *sys.path]))
    assert "embers.torch needs PyTorch" in out and "EMBERS_PYTHON" in out


@processes
def test_a_worker_may_only_be_given_other_paths(folder):
    os.rename(folder / "my_model.py", folder / "elsewhere.py")
    os.makedirs(folder / "models")
    os.rename(folder / "elsewhere.py", folder / "models" / "my_model.py")
    master = start(folder, "master", "job.toml", "--listen", "unix:master", "--report", "report.json")
    shard = start(folder, "shard", "--master", "unix:master")
    try:
        out = embers_does(folder, "worker", "--master", "unix:master", "--set", "training.epochs=3", status=2)
        assert "--set changes the job of the master at unix:master" in out
        assert "there is no Python module 'my_model'" in embers_does(folder, "worker", "--master", "unix:master", status=2)
        embers_does(folder, "worker", "--master", "unix:master", "--set", f"model.python_path={folder}/models")
        assert [p.wait(30) for p in (master, shard)] == [0, 0]
    finally:
        for process in (master, shard):
            process.kill()
            process.communicate()
    assert json.loads((folder / "report.json").read_text())["examples"] == 2 * RECORDS


@processes
def test_a_worker_that_was_given_up_on_comes_back(folder):
    master = start(folder, "master", "job.toml", "--listen", "unix:master", "--workers", "1", "--set", "job.heartbeat_timeout=5",
                   "--set", "model.python=my_model:Slow", "--set", "training.epochs=3", "--report", "report.json")
    shard = start(folder, "shard", "--master", "unix:master")
    worker = start(folder, "worker", "--master", "unix:master")
    try:
        for line in master.stdout:
            if " epoch 1: " in line:
                break
        worker.send_signal(signal.SIGSTOP)
        for line in master.stdout:
            if "lost worker" in line and "connection" not in line:
                break
        worker.send_signal(signal.SIGCONT)
        out, _ = worker.communicate(timeout=60)
        assert worker.returncode == 0 and "joining again, as a new worker" in out, out
        assert [p.wait(30) for p in (master, shard)] == [0, 0]
    finally:
        for process in (master, shard, worker):
            process.kill()
            process.communicate()
    report = json.loads((folder / "report.json").read_text())
    assert report["examples"] == 3 * RECORDS and report["workers_lost"] == 1


@processes
def test_a_worker_does_not_come_back_to_another_job(folder):
    """As one that was given up on is started again, when its master is gone and another one is in its place."""
    master = start(folder, "master", "job.toml", "--listen", "unix:master", "--workers", "1", "--shards", "1")
    try:
        wait_for(folder / "master", master)
        job = _core.JobFile.of_master(f"unix:{folder}/master")
        run = [sys.executable, "-m", "embers.worker", "--master", f"unix:{folder}/master", f"--run={job.run + 1}"]
        done = subprocess.run(run, cwd=folder, env=environment(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "is now that of another job" in done.stderr, done.stderr
    finally:
        master.kill()
        master.communicate()


@processes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_ends_it(folder, number):
    process = start(folder, "train", "job.toml", "--set", "model.python=my_model:Slow", "--set", "training.epochs=1000",
                    "--output", "saved")
    try:
        for line in process.stdout:
            if " epoch 1: " in line:
                break
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0 and "saved to saved" in out, out
    embers_does(folder, "evaluate", "job.toml", "--model", "saved")


@processes
def test_a_worker_that_is_asked_to_leave_finishes_what_it_has(folder):
    """Two workers by hand; one gets SIGTERM."""
    master = start(folder, "master", "job.toml", "--listen", "unix:master", "--workers", "2", "--shards", "1", "--set",
                   "model.python=my_model:Held", "--report", "report.json")
    shard = start(folder, "shard", "--master", "unix:master")
    workers = [start(folder, "worker", "--master", "unix:master") for _ in range(2)]
    try:
        wait_for(folder / f"began.{workers[0].pid}", workers[0])  # a worker that computes nothing ends at once
        workers[0].send_signal(signal.SIGTERM)
        (folder / "go").touch()
        out, _ = workers[0].communicate(timeout=60)
        assert workers[0].returncode == 0 and "finishing what is under way" in out, out
        rest, _ = master.communicate(timeout=60)
        assert master.returncode == 0, rest
        assert [p.wait(30) for p in (shard, workers[1])] == [0, 0]
    finally:
        for process in (master, shard, *workers):
            process.kill()
            process.communicate()
    report = json.loads((folder / "report.json").read_text())
    assert report["examples"] == 2 * RECORDS and report["workers_lost"] == 0


@contextlib.contextmanager
def replicas(folder, *words):
    """(master, two workers that hold the rows)"""
    master = start(folder, "master", "job.toml", "--listen", "unix:master", "--workers", "2", "--shards", "2", *words)
    workers = [start(folder, "worker", "--owner", "--master", "unix:master") for _ in range(2)]
    try:
        yield master, workers
    finally:
        for process in (master, *workers):
            process.kill()
            process.communicate()


@processes
def test_workers_that_hold_the_rows_learn_the_same_bits(folder):
    embers_does(folder, "train", "job.toml", *SYNC, "--dump-rows", "rows")
    with replicas(folder, *SYNC, "--dump-rows", "held") as (master, workers):
        said = [process.communicate(timeout=120)[0] for process in (*workers, master)]
        assert [process.returncode for process in (*workers, master)] == [0, 0, 0], said
    assert learned(folder, "held") == learned(folder, "rows")


@processes
def test_a_signal_to_a_worker_that_holds_rows_saves_and_ends_the_job(folder):
    with replicas(folder, "--set", "model.python=my_model:Slow", "--set", "training.epochs=1000", "--output", "saved") as (
            master, workers):
        for line in master.stdout:
            if " examples  " in line:
                break
        workers[1].send_signal(signal.SIGTERM)
        said = [process.communicate(timeout=60)[0] for process in (*workers, master)]
        assert [process.returncode for process in (*workers, master)] == [0, 0, 0], said
        assert "was asked to stop" in said[2] and "saved to saved" in said[2]
    embers_does(folder, "evaluate", "job.toml", "--model", "saved")


# Modules that take their time, until the file "go" is there.
SLOW_TO_IMPORT = """
import os, time
open("importing", "w").close()
while not os.path.exists("go"):
    time.sleep(0.02)
from my_model import Net
"""
CATCHES_ALL = """
import os, time
open("importing", "w").close()
try:
    while True:
        time.sleep(0.02)
except BaseException:
    pass
from my_model import Net
"""


@processes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", [SLOW_TO_IMPORT, CATCHES_ALL])
def test_a_worker_that_is_asked_to_leave_while_it_builds_its_model_does(folder, number, module):
    """Also where the module catches whatever comes."""
    (folder / "slow_model.py").write_text(module)
    master = start(folder, "master", "job.toml", "--listen", "unix:master", "--workers", "1", "--shards", "1", "--set",
                   "model.python=slow_model:Net")
    shard = start(folder, "shard", "--master", "unix:master")
    worker = start(folder, "worker", "--master", "unix:master")
    try:
        wait_for(folder / "importing", worker)
        worker.send_signal(number)
        out, _ = worker.communicate(timeout=60)
        assert worker.returncode == 0 and f"{signal.Signals(number).name}: leaving" in out, out
        assert "Traceback" not in out, out
    finally:
        for process in (master, shard, worker):
            process.kill()
            process.communicate()


@processes
def test_census(tmp_path):
    directory = os.environ.get("EMBERS_CENSUS_DIR")
    if not directory:
        pytest.skip("EMBERS_CENSUS_DIR says where adult.data and adult.test are")
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    embers_does(tmp_path, "train", os.path.join(here, "examples", "python_model", "census.toml"), "--set",
                f'data.dir="{directory}"', "--report", "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["accuracy"] >= 0.870 and report["auc"] >= 0.925 and report["examples"] == 5 * 32561
