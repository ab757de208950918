"""Wide & deep on UCI's "Adult" census data: does a person earn more than 50 000 dollars a year?

    python3 census.py DIR                                    # everything in this process
    embers launch --shards 2 --workers 3 -- python3 census.py DIR

DIR has adult.data and adult.test as published: archive.ics.uci.edu/dataset/2/adult. The model is that of
examples/census.toml: text columns are string keys, and numbers are keys too, besides entering the deep part scaled."""
import argparse
import csv
import os

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import embers
import embers.torch as et

COLUMNS = ["age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship",
           "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income"]
TEXTS = ["workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country"]
NUMBERS = {"age": (38.58, 13.64), "education_num": (10.08, 2.573), "capital_gain": (1078, 7385),
           "capital_loss": (87.3, 403), "hours_per_week": (40.44, 12.35)}  # mean and standard deviation of adult.data


class Census(Dataset):
    """Given a list of records, a batch: the ids of each feature, numbers, labels."""

    def __init__(self, path):
        with open(path) as f:
            rows = [row for row in csv.reader(f, skipinitialspace=True) if len(row) == len(COLUMNS)]
        columns = dict(zip(COLUMNS, zip(*rows)))
        self.ids = {name: np.array(columns[name]) for name in TEXTS}
        self.ids.update({name: np.array(columns[name], np.int64) for name in NUMBERS})
        scaled = [(self.ids[name] - mean) / std for name, (mean, std) in NUMBERS.items()]
        scaled += [np.log1p(self.ids[name]) for name in ("capital_gain", "capital_loss")]
        self.numbers = torch.tensor(np.stack(scaled, axis=1), dtype=torch.float32)
        self.labels = torch.tensor([income.startswith(">50K") for income in columns["income"]], dtype=torch.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, records):
        return {"ids": {name: column[records] for name, column in self.ids.items()},
                "numbers": self.numbers[records], "label": self.labels[records]}


class WideDeep(torch.nn.Module):
    def __init__(self, dim=8, hidden=(64, 32)):
        super().__init__()

        def tables(prefix, dim, pooling, initializer):
            return et.EmbeddingBagCollection([
                et.BagConfig(prefix + name, dim, feature_names=[name], pooling=pooling, initializer=initializer,
                             keys="bytes" if name in TEXTS else "int64") for name in [*TEXTS, *NUMBERS]])

        self.wide = tables("wide/", 1, "sum", embers.initializers.Zeros())
        self.deep = tables("", dim, "mean", embers.initializers.Uniform())
        numbers = len(NUMBERS) + 2
        self.wide_numbers = torch.nn.Linear(numbers, 1, bias=False)
        sizes = [(len(TEXTS) + len(NUMBERS)) * dim + numbers, *hidden]
        layers = [layer for a, b in zip(sizes, sizes[1:]) for layer in (torch.nn.Linear(a, b), torch.nn.ReLU())]
        self.mlp = torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], 1))

    def keys(self, batch):
        return {**self.wide.keys(batch["ids"]), **self.deep.keys(batch["ids"])}

    def forward(self, batch):
        deep = self.mlp(torch.cat([self.deep(batch["ids"]).values(), batch["numbers"]], dim=1))
        wide = self.wide(batch["ids"]).values().sum(1, keepdim=True) + self.wide_numbers(batch["numbers"])
        return (deep + wide).squeeze(1)


def train(job, directory, epochs=5, batch_size=64, num_workers=0, seed=1):
    """Trains with any number of others; returns the metrics of the last epoch that this worker took part in."""
    train_data = Census(os.path.join(directory, "adult.data"))
    test_data = Census(os.path.join(directory, "adult.test"))
    torch.manual_seed(seed)  # the first worker's parameters begin the job
    model = WideDeep()
    batches = job.batches(len(train_data), batch_size, seed=seed)
    opt = et.Optimizer(model, job, embers.Adam(1e-3, schedule=embers.schedules.Cosine(epochs * len(batches))))
    loader = DataLoader(train_data, sampler=batches, batch_size=None, num_workers=num_workers)
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
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--num-workers", type=int, default=0, help="processes of the loader")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    is_elsewhere = "EMBERS_MASTER" in os.environ or "EMBERS_JOB_DIR" in os.environ
    with embers.connect() if is_elsewhere else embers.local() as job:
        train(job, arguments.directory, arguments.epochs, num_workers=arguments.num_workers)


if __name__ == "__main__":
    main()
