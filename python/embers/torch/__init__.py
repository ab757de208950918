"""Layers and the optimizer for PyTorch models whose embedding tables, and dense parameters, are in a job of embers.

    import embers, embers.torch as et
    job = embers.connect()
    model = Net()                                          # holds et.Embedding, et.EmbeddingBag, ...
    opt = et.Optimizer(model, job, embers.Adam(1e-3))
    loader = DataLoader(dataset, batch_sampler=job.batches(len(dataset), 256), num_workers=2)
    for epoch in job.epochs(5):
        for batch in job.train(loader):
            loss = loss_fn(model(batch), batch.y)
            loss.backward()
            opt.step()
"""
try:
    import torch as _torch  # noqa: F401
except ImportError as e:
    raise ImportError("embers.torch needs PyTorch (apt-get install python3-torch, or pip install torch); without it, "
                      "job.minibatches() and table() of the package embers work with NumPy alone") from e

from . import cuda
from .collection import BagConfig, EmbeddingBagCollection, Jagged, Pooled
from .interactions import pair_products, second_order
from .job_model import Batch, Feature, ModelConfig
from .keys import FeatureIds
from .layers import Embedding, EmbeddingBag
from .optimizer import Optimizer

__all__ = ["BagConfig", "Batch", "Embedding", "EmbeddingBag", "EmbeddingBagCollection", "Feature", "FeatureIds", "Jagged",
           "ModelConfig", "Optimizer", "Pooled", "cuda", "pair_products", "second_order"]
