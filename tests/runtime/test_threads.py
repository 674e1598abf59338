import threading

import torch

from diverset.runtime.threads import torch_threads


def test_the_number_of_threads_holds_in_the_block_and_is_restored_after_it():
    before = torch.get_num_threads()
    with torch_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_other_threads_keep_their_number():
    numbers, started, changed = [], threading.Event(), threading.Event()

    def count_twice():
        numbers.append(torch.get_num_threads())
        started.set()
        changed.wait(30)
        numbers.append(torch.get_num_threads())

    other = threading.Thread(target=count_twice)
    other.start()
    started.wait(30)
    with torch_threads(numbers[0] + 1):
        changed.set()
        other.join()
    assert numbers[0] == numbers[1]
