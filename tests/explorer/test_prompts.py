"""Prompts in the explorer: the numbers of `leastpath.language`, the model's own probabilities, errors as sentences."""

import json
import time

import pytest
import torch

import leastpath as lp
from explorer_subjects import served
from leastpath.explorer.export import bundle_of, export_page
from leastpath.explorer.prompts import MOST_LETTERS, PromptSession, PromptSource, cut_segments
from leastpath.explorer.session import session_of
from leastpath.language import explain
from leastpath.language.toy import toy_model

pytest.importorskip("transformers")
PROMPT = "the capital of France is"


@pytest.fixture(scope="module")
def parts():
    return toy_model()


def asked(client, **about) -> dict:
    task = client.post("/api/explain", json={"about": about}).json()["task"]
    while (status := client.get(f"/api/tasks/{task}").json())["state"] == "running":
        time.sleep(0.02)
    assert status["state"] == "done", status
    return client.get(f"/api/results/{status['result']}").json()


def test_numbers_are_those_of_the_library(parts):
    with served(PromptSession(PromptSource(*parts, PROMPT, "Paris", contrast="Rome"))) as client:
        state = client.get("/api/state").json()
        assert (state["kind"], state["results"], state["about"]["contrast"]) == ("prompt", [], "Rome")
        shown = asked(client)
        own = explain(*parts, PROMPT, "Paris", contrast="Rome")
        assert shown["values"] == pytest.approx(own.values.tolist(), abs=1e-5)
        assert (shown["heading"], shown["status"]) == (own.heading, own.result.status[0].value)
        assert [segment["text"] for segment in shown["segments"] if segment["feature"] is not None] == PROMPT.split()
        assert "".join(segment["text"] for segment in shown["segments"]) == PROMPT
        assert shown["continuation"][0]["log_probability"] == pytest.approx(float(own.log_probabilities[0]), abs=1e-5)
        assert client.get("/api/state").json()["results"] == [shown["key"]]


def test_every_token_of_an_answer_has_its_row(parts):
    with served(session_of(PromptSource(*parts, PROMPT, max_new_tokens=3))) as client:
        shown = asked(client)
        own = explain(*parts, PROMPT, max_new_tokens=3, support=False)
        torch.testing.assert_close(torch.tensor(shown["matrix"]).double(), own.matrix, atol=1e-5, rtol=0)
        assert [token["text"] for token in shown["continuation"]] == list(own.continuation)


def test_replaced_words_move_the_models_own_probabilities(parts):
    model, tokenizer = parts
    with served(PromptSession(PromptSource(*parts, PROMPT, "Paris", contrast="Rome"))) as client:
        shown = asked(client)
        about = {**shown["about"], "prompt": "the capital of Italy is"}
        wanted = {"about": about, "answers": shown["ids"], "tokens": [token["id"] for token in shown["next"]["tokens"]]}
        after = client.post("/api/next", json=wanted).json()
        for prompt, told in ((PROMPT, shown["next"]), (about["prompt"], after)):
            with torch.no_grad():
                chances = model(**tokenizer(prompt, return_tensors="pt")).logits[0, -1].double().softmax(-1)
            assert told["tokens"][0]["probability"] == pytest.approx(float(chances.max()), abs=1e-6)
            for token in told["tokens"]:
                assert token["probability"] == pytest.approx(float(chances[token["id"]]), abs=1e-6)
                assert token["text"] == tokenizer.decode([token["id"]])
            logs = [float(chances[ids[0]].log()) for ids in shown["ids"]]
            assert told["log_probabilities"] == pytest.approx(logs, abs=1e-5)
        assert {token["id"] for token in shown["next"]["tokens"]} <= {token["id"] for token in after["tokens"]}


def test_a_chat_message_is_wrapped_by_its_template(parts):
    model, tokenizer = toy_model()
    tokenizer.chat_template = "{% for m in messages %}<end> {{ m['content'] }}{% endfor %}"
    with served(PromptSession(PromptSource(model, tokenizer, PROMPT, "Paris"))) as client:
        assert client.get("/api/state").json()["has_chat"]
        shown = asked(client, chat=True)
        own = explain(model, tokenizer, [{"role": "user", "content": PROMPT}], "Paris", support=False)
        assert shown["values"] == pytest.approx(own.values.tolist(), abs=1e-5)
        assert "".join(segment["text"] for segment in shown["segments"]) == PROMPT


def test_the_code_gives_the_same_numbers(parts, capsys):
    session = PromptSession(PromptSource(*parts, PROMPT, "Paris"))
    space = {"model": parts[0], "tokenizer": parts[1]}
    exec(session.code({"contrast": "Rome", "groups": "tokens", "method": "token_staircase"}), space)
    own = explain(*parts, PROMPT, "Paris", contrast="Rome", groups="tokens", method="token_staircase", support=False)
    assert torch.allclose(space["explained"].values, own.values)
    session.close()


def test_the_exported_page_holds_its_numbers(parts):
    session = PromptSession(PromptSource(*parts, "the </script> cat", "sat"))
    task = session.start({})
    assert task.finished.wait(60)
    bundle = bundle_of(session, {"results": [task.result]})
    page = export_page(bundle, session.page)
    held = json.loads(page.partition('id="bundle">')[2].partition("</script>")[0])
    assert held["results"][task.result]["values"] == session.result(task.result)["values"]
    assert "app/prompt.js" not in page and "const Prompt" in page
    session.close()


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"prompt": " "}, "letters"), ({"prompt": "a " * MOST_LETTERS}, "letters"), ({"prompt": 3}, "cannot be asked"),
        ({"groups": "letters"}, "use one of words"), ({"method": "magic"}, "use one of"), ({"colour": 1}, "colour"),
        ({"max_new_tokens": 0}, "from 1"), ({"max_new_tokens": True}, "cannot be asked"), ({"chat": 1}, "chat"),
    ],
)  # fmt: skip
def test_wrong_questions_are_sentences(parts, about, words):
    with served(PromptSession(PromptSource(*parts, PROMPT))) as client:
        for answer in (
            client.post("/api/explain", json={"about": about}),
            client.get("/api/state", params={"about": json.dumps(about)}),
            client.post("/api/next", json={"about": about}),
        ):
            assert answer.status_code == 400 and words in answer.json()["error"]
            assert len(answer.json()["error"]) < 600
        assert client.post("/api/next", json={"tokens": "ab"}).status_code == 400
        assert client.post("/api/next", json={"answers": [[-1]]}).status_code == 400


def test_what_the_library_refuses_is_a_sentence_and_a_stop_is_told(parts):
    session = PromptSession(PromptSource(*parts, PROMPT))
    task = session.start({"about": {"continuation": "Paris", "contrast": "Paris"}})
    assert task.finished.wait(60)
    assert task.state == "failed" and "is the continuation itself" in task.said
    task = session.start({"about": {"prompt": "the cat sat on the mat"}})
    task.meter.stop()
    assert task.finished.wait(60)
    assert (task.state, task.result) == ("stopped", None)
    assert not parts[0]._forward_pre_hooks  # nothing is left on the model
    session.close()


def test_explore_takes_a_prompt(parts):
    with lp.explore(PromptSource(*parts, PROMPT), open=False) as explorer:
        assert explorer.session.page == "prompt.html"
        assert explorer.session.add("a.txt", b"the cat")["about"]["prompt"] == "the cat"


def test_repeated_words_are_cut_in_reading_order():
    parts = cut_segments("the cat, the dog", ["the", "cat", "the", "dog"])
    assert [part["feature"] for part in parts] == [0, None, 1, None, 2, None, 3]
