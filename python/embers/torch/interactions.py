"""Interactions of an example's fields: DLRM's, and a factorization machine's."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

import torch

from .. import _core
from ..errors import BadInput

Fields = Union[torch.Tensor, Sequence[torch.Tensor]]


def _floats(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu", torch.float32).contiguous()


def _empty(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float32, device="cpu")


class _PairProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, beside: Optional[torch.Tensor], *parts: torch.Tensor) -> torch.Tensor:
        given = [_floats(part) for part in parts]
        ctx.save_for_backward(*given)
        ctx.before = 0 if beside is None else beside.shape[1]
        count = sum(part.shape[1] for part in given)
        out = _empty(len(given[0]), ctx.before + count * (count - 1) // 2)
        if beside is not None:
            out[:, :ctx.before] = beside.detach()
        _core.pair_products([part.numpy() for part in given], out.numpy(), torch.get_num_threads())
        return out.to(parts[0])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        parts = ctx.saved_tensors
        of_parts = [torch.empty_like(part) for part in parts]
        _core.pair_products_gradient([part.numpy() for part in parts], _floats(gradient).numpy(),
                                     [part.numpy() for part in of_parts], torch.get_num_threads())
        of_beside = gradient[:, :ctx.before] if ctx.needs_input_grad[0] else None
        return (of_beside, *(part.to(gradient) for part in of_parts))


class _SecondOrder(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, numbers: torch.Tensor, factors: torch.Tensor,
                *parts: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        given, numbers, factors = [_floats(part) for part in parts], _floats(numbers), _floats(factors)
        ctx.counts = [part.shape[1] for part in given]
        n, _, dim = given[0].shape
        fields, sums, second = _empty(n, sum(ctx.counts) + len(factors), dim), _empty(n, dim), _empty(n, 1)
        _core.second_order([part.numpy() for part in given], numbers.numpy(), factors.numpy(), fields.numpy(), sums.numpy(),
                           second.numpy(), torch.get_num_threads())
        ctx.save_for_backward(fields, sums, numbers)
        return fields.to(parts[0]), second.to(parts[0])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, of_fields: torch.Tensor, of_second: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        fields, sums, numbers = ctx.saved_tensors
        out, of_factors = torch.empty_like(fields), _empty(numbers.shape[1], fields.shape[2])
        _core.second_order_gradient(_floats(of_fields).numpy(), _floats(of_second).numpy(), fields.numpy(), sums.numpy(),
                                    numbers.numpy(), out.numpy(), of_factors.numpy(), torch.get_num_threads())
        of_parts = torch.split(out[:, :sum(ctx.counts)], ctx.counts, 1)
        return (None, of_factors.to(of_fields), *(part.to(of_fields) for part in of_parts))


def _parts(fields: Fields, name: str) -> List[torch.Tensor]:
    """Each (n, fields of the part, dim)."""
    given = [fields] if isinstance(fields, torch.Tensor) else list(fields)
    if not given:
        raise BadInput(f"{name} needs at least one part of fields")
    is_list = given[0] is not fields
    parts = [part.unsqueeze(1) if is_list and part.dim() == 2 else part for part in given]
    for part, original in zip(parts, given):
        if part.dim() != 3:
            raise BadInput(f"{name} takes fields of shape (n, fields, dim), not {tuple(original.shape)}")
        if len(part) != len(parts[0]) or part.shape[2] != parts[0].shape[2]:
            raise BadInput(f"parts of fields have the shapes {tuple(given[0].shape)} and {tuple(original.shape)}: "
                             "the first size, of examples, and the last, of floats, must be the same")
    return parts


def pair_products(fields: Fields, beside: Optional[torch.Tensor] = None) -> torch.Tensor:
    """fields (n, fields, dim) -> inner products of all pairs of an example's fields, (n, fields * (fields - 1) / 2), in the
    order (1, 0), (2, 0), (2, 1), (3, 0), ... Computed in float32. Differentiable once. One pass over the fields, where torch
    would multiply each example's matrix by its transpose and pick half of the result.

    fields may be a list of parts, each (n, fields of the part, dim) or one field, (n, dim): the result is that of
    pair_products(torch.cat(parts, 1)), but the parts are read where they are.

    beside (n, k): what stands before the products, as in torch.cat([beside, pair_products(fields)], 1), but without
    copying them; the result is (n, k + fields * (fields - 1) / 2)."""
    parts = _parts(fields, "pair_products")
    if beside is not None and (beside.dim() != 2 or len(beside) != len(parts[0])):
        raise BadInput(f"beside has the shape {tuple(beside.shape)}, but ({len(parts[0])}, k) is needed")
    return _PairProducts.apply(beside, *parts)


def second_order(fields: Fields, numbers: Optional[torch.Tensor] = None,
                 factors: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, torch.Tensor]:
    """A factorization machine's interaction, as DeepFM has it. fields (n, fields, dim), or a list of parts as
    pair_products() takes it -> all fields in one tensor, (n, all fields, dim), and the inner products of all pairs of an
    example's fields, added up, (n, 1). Computed in float32. Differentiable once. One pass over the fields and one over
    their gradients, where torch takes a dozen.

    numbers (n, k) and factors (k, dim): numeric features, whose fields are each number times its factors. They come after
    the others. No gradient flows to the numbers."""
    parts = _parts(fields, "second_order")
    n, _, dim = parts[0].shape
    if (numbers is None) != (factors is None):
        raise BadInput("second_order takes numbers and factors together, or neither")
    if numbers is None or factors is None:
        numbers, factors = _empty(n, 0), _empty(0, dim)
    if numbers.shape != (n, len(factors)) or factors.shape[1:] != (dim,):
        raise BadInput(f"numbers and factors have the shapes {tuple(numbers.shape)} and {tuple(factors.shape)}, but "
                         f"({n}, k) and (k, {dim}) are needed")
    return _SecondOrder.apply(numbers, factors, *parts)
