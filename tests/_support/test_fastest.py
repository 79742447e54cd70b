"""The fastest batch against costs in closed form."""

import time

import pytest
import torch

from leastpath._support.fastest import clock_of, fastest_size


def test_the_clock_of_one_thread_leaves_out_other_programs(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert clock_of(torch.device("cpu")) is time.process_time
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert clock_of(torch.device("cpu")) is time.perf_counter
    assert clock_of(torch.device("meta"))() <= time.perf_counter()


@pytest.mark.parametrize("largest", [1, 3, 64])
def test_fixed_costs_a_call_ask_for_the_largest_batch(largest):
    assert fastest_size(lambda rows: 100 + rows, largest) == largest


def test_no_gain_no_larger_batch():
    sizes = []
    assert fastest_size(lambda rows: sizes.append(rows) or 2.0 * rows, 1000) == 1
    assert sizes == [1, 2, 4]


def test_memory_and_time_end_the_trial():
    assert fastest_size(lambda rows: None if rows > 8 else 100 + rows, 1000) == 8
    assert fastest_size(lambda rows: 100 + rows, 1000, limit=0.0) == 1


def test_a_larger_batch_that_takes_more_time_per_row_is_not_taken():
    assert fastest_size(lambda rows: 1 + rows * (1 if rows <= 16 else 2), largest=100) == 16
