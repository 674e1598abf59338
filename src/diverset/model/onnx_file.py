"""Trace one encoder into an ONNX file and verify the file with onnxruntime."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from diverset.errors import CheckpointError, OptionError, import_extra
from diverset.model.encoder import Encoder
from diverset.types import Padded

TOLERANCE = 1e-4
"""Largest difference from torch; elements have length 1."""
OPSET = 20


class EncoderGraph(nn.Module):
    """Pixels, or token or word ids with their mask, to sets; `encoder` reads the output of a
    frozen backbone if there is one."""

    def __init__(self, frozen: nn.Module | None, encoder: Encoder) -> None:
        super().__init__()
        self.frozen, self.encoder = frozen, encoder
        self.eval()

    def forward(
        self, values: Tensor, mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> Float[Tensor, "batch slots dim"]:
        inputs = values if mask is None else Padded(values, mask)
        sets: Tensor = self.encoder(inputs if self.frozen is None else self.frozen(inputs)).elements
        return sets


def write_onnx(graph: nn.Module, inputs: dict[str, Tensor], file: Path) -> dict[str, Any]:
    """Write a file traced on two of three examples and verified on all; returns its description."""
    dynamic = torch.export.Dim.DYNAMIC
    axes = tuple(
        {0: dynamic} if tensor.ndim == 4 else {0: dynamic, 1: dynamic} for tensor in inputs.values()
    )
    try:
        with _silence_exporter():
            torch.onnx.export(
                graph,
                tuple(tensor[:2] for tensor in inputs.values()),
                str(file),
                input_names=list(inputs),
                output_names=["sets"],
                opset_version=OPSET,
                dynamic_shapes=axes,
                external_data=False,
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), repr(error))
        raise OptionError(
            f"a backbone of this model cannot be traced into {file.name} ({reason}); those that "
            "install with diverset[backbones] can"
        ) from error
    runtime = import_extra("onnxruntime", "onnx")
    return {
        "file": file.name,
        "inputs": {name: _describe(tensor) for name, tensor in inputs.items()},
        "largest_difference": _verify(graph, inputs, file, runtime),
        "checked_with": f"onnxruntime {runtime.__version__}",
    }


def _verify(graph: nn.Module, inputs: dict[str, Tensor], file: Path, runtime: Any) -> float:
    """Compare with torch: more items than were traced, and one alone without padding."""
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    single = {name: tensor[:1] for name, tensor in inputs.items()}
    if "mask" in single:
        length = int(single["mask"].sum())
        single = {name: tensor[:, :length] for name, tensor in single.items()}
    difference = 0.0
    for batch in (inputs, single):
        with torch.no_grad():
            expected = graph(*batch.values()).cpu()
        arrays = {name: tensor.cpu().numpy() for name, tensor in batch.items()}
        sets = torch.from_numpy(session.run(["sets"], arrays)[0])
        if sets.shape != expected.shape:
            raise CheckpointError(
                f"{file.name} returns {tuple(sets.shape)}, torch {tuple(expected.shape)}; use "
                "another version of onnxscript"
            )
        difference = max(difference, float((sets - expected).abs().max()))
    if not difference <= TOLERANCE:
        raise CheckpointError(
            f"sets of {file.name} differ from torch by {difference:.1e}, more than {TOLERANCE:g}; "
            "use another version of onnxscript or onnxruntime"
        )
    return difference


def _describe(tensor: Tensor) -> dict[str, Any]:
    sizes = ["tokens"] if tensor.ndim == 2 else list(tensor.shape[1:])
    return {"type": str(tensor.dtype).removeprefix("torch."), "shape": ["batch", *sizes]}


@contextmanager
def _silence_exporter() -> Iterator[None]:
    """Without the exporter's warnings and logs, which a user cannot act on."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
