# %% [markdown]
# # A table
#
# Thirty measurements of a tumour, malignant or benign: scikit-learn's breast cancer
# data and a small network. The score is the log-odds of "malignant", and the question
# is put against the benign patients: why this one rather than those? With pandas,
# [leastpath.tabular](../../tabular.md) does much of what follows in one call.

# %%
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

import leastpath as lp
from leastpath.evaluation import profile_paths
from leastpath.report import bars, path_profile
from leastpath.score.baselines import baseline

torch.manual_seed(0)
data = load_breast_cancer()
x = torch.tensor(data.data, dtype=torch.float32)
y = 1 - torch.tensor(data.target)  # 1 is malignant
rows = torch.randperm(len(x))
train, test = rows[:450], rows[450:]
x = (x - x[train].mean(0)) / x[train].std(0)  # else a distance would be all area

net = nn.Sequential(nn.Linear(30, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(net.parameters(), 1e-2, weight_decay=1e-3)
for _ in range(60):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x[train]), y[train]).backward()
    optimizer.step()
net.eval()
right = net(x[test]).argmax(1) == y[test]
print(f"accuracy on {len(right)} held-out patients: {right.float().mean():.1%}")

# %% [markdown]
# ## Against several benign patients
#
# Ten patients of the training set are ten baselines; the values are averaged, and their
# deviation shows how much the answer depends on whom one compares with.

# %%
ill = test[(net(x[test]).argmax(1) == 1)][:1]
benign = x[train][y[train] == 0]
score = lp.Score(net, target=1, output="logit_margin")
starts = baseline("samples", x[ill], points=benign, n=10)  # (1, 10, 30)
result = lp.attribute(score, x[ill], starts, method=lp.StraightLine())
words = {"title": "malignant rather than benign", "top": 10}
figure = bars(result, data.feature_names, spread=result.baseline_spread, **words)
figure.savefig("table-bars.png", dpi=110)
print(f"the log-odds rise by {float(result.score_change):.2f};")
print(f"the values add up to {float(result.values.sum()):.2f}")
print(result.status[0].value)

# %% [markdown]
# ## A bent path
#
# From the average benign patient, along the path on which features cancel least.

# %%
average = benign.mean(0, keepdim=True)
straight = lp.attribute(score, x[ill], average, method=lp.StraightLine())
least = {"method": lp.Descent(), "metric": lp.NoCancellation()}
bent = lp.attribute(score, x[ill], average, **least)
for name, found in {"straight line": straight, "least cancellation": bent}.items():
    print(f"{name}: Σ|values| − |Δf| = {float(found.cancellation):.3f}")
    print("   ", found.status[0].value)
profiles = profile_paths(score, {"least cancellation": bent})
path_profile(profiles).savefig("table-profile.png", dpi=110)

# %% [markdown]
# The bent path goes first to where the network is saturated and follows that plateau,
# far from any patient, before it rises. No feature argues against another on the way;
# whether that makes the answer better is what the test above says, and lengths do not.
