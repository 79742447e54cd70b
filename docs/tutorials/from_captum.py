# %% [markdown]
# # From Captum
#
# One import changes. It adds an integral with a known error, and a test.

# %%
import torch
from captum.attr import IntegratedGradients as Captums
from sklearn.datasets import load_digits

from leastpath.captum import IntegratedGradients

torch.manual_seed(0)
digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)
layers = torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
model = torch.nn.Sequential(*layers)
optimiser = torch.optim.Adam(model.parameters(), 0.01)
for _ in range(100):
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(model(x[100:]), y[100:]).backward()
    optimiser.step()
model.eval()
inputs, target = x[:4], y[:4]

# %% [markdown]
# The same call; here steps are added until the error that was asked for is reached.

# %%
for explainer in (Captums(model), IntegratedGradients(model, tolerance=0.001)):
    _, delta = explainer.attribute(
        inputs, target=target, n_steps=5, return_convergence_delta=True
    )
    print(type(explainer).__module__.split(".")[0], [f"{d:.4f}" for d in delta])

# %% [markdown]
# `explain` takes the same arguments and says how far the values can be trusted:

# %%
result = IntegratedGradients(model).explain(inputs, target=target)
for status in result.status:
    print(status.value)
