# %% [markdown]
# # A data set as a job
#
# A job is cut into shards. Stop it when and how you like: the same call goes on.

# %%
import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_diabetes

from leastpath import jobs

folder = Path(tempfile.mkdtemp())
data = load_diabetes(as_frame=True, scaled=False)
data.data[:60].to_csv(folder / "patients.csv", index=False)


def make_model():
    """Called once in every worker; a real one loads its weights from a file."""
    torch.manual_seed(0)
    scale = torch.tensor(data.data.std().to_numpy(), dtype=torch.float32)
    net = torch.nn.Sequential(torch.nn.Linear(10, 8), torch.nn.Tanh())
    head = torch.nn.Linear(8, 1)
    return lambda x: head(net(x / scale))[:, 0]


# %%
found = jobs.explain(
    folder / "patients.csv",
    make_model,
    "integrated_gradients",
    out=folder / "explanations",
    shard_size=20,
    show=False,
)
print(found)
print(found.frame(0, 3).round(3))  # under the names of the columns

# %% [markdown]
# One row for each patient: score, verdict, cost, and a reason where it failed.

# %%
print(found.table(["index", "score", "outcome", "gradients"]).head(3))
print(found.table(["outcome"])["outcome"].value_counts().to_dict())
