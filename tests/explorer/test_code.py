"""The code that reproduces what is shown does so when it is run."""

import pytest
import torch

import leastpath as lp
from explorer_subjects import (
    finished,
    picture_net,
    picture_source,
    session_over,
    table_frame,
    table_source,
    text_parts,
    text_source,
)


def test_the_code_of_a_picture_gives_the_same_numbers():
    with session_over(picture_source()) as session:
        session.choose({"sample": 1, "baseline": ["black", "blur"]})
        keys = [finished(session, "integrated_gradients"), finished(session, "elastic_band", 0.5)]
        space = {
            "score": lp.Score(picture_net()),
            "inputs": torch.cat([picture_source().subject(i).inputs for i in (0, 1)]),
        }
        exec(session.code(), space)
        for number, key in enumerate(keys, 1):
            assert torch.allclose(space[f"result_{number}"].values, session.finding(key).result.values, atol=1e-5)


def test_the_code_of_a_table_gives_the_same_numbers():
    with session_over(table_source()) as session:
        keys = [finished(session, "integrated_gradients"), finished(session, "elastic_band")]
        frame = table_frame()
        space = {"model": table_source()._score.model.model, "frame": frame[:1], "background": frame}
        exec(session.code(), space)
        for number, key in enumerate(keys, 1):
            subject = session.finding(key).question.subject
            shown = subject.by_feature(session.finding(key).result.values)[0]
            mine = torch.tensor(space[f"result_{number}"].values.to_numpy()[0]).float()
            assert torch.allclose(mine, shown, atol=1e-5)


def test_the_code_of_a_text_gives_the_same_numbers():
    model, tokenizer = text_parts()
    with session_over(text_source()) as session:
        keys = [finished(session, "integrated_gradients"), finished(session, "elastic_band")]
        space = {"model": model, "tokenizer": tokenizer}
        exec(session.code(), space)
        for number, key in enumerate(keys, 1):
            shown = session.finding(key).result.values[0].sum(1)
            assert torch.allclose(space[f"result_{number}"].values[0], shown, atol=1e-5)


@pytest.mark.parametrize("source", [picture_source, table_source, text_source])
def test_code_compiles_for_every_method(source):
    with session_over(source()) as session:
        for name in session.methods:
            finished(session, name)
        compile(session.code(), "code", "exec")
