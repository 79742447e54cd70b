"""The explorer in the browser: a step of the scrubber, and the first picture beside straight-line integrals.

    python benchmarks/explorer.py [--repeats 5] [--steps 200]

A photograph of 224 pixels that scikit-learn ships, and EfficientNet-lite0. A step is timed in the page, from the change
of the frame to pixels that can be read back: both canvases, the cursor and the numbers. The first picture is timed from
the address to the first frame on its canvas, in a fresh browser window. The straight-line integral is
`attribute(score, x, solver=StraightLine())` at its default tolerance. Both take turns in every repeat, so that whatever
else the machine does hits both alike; ratios are formed within a repeat. Times are wall-clock times.
"""

from __future__ import annotations

import argparse
import shutil
import time
from statistics import median

import torch
from playwright.sync_api import Browser, sync_playwright

import leastpath as lp
from leastpath.commands.explore_samples import sample_source

STEPS = """async (steps) => {
  const times = [], canvas = document.getElementById("picture-frame"), soFar = document.getElementById("picture-so-far");
  for (let i = 0; i < steps; i++) {
    const began = performance.now();
    Store.setFrame(i % 41);
    for (const drawn of [canvas, soFar]) drawn.getContext("2d").getImageData(0, 0, 1, 1);
    document.body.offsetWidth;
    times.push(performance.now() - began);
    await new Promise(requestAnimationFrame);
  }
  return times;
}"""


def first_picture(browser: Browser, source: object) -> float:
    """Seconds until a frame of the walk is drawn; nothing is known before."""
    with lp.explore(source, open=False) as explorer:  # type: ignore[arg-type]
        page = browser.new_context().new_page()
        began = time.perf_counter()
        page.goto(explorer.url, wait_until="commit")
        page.locator("#picture-frame").wait_for(timeout=120_000)
        seconds = time.perf_counter() - began
        page.context.close()
    return seconds


def straight_line(score: lp.Score, inputs: torch.Tensor) -> float:
    began = time.perf_counter()
    lp.attribute(score, inputs, solver=lp.StraightLine())
    return time.perf_counter() - began


def steps_in_the_page(browser: Browser, source: object, steps: int) -> list[float]:
    with lp.explore(source, open=False) as explorer:  # type: ignore[arg-type]
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(explorer.url)
        page.locator("#walk-chart .scatterlayer").wait_for(timeout=120_000)
        return page.evaluate(STEPS, steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    source = sample_source("photos")[0]
    subject = source.subject(0)
    target = int(subject.score.model(subject.inputs).argmax(1))
    score = lp.Score(subject.score.model, target, output="softmax")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        first_picture(browser, source)  # what is only slow once
        pairs = [(first_picture(browser, source), straight_line(score, subject.inputs)) for _ in range(options.repeats)]
        times = sorted(steps_in_the_page(browser, source, options.steps))
        browser.close()
    print(f"step of the scrubber: median {median(times):.1f} ms, 95 % below {times[int(0.95 * len(times))]:.1f} ms")
    print(
        f"first picture: median {median(a for a, _ in pairs):.2f} s; straight line {median(b for _, b in pairs):.2f} s"
    )
    ratios = sorted(a / b for a, b in pairs)
    print(f"first picture / straight line: median {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
