"""A program that learns to play: noughts and crosses against an opponent who moves at random, by policy gradients.

    python3 board_game.py                                    # job and players in this process
    embers launch --shards 2 --workers 2 --set training.mode=sync --set training.grads_to_wait=2 -- python3 board_game.py

Few tokens, wide encodings: 9 actions and 18 stones (whose stone lies where), of 1024 floats each. A position is the sum of the
encodings of its stones; an action is worth the product of its encoding and the position's. With tables like these, each shard
has columns of all rows (ENCODING): every shard has the same part of each of the few lookups, while of 9 whole rows some shards
would have three and others six. A record is a game; each minibatch plays its games with the rows that it has looked up."""
import argparse
import os

import torch

import embers
import embers.torch as et

LINES = torch.tensor([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]])
CELLS = 9


class Games:
    """Many games at once. stones: (games, 9), 1 for ours, -1 for the opponent's, 0 for none."""

    def __init__(self, games):
        self.stones = torch.zeros(games, CELLS, dtype=torch.int64)
        self.result = torch.zeros(games)  # 1 won, -1 lost, 0 drawn or not over
        self.is_over = torch.zeros(games, dtype=torch.bool)

    def move(self, player, cells):
        """One stone in each game that is not over."""
        playing = torch.nonzero(~self.is_over).view(-1)
        self.stones[playing, cells[playing]] = player
        won = ((self.stones[:, LINES] == player).all(2).any(1)) & ~self.is_over
        self.result[won] = float(player)
        self.is_over |= won | (self.stones != 0).all(1)

    def move_at_random(self, player):
        free = (self.stones == 0).float() + self.is_over.unsqueeze(1).float()
        self.move(player, torch.multinomial(free, 1).view(-1))


class Player(torch.nn.Module):
    """Logits of actions. Its tables are on the host."""

    def __init__(self, width, strategy, rate):
        super().__init__()
        spec = embers.HostEmbeddingOptimizerSpec(rate, "Adam")
        first = embers.initializers.Normal(0.0, 0.05)
        self.stones = embers.create_host_embedding("stones", [2 * CELLS, width], "float32", strategy, spec, first)
        self.actions = embers.create_host_embedding("actions", [CELLS, width], "float32", strategy, spec, first)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, stones, training=True):
        cells = torch.arange(2 * CELLS).view(2, CELLS)
        ours, theirs = (self.stones.lookup(row, training=training) for row in cells)
        position = (stones == 1).float() @ ours + (stones == -1).float() @ theirs
        actions = self.actions.lookup(torch.arange(CELLS), training=training)
        values = torch.relu(self.norm(position)) @ actions.t()
        return values.masked_fill(stones != 0, -1e9)

    def register(self, job):
        return embers.register(job, self.stones, self.actions)


def play(model, count, greedy=False, training=True):
    """Plays games to their end. Returns results (games,), and of each of our moves positions, cells, and which games made it."""
    games, moves = Games(count), []
    while not games.is_over.all():
        with torch.no_grad():
            stones = games.stones.clone()
            stones[games.is_over] = 0  # of no account
            logits = model(stones, training)
        cells = logits.argmax(1) if greedy else torch.multinomial(logits.softmax(1), 1).view(-1)
        moves.append((stones, cells, ~games.is_over))
        games.move(1, cells)
        games.move_at_random(-1)
    return games.result, moves


def loss_of(model, results, moves):
    """REINFORCE: moves of games that ended better than others become more likely."""
    advantage = results - results.mean()
    loss = torch.zeros(())
    for stones, cells, made in moves:
        chosen = model(stones).log_softmax(1).gather(1, cells.unsqueeze(1)).squeeze(1)
        loss = loss - (advantage * chosen)[made].sum()
    return loss / len(results)


def train(job, games=20000, batch_size=100, width=1024, strategy="ENCODING", rate=2e-3, report=print):
    """Returns the share of games won, of this player's minibatches in turn."""
    torch.manual_seed(1)
    model = Player(width, strategy, rate)
    opt = et.Optimizer(model, job, embers.Adam(rate))
    keys = {"stones": torch.arange(2 * CELLS), "actions": torch.arange(CELLS)}
    batches = job.batches(games, batch_size)
    won = []
    with model.register(job):
        for records in job.train(batches, keys=lambda _: keys):
            results, moves = play(model, len(records))
            loss = loss_of(model, results, moves)
            loss.backward()
            opt.step(loss)
            won.append((results == 1).float().mean().item())
        with job.reading(model):  # as it is now
            torch.manual_seed(2)
            results, _ = play(model, 1000, greedy=True, training=False)
    report(f"won {won[0]:.0%} of the first minibatch, {sum(won[-10:]) / len(won[-10:]):.0%} of the last ten; of 1000 games "
           f"without exploration {(results == 1).float().mean():.1%}, lost {(results == -1).float().mean():.1%}")
    return won


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", choices=["TOKEN", "ENCODING", "AUTO"], default="ENCODING")
    parser.add_argument("--games", type=int, default=20000)
    parser.add_argument("--width", type=int, default=1024, help="floats of an encoding")
    parser.add_argument("--shards", type=int, default=2, help="of the job in this process")
    a = parser.parse_args()
    torch.set_num_threads(1)
    is_elsewhere = "EMBERS_MASTER" in os.environ or "EMBERS_JOB_DIR" in os.environ
    with embers.connect() if is_elsewhere else embers.local(a.shards, mode="sync", training={"grads_to_wait": 2}) as job:
        train(job, a.games, width=a.width, strategy=a.strategy)


if __name__ == "__main__":
    main()
