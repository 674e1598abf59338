"""Memory allocation during training."""

import platform

import pytest

from diverset.runtime.memory import tune_glibc_malloc


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")
def test_glibc_accepts_the_malloc_options():
    assert tune_glibc_malloc()
