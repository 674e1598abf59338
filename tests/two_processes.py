"""Runs a test function in two processes that form one gloo group."""

import os
import socket
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SECONDS = 140
ATTEMPTS = 2


def run_in_two_processes(function, folder, monkeypatch):
    """Calls `function(rank)` in each process and returns both results.

    Such a pair of processes once hung without end; the cause was not found. Processes that take
    longer than SECONDS are therefore ended and started again; an error is not retried.
    """
    for _, name in socket.if_nameindex():
        if name.startswith("lo"):  # what a host's own name resolves to may not be reachable
            monkeypatch.setenv("GLOO_SOCKET_IFNAME", name)
    for attempt in range(ATTEMPTS):
        attempt_folder = folder / str(attempt)
        attempt_folder.mkdir()
        context = mp.spawn(_run, args=(function, str(attempt_folder)), nprocs=2, join=False)
        deadline = time.monotonic() + SECONDS
        while not (finished := context.join(timeout=1)) and time.monotonic() < deadline:
            pass
        if finished:
            return [torch.load(attempt_folder / f"{rank}.pt") for rank in range(2)]
        for process in context.processes:
            process.kill()
            process.join()
    raise TimeoutError(f"two processes did not finish {ATTEMPTS} times within {SECONDS} s each")


def _run(rank, function, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/rendezvous", timedelta(seconds=60), rank=rank, world_size=2
    )
    torch.save(function(rank), f"{folder}/{rank}.pt")
    dist.barrier()
    os._exit(0)  # without gloo's clean-up, which may be what hung
