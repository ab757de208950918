"""Wide & deep: a linear model of all features, and a deep one of their embeddings, added up. The model of census.toml."""
import torch

import embers.torch as et
from embers.initializers import Uniform, Zeros


class WideDeep(torch.nn.Module):
    """[model] dim: floats of a row. hidden: widths of the dense layers."""

    def __init__(self, config):
        super().__init__()
        dim, hidden = config.get("dim", 8), config.get("hidden", [64, 32])
        numbers, features = len(config.numeric), config.categorical
        self.wide = et.EmbeddingBagCollection([
            et.BagConfig("wide/" + f.name, 1, feature_names=[f.name], keys=f.keys, initializer=Zeros()) for f in features])
        self.deep = et.EmbeddingBagCollection([
            et.BagConfig(f.name, config.dim(f.name, dim), feature_names=[f.name], pooling="mean", keys=f.keys,
                         initializer=Uniform()) for f in features])
        self.wide_numbers = torch.nn.Linear(numbers, 1, bias=False)
        sizes = [sum(config.dim(f.name, dim) for f in features) + numbers, *hidden]
        layers = [layer for a, b in zip(sizes, sizes[1:]) for layer in (torch.nn.Linear(a, b), torch.nn.ReLU())]
        self.mlp = torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], 1))

    def forward(self, batch):
        deep = self.mlp(torch.cat([self.deep(batch.ids).values(), batch.numeric], dim=1))
        wide = self.wide(batch.ids).values().sum(1, keepdim=True) + self.wide_numbers(batch.numeric)
        return (deep + wide).squeeze(1)  # logits
