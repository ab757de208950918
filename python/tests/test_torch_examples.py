"""The programs of examples/python. Data that cannot be made is taken from where the environment says."""
import os
import subprocess
import sys

import pytest
import torch

import embers

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples", "python")
sys.path.insert(0, EXAMPLES)

from test_torch_jobs import Server  # noqa: E402


def run(name, *arguments, master=None):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("EMBERS_JOB_DIR", None)
    environment.pop("EMBERS_MASTER", None)
    if master is not None:
        environment["EMBERS_MASTER"] = master
    return subprocess.Popen([sys.executable, os.path.join(EXAMPLES, name), *arguments], env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output(process):
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    return out


def metrics(text):
    """Of the last line of each epoch: {"auc": ..., ...}"""
    words = text.strip().splitlines()[-1].split(": ", 1)[1].split("  ")
    return {w.split()[1]: float(w.split()[2]) for w in words}


@pytest.mark.parametrize("workers", [1, 3])
def test_census(workers):
    directory = os.environ.get("EMBERS_CENSUS_DIR")
    if not directory:
        pytest.skip("EMBERS_CENSUS_DIR says where adult.data and adult.test are")
    with Server(workers=workers) as server:
        found = [metrics(output(p)) for p in [run("census.py", directory, master=server.address) for _ in range(workers)]]
        report = server.report()
    assert report["examples"] == 5 * 32561
    for m in found:
        assert m["accuracy"] >= 0.870 and m["auc"] >= 0.925


def click_log(path, rows, header):
    """A log in Criteo's format, whose labels depend on C1."""
    generator = torch.Generator().manual_seed(len(path))
    with open(path, "w") as f:
        if header:
            f.write(",".join(["label", *[f"I{i}" for i in range(1, 14)], *[f"C{i}" for i in range(1, 27)]]) + "\n")
        for _ in range(rows):
            ids = torch.randint(0, 30, (26,), generator=generator).tolist()
            fields = [str(int(ids[0] < 15)), *["" if i % 5 == 0 else str(i) for i in range(13)],
                      *["" if i == 3 else f"{i:08x}" for i in ids]]
            f.write(("," if header else "\t").join(fields) + "\n")


@pytest.mark.parametrize("header", [False, True])
def test_dlrm_learns_a_click_log(tmp_path, header):
    for name, rows in (("train.txt", 4000), ("test.txt", 500)):
        click_log(str(tmp_path / name), rows, header)
    assert metrics(output(run("dlrm.py", str(tmp_path), "--epochs", "2")))["auc"] > 0.95


def test_dlrm_reads_what_synth_writes(tmp_path):
    program = os.environ.get("EMBERS_PROGRAM")
    if not program:
        pytest.skip("EMBERS_PROGRAM says where embers is")
    subprocess.run([program, "synth", "criteo", "--rows", "4000", "--out", str(tmp_path)], check=True, stdout=subprocess.DEVNULL)
    assert 0 < metrics(output(run("dlrm.py", str(tmp_path), "--epochs", "2")))["auc"] < 1  # too few rows to learn from


def test_dlrm_says_which_line_of_a_log_is_wrong(tmp_path):
    (tmp_path / "train.txt").write_text("1\t2\t3\n")
    process = run("dlrm.py", str(tmp_path))
    _, error = process.communicate(timeout=60)
    assert process.returncode != 0 and "train.txt:1: 3 fields, but 40 are needed" in error


def text(directory):
    """Of which the last character of each ten follows from the first."""
    with open(directory / "input.txt", "w") as f:
        for i in range(1200):
            c = "abcdefgh"[i * 7 % 8]
            f.write(c + "lorem ip" + c.upper())


def test_char_gru_learns(tmp_path):
    text(tmp_path)
    import char_gru

    with embers.local(mode="sync") as job:
        losses = char_gru.train(job, str(tmp_path), epochs=3, length=10, units=16, rate=2e-3)
    assert losses[0] > 5 and sum(losses[-20:]) / 20 < 2.5


def test_char_gru_ends_the_same_with_one_and_two_replicas(tmp_path):
    text(tmp_path)
    last = []
    for replicas in (1, 2):
        with Server(mode="sync", workers=replicas, training={"grads_to_wait": 2}) as server:
            programs = [run("char_gru.py", str(tmp_path), "--length", "10", "--units", "16", "--rate", "2e-3",
                            master=server.address) for _ in range(replicas)]
            for p in programs:
                output(p)
            last.append(server.report()["loss"])
    assert last[0] == last[1]


STRATEGIES = ["TOKEN", "ENCODING"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_host_embedding_trains_as_torch_does(tmp_path, strategy):
    text(tmp_path)
    import host_embedding

    data = host_embedding.Sequences(str(tmp_path), 10)
    options = dict(epochs=2, units=16, rate=2e-3)
    plain = host_embedding.train_plain(data, **options)
    with embers.local(2, mode="sync", training={"grads_to_wait": 2}) as job:
        losses = host_embedding.train(job, data, strategy, **options)
    assert losses[0] > 5 and host_embedding.mean(losses[-20:]) < 2.5
    assert max(abs(a - b) for a, b in zip(losses, plain)) < 1e-4 and len(losses) == len(plain)


@pytest.mark.parametrize("written, message", [
    ("abc", "has 3 characters: one sequence needs 10"),
    ("".join(chr(0x4E00 + i) for i in range(300)), "has 300 different characters, and the vocabulary has 256"),
])
def test_host_embedding_says_what_a_text_lacks(tmp_path, written, message):
    import host_embedding

    (tmp_path / "input.txt").write_text(written, encoding="utf-8")
    with pytest.raises(SystemExit, match=message):
        host_embedding.Sequences(str(tmp_path), 10)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_host_embedding_ends_the_same_with_one_and_two_replicas(tmp_path, strategy):
    text(tmp_path)
    last = []
    for replicas in (1, 2):
        with Server(mode="sync", shards=2, workers=replicas, training={"grads_to_wait": 2}) as server:
            programs = [run("host_embedding.py", str(tmp_path), "--strategy", strategy, "--length", "10", "--units", "16",
                            "--rate", "2e-3", "--lookahead", "1", master=server.address) for _ in range(replicas)]
            for p in programs:
                assert "epoch 1: mean loss" in output(p)
            last.append(server.report()["loss"])
    assert last[0] == last[1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_board_game_is_learned(strategy):
    import board_game

    said = []
    with embers.local(2, mode="sync", training={"grads_to_wait": 2}) as job:
        won = board_game.train(job, games=3000, width=256, strategy=strategy, report=said.append)
    assert sum(won[:3]) / 3 < 0.7 < 0.75 < sum(won[-5:]) / 5 and "of 1000 games without exploration" in said[0]


def test_board_game_knows_who_has_won():
    import board_game

    games = board_game.Games(3)
    for player, cells in ((1, [0, 0, 0]), (-1, [3, 3, 1]), (1, [1, 1, 4]), (-1, [4, 4, 2]), (1, [2, 8, 3]), (-1, [8, 5, 5]),
                          (1, [8, 2, 7]), (-1, [8, 6, 6]), (1, [8, 7, 8])):
        games.move(player, torch.tensor(cells))
    assert games.result.tolist() == [1, -1, 1] and games.is_over.all()
    drawn = board_game.Games(1)
    for i, cell in enumerate([0, 1, 2, 4, 3, 5, 7, 6, 8]):
        assert not drawn.is_over.any()
        drawn.move(1 - 2 * (i % 2), torch.tensor([cell]))
    assert drawn.result.tolist() == [0] and drawn.is_over.all()
