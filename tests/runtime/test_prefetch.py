import threading
from itertools import count, islice

import pytest

from diverset.runtime.prefetch import prefetch


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("items", [0, 1, 2, 20])
def test_results_keep_the_order_of_the_items(workers, items):
    assert list(prefetch(lambda n: n * n, range(items), workers)) == [n * n for n in range(items)]


def test_next_item_is_prepared_while_the_current_one_is_used():
    prepared = [threading.Event() for _ in range(3)]
    results = prefetch(lambda n: prepared[n].set() or n, range(3))
    assert next(results) == 0
    assert prepared[1].wait(10)


def test_infinite_items_are_consumed_only_a_few_ahead():
    taken = []

    def items():
        for number in count():
            taken.append(number)
            yield number

    results = prefetch(str, items(), workers=2, depth=4)
    assert list(islice(results, 3)) == ["0", "1", "2"]
    results.close()
    assert len(taken) <= 3 + 4 + 1


def test_error_is_raised_at_the_item_that_failed():
    results = prefetch(lambda n: 1 // n, [1, 0, 1])
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_initializer_runs_once_per_thread_and_a_single_item_needs_no_thread():
    threads = []
    list(prefetch(str, range(10), 2, None, lambda: threads.append(threading.get_ident())))
    assert 1 <= len(threads) <= 2
    (thread,) = prefetch(lambda _: threading.get_ident(), [0])
    assert thread == threading.get_ident()
