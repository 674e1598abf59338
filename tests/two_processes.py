"""Runs a test function in two processes that form one gloo group."""

import faulthandler
import os
import socket
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SECONDS = 200
"""A process that takes longer prints where it hangs, and fails."""


def run_in_two_processes(function, folder, monkeypatch):
    """Calls `function(rank)` in each process and returns both results."""
    for _, name in socket.if_nameindex():
        if name.startswith("lo"):  # what a host's own name resolves to may not be reachable
            monkeypatch.setenv("GLOO_SOCKET_IFNAME", name)
    mp.spawn(_run, args=(function, str(folder)), nprocs=2)
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


def _run(rank, function, folder):
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/rendezvous", timedelta(seconds=60), rank=rank, world_size=2
    )
    torch.save(function(rank), f"{folder}/{rank}.pt")
    dist.barrier()
    os._exit(0)  # without the destructors of gloo, which can wait for the other process forever
