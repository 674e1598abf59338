"""Any network of timm as a source of feature maps; ResNeXt-101 WSL of the paper's Table 2.

timm needs torchvision and is therefore an extra of its own: `pip install 'diverset[timm]'`. This
path is not part of diverset's own tests beyond the message about the missing package; timm fetches
weights from the hub unless they are in its cache. The paper's network is
"resnext101_32x8d.fb_wsl_ig1b_ft_in1k" at size 512 with crop "squash".
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from diverset.backbones.base import PictureBackbone, check_pixels
from diverset.data.preprocess import INTERPOLATIONS, Preprocess
from diverset.errors import OptionError, import_extra


class TimmImage(PictureBackbone):
    """Pixels to the last feature map of a timm network.

    Args:
        name: a name that `timm.list_models(pretrained=True)` knows.
        size: input pixels; by default those the weights were trained with.
        allow_download: must be True, because timm asks the hub for its weights.
    """

    def __init__(self, name: str, size: int | None = None, allow_download: bool = False) -> None:
        super().__init__()
        timm: Any = import_extra("timm", "timm")
        data: Any = import_extra("timm.data", "timm")
        if not allow_download:
            raise OptionError(f"timm fetches the weights of {name!r}; pass allow_download=True")
        try:
            network: Any = timm.create_model(
                name, pretrained=True, features_only=True, out_indices=(-1,)
            )
        except (RuntimeError, ValueError) as error:
            raise OptionError(
                f"timm cannot make {name!r} ({error}); see timm.list_models(pretrained=True)"
            ) from error
        self.name = name
        self.network: nn.Module = network
        self.width = int(network.feature_info.channels()[-1])
        found = data.resolve_data_config({}, model=network)
        trained = int(found["input_size"][-1])
        final = size or trained
        method = found["interpolation"]
        self.preprocess = Preprocess(
            size=final,
            crop="squash" if found.get("crop_mode") == "squash" else "center",
            resize=max(final, round(final / float(found["crop_pct"]))),
            interpolation=method if method in INTERPOLATIONS else "bicubic",
            mean=tuple(map(float, found["mean"])),  # type: ignore[arg-type]
            std=tuple(map(float, found["std"])),  # type: ignore[arg-type]
        )
        self.eval()

    def forward(
        self, pixels: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch channels rows columns"]:
        check_pixels(self.name, pixels)
        maps: list[Tensor] = self.network(pixels)
        return maps[-1]

    def stages(self) -> list[nn.Module]:
        return list(self.network.children())
