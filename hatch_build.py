"""Compiles the kernels (src/diverset/index/kernel, runtime/kernel) when diverset is installed.

Without a C compiler the package is installed without them; torch and Pillow then do the same.
DIVERSET_KERNEL=require turns that into an error, DIVERSET_KERNEL=no skips the kernels.
"""

import os
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = {  # folder -> sources and libraries
    Path("src/diverset/index/kernel"): ("search.c", "-lpthread"),
    # OpenMP shares its threads with torch, whose idle threads would compete with others.
    Path("src/diverset/runtime/kernel"): ("smooth_chamfer.c", "supported.c", "-fopenmp"),
}
FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-shared", "-Wall", "-Wextra", "-Wno-psabi")
AVX512 = ("avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512vnni", "avx2", "fma")
INSTRUCTION_SETS = {
    "baseline": (),
    "avx2": ("-mavx2", "-mfma"),
    "avx512vnni": (*(f"-m{name}" for name in AVX512), "-mprefer-vector-width=512"),
}


class KernelHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        files = [
            folder / file.name
            for folder, sources in KERNELS.items()
            for file in compile_kernel(Path(self.root) / folder, sources)
        ]
        if not files:
            return
        build_data["artifacts"] += map(str, files)
        build_data["pure_python"] = False
        tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{tag}"  # plain C: any version of Python can load it


def compile_kernel(folder: Path, sources: tuple[str, ...]) -> list[Path]:
    """One library per instruction set; none if there is no compiler."""
    wanted = os.environ.get("DIVERSET_KERNEL", "")
    if wanted == "no" or sys.platform == "win32":  # they need POSIX threads
        return []
    intel = platform.machine().lower() in ("x86_64", "amd64")
    compiler, files = os.environ.get("CC", "cc"), []
    for name, options in INSTRUCTION_SETS.items():
        if options and not intel:
            continue
        file = folder / f"{name}.so"
        command = [compiler, *FLAGS, *options, *sources, "-o", file.name, "-lm"]
        try:
            subprocess.run(command, cwd=folder, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            if wanted == "require":
                raise
            print(f"diverset: {file} was not built ({error}); diverset will be slower")
            continue
        files.append(file)
    return files
