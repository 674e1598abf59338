import pytest
import torch
from hypothesis import settings

# Deadlines measure the machine, not the code.
settings.register_profile("diverset", deadline=None, max_examples=30, derandomize=True)
settings.load_profile("diverset")

# Tiny tensors: threads cost more than they give, and tests run side by side.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
