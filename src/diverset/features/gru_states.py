"""The last states of a GRU in one direction, with a gradient that is written out.

Autograd would keep all gates of every step twice and add up a weight gradient per step. Here each
activation is kept once, and the gradients of the weights are one product over all steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from diverset.runtime.autocast import autocast_dtype


def last_states(
    data: Float[Tensor, "words width"], sizes: list[int], weights: Sequence[Tensor], reverse: bool
) -> Float[Tensor, "batch hidden"]:
    """The state of each sequence after its last word, or after its first if read in reverse.

    Args:
        data: a packed sequence: the first words of all sequences, the longest first, then the
            second, ...
        sizes: the number of sequences that have a first word, a second word, ...
        weights: input and recurrent weights, then their biases; products follow autocast.
        reverse: whether to read from the last word to the first.
    """
    states: Tensor = _LastStates.apply(data, *weights, sizes, reverse)  # type: ignore[no-untyped-call]
    return states


class _LastStates(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, data: Tensor, w_in: Tensor, w_state: Tensor, b_in: Tensor, b_state: Tensor,
        sizes: list[int], reverse: bool,
    ) -> Tensor:  # fmt: skip
        dtype, width = autocast_dtype(data), w_state.shape[1]
        inputs, weight, bias = data.to(dtype), w_state.to(dtype).T, b_state.to(dtype)
        gates = torch.addmm(b_in.to(dtype), inputs, w_in.to(dtype).T)
        recurrent, before = gates.new_empty(len(gates), width), gates.new_empty(len(gates), width)
        # Sequences that ended keep their state; those that have not started have zeros.
        states = data.new_zeros(sizes[0], width)
        for rows in _steps(sizes, reverse):
            state = states[: rows.stop - rows.start]
            before[rows] = state
            hidden = torch.addmm(bias, before[rows], weight)
            both, new = torch.split(gates[rows], [2 * width, width], dim=1)
            both.add_(hidden[:, : 2 * width]).sigmoid_()
            recurrent[rows] = hidden[:, 2 * width :]
            new.addcmul_(both[:, :width], recurrent[rows]).tanh_()
            wide = new.to(state.dtype)
            torch.lerp(wide, state, both[:, width:].to(state.dtype), out=state)
        ctx.save_for_backward(inputs, w_in, w_state, gates, recurrent, before)
        ctx.sizes, ctx.reverse, ctx.input_dtype = sizes, reverse, data.dtype
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        inputs, w_in, w_state, gates, recurrent, before = ctx.saved_tensors
        width, weight = w_state.shape[1], w_state.to(gates.dtype)
        of_states = upstream.clone()
        # Gradients before the activations: reset, update and the recurrent part of the candidate;
        # then the candidate itself. The first two also belong to the inputs.
        of_hidden, of_new = torch.empty_like(gates), torch.empty_like(recurrent)
        for rows in reversed(list(_steps(ctx.sizes, ctx.reverse))):
            reset, update, new = gates[rows].to(upstream.dtype).chunk(3, dim=1)
            of_state = of_states[: rows.stop - rows.start]
            of_update = (before[rows] - new).mul_(of_state).mul_(update).mul_(1 - update)
            of_tanh = (1 - update).mul_(of_state).mul_(1 - new.square())
            of_reset = (of_tanh * recurrent[rows]).mul_(reset).mul_(1 - reset)
            of_new[rows] = of_tanh
            for part, gradient in enumerate((of_reset, of_update, of_tanh.mul_(reset))):
                of_hidden[rows, part * width : (part + 1) * width] = gradient
            of_state.mul_(update).add_(of_hidden[rows] @ weight)
        of_both, dtype = of_hidden[:, : 2 * width], w_in.dtype
        narrow = w_in.to(gates.dtype)
        of_inputs = of_both @ narrow[: 2 * width] + of_new @ narrow[2 * width :]
        return (
            of_inputs.to(ctx.input_dtype),
            torch.cat([of_both.T @ inputs, of_new.T @ inputs]).to(dtype),
            (of_hidden.T @ before).to(dtype),
            torch.cat([of_both.sum(dim=0, dtype=dtype), of_new.sum(dim=0, dtype=dtype)]),
            of_hidden.sum(dim=0, dtype=dtype),
            None,
            None,
        )


def _steps(sizes: list[int], reverse: bool) -> Iterator[slice]:
    """The rows of each step in a packed sequence."""
    ends = torch.tensor(sizes).cumsum(0).tolist()
    slices = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    return reversed(slices) if reverse else iter(slices)
