"""A static page that could be hosted anywhere: the explorer's offline export of three examples, and an index.

python tools/demo_page.py [FOLDER]        # out/demo by default; a picture, a digit and a row of a table
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from leastpath.commands.explore_samples import sample_source
from leastpath.explorer.export import bundle_of, export_page
from leastpath.explorer.session import Session, session_of

METHODS, MOST_SECONDS = 2, 600
EXAMPLES = {
    "photos": (
        "A photograph",
        "why does EfficientNet-lite0 see a daisy? One of two maps is supported; the other can be walked.",
    ),
    "digits": ("A handwritten digit", "walk from black to the digit, and see where its values come from."),
    "table": (
        "A patient of a table",
        "30 measurements and a small net: remove the first columns, and see the score fall.",
    ),
}
HEAD = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>leastpath: three examples</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1"></head>'
    '<body style="font:18px/1.6 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem">'
)


def explain_first(session: Session) -> None:
    """Explain the first sample by the first methods, and wait for them."""
    names = list(session.methods)[:METHODS]
    tasks = [session.start({"method": name}) for name in names]
    until = time.monotonic() + MOST_SECONDS
    while not all(task.finished.is_set() for task in tasks) and time.monotonic() < until:
        for task in tasks:
            session.task(task.name, patience=0.5)  # a task that nobody asks about ends


def main(folder: Path) -> None:
    """Write index.html and a page for each example."""
    folder.mkdir(parents=True, exist_ok=True)
    links = []
    for name, (title, words) in EXAMPLES.items():
        source, sentence = sample_source(name)
        session = session_of(source, sentence=sentence)
        assert isinstance(session, Session)
        explain_first(session)
        (folder / f"{name}.html").write_text(export_page(bundle_of(session)), encoding="utf-8")
        session.close()
        links.append(f'<li><a href="{name}.html">{title}</a>: {words}</li>')
        print(f"{folder / name}.html", flush=True)
    lead = (
        "<h1>leastpath</h1><p>Explanations of three models, by two methods each, and what removal says of them: "
        "the explorer, saved as pages that need no server (5 to 15 MB each). They hold no model, so that "
        "what nobody asked it before stays open; <code>leastpath explore</code> asks it.</p>"
    )
    (folder / "index.html").write_text(f"{HEAD}{lead}<ul>{''.join(links)}</ul></body></html>\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path((sys.argv[1:] or ["out/demo"])[0]))
