"""Lookups as autograd functions. Rows are no leaves: backward adds to TableRows.gradient(), which is
several times as fast as a leaf for each table, and needs no second deduplication."""
from __future__ import annotations

from typing import Any, List, Optional, Tuple

import torch
from torch.autograd.function import once_differentiable

from .. import _core
from .rows import ColumnRows, Located, TableRows

SUM, MEAN, MAX = 0, 1, 2  # as torch.embedding_bag numbers them
MODES = {"sum": SUM, "mean": MEAN, "max": MAX}


def anchor() -> torch.Tensor:
    """What makes autograd call backward() of a function whose rows are no tensors of the graph."""
    return torch.zeros((), requires_grad=True)


def add_rows(sums: torch.Tensor, positions: torch.Tensor, rows: torch.Tensor) -> None:
    """sums.index_add_(0, positions, rows), in half the time."""
    _core.add_rows(sums.numpy(), positions.numpy(), rows.contiguous().numpy())


def _scaled_by_frequency(gradient: torch.Tensor, positions: torch.Tensor, rows: int) -> torch.Tensor:
    counts = torch.bincount(positions, minlength=rows)
    return gradient / counts[positions].unsqueeze(1)


class Gather(torch.autograd.Function):
    """rows[positions], (ids, dim); zeros for the padding id, which gets no gradient."""

    @staticmethod
    def forward(ctx: Any, _anchor: torch.Tensor, located: Located, by_frequency: bool) -> torch.Tensor:
        ctx.located, ctx.by_frequency = located, by_frequency
        positions = located.positions
        if not located.padded:
            return located.pulled.rows.index_select(0, positions)
        out = located.pulled.rows.new_zeros((len(positions), located.pulled.rows.shape[1]))
        valid = positions >= 0
        out[valid] = located.pulled.rows.index_select(0, positions[valid])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        positions = ctx.located.positions
        if ctx.located.padded:
            valid = positions >= 0
            positions, gradient = positions[valid], gradient[valid]
        if ctx.by_frequency:
            gradient = _scaled_by_frequency(gradient, positions, len(ctx.located.pulled.rows))
        add_rows(ctx.located.pulled.gradient(), positions, gradient)
        return None, None, None


class Bags:
    """Positions of ids in bags: bag b has positions[offsets[b]:offsets[b + 1]]. No padding among them."""

    __slots__ = ("pulled", "positions", "offsets", "lengths", "single")

    def __init__(self, pulled: TableRows, positions: torch.Tensor, offsets: torch.Tensor, lengths: torch.Tensor,
                 single: bool):
        self.pulled = pulled
        self.positions = positions
        self.offsets = offsets  # begin of each bag
        self.lengths = lengths
        self.single = single  # each bag has one id

    def bag_of_each(self) -> torch.Tensor:
        return torch.repeat_interleave(self.lengths)


def pool(bags: Bags, mode: int, weights: Optional[torch.Tensor]) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
    """One vector for each bag, with torch's own kernel; and for MAX the rows it chose."""
    rows = bags.pulled.rows
    if bags.single and weights is None:
        return rows.index_select(0, bags.positions), bags.positions.unsqueeze(1) if mode == MAX else None
    if len(bags.positions) == 0:
        return rows.new_zeros((len(bags.lengths), rows.shape[1])), None
    out, _, _, chosen = torch.embedding_bag(rows, bags.positions, bags.offsets, False, mode, False, weights, False)
    return out, chosen if mode == MAX else None


def pool_backward(bags: Bags, mode: int, weights: Optional[torch.Tensor], chosen: Optional[torch.Tensor],
                  by_frequency: bool, gradient: torch.Tensor, wants_rows: bool, wants_weights: bool) -> Optional[torch.Tensor]:
    """Adds the gradient to the rows', and returns that of the weights, as far as they are wanted."""
    if len(bags.positions) == 0:
        return torch.zeros_like(weights) if wants_weights else None
    if mode == MAX:
        assert chosen is not None  # there are ids
        full = bags.lengths > 0
        gradient = gradient[full]
        bags.pulled.gradient().scatter_add_(0, chosen[full].expand_as(gradient), gradient)
        return None
    if mode == MEAN and not bags.single:
        gradient = gradient / bags.lengths.clamp(min=1).unsqueeze(1)
    each = gradient if bags.single else gradient.index_select(0, bags.bag_of_each())
    of_weights = (each * bags.pulled.rows.index_select(0, bags.positions)).sum(1) if wants_weights else None
    if not wants_rows:
        return of_weights
    if weights is not None:
        each = each * weights.unsqueeze(1)
    if by_frequency:
        each = _scaled_by_frequency(each, bags.positions, len(bags.pulled.rows))
    add_rows(bags.pulled.gradient(), bags.positions, each)
    return of_weights


class Pool(torch.autograd.Function):
    """Bags to vectors, (bags, dim)."""

    @staticmethod
    def forward(ctx: Any, _anchor: torch.Tensor, weights: Optional[torch.Tensor], bags: Bags, mode: int,
                by_frequency: bool) -> torch.Tensor:
        out, chosen = pool(bags, mode, weights)
        ctx.save_for_backward(weights)
        ctx.bags, ctx.mode, ctx.chosen, ctx.by_frequency = bags, mode, chosen, by_frequency
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        weights, = ctx.saved_tensors
        of_weights = pool_backward(ctx.bags, ctx.mode, weights, ctx.chosen, ctx.by_frequency, gradient,
                                   *ctx.needs_input_grad[:2])
        return None, of_weights, None, None, None


class GatherColumns(torch.autograd.Function):
    """The rows of Columns, (n, columns * dim)."""

    @staticmethod
    def forward(ctx: Any, _anchor: torch.Tensor, rows: ColumnRows) -> torch.Tensor:
        ctx.rows = rows
        return rows.gather()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        ctx.rows.add(gradient)
        return None, None


class PoolAll(torch.autograd.Function):
    """Many lists of bags at once, side by side in one tensor, (bags, sum of dims)."""

    @staticmethod
    def forward(ctx: Any, _anchor: torch.Tensor, lists: List[Tuple[Bags, int]], dims: List[int],
                *weights: Optional[torch.Tensor]) -> torch.Tensor:
        pooled = [pool(bags, mode, w) for (bags, mode), w in zip(lists, weights)]
        ctx.save_for_backward(*weights)
        ctx.lists, ctx.dims, ctx.chosen = lists, dims, [chosen for _, chosen in pooled]
        return torch.cat([out for out, _ in pooled], dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        of_weights = [
            pool_backward(bags, mode, w, chosen, False, g, ctx.needs_input_grad[0], ctx.needs_input_grad[3 + i])
            for i, ((bags, mode), w, chosen, g) in enumerate(
                zip(ctx.lists, ctx.saved_tensors, ctx.chosen, gradient.split(ctx.dims, dim=1)))
        ]
        return (None, None, None, *of_weights)
