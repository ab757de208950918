"""DLRM and DeepFM over a click log, trained with rows of embers or with tables of torch: a side of `embers bench python`.

    python3 click_models.py SIDE MODEL THREADS DIR

SIDE is "embers" (a worker of the job that EMBERS_MASTER names), "embers_at_once" (the same, which pulls no rows before all
gradients before are applied), "torch" (an EmbeddingBag(sparse=True) for each table, and SparseAdam), "torch_fused" (one for all
tables of the same dim, its ids shifted) or "torch_gathered" (the same, with GatheredAdam). All of them have the same data,
dense layers, size of batches and definition of Adam. Each line of standard input trains an epoch, and is answered with a line
of JSON: seconds, mean loss, test loss.

DIR has train and test, each as three files of plain arrays: .ids (int64, records x columns), .numeric (float32, records x
columns) and .labels (float32)."""
import json
import os
import sys
import time

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, Dataset

import embers
import embers.torch as et

COLUMNS, NUMBERS = 26, 13
BUCKETS = 100_000  # of each column
NAMES = [f"C{i + 1}" for i in range(COLUMNS)]
BATCH = 2048
RATE, EPSILON = 0.001, 1e-7


class Clicks(Dataset):
    """Given a list of records: ids, numbers, labels. Ids are (columns, n), or a dict of the columns."""

    def __init__(self, directory, split, as_dict):
        def array(name, dtype):
            return np.fromfile(os.path.join(directory, f"{split}.{name}"), dtype)
        self.as_dict = as_dict
        self.ids = array("ids", np.int64).reshape(-1, COLUMNS)
        self.numbers = array("numeric", np.float32).reshape(-1, NUMBERS)
        self.labels = array("labels", np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, records):
        """By NumPy, which gathers and transposes several times as fast as torch."""
        records = np.asarray(records)
        ids = torch.from_numpy(np.ascontiguousarray(self.ids.take(records, 0).T))
        return (dict(zip(NAMES, ids)) if self.as_dict else ids,
                *(torch.from_numpy(values.take(records, 0)) for values in (self.numbers, self.labels)))


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


class EmbersTables(torch.nn.Module):
    """Rows of `dim` floats for each column and id."""

    def __init__(self, prefix, dim, zeros):
        super().__init__()
        initializer = embers.initializers.Zeros() if zeros else embers.initializers.Uniform(-0.05, 0.05)
        self.bags = et.EmbeddingBagCollection(
            [et.BagConfig(prefix + name, dim, feature_names=[name], initializer=initializer) for name in NAMES])

    def keys(self, ids):
        return self.bags.keys(ids)

    def forward(self, ids):
        """(n, columns * dim)"""
        return self.bags(ids).values()


class TorchTables(torch.nn.Module):
    def __init__(self, prefix, dim, zeros):
        super().__init__()
        self.tables = torch.nn.ModuleList(
            torch.nn.EmbeddingBag(BUCKETS, dim, mode="sum", sparse=True) for _ in range(COLUMNS))
        for table in self.tables:
            torch.nn.init.zeros_(table.weight) if zeros else torch.nn.init.uniform_(table.weight, -0.05, 0.05)

    def forward(self, ids):
        return torch.cat([table(column.unsqueeze(1)) for table, column in zip(self.tables, ids)], 1)


class FusedTorchTables(torch.nn.Module):
    def __init__(self, prefix, dim, zeros):
        super().__init__()
        self.table = torch.nn.EmbeddingBag(COLUMNS * BUCKETS, dim, mode="sum", sparse=True)
        torch.nn.init.zeros_(self.table.weight) if zeros else torch.nn.init.uniform_(self.table.weight, -0.05, 0.05)
        self.first = torch.arange(COLUMNS).unsqueeze(1) * BUCKETS

    def forward(self, ids):
        shifted = (ids + self.first).t().reshape(-1, 1)
        return self.table(shifted).view(ids.shape[1], -1)


TABLES = {"embers": EmbersTables, "embers_at_once": EmbersTables, "torch": TorchTables, "torch_fused": FusedTorchTables,
          "torch_gathered": FusedTorchTables}


class Dlrm(torch.nn.Module):
    """The zoo's dlrm with its default layers (docs/models.md)."""

    def __init__(self, tables, dim=16):
        super().__init__()
        self.dim = dim
        self.rows = tables("", dim, False)
        self.bottom = mlp(NUMBERS, 64, dim)
        fields = COLUMNS + 1
        self.top = mlp(fields * (fields - 1) // 2 + dim, 64, 32, 1)

    def keys(self, batch):
        return self.rows.keys(batch[0])

    def forward(self, batch):
        bottom = self.bottom(batch[1]).relu()
        rows = self.rows(batch[0]).view(len(bottom), COLUMNS, self.dim)
        return self.top(et.pair_products([bottom, rows], bottom)).squeeze(1)


class DeepFm(torch.nn.Module):
    """The zoo's deepfm with its default layers."""

    def __init__(self, tables, dim=16):
        super().__init__()
        self.dim = dim
        self.first = tables("first/", 1, True)
        self.factors = tables("", dim, False)
        self.number_weights = torch.nn.Linear(NUMBERS, 1, bias=False)
        self.number_factors = torch.nn.Parameter(torch.empty(NUMBERS, dim).uniform_(-0.05, 0.05))
        self.deep = mlp((COLUMNS + NUMBERS) * dim, 64, 32, 1)

    def keys(self, batch):
        return {**self.first.keys(batch[0]), **self.factors.keys(batch[0])}

    def forward(self, batch):
        ids, numbers, _ = batch
        rows = self.factors(ids).view(len(numbers), COLUMNS, self.dim)
        fields, second = et.second_order(rows, numbers, self.number_factors)
        first = self.first(ids).sum(1) + self.number_weights(numbers).squeeze(1)
        return (self.deep(fields.flatten(1)) + second).squeeze(1) + first


MODELS = {"dlrm": Dlrm, "deepfm": DeepFm}


class Batches:
    """Records in order or shuffled, BATCH at a time, as arrays: torch's own samplers make lists of numbers."""

    def __init__(self, dataset, shuffle):
        self.count, self.shuffle = len(dataset), shuffle

    def __len__(self):
        return -(-self.count // BATCH)

    def __iter__(self):
        order = torch.randperm(self.count).numpy() if self.shuffle else np.arange(self.count)
        for begin in range(0, self.count, BATCH):
            yield order[begin:begin + BATCH]


class GatheredAdam:
    """SparseAdam's arithmetic on the rows of a minibatch, gathered."""

    def __init__(self, tables):
        self.tables = [(table, torch.zeros_like(table), torch.zeros_like(table)) for table in tables]
        self.steps = 0

    def zero_grad(self, set_to_none):
        for table, _, _ in self.tables:
            table.grad = None

    @torch.no_grad()
    def step(self):
        self.steps += 1
        rate = RATE * (1 - 0.999 ** self.steps) ** 0.5 / (1 - 0.9 ** self.steps)
        for table, averages, squares in self.tables:
            of_rows = table.grad.coalesce()
            ids, gradient = of_rows.indices()[0], of_rows.values()
            first = averages.index_select(0, ids).mul_(0.9).add_(gradient, alpha=0.1)
            second = squares.index_select(0, ids).mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            averages.index_copy_(0, ids, first)
            squares.index_copy_(0, ids, second)
            table.index_add_(0, ids, first.div_(second.sqrt_().add_(EPSILON)), alpha=-rate)


def make_loader(dataset, sampler):
    return DataLoader(dataset, sampler=sampler, batch_size=None)


def test_loss(model, loader):
    model.eval()
    with torch.no_grad():
        losses = [(float(binary_cross_entropy_with_logits(model(b), b[2], reduction="sum")), len(b[2])) for b in loader]
    model.train()
    return sum(loss for loss, _ in losses) / sum(n for _, n in losses)


def answer(train_epoch, evaluate):
    begin = time.perf_counter()
    loss = train_epoch()
    seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "loss": loss, "test_loss": evaluate()}), flush=True)


def train_with_embers(model, train, test, ahead):
    job = embers.connect()
    opt = et.Optimizer(model, job, embers.Adam(RATE, epsilon=EPSILON))
    loader = make_loader(train, job.batches(len(train), BATCH, seed=1))

    def epoch_of_job():
        total = 0.0
        for batch in job.train(loader, keys=model.keys, ahead=ahead):
            loss = binary_cross_entropy_with_logits(model(batch), batch[2])
            loss.backward()
            opt.step(loss)
            total += loss.item() * len(batch[2])
        return total / len(train)

    def evaluate():
        with job.reading(model):
            return test_loss(model, test)

    with job:
        for _ in job.epochs(1_000_000):  # more than anybody asks for
            if not sys.stdin.readline():
                break
            answer(epoch_of_job, evaluate)


def train_with_torch(model, train, test, gathered):
    tables = [p for m in model.modules() if isinstance(m, torch.nn.EmbeddingBag) for p in m.parameters()]
    dense = [p for p in model.parameters() if all(p is not t for t in tables)]
    sparse_adam = GatheredAdam(tables) if gathered else torch.optim.SparseAdam(tables, lr=RATE, eps=EPSILON)
    adam = torch.optim.Adam(dense, lr=RATE, eps=EPSILON)
    loader = make_loader(train, Batches(train, True))

    def epoch():
        total = 0.0
        for batch in loader:
            loss = binary_cross_entropy_with_logits(model(batch), batch[2])
            sparse_adam.zero_grad(set_to_none=True)
            adam.zero_grad(set_to_none=True)
            loss.backward()
            sparse_adam.step()
            adam.step()
            total += loss.item() * len(batch[2])
        return total / len(train)

    for _ in sys.stdin:
        answer(epoch, lambda: test_loss(model, test))


def main():
    side, name, threads, directory = sys.argv[1:]
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    model = MODELS[name](TABLES[side])
    is_embers = side.startswith("embers")
    train, test_data = (Clicks(directory, split, is_embers) for split in ("train", "test"))
    test = make_loader(test_data, Batches(test_data, False))
    print("ready ", flush=True)
    if is_embers:
        train_with_embers(model, train, test, 1 if side == "embers" else 0)
    else:
        train_with_torch(model, train, test, side == "torch_gathered")


if __name__ == "__main__":
    main()
