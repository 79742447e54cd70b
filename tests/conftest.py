"""Settings of the whole suite: one thread, the same examples in every run."""

import hypothesis
import pytest
import torch

torch.set_num_threads(1)  # small models: threads cost more than they give, and the suite may share its machine
hypothesis.settings.register_profile("suite", deadline=None, derandomize=True, max_examples=25, database=None)
hypothesis.settings.load_profile("suite")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
