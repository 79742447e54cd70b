"""Coarse to fine: cuts that keep the curve, and lines that are shortened, against closed forms."""

import pytest
import torch

import leastpath as lp
from helpers import field_of
from leastpath.solvers.descent.coarse_to_fine import COARSEST, FINEST, _bows, cut_where_long, refine_lines
from leastpath.solvers.shorten import Shortening
from oracles import bump, dense, half_plane, half_plane_length

A = torch.tensor([[-0.8, 0.4], [-1.5, 0.5]], dtype=torch.float64)
B = torch.tensor([[0.8, 0.6], [1.5, 1.5]], dtype=torch.float64)


def test_cutting_keeps_the_curve_and_doubles_its_segments():
    start, end = torch.zeros(1, 2).double(), torch.tensor([[1.0, 0.0]]).double()
    field = field_of(lp.Score(lambda x: torch.sigmoid(40 * (x[:, 0] - 0.9))), start, end)
    path = torch.tensor([[[0.0, 0.0], [0.5, 0.3], [0.8, 0.0], [1.0, 0.0]]]).double()
    cut = cut_where_long(field, path, torch.tensor([0]), 0)
    assert cut.shape == (1, 7, 2)
    assert all((cut[0] - knot).norm(dim=1).min() < 1e-12 for knot in path[0])
    assert (cut[0, :, 0] > 0.8).sum() >= 3  # most new knots where the score changes


def test_cut_pieces_are_equal_parts_of_their_segment():
    """On a flat score nothing is longer than anything else: every segment is halved."""
    path = torch.tensor([[[0.0, 0.0], [1.0, 2.0], [4.0, 0.0]]]).double()
    field = field_of(lp.Score(lambda x: 0 * x.sum(1)), path[:, 0], path[:, -1])
    cut = cut_where_long(field, path, torch.tensor([0]), 0)
    expected = torch.tensor([[[0.0, 0.0], [0.5, 1.0], [1.0, 2.0], [2.5, 1.0], [4.0, 0.0]]]).double()
    torch.testing.assert_close(cut, expected)


def test_refined_lines_of_the_half_plane_against_closed_form():
    field = field_of(lp.Score(half_plane), A, B, limit=4000)
    shortest, seen = half_plane_length(A, B), []
    for rows, paths in refine_lines(field, torch.arange(2), Shortening(), 0, draw=0):
        assert paths.shape[1] - 1 in (COARSEST, 2 * COARSEST, 4 * COARSEST, FINEST)
        for row, knots in zip(rows.tolist(), paths, strict=True):
            seen.append(row)
            assert torch.equal(knots[0], A[row]) and torch.equal(knots[-1], B[row])
            assert dense(half_plane, knots, lp.Conformal()).length == pytest.approx(float(shortest[row]), rel=0.03)
    assert sorted(seen) == [0, 1] and (field.spent <= field.limit).all()


def test_rows_that_cannot_pay_are_left_out():
    field = field_of(lp.Score(half_plane), A, B, limit=COARSEST * Shortening().samples * Shortening().round_cost - 1)
    assert not list(refine_lines(field, torch.arange(2), Shortening(), 0, draw=0)) and not field.spent.any()


def test_a_bow_leads_round_a_hill():
    """Over the top the line is as short as its neighbours are; the bow is shorter, and its ends are the line's."""
    start, end = torch.tensor([[-1.0, 0.0]]).double(), torch.tensor([[1.0, 0.0]]).double()
    (bow,) = _bows(field_of(lp.Score(bump), start, end, limit=1000), torch.arange(1), draw=0)
    line = dense(bump, torch.cat([start, end]), lp.Conformal()).length
    assert dense(bump, bow, lp.Conformal()).length < 0.8 * line
    assert torch.equal(bow[0], start[0]) and torch.equal(bow[-1], end[0])
    (poor,) = _bows(field_of(lp.Score(bump), start, end, limit=999), torch.arange(1), draw=0)
    assert not poor[:, 1].any()  # too few gradients for more than the line
