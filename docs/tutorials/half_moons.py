# %% [markdown]
# # Half-moons
#
# Two features, two classes, a network that is steep at the border and nearly flat
# elsewhere: the smallest place to see what a path of least resistance does. It is also
# the paper's first experiment, in small.

# %%
import torch
from sklearn.datasets import make_moons
from torch import nn

import leastpath as lp
from leastpath.evaluation import profile_paths, score_plane
from leastpath.report import path_profile, plot_graph

torch.manual_seed(0)
x, y = make_moons(1000, noise=0.15, random_state=0)
points, labels = torch.tensor(x, dtype=torch.float32), torch.tensor(y)

net = nn.Sequential(
    nn.Linear(2, 10), nn.ReLU(), nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 2)
)
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(20):
    for rows in torch.randperm(800).split(64):
        optimizer.zero_grad()
        nn.functional.cross_entropy(
            net(points[:800][rows]), labels[:800][rows]
        ).backward()
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
graph = lp.NeighborGraph(points[:800], n_neighbors=15).build(
    score, lp.Conformal(), baseline
)
straight = lp.attribute(score, inputs, baseline, method=lp.StraightLine())
route = lp.attribute(score, inputs, baseline, method=graph)

print(f"{'':16}{'cancellation':>14}{'certificate':>14}{'length ratio':>14}")
for name, result in {"straight line": straight, "shortest route": route}.items():
    medians = [float(v.median()) for v in (result.certificate, result.length_ratio)]
    print(
        f"{name:16}{result.cancellation.mean():14.4f}{medians[0]:14.3f}{medians[1]:14.3f}"
    )

# %% [markdown]
# That is the mean cancellation, and the medians of the others. Both satisfy
# completeness: the values of the two features add up to the change of score. On the
# routes there is less going up and down on the way, and less cancelling.
#
# Here are the routes that gain most, that are middling, and that gain least. A route
# can only visit the points that are there, so it can even be longer than the line; its
# status says so where that happens.

# %%
# where the score hardly changes, there is little to explain
moved = (route.score_change.abs() > 1).nonzero()[:, 0]
order = moved[route.length_ratio[moved].argsort()]
shown = [int(order[0]), int(order[len(order) // 2]), int(order[-1])]
print(
    "length of the route / of the line:",
    [round(float(ratio), 3) for ratio in route.length_ratio[shown]],
)
plane = score_plane(score, points)
plot_graph(graph, route, shown, background=plane).savefig(
    "half_moons-graph.png", dpi=110
)

# %% [markdown]
# ## What happens on the way
#
# The score, and the norm of its gradient, along the line and along the route that gains
# most. The length that the integrator measured stands in the legend; it cannot be below
# the change of score.

# %%
profiles = profile_paths(score, {"route": route}, shown[0])
path_profile(profiles).savefig("half_moons-profile.png", dpi=110)
print(route.status[shown[0]].value)
change, certificate = route.score_change[shown[0]], route.certificate[shown[0]]
print(f"change of score {float(change):.3f}, certificate {float(certificate):.3f}")

# %% [markdown]
# ## Shorter still
#
# A route zig-zags between the points that happen to be there. `refine=True` shortens it
# under the same metric; how much that gains is on the page about [the neighbour
# graph](../../graph.md).

# %%
solver = lp.NeighborGraph(points[:800], n_neighbors=15, refine=True)
refined = lp.attribute(score, inputs[shown], baseline, method=solver)
print(
    "length of the shortened route / of the line:",
    [round(float(ratio), 3) for ratio in refined.length_ratio],
)
