"""After a power loss at any call, acknowledged writes are there and nothing is half done."""

import os
import random
import shutil
import subprocess
import sys

import pytest
from index.power_loss import COMMAND, check_state, crash_states

STATES = int(os.environ.get("POWER_LOSS_STATES", "60"))  # 0: all


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_power_loss_at_any_moment_loses_no_acknowledged_write(tmp_path):
    folder, acknowledgements = str(tmp_path / "index"), str(tmp_path / "done")
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [*COMMAND, "-o", str(tmp_path / "trace"), sys.executable, "-m", "index.power_loss"]
        + [folder, acknowledgements],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    if "ptrace" in done.stderr:
        pytest.skip("this system does not allow tracing")
    assert done.returncode == 0, done.stderr
    trace = (tmp_path / "trace").read_text()
    states = list(crash_states(trace, folder, acknowledgements))
    assert len(states) > 500
    chosen = random.Random(0).sample(states, STATES) if STATES else states
    for acknowledged, files in [*chosen, states[-1]]:
        check_state(tmp_path / "crashed", acknowledged, files)
    assert len(states[-1][0]) == 15  # the last state is after the last call
