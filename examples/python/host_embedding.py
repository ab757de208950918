"""Graphcore's example of a host embedding, in PyTorch: characters of a text, the last of each hundred predicted by a GRU.

    python3 host_embedding.py DIR                            # job and replicas in this process
    embers launch --shards 2 --workers 2 --set training.mode=sync --set training.grads_to_wait=2 -- \\
        python3 host_embedding.py DIR --strategy ENCODING    # two replicas, each a process

DIR has input.txt, on Shakespeare's in most tutorials. The table of 256 characters x 256 floats is the host's, and its rule is
plain SGD; a GRU of 256 units and a dense layer are trained with momentum 0.99; batches of 16, sparse categorical cross entropy.
Gradients of the two replicas are averaged in sync mode, so that one process and two end with the same bits. --plain trains the
same with torch.nn.Embedding and without a job, for comparison."""
import argparse
import os

import torch
from torch.utils.data import DataLoader, Dataset

import embers
import embers.torch as et
from embers.sampler import Batches

TOKENS = 256  # the vocabulary


class Sequences(Dataset):
    """Record i: the i-th sequence of characters, as their places in the vocabulary of the text."""

    def __init__(self, directory, length, steps=None, batch_size=16):
        with open(os.path.join(directory, "input.txt"), encoding="utf-8") as f:
            text = f.read()
        if len(text) < length:
            raise SystemExit(f"input.txt has {len(text)} characters: one sequence needs {length} (--length)")
        if len(set(text)) > TOKENS:
            raise SystemExit(f"input.txt has {len(set(text))} different characters, and the vocabulary has {TOKENS}: take a text "
                             "of a script with fewer")
        places = {character: i for i, character in enumerate(sorted(set(text)))}
        self.sequences = torch.tensor([places[c] for c in text[: len(text) // length * length]]).view(-1, length)
        if steps is not None:
            self.sequences = self.sequences[: steps * batch_size]

    def __len__(self):
        return len(self.sequences)

    def __getitem__(self, record):
        return self.sequences[record]


class CharGru(torch.nn.Module):
    """lookup: of the host embedding, or a layer of torch."""

    def __init__(self, lookup, length, units, seed=1):
        super().__init__()
        torch.manual_seed(seed)  # the first replica's parameters begin the job
        self.lookup = lookup
        self.gru = torch.nn.GRU(units, units, batch_first=True)
        self.dense = torch.nn.Linear((length - 1) * units, TOKENS)

    def forward(self, sequences):
        partial, _ = self.gru(self.lookup(sequences))
        return self.dense(partial.flatten(1))


def loss_of(model, sequences):
    """The last character of each sequence is the label."""
    return torch.nn.functional.cross_entropy(model(sequences[:, :-1]), sequences[:, -1])


def embedding_of(strategy, units, rate):
    return embers.create_host_embedding("char_embedding", shape=[TOKENS, units], dtype=torch.float32, partition_strategy=strategy,
                                        optimizer_spec=embers.HostEmbeddingOptimizerSpec(rate))


def train(job, data, strategy="TOKEN", epochs=1, units=256, rate=1e-4, batch_size=16, lookahead=0, report=print):
    """Trains with any number of others; returns the losses of this replica's minibatches."""
    embedding = embedding_of(strategy, units, rate)
    model = CharGru(embedding.lookup, data.sequences.shape[1], units)
    opt = et.Optimizer(model, job, embers.SGD(rate, momentum=0.99))
    loader = DataLoader(data, batch_sampler=job.batches(len(data), batch_size, drop_last=True))
    losses = []
    with embedding.register(job, lookahead=lookahead):
        for epoch in job.epochs(epochs):
            for sequences in job.train(loader, keys=lambda batch: {"char_embedding": batch[:, :-1]}):
                loss = loss_of(model, sequences)
                loss.backward()
                opt.step(loss)
                losses.append(loss.item())
            report(f"epoch {epoch}: mean loss of the last 50 minibatches {mean(losses[-50:]):.4f}")
    return losses


def first_rows(units):
    """Those that a job's table begins with, (TOKENS, units)."""
    embedding = embedding_of("TOKEN", units, 1.0)
    with embers.local() as job, embedding.register(job):
        for batch in job.minibatches(1, 1):
            batch.skip()
        return embedding.lookup(torch.arange(TOKENS), training=False)


def train_plain(data, epochs=1, units=256, rate=1e-4, batch_size=16, replicas=2, report=print):
    """The same in plain torch, from the same first values, with the same batches in the same order."""
    table = torch.nn.Embedding.from_pretrained(first_rows(units).clone(), freeze=False)
    model = CharGru(table, data.sequences.shape[1], units)
    dense = [p for p in model.parameters() if p is not table.weight]
    rules = [torch.optim.SGD(table.parameters(), lr=rate), torch.optim.SGD(dense, lr=rate, momentum=0.99)]
    batches = Batches(len(data), batch_size, drop_last=True)
    losses = []
    for epoch in range(1, epochs + 1):
        for first in range(0, batches.minibatches, replicas):
            numbers = range(first, min(first + replicas, batches.minibatches))
            model.zero_grad()
            for number in numbers:
                loss = loss_of(model, data.sequences[torch.from_numpy(batches.of(epoch, number))])
                (loss / len(numbers)).backward()
                losses.append(loss.item())
            for rule in rules:
                rule.step()
        report(f"epoch {epoch}: mean loss of the last 50 minibatches {mean(losses[-50:]):.4f}")
    return losses


def mean(numbers):
    return sum(numbers) / len(numbers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", metavar="DIR")
    parser.add_argument("--strategy", choices=["TOKEN", "ENCODING", "AUTO"], default="TOKEN")
    parser.add_argument("--shards", type=int, default=2, help="of the job in this process")
    parser.add_argument("--replicas", type=int, default=2, help="of the job in this process")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--length", type=int, default=100, help="characters of a sequence")
    parser.add_argument("--units", type=int, default=256)
    parser.add_argument("--rate", type=float, default=1e-4, help="the learning rate")
    parser.add_argument("--steps", type=int, help="minibatches of an epoch, if not all")
    parser.add_argument("--lookahead", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--plain", action="store_true", help="torch.nn.Embedding, and no job")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    data = Sequences(a.directory, a.length, a.steps)
    same = dict(epochs=a.epochs, units=a.units, rate=a.rate)
    if a.plain:
        return train_plain(data, replicas=a.replicas, **same)
    is_elsewhere = "EMBERS_MASTER" in os.environ or "EMBERS_JOB_DIR" in os.environ
    with embers.connect() if is_elsewhere else embers.local(a.shards, mode="sync",
                                                            training={"grads_to_wait": a.replicas}) as job:
        train(job, data, a.strategy, lookahead=a.lookahead, **same)


if __name__ == "__main__":
    main()
