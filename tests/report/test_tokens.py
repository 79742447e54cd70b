"""Coloured tokens: every token is there, colours follow the sign, and HTML is escaped."""

import re

import pytest
import torch

pytest.importorskip("matplotlib")
from leastpath.report import text, text_html

WORDS = ["not", "a", "<bad>", "film", "for", "$5"]
VALUES = torch.tensor([0.5, 0.0, -1.0, 0.25, 0.0, 0.0])


def test_figure_shows_every_token_and_breaks_lines():
    wide, narrow = text(WORDS, VALUES, title="mood"), text(WORDS, VALUES, width=2.0)
    assert [t.get_text() for t in wide.texts] == [*WORDS[:5], r"\$5", "mood"]
    assert len({t.get_position()[1] for t in wide.texts[:6]}) == 1
    assert len({t.get_position()[1] for t in narrow.texts}) > 1
    renderer = narrow.canvas.get_renderer()
    for written in narrow.texts:
        box = written.get_window_extent(renderer)
        assert box.x0 >= 0 and box.x1 <= narrow.bbox.width and box.y0 >= 0


def test_html_colours_escapes_and_sums_embeddings():
    shown = text_html(WORDS, torch.stack([VALUES, torch.zeros(6)], 1)[None])
    assert shown == text_html(WORDS, VALUES)
    assert "&lt;bad&gt;</span>" in shown and "<bad>" not in shown and 'title="&lt;bad&gt;: -1"' in shown
    colours = [tuple(int(c[i : i + 2], 16) for i in (0, 2, 4)) for c in re.findall(r"background:#(\w{6})", shown)]
    (red, _, blue), white, (cold, _, hot) = colours[:3]
    assert red > blue and white == (255, 255, 255) and hot > cold
    assert text_html(["a", "b"], [1.0, 0.5], scale=1.0, join="") == text_html(["a", "b"], [1.0, 0.5], join="")


def test_black_letters_stay_readable():
    """Contrast by WCAG's formula: at least 4.5 on the strongest colours."""
    for value in (1.0, -1.0):
        code = re.search(r"#(\w{6})", text_html(["a"], [value]))[1]
        parts = [int(code[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        assert (luminance + 0.05) / 0.05 >= 4.5


@pytest.mark.parametrize(
    "tokens, values, match",
    [
        ("a b", [1.0, 2.0], "tokens is one string"),
        ([], [], "no tokens"),
        (["a"], [1.0, 2.0], "got 1 tokens for values of shape"),
        (["a", "b"], torch.ones(2, 2, 2), r"expected \(2,\) or \(2, embedding\)"),
    ],
)
def test_errors_say_what_helps(tokens, values, match):
    with pytest.raises(ValueError, match=match):
        text_html(tokens, values)
