"""DLRM's interaction of fields."""
from __future__ import annotations

from typing import Any, Optional, Tuple

import torch

from .. import _core


class _PairProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, fields: torch.Tensor, beside: Optional[torch.Tensor]) -> torch.Tensor:
        given = fields.detach().to("cpu", torch.float32).contiguous()
        ctx.save_for_backward(given)
        ctx.before = 0 if beside is None else beside.shape[1]
        count = given.shape[1]
        out = torch.empty((len(given), ctx.before + count * (count - 1) // 2))
        if beside is not None:
            out[:, :ctx.before] = beside.detach()
        _core.pair_products(given.numpy(), out.numpy(), torch.get_num_threads())
        return out.to(fields)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
        fields, = ctx.saved_tensors
        of_fields = torch.empty_like(fields)
        _core.pair_products_gradient(fields.numpy(), gradient.to("cpu", torch.float32).contiguous().numpy(),
                                     of_fields.numpy(), torch.get_num_threads())
        return of_fields.to(gradient), gradient[:, :ctx.before] if ctx.needs_input_grad[1] else None


def pair_products(fields: torch.Tensor, beside: Optional[torch.Tensor] = None) -> torch.Tensor:
    """fields (n, fields, dim) -> inner products of all pairs of an example's fields, (n, fields * (fields - 1) / 2), in the
    order (1, 0), (2, 0), (2, 1), (3, 0), ... Computed in float32. Differentiable once. One pass over the fields, where torch
    would multiply each example's matrix by its transpose and pick half of the result.

    beside (n, k): what stands before the products, as in torch.cat([beside, pair_products(fields)], 1), but without
    copying them; the result is (n, k + fields * (fields - 1) / 2)."""
    if fields.dim() != 3:
        raise ValueError(f"pair_products takes fields of shape (n, fields, dim), not {tuple(fields.shape)}")
    if beside is not None and (beside.dim() != 2 or len(beside) != len(fields)):
        raise ValueError(f"beside has the shape {tuple(beside.shape)}, but ({len(fields)}, k) is needed")
    return _PairProducts.apply(fields, beside)
