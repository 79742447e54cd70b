"""Units of work. Oracles: a referee of one's own; what is kept is not done again."""

import torch

import leastpath as lp
from leastpath._support.store import Store
from studies.verdict.judging import Workshop, do_all, judge_maps, key_of, over_patches, shaped_as
from studies.verdict.kinds import draw_maps
from studies.verdict.tasks import TASKS


def test_units_are_kept_and_say_what_a_referee_says(tmp_path):
    task, workshop = TASKS["wine-0"], Workshop(Store(tmp_path, {}), None, quick=True)
    assert do_all(workshop, [task], most=2) == 0
    record = workshop.store.read(key_of("judged", task, [1, 3])).record
    assert len(record["four random"]) == 2 and len(record["band"]["outcome"]) == 2
    problem = workshop.open(task).problem([1, 3])
    maps = draw_maps(problem, "table", 1)
    found = lp.Referee(problem.score("log_softmax"), problem.inputs, 0.0).judge(maps["staircases"])
    assert record["kinds"]["staircases"]["outcome"] == [status.outcomes[0].value for status in found.status]
    assert judge_maps(problem, "table", maps)["kinds"] == record["kinds"]
    workshop.store.write(key_of("judged", task, [1, 3]), {"kept": True})
    assert do_all(workshop, [task], most=2) == 0
    assert workshop.store.read(key_of("judged", task, [1, 3])).record == {"kept": True}
    assert do_all(workshop, [TASKS["wine-1"]], most=2, minutes=0) == 1


def test_a_net_that_is_missing_is_left_out_with_a_sentence(tmp_path, capsys):
    workshop = Workshop(Store(tmp_path, {}), None, quick=True)
    assert do_all(workshop, [TASKS["adult"]], most=1) == 0
    assert "Adult, 13 columns is left out: needs tabular/adult.csv.gz" in capsys.readouterr().out


def test_patches_have_the_sums_of_their_pixels():
    values = torch.rand(1, 3, 128, 128)
    patches = over_patches(values)
    torch.testing.assert_close(patches[17], values[0, :, 8:16, 8:16].sum())
    torch.testing.assert_close(over_patches(shaped_as(patches, "photograph")[:, None]), patches)
