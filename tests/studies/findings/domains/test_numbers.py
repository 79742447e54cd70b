"""Tables and digits."""

import pytest
import torch

from studies.findings.domains import numbers


@pytest.mark.parametrize("name", ["breast cancer", "diabetes"])
def test_networks_explain_rows_that_no_other_explains(name):
    """Oracle: the rows themselves, brought back to one scale by their ranks within a column."""
    rows = []
    for seed in range(3):
        inputs, targets, n_train = numbers._table(name, seed)
        assert inputs[:n_train].mean(0).abs().max() < 1e-5 and len(targets) == len(inputs)
        ranks = torch.stack([column.unique(return_inverse=True)[1] for column in inputs.T], 1)
        rows += [tuple(row) for row in ranks[n_train:].tolist()]
    assert len(set(rows)) == len(rows)
