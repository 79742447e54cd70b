# %% [markdown]
# # Half-moons
#
# A network that is steep at the border and nearly flat elsewhere: the smallest place to
# see what a path of least resistance does, and the paper's first experiment, in small.

# %%
import torch
from sklearn.datasets import make_moons
from torch import nn

import leastpath as lp
from leastpath.evaluation import score_plane
from leastpath.report import plot_graph

torch.manual_seed(0)
x, y = make_moons(1000, noise=0.15, random_state=0)
points, labels = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
layers = nn.Linear(2, 10), nn.ReLU(), nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 2)
net = nn.Sequential(*layers)
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(20):
    for rows in torch.randperm(800).split(64):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(points[rows]), labels[rows]).backward()
        optimizer.step()
net.eval()
inputs, baseline = points[800:], torch.tensor([[-0.5, -0.5]])
right = net(inputs).argmax(1) == labels[800:]
print(f"accuracy on {len(right)} held-out points: {right.float().mean():.1%}")

# %% [markdown]
# ## The graph
#
# Training points become nodes, neighbours are joined, and an edge is as long as the
# metric says: its Euclidean length times the norm of the gradient on it. `build`
# computes the edges once; any number of inputs then ask for routes.

# %%
score = lp.Score(net, target=1, output="log_softmax")
neighbours = lp.NeighborGraph(points[:800], n_neighbors=15)
graph = neighbours.build(score, lp.Conformal(), baseline)
straight = lp.attribute(score, inputs, baseline, method=lp.StraightLine())
route = lp.attribute(score, inputs, baseline, method=graph)
for name, result in {"straight line": straight, "shortest route": route}.items():
    ratio, certificate = result.length_ratio.median(), result.certificate.median()
    print(f"{name:14} cancellation {result.cancellation.mean():.3f} (mean),", end=" ")
    print(f"certificate {certificate:.2f}, length ratio {ratio:.2f} (medians)")

# %% [markdown]
# On the routes there is less going up and down, and less cancelling. Here are those
# that gain most, that are middling, and that gain least. A route can only visit the
# points that are there, so it can even be longer than the line; its status says so.

# %%
moved = (route.score_change.abs() > 1).nonzero()[:, 0]  # else little to explain
order = moved[route.length_ratio[moved].argsort()]
shown = [int(order[0]), int(order[len(order) // 2]), int(order[-1])]
ratios = [round(float(ratio), 3) for ratio in route.length_ratio[shown]]
print("length of the route / of the line:", ratios)
plane = score_plane(score, points)
figure = plot_graph(graph, route, shown, background=plane)
figure.savefig("half_moons-graph.png", dpi=110)
print(route.status[shown[0]].value)

# %% [markdown]
# A route zig-zags between the points that happen to be there. `refine=True` shortens it
# under the same metric: see [the neighbour graph](../../graph.md).
