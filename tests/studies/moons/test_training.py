"""All nets trained at once. Oracle: a plain loop for each."""

import torch

from studies.moons.training import Moons, loaded_net, new_net, train_together


def test_training_together_equals_a_plain_loop():
    tasks = [Moons(0.15, 12), Moons(0.3, 24)]
    together = train_together(tasks, epochs=1)
    for task, weights in zip(tasks, together, strict=True):
        net, (points, labels) = new_net(task.seed), task.train
        adam = torch.optim.Adam(net.parameters(), 1e-3)
        order = torch.randperm(len(points), generator=torch.Generator().manual_seed(task.seed))
        for batch in order.split(32):
            adam.zero_grad()
            torch.nn.functional.nll_loss(net(points[batch]).log_softmax(1), labels[batch]).backward()
            adam.step()
        for name, value in net.state_dict().items():
            torch.testing.assert_close(weights[name], value, rtol=1e-4, atol=1e-5)


def test_new_net_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    new_net(12)
    assert torch.equal(before, torch.random.get_rng_state())


def test_loaded_net_needs_no_gradients():
    assert not any(p.requires_grad for p in loaded_net(new_net(1).state_dict()).parameters())
