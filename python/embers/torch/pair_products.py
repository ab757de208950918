"""DLRM's interaction of fields."""
from __future__ import annotations

from typing import Any

import torch

from .. import _core


class _PairProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, fields: torch.Tensor) -> torch.Tensor:
        given = fields.detach().to("cpu", torch.float32).contiguous()
        ctx.save_for_backward(given)
        count = given.shape[1]
        out = torch.empty((len(given), count * (count - 1) // 2))
        _core.pair_products(given.numpy(), out.numpy(), torch.get_num_threads())
        return out.to(fields)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        fields, = ctx.saved_tensors
        of_fields = torch.empty_like(fields)
        _core.pair_products_gradient(fields.numpy(), gradient.to("cpu", torch.float32).contiguous().numpy(),
                                     of_fields.numpy(), torch.get_num_threads())
        return of_fields.to(gradient)


def pair_products(fields: torch.Tensor) -> torch.Tensor:
    """fields (n, fields, dim) -> inner products of all pairs of an example's fields, (n, fields * (fields - 1) / 2), in the
    order (1, 0), (2, 0), (2, 1), (3, 0), ... Computed in float32. Differentiable once. One pass over the fields, where torch
    would multiply each example's matrix by its transpose and pick half of the result."""
    if fields.dim() != 3:
        raise ValueError(f"pair_products takes fields of shape (n, fields, dim), not {tuple(fields.shape)}")
    return _PairProducts.apply(fields)
