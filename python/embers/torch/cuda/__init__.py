"""Embedding tables in the memory of a GPU, looked up and trained by fused kernels (cuda/ of embers' tree).

    import embers, embers.torch as et
    bag = et.cuda.EmbeddingBag(1_000_000, 64, mode="mean", optimizer=embers.Adam(1e-3), device="cuda")
    loss_of(bag(ids, offsets)).backward()       # the rows have changed when backward() is done

A model's columns go into one launch together:

    bags = et.cuda.EmbeddingBagCollection(
        [et.cuda.Table(1_000_000, 64), et.cuda.Table(10_000, 16)],
        [et.cuda.Column(table=0, mode="sum"), et.cuda.Column(table=1, mode="mean", default_id=0)],
        optimizer=embers.Adam(1e-3))
    pooled = bags(ids, offsets)                 # (bags, 64 + 16)

Needs the library libembers_cuda.so, which is built where CMake finds a CUDA compiler."""
from .bags import EmbeddingBag, EmbeddingBagCollection
from .index import Index
from .library import library
from .specs import Column, Table

__all__ = ["Column", "EmbeddingBag", "EmbeddingBagCollection", "Index", "Table", "library"]
