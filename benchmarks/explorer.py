"""The explorer: its first picture against two straight-line integrals, and a step of the scrubber in the browser.

    python benchmarks/explorer.py [--repeats 3] [--steps 200]

A photograph of 224 pixels that scikit-learn ships, and EfficientNet-lite0. All are measured in turn in one run, as
wall-clock times; ratios are formed within a repeat.

- A straight-line integral is `attribute` with StraightLine() and 50 fixed steps.
- The server's first picture is all that the page waits for: the integral, the walk, and the result as JSON. All of the
  first explanation is that and the removal curves of every fill.
- The browser's first picture is timed in a fresh window, from the address to the frame that is shown. It needs
  `leastpath[browser]` and chromium, and is left out without them, as is the step.
- A step is timed in the page: from the change of the frame to pixels that can be read back, with both canvases, the
  cursor and the numbers.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import shutil
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import torch

import leastpath as lp
from leastpath.commands.explore_samples import sample_source
from leastpath.explorer.arrays import as_json
from leastpath.explorer.session import session_of

STEPS = """async (steps) => {
  const canvases = ["picture-frame", "picture-so-far"].map((id) => document.getElementById(id));
  const times = [];
  for (let i = 0; i < steps; i++) {
    const began = performance.now();
    Store.setFrame(i % 41);
    for (const canvas of canvases) canvas.getContext("2d").getImageData(0, 0, 1, 1);
    document.body.offsetWidth;
    times.push(performance.now() - began);
    await new Promise(requestAnimationFrame);
  }
  return times;
}"""


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """The browser, or None where there is none."""
    file = shutil.which("chromium")
    if file is None or importlib.util.find_spec("playwright") is None:
        yield None
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=file, args=["--no-sandbox"])
        yield browser
        browser.close()


def two_integrals(source: Any) -> float:
    session = session_of(source)
    question = session.question({})[1]
    began = time.perf_counter()
    for _ in range(2):
        lp.attribute(
            question.score, question.subject.inputs, question.baselines, method=lp.StraightLine(), tolerance=None,
            n_steps=50,
        )  # fmt: skip
    seconds = time.perf_counter() - began
    session.close()
    return seconds


def first_on_the_server(source: Any) -> tuple[float, float]:
    """Seconds to the first picture, and to all that is told of it."""
    session = session_of(source)  # a new one: nothing is kept from before
    began = time.perf_counter()
    task = session.start({"method": "integrated_gradients"})
    seconds = []
    for has_come in (task.shown, task.finished):
        has_come.wait()
        as_json(session.result(task.result))
        seconds.append(time.perf_counter() - began)
    session.close()
    return seconds[0], seconds[1]


def first_in_the_browser(browser: Any, source: Any) -> float:
    with lp.explore(source, open=False) as explorer:
        page = browser.new_context().new_page()
        began = time.perf_counter()
        page.goto(explorer.url, wait_until="commit")
        page.locator("#picture-frame").wait_for(timeout=600_000)
        seconds = time.perf_counter() - began
        page.context.close()
    return seconds


def steps_in_the_page(browser: Any, source: Any, steps: int) -> list[float]:
    with lp.explore(source, open=False) as explorer:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(explorer.url)
        page.locator("#walk-chart .scatterlayer").first.wait_for(timeout=600_000)
        return sorted(page.evaluate(STEPS, steps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    source, sentence = sample_source("photos")
    print(sentence)
    with chromium() as browser:
        names = ("two integrals", "first picture, server", "all of it, server", "first picture, browser")
        times: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(options.repeats):
            in_turn = [two_integrals(source), *first_on_the_server(source)]
            if browser is not None:
                in_turn.append(first_in_the_browser(browser, source))
            for name, seconds in zip(names, in_turn, strict=False):
                times[name].append(seconds)
        for name, measured in times.items():
            ratios = [one / two for one, two in zip(measured, times["two integrals"], strict=False)]
            if measured:
                spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
                print(f"{name}: {median(measured):.2f} s, {median(ratios):.2f} of two integrals ({spread})")
        if browser is not None:
            steps = steps_in_the_page(browser, source, options.steps)
            print(f"a step: median {median(steps):.1f} ms, 95 % below {steps[int(0.95 * len(steps))]:.1f} ms")


if __name__ == "__main__":
    main()
