"""A worker of tests, in a process of its own: trains the model of test_loop.py."""
import hashlib
import multiprocessing
import os
import signal
import traceback

import numpy as np
import torch
from torch.utils.data import DataLoader

import conftest  # noqa: F401
import embers
import embers.torch as et
import test_loop
from jobs import is_first


def digest(job, net):
    found = hashlib.sha256()
    keys, rows = job.table("bag").export()
    order = np.argsort(keys)
    found.update(keys[order].tobytes() + rows[order].tobytes())
    with job.reading(net):
        for tensor in (*net.parameters(), *net.buffers()):
            found.update(tensor.detach().numpy().tobytes())
    return found.hexdigest()


def main(answer, master, options, work=None):
    """Sends (what it found, None), or (None, how it failed)."""
    multiprocessing.set_start_method("fork", force=True)  # of its loader's processes, as in a user's script
    try:
        answer.send(((work or train)(master, **options), None))
    except BaseException:  # noqa: BLE001  the test says it
        answer.send((None, traceback.format_exc()))


def die_if(deaths, steps):
    """Of deaths (steps, path): the first process that comes so far is killed."""
    if any(steps == after and is_first(path) for after, path in deaths):
        os.kill(os.getpid(), signal.SIGKILL)


def train(master, num_workers=0, known=False, epochs=2, deaths=(), accumulate=1, slow=0.0, save=None, save_at=0):
    """Returns its steps, and a digest of everything that the job has learned. The first worker with so many steps saves the
    job."""
    torch.set_num_threads(1)
    job = embers.connect(master)
    net = test_loop.model()
    opt = et.Optimizer(net, job, embers.Adam(1e-2))
    loader = DataLoader(test_loop.Records(slow), num_workers=num_workers,
                        batch_sampler=job.batches(test_loop.RECORDS, test_loop.BATCH, seed=3, accumulate=accumulate))
    steps = 0
    for epoch in job.epochs(epochs):
        for batch in job.train(loader, keys=(lambda b: {"bag": b["ids"]}) if known else None):
            loss = torch.nn.functional.binary_cross_entropy_with_logits(net(batch), batch["y"].float())
            loss.backward()
            die_if(deaths, steps)
            if job.step_due:
                opt.step(loss)
                steps += 1
                if save is not None and steps == save_at and is_first(save + ".claimed"):
                    job.save(save)
    found = {"steps": steps, "digest": digest(job, net)}
    job.close()
    return found
