"""A replica of tests, in a process of its own: trains a model over two host embeddings."""
import hashlib

import numpy as np
import torch

import conftest  # noqa: F401
import embers
import embers.torch as et
from torch_worker import die_if

RECORDS, BATCH = 60, 4
SHAPES = {"wide": (7, 10), "tall": (50, 3)}  # 10 columns and 3 divide by no number of shards but 1, 2 and 1, 3


class Net(torch.nn.Module):
    def __init__(self, strategy, spec, dtype="float32"):
        super().__init__()
        torch.manual_seed(4)
        self.embeddings = {name: embers.create_host_embedding(name, shape, dtype, strategy, spec) for name, shape in SHAPES.items()}
        self.out = torch.nn.Linear(13, 2)

    def forward(self, ids):
        rows = [embedding.lookup(ids[name]).float().sum(1) for name, embedding in self.embeddings.items()]
        return self.out(torch.cat(rows, 1))


def ids_of(records):
    records = torch.as_tensor(records).unsqueeze(1)
    return {name: (records * 7 + torch.arange(3) * 5) % shape[0] for name, shape in SHAPES.items()}


def digest(job, net):
    found = hashlib.sha256()
    for name in SHAPES:
        keys, rows = job.table(name).export()
        order = np.argsort(keys)
        found.update(keys[order].tobytes() + rows[order].tobytes())
    with job.reading(net):
        for tensor in net.parameters():
            found.update(tensor.detach().numpy().tobytes())
    return found.hexdigest()


def train(master, strategy="TOKEN", spec=("SGD", 0.1, {}), epochs=2, lookahead=0, known=True, dtype="float32", deaths=(),
          owner=False):
    torch.set_num_threads(1)
    job = embers.connect(master, owner=owner)
    name, rate, more = spec
    net = Net(strategy, embers.HostEmbeddingOptimizerSpec(rate, name, **more), dtype)
    opt = et.Optimizer(net, job, embers.SGD(0.1, momentum=0.9))
    batches = job.batches(RECORDS, BATCH, seed=3)
    steps = 0
    with embers.register(job, *net.embeddings.values(), lookahead=lookahead):
        for epoch in job.epochs(epochs):
            for records in job.train(batches, keys=ids_of if known else None):
                loss = torch.nn.functional.cross_entropy(net(ids_of(records)), torch.as_tensor(records) % 2)
                loss.backward()
                die_if(deaths, steps)
                opt.step(loss)
                steps += 1
        found = {"steps": steps, "digest": digest(job, net)}
    job.close()
    return found
