"""DLRM (Naumov et al. 2019) on a click log in Criteo's format: a label, 13 counts, 26 strings.

    embers synth criteo --rows 200000 --out DIR              # or Criteo's own log, split into two files
    python3 dlrm.py DIR                                      # everything in this process
    embers launch --shards 2 --workers 2 -- python3 dlrm.py DIR

DIR has train.txt and test.txt, separated by tabs or commas, with a header or without. Strings are the keys: there is no
vocabulary and no hashing. The model is the zoo's dlrm (docs/models.md)."""
import argparse
import os

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import embers
import embers.torch as et

COUNTS, STRINGS = 13, 26
NAMES = [f"C{i}" for i in range(1, STRINGS + 1)]


class ClickLog(Dataset):
    """Given a list of records, a batch: strings of each column, counts, labels. A missing string is a key, too."""

    def __init__(self, path):
        labels, counts, strings = [], [], []
        with open(path) as f:
            first = f.readline()
            separator = "\t" if "\t" in first else ","
            f.seek(0)
            for number, line in enumerate(f, 1):
                fields = line.rstrip("\n").split(separator)
                if number == 1 and fields[0] == "label":
                    continue
                if len(fields) != 1 + COUNTS + STRINGS:
                    raise ValueError(f"{path}:{number}: {len(fields)} fields, but {1 + COUNTS + STRINGS} are needed")
                labels.append(float(fields[0]))
                counts.append([float(c) if c else 0.0 for c in fields[1:1 + COUNTS]])
                strings.append(fields[1 + COUNTS:])
        self.labels = torch.tensor(labels)
        self.counts = torch.log1p(torch.tensor(counts).clamp(min=0))
        self.strings = [np.array(column) for column in zip(*strings)]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, records):
        return {"ids": {name: column[records] for name, column in zip(NAMES, self.strings)},
                "counts": self.counts[records], "label": self.labels[records]}


def mlp(*sizes):
    layers = [layer for a, b in zip(sizes, sizes[1:]) for layer in (torch.nn.Linear(a, b), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers)


class Dlrm(torch.nn.Module):
    def __init__(self, dim=16, bottom=(64,), top=(64, 32)):
        super().__init__()
        self.dim = dim
        self.tables = et.EmbeddingBagCollection([
            et.BagConfig(name, dim, feature_names=[name], keys="bytes", initializer=embers.initializers.Uniform())
            for name in NAMES])
        self.bottom = mlp(COUNTS, *bottom, dim)
        fields = STRINGS + 1
        self.top = mlp(fields * (fields - 1) // 2 + dim, *top)
        self.last = torch.nn.Linear(top[-1], 1)

    def keys(self, batch):
        return self.tables.keys(batch["ids"])

    def forward(self, batch):
        bottom = self.bottom(batch["counts"])
        rows = self.tables(batch["ids"]).values().view(len(bottom), STRINGS, self.dim)
        return self.last(self.top(et.pair_products([bottom, rows], bottom))).squeeze(1)


def train(job, directory, epochs=1, batch_size=256, num_workers=0, seed=1):
    """Trains with any number of others; returns the metrics of the last epoch that this worker took part in."""
    train_data, test_data = (ClickLog(os.path.join(directory, name)) for name in ("train.txt", "test.txt"))
    torch.manual_seed(seed)  # the first worker's parameters begin the job
    model = Dlrm()
    opt = et.Optimizer(model, job, embers.Adam(1e-3))
    loader = DataLoader(train_data, sampler=job.batches(len(train_data), batch_size, seed=seed), batch_size=None,
                        num_workers=num_workers)
    test_loader = DataLoader(test_data, sampler=torch.utils.data.BatchSampler(range(len(test_data)), 1024, False),
                             batch_size=None)
    metrics = {}
    for epoch in job.epochs(epochs):
        for batch in job.train(loader, keys=model.keys):
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model(batch), batch["label"])
            loss.backward()
            opt.step(loss)
        metrics = job.evaluate(model, test_loader)
        print(f"epoch {epoch}: " + "  ".join(f"test {name} {value:.4f}" for name, value in metrics.items()), flush=True)
    return metrics


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", metavar="DIR")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--num-workers", type=int, default=0, help="processes of the loader")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    is_elsewhere = "EMBERS_MASTER" in os.environ or "EMBERS_JOB_DIR" in os.environ
    with embers.connect() if is_elsewhere else embers.local(shards=2) as job:
        train(job, arguments.directory, arguments.epochs, num_workers=arguments.num_workers)


if __name__ == "__main__":
    main()
