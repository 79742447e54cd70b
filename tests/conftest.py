"""Settings of the whole suite: one thread, the same examples in every run."""

import gc
import os

import hypothesis
import pytest
import torch

# All that is imported is kept to the end: looking through it for garbage all the time took a tenth of the suite's time.
gc.set_threshold(50_000, 50, 1000)
# On some processors a matrix product of MKL rounds by the size of the batch, and where error control cuts follows the
# last bit: a batch must be what a loop is, gradient for gradient. MKL reads this at its first product.
os.environ.setdefault("MKL_CBWR", "COMPATIBLE")
torch.set_num_threads(1)  # small models: threads cost more than they give, and the suite may share its machine
hypothesis.settings.register_profile("suite", deadline=None, derandomize=True, max_examples=25, database=None)
hypothesis.settings.load_profile("suite")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
