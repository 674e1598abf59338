"""torch's GRU with a backward pass that takes less time and memory on a CPU.

On a CPU, torch slices the input gates at every step, and the gradient of every slice is as large as
all of them: the cost grows with the square of the caption length. Here `gru_states` computes both.
On other devices, and without a gradient, torch's own kernels run.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from diverset.features.gru_states import last_states

Inputs = Float[Tensor, "batch steps width"]
Mask = Bool[Tensor, "batch steps"]
FinalStates = Float[Tensor, "directions batch hidden"]


def pack(inputs: Inputs, mask: Mask) -> PackedSequence:
    """Sequences that are padded on the right, as torch's recurrent modules read them."""
    lengths = mask.sum(dim=1).cpu()
    return pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)


def read_padded(
    gru: nn.GRU, inputs: Inputs, mask: Mask
) -> tuple[Float[Tensor, "batch steps states"], FinalStates]:
    """All states of both directions side by side, zeros for padding, and the last states."""
    states, final = gru(pack(inputs, mask))
    padded, _ = pad_packed_sequence(states, batch_first=True, total_length=mask.shape[1])
    return padded, final


class Gru(nn.GRU):
    """One layer over a packed sequence; the paper's model only reads `final_states`."""

    def final_states(self, packed: PackedSequence) -> FinalStates:
        """The last hidden state of each direction."""
        if packed.data.device.type != "cpu" or not torch.is_grad_enabled():
            final: Tensor = self(packed)[1]
            return final
        sizes, order = packed.batch_sizes.tolist(), packed.unsorted_indices
        states = [
            last_states(packed.data, sizes, weights, reverse)
            for weights, reverse in zip(self.all_weights, (False, True), strict=False)
        ]
        return torch.stack([side if order is None else side[order] for side in states])

    def traced(
        self, inputs: Inputs, lengths: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch steps directions hidden"], FinalStates]:
        """All states and the last states, by the GRU operator of ONNX, in a trace.

        torch cannot trace packed sequences; the ONNX operator reads each sequence up to its own
        length in both directions. Its order of gates is update, reset, candidate.
        """
        sides = [[_reordered(rows) for rows in weights] for weights in self.all_weights]
        w_in, w_state, b_in, b_state = (torch.stack(rows) for rows in zip(*sides, strict=True))
        biases = torch.cat([b_in, b_state], dim=1)
        batch, steps, _ = inputs.shape
        states = torch.onnx.ops.symbolic(
            "GRU",
            (inputs.transpose(0, 1), w_in, w_state, biases, lengths.int()),
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
