"""torch's GRU with a backward pass that takes less time and memory on a CPU.

On a CPU, torch slices the input gates at every step, and the gradient of every slice is as large as
all of them: the cost grows with the square of the caption length. Here `gru_states` computes both.
On other devices, and without a gradient, torch's own kernels run.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from diverset.features.gru_states import Weights, last_states

KINDS = ("ih", "hh")  # torch's names of the input and the recurrent weights


class Gru(nn.GRU):
    """One layer over a packed sequence; the paper's model only reads `final_states`."""

    def final_states(self, packed: PackedSequence) -> Tensor:
        """The last hidden state of each direction, (directions, batch, hidden)."""
        if packed.data.device.type != "cpu" or not torch.is_grad_enabled():
            final: Tensor = self(packed)[1]
            return final
        sizes = packed.batch_sizes.tolist()
        states = [last_states(packed.data, sizes, self._weights(""), reverse=False)]
        if self.bidirectional:
            states.append(last_states(packed.data, sizes, self._weights("_reverse"), reverse=True))
        order = packed.unsorted_indices
        return torch.stack([side if order is None else side[order] for side in states])

    def _weights(self, suffix: str) -> Weights:
        names = (f"{kind}_{part}_l0{suffix}" for kind in ("weight", "bias") for part in KINDS)
        first, second, third, fourth = (getattr(self, name) for name in names)
        return first, second, third, fourth

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


def _reordered(rows: Tensor) -> Tensor:
    """torch's gates (reset, update, candidate) in ONNX's order."""
    reset, update, candidate = rows.chunk(3)
    return torch.cat([update, reset, candidate])
