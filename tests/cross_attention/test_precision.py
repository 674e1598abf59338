"""Scores with products in bfloat16, which evaluation offers on CPUs that support it."""

import pytest
import torch
from torch.nn import functional as F

from diverset.cross_attention import Caan, Imram, Naaf, Sgraf, scan
from diverset.runtime.autocast import autocast

DIM, REGIONS = 64, 6
SYSTEMS = {
    "scan": lambda: scan,
    "imram": lambda: Imram(DIM).eval(),
    "caan": lambda: Caan(DIM).eval(),
    "sgr": lambda: Sgraf("sgr", DIM, REGIONS).eval(),
    "saf": lambda: Sgraf("saf", DIM, REGIONS).eval(),
    "naaf": lambda: Naaf().eval(),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_products_in_bfloat16_change_scores_a_little(name: str):
    torch.manual_seed(0)
    system = SYSTEMS[name]()
    common = torch.randn(DIM)  # so that cosines are far from the threshold of NAAF, 0
    images = F.normalize(torch.randn(5, REGIONS, DIM) + common, dim=-1)
    texts = F.normalize(torch.randn(7, 4, DIM) + common, dim=-1)
    masks = torch.ones(5, REGIONS, dtype=torch.bool), torch.ones(7, 4, dtype=torch.bool)
    masks[0][1, 4:], masks[1][2, 3:] = False, False
    scores = {}
    with torch.no_grad():
        for precision in ("float32", "bfloat16"):
            with autocast("cpu", precision):
                scores[precision] = system(images, masks[0], texts, masks[1])
    assert scores["bfloat16"].dtype == torch.float32
    assert not torch.equal(scores["bfloat16"], scores["float32"])
    rounded = scores["bfloat16"].bfloat16().float()
    assert (scores["bfloat16"] != rounded).float().mean() > 0.9  # else many would be equal
    torch.testing.assert_close(scores["bfloat16"], scores["float32"], rtol=0.01, atol=0.01)
