"""The explorer's page in a real browser: Debian's chromium, driven by playwright."""

import base64
import io
import json
import re
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import leastpath as lp
from leastpath._support.checks import write_number

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest.importorskip("uvicorn", reason="the explorer needs uvicorn: pip install 'leastpath[explore]'")
expect = sync_api.expect
WAIT = 60_000  # milliseconds for a loaded machine; what is there already is not waited for
expect.set_options(timeout=WAIT)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser is installed: apt-get install chromium")

MARKUP = "<img src=x onerror=window.hurt=1>"


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser):
    """Opens addresses in fresh pages; a script that fails there fails the test.

    plotly.js takes seconds to read on a slow machine, so it is left out where no chart is asked for.
    """
    contexts, failures = [], []

    def opened(address: str, offline: bool = False, charts: bool = False):
        context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=offline, accept_downloads=True)
        contexts.append(context)
        page = context.new_page()
        if not charts:
            page.route("**/plotly.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
        page.set_default_timeout(WAIT)
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("console", lambda said: failures.append(said.text) if "Security Policy" in said.text else None)
        page.goto(address)
        expect(page.locator(".tab").first).to_be_visible()
        expect(page.locator("#tasks li")).to_have_count(0)  # removal is measured after the first picture
        page.wait_for_load_state("load")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not failures


# ---- what is explained -----------------------------------------------------------------------------------------------


class Net(nn.Module):
    """A small classifier of pictures that can be told to fail or to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.fails, self.may_answer = False, threading.Event()
        self.may_answer.set()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 5, 2), nn.Softplus(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(72, 4)
        )
        with torch.no_grad():
            self.body[-1].weight.mul_(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.may_answer.wait(WAIT / 1000)
        if self.fails:
            raise RuntimeError(f"layer {MARKUP} has no weights")
        return self.body(x)


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def picture() -> torch.Tensor:
    return torch.rand(1, 3, 32, 48, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def explorer(net, picture):
    classes = ["ant", "bee", "cat", MARKUP]
    methods = ["integrated_gradients", "elastic_band", "occlusion"]
    score = lp.Score(net, output="softmax")
    with lp.explore(score, picture, 0.0, classes=classes, methods=methods, open=False) as running:
        yield running
        net.fails = False
        net.may_answer.set()


def finding(explorer, method: str = "integrated_gradients") -> dict:
    (key,) = [key for key in explorer.session.state()["results"] if method in explorer.session.result(key)["method"]]
    return explorer.session.result(key)


def unpack(array: dict) -> np.ndarray:
    return np.frombuffer(base64.b64decode(array["data"]), array["dtype"]).reshape(array["shape"])


def slide(page, name: str, value: float) -> None:
    page.locator(f"#{name}").evaluate("(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", value)


def pixels(page, canvas: str) -> list[int]:
    read = "e => Array.from(e.getContext('2d').getImageData(0, 0, e.width, e.height).data)"
    return page.locator(canvas).evaluate(read)


def readout(page) -> str:
    return page.locator("#readout").inner_text()


# ---- the walk --------------------------------------------------------------------------------------------------------


def test_scrub_and_play_ask_nobody(visit, explorer):
    page = visit(explorer.url)
    walk = finding(explorer)["walk"]
    frames = unpack(walk["frames"])
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    k = len(frames) - 6
    shown = np.array(pixels(page, "#picture-frame")).reshape(*frames.shape[1:3], 4)
    np.testing.assert_array_equal(shown[..., :3], frames[k])
    assert f"{walk['scores'][k]:.3g}" in readout(page)
    slide(page, "scrubber", 0)
    np.testing.assert_array_equal(np.array(pixels(page, "#picture-frame")), pixels(page, "#picture-start"))
    assert page.locator("#scrubber").get_attribute("aria-valuetext").startswith("step 1 of 41")
    slide(page, "scrubber", 34)
    page.evaluate(
        """() => { window.names = []; new MutationObserver(() => window.names.push(find("play").ariaLabel))
            .observe(find("play"), { attributes: true, attributeFilter: ["aria-label"] }); }"""
    )
    page.keyboard.press(" ")
    page.wait_for_function("() => window.names.at(-1) === 'Play the walk'")
    assert page.evaluate("() => window.names[0]") == "Pause the walk"
    expect(page.locator("#scrubber")).to_have_value("40")
    assert not asked


# ---- methods, choices ------------------------------------------------------------------------------------------------


def test_switch_solver_and_compare_on_one_scale(visit, explorer):
    page = visit(explorer.url)
    page.select_option("#method", "elastic_band")
    slide(page, "stiffness", 0.5)
    page.click("#explain")
    expect(page.locator(".card")).to_have_count(2)
    expect(page.locator(".tab[aria-pressed=true]")).to_contain_text("stiffness 3.16")
    expect(page.locator("#tasks li")).to_have_count(0)
    assert page.locator("#headline").inner_text() == finding(explorer, "elastic_band")["headline"]
    page.select_option("#scale", "shared")
    strongest = max(np.abs(unpack(finding(explorer, name)["units"])).max() for name in ("gradients", "elastic_band"))
    shown = page.locator("#legend-high").inner_text()
    assert float(shown.replace("−", "-").lstrip("+")) == pytest.approx(strongest, rel=0.01)
    before = pixels(page, ".card canvas >> nth=0")
    for name, value in (("view", "pixel"), ("view", "smoothed"), ("signed", "magnitude"), ("scale", "own")):
        page.select_option(f"#{name}", value)
        after = pixels(page, ".card canvas >> nth=0")
        assert after != before or value == "own"
        before = after
    page.hover(".card canvas >> nth=0")
    for note in page.locator(".card .note").all_inner_texts():
        assert "at row" in note and "column" in note


def test_another_class_is_explained_by_the_same_method(visit, explorer):
    page = visit(explorer.url)
    other = explorer.session.state()["classes"][-1]
    page.select_option("#target", str(other["index"]))
    expect(page.locator("#prediction")).to_contain_text(other["label"])
    expect(page.locator(".tab")).to_have_count(1)
    about = page.evaluate("() => Store.state.about")
    assert about["target"] == other["index"]
    page.click("#baselines summary")
    page.locator("#baseline-list input").nth(1).check()
    expect(page.locator("#baseline-names")).to_contain_text(",")  # both names, once the server has answered
    assert len(page.evaluate("() => Store.state.about")["baseline"]) == 2


def test_a_long_computation_can_be_stopped(visit, explorer, net):
    page = visit(explorer.url)
    net.may_answer.clear()
    page.select_option("#method", "elastic_band")
    page.click("#explain")
    expect(page.locator("#tasks progress")).to_be_visible()
    page.locator("#tasks button").click()
    expect(page.locator("#tasks li")).to_contain_text("stopping")  # the wish has arrived, and the model works on
    net.may_answer.set()
    expect(page.locator("#tasks li")).to_have_count(0)
    told = page.locator("#status").inner_text() + page.locator("#errors").inner_text()
    assert "top" in told  # "Stopped early", or "stopped before anything was finished"


# ---- remove and see --------------------------------------------------------------------------------------------------


def test_remove_the_top_tenth_against_the_model(visit, explorer, net, picture):
    page = visit(explorer.url)
    slide(page, "top", 10)
    values = torch.from_numpy(unpack(finding(explorer)["values"]).copy())
    side = 3  # 48 pixels in at most 16 cells
    label = (torch.arange(32)[:, None] // side) * 16 + torch.arange(48) // side
    strength = torch.zeros(11 * 16).index_add_(0, label.flatten(), values.sum(0).flatten())  # signed
    top = strength.argsort(descending=True)[: round(0.1 * len(strength))]
    removed = torch.where(torch.isin(label, top), 0.0, picture)
    target = explorer.session.state()["target"]
    expected = float(net(removed).softmax(1)[0, target].detach())
    expect(page.locator("#answer .score b")).to_have_text(f"{expected:.3g}")
    seen = np.array(pixels(page, "#editor-canvas")).reshape(32, 48, 4)[..., :3]
    np.testing.assert_allclose(seen / 255, removed[0].permute(1, 2, 0).numpy(), atol=1 / 255)
    page.click("#clear")
    expect(page.locator("#answer")).to_contain_text("everything in place")


def test_paint_away_by_hand(visit, explorer):
    page = visit(explorer.url)
    box = page.locator("#editor-canvas").bounding_box()
    page.locator("#editor-canvas").scroll_into_view_if_needed()
    page.locator("#editor-canvas").click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    expect(page.locator("#answer .score")).to_contain_text("→")
    assert "everything in place" not in page.locator("#answer").inner_text()


@pytest.mark.parametrize("shape", [(1, 7, 300), (13, 300, 6), (2, 1, 40)])
def test_strips_of_any_number_of_channels_can_be_seen_and_painted(visit, shape):
    torch.manual_seed(0)
    layers = nn.Conv2d(shape[0], 4, 3, padding=1), nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    score, picture = lp.Score(nn.Sequential(*layers).eval()), 5 * torch.randn(1, *shape)
    with lp.explore(score, picture, methods=["integrated_gradients"], open=False) as explorer:
        page = visit(explorer.url)
        canvas = page.locator("#editor-canvas")
        box = canvas.bounding_box()
        assert min(box["width"], box["height"]) > 30
        canvas.click(position={"x": 6, "y": box["height"] / 2})  # in the middle of the left side
        expect(page.locator("#answer .score")).to_contain_text("(")
        seen = np.array(pixels(page, "#editor-canvas")).reshape(*shape[1:], 4)[shape[1] // 2, 0, 0]
        low, high = float(picture.min()), float(picture.max())
        assert seen == pytest.approx(255 * (0 - low) / (high - low), abs=1)  # zeros, the baseline
        page.select_option("#view", "pixel")
        page.locator(".card canvas").hover()
        expect(page.locator(".card .note")).to_contain_text("at row")
        told, row, column = re.split(" at row |, column ", page.locator(".card .note").inner_text())
        value = unpack(finding(explorer)["values"])[:, int(row), int(column)].sum()
        assert told == write_number(value.item(), sign=True)
        np.testing.assert_allclose([int(row), int(column)], [shape[1] / 2, shape[2] / 2], atol=2)


def test_two_tabs_show_each_their_own(visit, net):
    """Oracle: what each tab says that it is about."""
    pictures = torch.rand(2, 3, 32, 48, generator=torch.Generator().manual_seed(2))
    with lp.explore(lp.Score(net), pictures, methods=["integrated_gradients", "occlusion"], open=False) as explorer:
        first, second = visit(explorer.url), visit(explorer.url)
        second.select_option("#sample", "1")
        expect(second.locator("#title")).to_have_text("example 1")
        first.select_option("#method", "occlusion")
        first.click("#explain")
        expect(first.locator(".tab")).to_have_count(2)
        expect(first.locator("#tasks li")).to_have_count(0)
        expect(first.locator("#title")).to_have_text("example 0")
        key = first.evaluate("() => Store.selected.key")
        assert torch.equal(explorer.session.finding(key).question.subject.inputs[0], pictures[0])
        expect(second.locator(".tab")).to_have_count(1)


# ---- export ----------------------------------------------------------------------------------------------------------


def test_the_export_page_scrubs_offline(visit, explorer, tmp_path):
    page = visit(explorer.url)
    slide(page, "scrubber", 17)
    online, frame = readout(page), pixels(page, "#picture-frame")
    with page.expect_download() as download:
        page.click("#export-html")
    path = tmp_path / "explanation.html"
    download.value.save_as(path)
    explorer.close()
    alone = visit(path.as_uri(), offline=True)
    slide(alone, "scrubber", 17)
    assert readout(alone) == online
    assert pixels(alone, "#picture-frame") == frame
    expect(alone.locator("#walk-chart .scatterlayer .trace")).to_have_count(3)
    slide(alone, "top", 10)
    level = finding(explorer)["curves"]["baseline"]["most"][0]
    expect(alone.locator("#answer .score b")).to_have_text(f"{level:.3g}")
    with alone.expect_download() as download:
        alone.click("#export-json")
    (told,) = json.loads(Path(download.value.path()).read_bytes())["results"].values()
    np.testing.assert_allclose(told["values"], unpack(finding(explorer)["values"]), rtol=1e-6)
    expect(alone.locator("#choices")).to_be_hidden()
    expect(alone.locator("footer")).to_contain_text("leastpath explore")


def test_the_export_page_opens_on_what_is_offered_first(visit, net, picture, tmp_path):
    """As the page that it was made of: the line is computed before it, to have a path to walk."""
    methods = ["occlusion", "integrated_gradients"]
    with lp.explore(lp.Score(net), picture, 0.0, methods=methods, open=False) as explorer:
        page = visit(explorer.url)
        expect(page.locator(".tab")).to_have_count(2)
        with page.expect_download() as download:
            page.click("#export-html")
        path = tmp_path / "explanation.html"
        download.value.save_as(path)
    assert visit(path.as_uri(), offline=True).evaluate("() => Store.selected.method") == "occlusion"


def test_charts_png_json_and_code(visit, explorer, tmp_path):
    page = visit(explorer.url, charts=True)
    expect(page.locator("#walk-chart .scatterlayer .trace")).to_have_count(3)  # under the server's policy
    expect(page.locator("#curves-chart .scatterlayer .trace")).to_have_count(2)
    box = page.locator("#walk-chart").bounding_box()
    page.mouse.click(box["x"] + 52, box["y"] + 100)  # the left margin: the start of the path
    expect(page.locator("#scrubber")).to_have_value("0")
    for button in (".card button[title='Save as PNG']", "#walk-png", "figure:has(#picture-frame) button"):
        with page.expect_download() as download:
            page.locator(button).click()
        assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as download:
        page.click("#export-json")
    (told,) = json.loads(Path(download.value.path()).read_bytes())["results"].values()
    np.testing.assert_allclose(told["values"], unpack(finding(explorer)["values"]), rtol=1e-6)
    assert "frames" not in told["walk"]  # numbers, no pictures
    with page.expect_download() as download:
        page.click("#export-result")
    download.value.save_as(tmp_path / "result.safetensors")
    kept = lp.load(tmp_path / "result.safetensors")
    np.testing.assert_allclose(kept.values[0].numpy(), unpack(finding(explorer)["values"]), atol=1e-6)
    with lp.explore(kept, open=False) as again:
        opened = visit(again.url)
        expect(opened.locator("#prediction")).to_contain_text("A saved result")
        expect(opened.locator("#readout")).to_contain_text("attributed so far")
    plain = lp.attribute(
        lp.Score(explorer.session.source._rows[0].score.model, 1), kept.path.end, method=lp.StraightLine()
    )
    with lp.explore(plain, open=False) as again:
        opened = visit(again.url)
        slide(opened, "scrubber", 0)
        assert pixels(opened, "#picture-frame")[:3] == [0, 0, 0]  # the path is in the file, its scores are not
        expect(opened.locator("#walk-chart")).to_be_hidden()
        expect(opened.locator("#removal")).to_be_hidden()
    page.click("#export-code")
    compile(page.locator("#code-text").inner_text(), "code", "exec")


# ---- errors, names ---------------------------------------------------------------------------------------------------


def test_an_unreadable_file_is_a_sentence_that_can_be_dismissed(visit, explorer):
    page = visit(explorer.url)
    page.set_input_files("#file", {"name": f"{MARKUP}.png", "mimeType": "image/png", "buffer": b"no picture"})
    expect(page.locator("#errors .error span")).to_contain_text(MARKUP)
    page.locator("#errors button").click()
    expect(page.locator("#errors .error")).to_have_count(0)
    expect(page.locator(".tab")).to_have_count(1)


def test_a_model_that_fails_is_a_sentence(visit, explorer, net):
    page = visit(explorer.url)
    net.fails = True
    page.select_option("#method", "occlusion")
    page.click("#explain")
    expect(page.locator("#errors .error span")).to_contain_text(f"layer {MARKUP} has no weights")
    expect(page.locator("#tasks li")).to_have_count(0)


def test_a_server_that_is_gone_is_a_sentence(visit, explorer):
    page = visit(explorer.url)
    closing = threading.Thread(target=explorer.close)
    closing.start()
    closing.join()
    page.click("#explain")
    expect(page.locator("#errors .error span")).to_contain_text("The server does not answer")


def test_markup_in_names_stays_text(visit, explorer):
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    page = visit(explorer.url)
    file = io.BytesIO()
    image.new("RGB", (48, 32), "teal").save(file, "png")
    name = f"{MARKUP}.png"
    page.set_input_files("#file", {"name": name, "mimeType": "image/png", "buffer": file.getvalue()})
    expect(page.locator("#title")).to_have_text(name)
    expect(page.locator(".tab")).to_have_count(1)
    assert page.locator("img[src=x]").count() == 0
    assert page.evaluate("() => window.hurt") is None


def test_names_for_screen_readers_dark_mode_and_small_windows(visit, explorer):
    page = visit(explorer.url)
    nameless = page.evaluate(
        """() => Array.from(document.querySelectorAll("button, select, input"))
            .filter(e => !(e.getAttribute("aria-label") || e.labels?.length || e.textContent.trim()))
            .map(e => e.outerHTML)"""
    )
    assert nameless == []
    assert page.locator("canvas[role=img]:not([aria-label])").count() == 0
    before = pixels(page, "#picture-so-far")
    page.click("#theme")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert pixels(page, "#picture-so-far") != before
    page.set_viewport_size({"width": 1000, "height": 800})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 1000


# ---- tables and texts ------------------------------------------------------------------------------------------------


def test_a_table(visit):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    from leastpath.explorer.sources.tables import TableSource

    columns = {MARKUP: [1.0, 3.0, 2.0], "job": ["cook", "pilot", "cook"], "age": [20.0, 30.0, 70.0]}
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).eval()
    source = TableSource(model, pd.DataFrame(columns), classes=["no", "yes"])
    with lp.explore(source, methods=["integrated_gradients", "occlusion"], open=False) as explorer:
        page = visit(explorer.url)
        values = unpack(finding(explorer)["values"])
        order = [list(columns)[i] for i in np.argsort(-np.abs(values))]
        assert page.locator(".bars .name b").all_inner_texts() == order
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".columns tbody tr")).to_have_count(3)
        page.locator(".chip", has_text="job").click()
        expect(page.locator(".chip[aria-pressed=true]")).to_contain_text("job")
        removed = {"dtype": "uint8", "shape": [3], "data": base64.b64encode(bytes([0, 1, 0])).decode()}
        expected = explorer.session.remove({"removed": removed})["score"]
        expect(page.locator("#answer .score b")).to_have_text(f"{expected:.3g}")
        page.select_option("#sample", "1")
        expect(page.locator("#title")).to_have_text("row 1")
        assert page.locator("img[src=x]").count() == 0


def tiny_bert(tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    special, plain = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], ["a", "fine", "film", "<", ">", "b"]
    words = [*special, *plain, "pre", "##dict", "##able"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    tokenizer = transformers.BertTokenizerFast(str(tmp_path / "vocab.txt"))
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=32, num_labels=2, **size)
    return transformers.BertForSequenceClassification(config).eval(), tokenizer


def test_a_text(visit, tmp_path):
    model, tokenizer = tiny_bert(tmp_path)
    from leastpath.explorer.sources.texts import TextSource

    source = TextSource(model, tokenizer, ["a <b> predictable film"])
    with lp.explore(source, methods=["integrated_gradients"], open=False) as explorer:
        page = visit(explorer.url)
        shown = [token["name"] for token in explorer.session.state()["features"]]
        assert page.locator(".card .token").all_inner_texts() == shown
        page.keyboard.press("ArrowLeft")
        assert "98 %" in readout(page)
        page.check("#merge")
        merged = page.locator(".card .token").all_inner_texts()
        assert "predictable" in merged and "dict" not in "".join(merged).replace("predictable", "")
        page.locator(".chip", has_text="predictable").click()
        expect(page.locator(".seen")).to_contain_text("film")
        assert "dict" not in page.locator(".seen").inner_text()
        expect(page.locator("#answer .score")).to_contain_text("→")


# ---- a prompt --------------------------------------------------------------------------------------------------------


def test_a_prompt(browser, tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed")
    from leastpath.explorer.prompts import PromptSource
    from leastpath.language.toy import toy_model

    source = PromptSource(*toy_model(), "the capital of France is", max_new_tokens=3)
    context = browser.new_context(accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(WAIT)
    failures = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("console", lambda message: failures.append(message.text))
    with lp.explore(source, open=False) as explorer:
        page.goto(explorer.url)
        expect(page.locator("#words .token")).to_have_count(5)
        (key,) = explorer.session.state()["results"]
        shown = explorer.session.result(key)
        expect(page.locator("#headline")).to_have_text(shown["headline"])
        titles = [token.get_attribute("title") for token in page.locator("#words .token").all()]
        assert [title.split(": ")[1].split(" nats")[0] for title in titles] == [
            write_number(value, sign=True) for value in shown["values"]
        ]
        page.locator("#answer-tokens button").nth(2).click()  # the second token: its row, and what came before it
        expect(page.locator("#words .token")).to_have_count(5 + 2)
        title = page.locator("#words .token").first.get_attribute("title")
        assert write_number(shown["matrix"][1][0], sign=True) in title
        page.locator("#editor button", has_text="France").click()
        page.keyboard.type("Italy")
        page.keyboard.press("Enter")
        expect(page.locator("#edited")).to_have_text("The model reads: the capital of Italy is")
        wanted = {"about": {**shown["about"], "prompt": "the capital of Italy is"}, "answers": shown["ids"]}
        after = explorer.session.next(wanted)
        expect(page.locator("#answers .score b").first).to_have_text(write_number(after["log_probabilities"][0]))
        expect(page.locator("#next li").first).to_contain_text("→")
        page.fill("#continuation", "Paris")
        page.fill("#contrast", "Rome")
        page.click("#explain")
        expect(page.locator(".tab")).to_have_count(2)
        expect(page.locator("#heading")).to_contain_text("Paris rather than Rome")
        with page.expect_download() as download:
            page.click("#export-html")
        download.value.save_as(tmp_path / "prompt.html")
    page.goto((tmp_path / "prompt.html").as_uri())
    expect(page.locator(".tab")).to_have_count(2)
    page.locator(".tab").first.click()
    page.locator("#answer-tokens button").nth(2).click()
    assert page.locator("#words .token").first.get_attribute("title") == title
    expect(page.locator("#choices")).to_be_hidden()
    context.close()
    assert not failures
