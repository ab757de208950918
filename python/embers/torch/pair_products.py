"""DLRM's interaction of fields."""
from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple, Union

import torch

from .. import _core


class _PairProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, beside: Optional[torch.Tensor], *parts: torch.Tensor) -> torch.Tensor:
        given = [part.detach().to("cpu", torch.float32).contiguous() for part in parts]
        ctx.save_for_backward(*given)
        ctx.before = 0 if beside is None else beside.shape[1]
        count = sum(part.shape[1] for part in given)
        out = torch.empty((len(given[0]), ctx.before + count * (count - 1) // 2))
        if beside is not None:
            out[:, :ctx.before] = beside.detach()
        _core.pair_products([part.numpy() for part in given], out.numpy(), torch.get_num_threads())
        return out.to(parts[0])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        parts = ctx.saved_tensors
        of_parts = [torch.empty_like(part) for part in parts]
        _core.pair_products_gradient([part.numpy() for part in parts],
                                     gradient.to("cpu", torch.float32).contiguous().numpy(),
                                     [part.numpy() for part in of_parts], torch.get_num_threads())
        of_beside = gradient[:, :ctx.before] if ctx.needs_input_grad[0] else None
        return (of_beside, *(part.to(gradient) for part in of_parts))


def pair_products(fields: Union[torch.Tensor, Sequence[torch.Tensor]],
                  beside: Optional[torch.Tensor] = None) -> torch.Tensor:
    """fields (n, fields, dim) -> inner products of all pairs of an example's fields, (n, fields * (fields - 1) / 2), in the
    order (1, 0), (2, 0), (2, 1), (3, 0), ... Computed in float32. Differentiable once. One pass over the fields, where torch
    would multiply each example's matrix by its transpose and pick half of the result.

    fields may be a list of parts, each (n, fields of the part, dim) or one field, (n, dim): the result is that of
    pair_products(torch.cat(parts, 1)), but the parts are read where they are.

    beside (n, k): what stands before the products, as in torch.cat([beside, pair_products(fields)], 1), but without
    copying them; the result is (n, k + fields * (fields - 1) / 2)."""
    given = [fields] if isinstance(fields, torch.Tensor) else list(fields)
    if not given:
        raise ValueError("pair_products needs at least one part of fields")
    is_list = given[0] is not fields
    parts = [part.unsqueeze(1) if is_list and part.dim() == 2 else part for part in given]
    for part, original in zip(parts, given):
        if part.dim() != 3:
            raise ValueError(f"pair_products takes fields of shape (n, fields, dim), not {tuple(original.shape)}")
        if len(part) != len(parts[0]) or part.shape[2] != parts[0].shape[2]:
            raise ValueError(f"parts of fields have the shapes {tuple(given[0].shape)} and {tuple(original.shape)}: "
                             "the first size, of examples, and the last, of floats, must be the same")
    if beside is not None and (beside.dim() != 2 or len(beside) != len(parts[0])):
        raise ValueError(f"beside has the shape {tuple(beside.shape)}, but ({len(parts[0])}, k) is needed")
    return _PairProducts.apply(beside, *parts)
