"""What a collection is made of."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence, Tuple


@dataclass(frozen=True)
class Table:
    """A table of num_embeddings rows of embedding_dim (1 to 1024) numbers.

    num_embeddings=None: any int64 is a key, and rows are created when their keys are first seen, in memory that grows;
        only with an optimizer, and as the only table. Rows begin uniform over `initial`, by random numbers that depend on
        `seed` (None: drawn from torch's generator), the key and the column alone. There is memory for `capacity` rows in the
        beginning.
    max_norm: rows whose L2 norm is larger are scaled to it when they are looked up (tf.clip_by_norm, which has a
        gradient; torch.nn.EmbeddingBag changes the table instead).
    partitions: sizes of parts of the table; ids are spread over them by `strategy` "div" or "mod", as
        tf.nn.embedding_lookup does; with counted=True, "div" goes by the sizes. By default id i is row i."""

    num_embeddings: Optional[int]
    embedding_dim: int
    max_norm: Optional[float] = None
    partitions: Optional[Sequence[int]] = None
    strategy: str = "div"
    counted: bool = False
    initial: Tuple[float, float] = (-0.05, 0.05)
    seed: Optional[int] = None
    capacity: int = 1 << 16


@dataclass(frozen=True)
class Column:
    """A feature: bags of ids of a table (its number).

    mode: "sum", "mean" (divided by the sum of weights) or "sqrtn" (by the root of the sum of squared weights).
    default_id: the row of bags that have no id; without it they give zeros.
    prune_invalid_ids: ids < 0 do not count, nor, unless the mode is "sum", ids whose weight is not > 0. Otherwise they are errors,
        and weights may have any sign.
    prune_weights: False: weights are not looked at."""

    table: int = 0
    mode: str = "sum"
    default_id: Optional[int] = None
    prune_invalid_ids: bool = False
    prune_weights: bool = True
