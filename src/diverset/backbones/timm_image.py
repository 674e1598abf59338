"""Feature maps of any timm network, such as ResNeXt-101 WSL of the paper's Table 2.

timm needs torchvision and has its own extra: `pip install 'diverset[timm]'`. Weights are read from
the hub's cache. The paper's network is "resnext101_32x8d.fb_wsl_ig1b_ft_in1k" at size 512.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from diverset.backbones.base import ImageBackbone
from diverset.data.preprocess import INTERPOLATIONS, Preprocess
from diverset.errors import CheckpointError, import_extra


class TimmImage(ImageBackbone):
    """Pixels to the last feature map of a timm network.

    Args:
        name: one of `timm.list_models(pretrained=True)`.
        size: input pixels; by default those the weights were trained with.
    """

    def __init__(self, name: str, size: int | None = None) -> None:
        super().__init__()
        timm: Any = import_extra("timm", "timm")
        data: Any = import_extra("timm.data", "timm")
        hub: Any = import_extra("huggingface_hub", "timm")
        try:
            file = hub.hf_hub_download(f"timm/{name}", "model.safetensors", local_files_only=True)
            network: Any = timm.create_model(
                name,
                pretrained=True,
                pretrained_cfg_overlay={"file": file},  # otherwise timm downloads the weights
                features_only=True,
                out_indices=(-1,),
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise CheckpointError(
                f"timm cannot load {name!r} ({error}); run `hf download timm/{name}`, or choose "
                "another of timm.list_models(pretrained=True)"
            ) from error
        self.name = name
        self.network: nn.Module = network
        self.width = int(network.feature_info.channels()[-1])
        stored = data.resolve_data_config({}, model=network)
        size = size or int(stored["input_size"][-1])
        method = stored["interpolation"]
        self.preprocess = Preprocess(
            size=size,
            crop="squash" if stored.get("crop_mode") == "squash" else "center",
            resize=max(size, round(size / float(stored["crop_pct"]))),
            interpolation=method if method in INTERPOLATIONS else "bicubic",
            mean=tuple(map(float, stored["mean"])),  # type: ignore[arg-type]
            std=tuple(map(float, stored["std"])),  # type: ignore[arg-type]
        )
        self.eval()

    def feature_map(self, pixels: Tensor) -> Tensor:
        maps: list[Tensor] = self.network(pixels)
        return maps[-1]

    def stages(self) -> list[nn.Module]:
        return list(self.network.children())
