"""A GRU that predicts the last character of each hundred, on any text; on Shakespeare's in most tutorials.

    python3 char_gru.py DIR                                  # everything in this process
    embers launch --shards 2 --workers 2 --set training.mode=sync --set training.grads_to_wait=2 -- python3 char_gru.py DIR

DIR has input.txt. As in Graphcore's example of host embeddings: rows of 256 floats for characters in an embedding table
whose rule is plain SGD, a GRU of 256 units, and momentum 0.99 for the dense part; sparse categorical cross entropy; two
replicas, whose gradients are averaged. In sync mode two workers are such replicas, and one alone ends with the same bits."""
import argparse
import os

import torch
from torch.utils.data import DataLoader, Dataset

import embers
import embers.torch as et


class Sequences(Dataset):
    """Record i: the characters of the i-th sequence but the last one, and the last one."""

    def __init__(self, path, length):
        with open(path, "rb") as f:
            text = torch.tensor(list(f.read()))
        self.sequences = text[: len(text) // length * length].view(-1, length)

    def __len__(self):
        return len(self.sequences)

    def __getitem__(self, record):
        return self.sequences[record, :-1], self.sequences[record, -1]


class CharGru(torch.nn.Module):
    def __init__(self, length, units, rate):
        super().__init__()
        self.char_embedding = et.Embedding(None, units, optimizer=embers.SGD(rate))
        self.gru = torch.nn.GRU(units, units, batch_first=True)
        self.dense = torch.nn.Linear((length - 1) * units, 256)

    def forward(self, characters):
        outputs, _ = self.gru(self.char_embedding(characters))
        return self.dense(outputs.flatten(1))


def train(job, directory, epochs=1, length=100, units=256, rate=1e-4, batch_size=16, num_workers=0, seed=1, steps=None):
    """Trains with any number of others; returns the losses of this worker's minibatches. steps: at most so many."""
    data = Sequences(os.path.join(directory, "input.txt"), length)
    if steps is not None:
        data.sequences = data.sequences[: steps * batch_size]
    torch.manual_seed(seed)  # the first worker's parameters begin the job
    model = CharGru(length, units, rate)
    opt = et.Optimizer(model, job, embers.SGD(rate, momentum=0.99))
    loader = DataLoader(data, batch_sampler=job.batches(len(data), batch_size, seed=seed, drop_last=True),
                        num_workers=num_workers)
    losses = []
    for epoch in job.epochs(epochs):
        for characters, last in job.train(loader, keys=lambda batch: {"char_embedding": batch[0]}):
            loss = torch.nn.functional.cross_entropy(model(characters), last)
            loss.backward()
            opt.step(loss)
            losses.append(loss.item())
        print(f"epoch {epoch}: mean loss of the last 50 minibatches {sum(losses[-50:]) / len(losses[-50:]):.4f}", flush=True)
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", metavar="DIR")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--length", type=int, default=100, help="characters of a sequence")
    parser.add_argument("--units", type=int, default=256)
    parser.add_argument("--rate", type=float, default=1e-4, help="the learning rate")
    parser.add_argument("--num-workers", type=int, default=0, help="processes of the loader")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    is_elsewhere = "EMBERS_MASTER" in os.environ or "EMBERS_JOB_DIR" in os.environ
    with embers.connect() if is_elsewhere else embers.local(mode="sync") as job:
        train(job, arguments.directory, arguments.epochs, arguments.length, arguments.units, arguments.rate,
              num_workers=arguments.num_workers)


if __name__ == "__main__":
    main()
