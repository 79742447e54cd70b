"""HTML of prompts: what is fixed stays, what is marked up is escaped."""

import torch

from leastpath.language.page import explanation_html, matrix_html
from leastpath.transformers import Piece


def test_text_stays_whole_and_is_escaped():
    features = [Piece("a<b", " ", (0,)), Piece("c", "", (1,))]
    page = explanation_html(features, torch.tensor([1.0, -0.5]), "(a<b c)", [" d"], None, "head & tail", "")
    assert ">a&lt;b</span>" in page and "head &amp; tail" in page and "<label" not in page
    assert ">(</span>" in page and ">)</span>" in page


def test_every_token_of_the_answer_is_a_button():
    features = [Piece("a", " ", (0,))]
    page = explanation_html(features, torch.ones(1), "a", [" x", " y"], torch.ones(2, 3), "h", "")
    assert page.count("<label") == 3 and page.count('type="radio"') == 3 and page.count(" checked>") == 1


def test_matrix_has_a_cell_for_each_pair():
    assert matrix_html(["a", "b"], ["x"], torch.tensor([[0.5, 0.0]])).count("<td ") == 2
