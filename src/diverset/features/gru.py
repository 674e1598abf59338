"""torch's GRU with a faster backward pass on a CPU.

On a CPU, torch slices the input gates at every step, and the gradient of every slice is as large as
all of them: the cost grows with the square of the caption length. Here they are split once. On
other devices, and without a gradient, torch's own kernels run.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

KINDS = ("ih", "hh")  # torch's names of the input and the recurrent weights


class Gru(nn.GRU):
    """One layer over a packed sequence; the paper's model only reads `final_states`."""

    def final_states(self, packed: PackedSequence) -> Tensor:
        """The last hidden state of each direction, (directions, batch, hidden)."""
        data = packed.data
        if (
            data.device.type != "cpu"
            or not torch.is_grad_enabled()
            or torch.is_autocast_enabled("cpu")
        ):
            final: Tensor = self(packed)[1]
            return final
        steps = packed.batch_sizes.tolist()
        finals = [self._last(data, steps, "")]
        if self.bidirectional:
            finals.append(self._last(data, steps, "_reverse"))
        states = torch.stack(finals)
        order = packed.unsorted_indices
        return states if order is None else states[:, order]

    def traced(
        self, inputs: Float[Tensor, "batch steps width"], lengths: Int[Tensor, " batch"]
    ) -> tuple[
        Float[Tensor, "batch steps directions hidden"], Float[Tensor, "directions batch hidden"]
    ]:
        """All states and the last states, by the GRU operator of ONNX, in a trace.

        torch cannot trace packed sequences; the ONNX operator reads each sequence up to its own
        length in both directions. Its order of gates is update, reset, candidate.
        """
        sides = ("", "_reverse") if self.bidirectional else ("",)
        weights, hidden = (
            torch.stack([_reordered(getattr(self, f"weight_{kind}_l0{side}")) for side in sides])
            for kind in KINDS
        )
        biases = torch.stack(
            [
                torch.cat([_reordered(getattr(self, f"bias_{kind}_l0{side}")) for kind in KINDS])
                for side in sides
            ]
        )
        batch, steps, _ = inputs.shape
        states = torch.onnx.ops.symbolic(
            "GRU",
            (inputs.transpose(0, 1), weights, hidden, biases, lengths.int()),
            {
                "hidden_size": self.hidden_size,
                "direction": "bidirectional" if self.bidirectional else "forward",
                "linear_before_reset": 1,
            },
            dtype=inputs.dtype,
            shape=(steps, len(sides), batch, self.hidden_size),
        ).permute(2, 0, 1, 3)
        # In reverse, the last state is that of the first step.
        last = (lengths - 1)[:, None, None].expand(-1, 1, self.hidden_size)
        final = [states[:, :, 0].gather(1, last)[:, 0]]
        if self.bidirectional:
            final.append(states[:, 0, 1])
        return states, torch.stack(final)

    def _last(self, data: Tensor, steps: list[int], suffix: str) -> Tensor:
        gates = torch.addmm(
            getattr(self, f"bias_ih_l0{suffix}"), data, getattr(self, f"weight_ih_l0{suffix}").T
        )
        weight = getattr(self, f"weight_hh_l0{suffix}").T
        bias = getattr(self, f"bias_hh_l0{suffix}")
        inputs = torch.split(gates, steps)
        # Sorted by length: forward, captions end one by one; in reverse, they start one by one.
        reverse = bool(suffix)
        state = data.new_zeros(steps[-1 if reverse else 0], self.hidden_size)
        ended: list[Tensor] = []
        for gate in reversed(inputs) if reverse else inputs:
            if len(gate) < len(state):
                state, finished = torch.split(state, [len(gate), len(state) - len(gate)])
                ended.append(finished)
            elif len(gate) > len(state):
                fresh = state.new_zeros(len(gate) - len(state), self.hidden_size)
                state = torch.cat([state, fresh])
            state = self._step(gate, torch.addmm(bias, state, weight), state)
        return torch.cat([state, *reversed(ended)])

    def _step(self, gate: Tensor, hidden: Tensor, state: Tensor) -> Tensor:
        width = self.hidden_size
        both, candidate = torch.split(gate, [2 * width, width], dim=1)
        hidden_both, hidden_candidate = torch.split(hidden, [2 * width, width], dim=1)
        reset, update = torch.sigmoid(both + hidden_both).chunk(2, dim=1)
        new = torch.tanh(torch.addcmul(candidate, reset, hidden_candidate))
        return torch.lerp(new, state, update)


def _reordered(rows: Tensor) -> Tensor:
    """torch's gates (reset, update, candidate) in ONNX's order."""
    reset, update, candidate = rows.chunk(3)
    return torch.cat([update, reset, candidate])
