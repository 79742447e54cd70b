"""Tables against closed forms: additive models give what each column is worth, whatever the path and the encoding."""

import itertools
import math
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from torch import nn

import leastpath as lp
from helpers import left_untouched, mlp, seeded
from leastpath.shap import explanation
from leastpath.tabular import Encoding, explain

pd = pytest.importorskip("pandas")

WORTH = {"cook": 1.0, "nurse": -0.5, "pilot": 2.0}


def people(rows=120, seed=0):
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "job": generator.choice(list(WORTH), rows),
            "income": generator.normal(30_000, 10_000, rows),
            "age": generator.integers(18, 80, rows),
            "member": generator.choice(["no", "yes"], rows),
        },
        index=[f"person {i}" for i in range(rows)],
    )


def additive(cells):
    """Over get_dummies' layout: income, age, three jobs, member no and yes."""
    return (
        (cells[:, 0] / 1e4) ** 2 + cells[:, 1] / 10 + cells[:, 2:5] @ torch.tensor(list(WORTH.values())) + cells[:, 6]
    )


BACKGROUND = people()
FRAME = people(5, seed=1)


def expected(base):
    """What `additive` gives each column of FRAME, from a row of encoded cells."""
    return pd.DataFrame(
        {
            "job": FRAME["job"].map(WORTH) - base[2:5] @ np.array(list(WORTH.values())),
            "income": (FRAME["income"] / 1e4) ** 2 - (base[0] / 1e4) ** 2,
            "age": (FRAME["age"] - base[1]) / 10,
            "member": (FRAME["member"] == "yes") - base[6],
        }
    )


def raw_mean():
    return pd.get_dummies(BACKGROUND).astype(float).to_numpy().mean(0)


# ---- closed forms ------------------------------------------------------------------------------------------------


def test_encoding_is_laid_out_as_get_dummies():
    dummies = pd.get_dummies(BACKGROUND)
    encoding = Encoding.fit(BACKGROUND, standardize=False)
    assert encoding.get_feature_names_out() == list(dummies.columns)
    np.testing.assert_allclose(encoding.transform(BACKGROUND).numpy(), dummies.to_numpy(dtype=np.float32))
    standard = Encoding.fit(BACKGROUND).transform(BACKGROUND)[:, :2]
    torch.testing.assert_close(standard.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(standard.std(0, correction=0), torch.ones(2), atol=1e-4, rtol=0)


@pytest.mark.parametrize("solver", [None, lp.StraightLine(), lp.Descent(60)], ids=["band", "line", "descent"])
def test_additive_model_against_closed_form(solver):
    """Names and index are kept, one-hot groups are summed, the scale of a column does not matter."""
    explained = explain(additive, FRAME, background=BACKGROUND, method=solver, tolerance=1e-3)
    assert list(explained.values.columns) == list(FRAME.columns)
    pd.testing.assert_frame_equal(explained.values, expected(raw_mean()), atol=0.02, rtol=0.02, check_dtype=False)
    total = explained.base_values + explained.values.sum(axis=1)
    np.testing.assert_allclose(total, explained.scores, rtol=2e-3, atol=2e-3)


def test_preprocessing_over_tensors_is_part_of_the_score():
    """model(preprocess(x)) with preprocess a module is what the composed model gives."""

    class Logarithm(nn.Module):
        def forward(self, cells):
            return torch.cat([(cells[:, :1] / 1e4).exp(), cells[:, 1:]], 1)

    def model(cells):
        return cells[:, 0] * cells[:, 1] / 100 + cells[:, 2]

    split = explain(model, FRAME, background=BACKGROUND, preprocess=Logarithm(), method=lp.StraightLine())
    whole = explain(lambda x: model(Logarithm()(x)), FRAME, background=BACKGROUND, method=lp.StraightLine())
    pd.testing.assert_frame_equal(split.values, whole.values)


def pipeline(sparse=True):
    return Pipeline(
        [
            (
                "columns",
                ColumnTransformer(
                    [
                        ("one-hot", OneHotEncoder(sparse_output=sparse), ["job", "member"]),
                        ("standard", StandardScaler(), ["age", "income"]),
                    ]
                ),
            )
        ]
    ).fit(BACKGROUND)


@pytest.mark.parametrize("sparse", [True, False])
def test_a_pipeline_of_scikit_learn_against_our_encoding(sparse):
    """Another order of the numbers, found by trying; a linear model over either gives the same to each column."""
    weights = dict(
        zip(Encoding.fit(BACKGROUND).get_feature_names_out(), (1.0, -2.0, 0.5, 1.5, -1.0, 0.3, 0.8), strict=True)
    )
    theirs, ours = pipeline(sparse), Encoding.fit(BACKGROUND)
    names = [name.split("__")[1] for name in theirs.get_feature_names_out()]
    calls = {"background": BACKGROUND, "method": lp.StraightLine()}
    first = explain(lambda x: x @ torch.tensor([weights[n] for n in names]), FRAME, preprocess=theirs, **calls)
    second = explain(lambda x: x @ torch.tensor(list(weights.values())), FRAME, preprocess=ours, **calls)
    pd.testing.assert_frame_equal(first.values, second.values, atol=1e-4, rtol=1e-4)
    assert list(first.encoded_values.columns) == list(theirs.get_feature_names_out())


# ---- targets, baselines, solvers ---------------------------------------------------------------------------------


def classifier():
    return seeded(lambda: nn.Sequential(*mlp(7, 3))).eval()


def test_targets():
    calls = {"background": BACKGROUND, "preprocess": Encoding.fit(BACKGROUND), "method": lp.StraightLine()}
    model = classifier()
    predicted = explain(model, FRAME, **calls)
    logits = model(calls["preprocess"].transform(FRAME))
    assert predicted.target.tolist() == logits.argmax(1).tolist()
    given = explain(model, FRAME, pd.Series([0, 1, 2, 0, 1], index=FRAME.index), **calls)
    chosen = logits.log_softmax(1)[range(5), [0, 1, 2, 0, 1]].detach().numpy()
    np.testing.assert_allclose(given.scores, chosen, rtol=1e-4, atol=1e-5)
    assert (explain(model, FRAME, 2, output="raw", **calls).target == 2).all()


def test_labels_of_a_fitted_classifier_are_its_classes():
    words = np.where(BACKGROUND["age"] > BACKGROUND["age"].median(), ">50K", "<=50K")
    forest = RandomForestClassifier(5, random_state=0).fit(BACKGROUND[["age"]], words)
    calls = {"background": BACKGROUND[["age"]], "support": False}
    by_word, by_index = (explain(forest, FRAME[["age"]], target, **calls) for target in (">50K", 1))
    pd.testing.assert_frame_equal(by_word.values, by_index.values)
    assert explain(forest, FRAME[["age"]], ["<=50K", *[">50K"] * 4], **calls).target.tolist() == [0, 1, 1, 1, 1]
    with pytest.raises(ValueError, match=r"target='rich' is no class of the model: use one of '<=50K', '>50K'"):
        explain(forest, FRAME[["age"]], "rich", **calls)


def test_baselines_against_closed_form():
    calls = {"background": BACKGROUND, "method": lp.StraightLine(), "tolerance": 1e-3}
    row = BACKGROUND.iloc[7]
    cells = Encoding.fit(BACKGROUND, standardize=False).transform(BACKGROUND).double().numpy()
    from_row = explain(additive, FRAME, baseline=row, **calls)
    pd.testing.assert_frame_equal(from_row.values, expected(cells[7]), atol=0.02, rtol=0.01, check_dtype=False)
    from_frame = explain(additive, FRAME, baseline=BACKGROUND.iloc[[7] * 5], **calls)
    pd.testing.assert_frame_equal(from_frame.values, from_row.values, atol=1e-2, rtol=1e-2)
    from_all = explain(additive, FRAME, baseline=len(BACKGROUND), **calls)
    mean = sum(expected(cell) for cell in cells) / len(cells)
    pd.testing.assert_frame_equal(from_all.values, mean, atol=0.02, rtol=0.01, check_dtype=False)
    median = explain(additive, FRAME, baseline="median", **calls)
    typical = BACKGROUND["income"].median(), BACKGROUND["age"].median()
    np.testing.assert_allclose(median.values["age"], (FRAME["age"] - typical[1]) / 10, atol=0.01)
    np.testing.assert_allclose(
        median.values["income"], (FRAME["income"] / 1e4) ** 2 - (typical[0] / 1e4) ** 2, atol=0.02
    )


def test_the_choice_is_said():
    graph = explain(additive, FRAME, background=BACKGROUND, max_points=60, n_neighbors=15)
    assert graph.choice == "NeighborGraph over 60 rows of the background, 15 neighbours each"
    assert graph.result.method.startswith("NeighborGraph") and "60 rows" in repr(graph)
    usual = explain(additive, FRAME, background=BACKGROUND, max_gradients=100)
    assert usual.choice == "ElasticBand, one step for each column" and usual.result.method.startswith("ElasticBand")
    assert explain(additive, FRAME, background=BACKGROUND, method=lp.StraightLine()).choice == "StraightLine, as asked"


def test_support_removes_whole_columns_and_comes_first():
    """Oracle: the score of rows whose cells were put at the baseline by hand, in the order of the explanation."""
    explained = explain(additive, FRAME, background=BACKGROUND, baseline="median", method=lp.StraightLine())
    typical = {c: BACKGROUND[c].median() if c in ("income", "age") else BACKGROUND[c].mode()[0] for c in FRAME}
    encoding = Encoding.fit(BACKGROUND, standardize=False)
    for name, row in FRAME.iterrows():
        block = explained.encoded_values.loc[name]
        sizes = {c: sum(block[k] for k in block.index if k == c or k.startswith(f"{c}_")) for c in FRAME}
        order = sorted(FRAME.columns, key=lambda c, sizes=sizes: -sizes[c])
        gains = []
        for share in range(1, 10):
            count = max(1, int(share / 10 * 4 + 0.5 + 1e-9))
            rows = pd.DataFrame([row, row]).astype(FRAME.dtypes.to_dict() | {"age": float})
            for at, gone in enumerate((order[-count:], order[:count])):
                for column in gone:
                    rows.iloc[at, rows.columns.get_loc(column)] = typical[column]
            least, most = additive(encoding.transform(rows)) - additive(encoding.transform(FRAME.loc[[name]]))
            gains.append(float(least) - float(most))
        assert explained.support[name] == pytest.approx(sum(gains) / 9, abs=2e-3)
    assert list(explained.support.index) == list(FRAME.index) and explained.support.name == "support"
    assert repr(explained).startswith("TableExplanation(supported: ")
    untested = explain(additive, FRAME, background=BACKGROUND, method=lp.StraightLine(), support=False)
    assert untested.support.isna().all()
    assert "TableExplanation(not tested" in repr(untested)


def test_geometry_by_name():
    encoding = Encoding.fit(BACKGROUND)
    calls = {"background": BACKGROUND, "preprocess": encoding, "method": lp.Descent(60), "max_gradients": 200}
    explained = explain(classifier(), FRAME, 1, geometry="logit_margin", **calls)
    assert "logit_margin" in explained.result.geometry


def test_batch_equals_loop():
    calls = {"background": BACKGROUND, "preprocess": Encoding.fit(BACKGROUND), "max_points": 60}
    together = explain(classifier(), FRAME, 1, **calls).values
    alone = pd.concat([explain(classifier(), FRAME[i : i + 1], 1, **calls).values for i in range(2)])
    pd.testing.assert_frame_equal(together[:2], alone, atol=5e-3, rtol=0.05)


def test_numbers_as_categories_and_summary():
    frame = BACKGROUND.assign(job=[0, 1, 2] * 40)
    explained = explain(
        lambda x: x[:, 2] - 3 * x[:, 3],
        frame[:4],
        background=frame,
        categorical=["job", "member"],
        method=lp.StraightLine(),
    )
    np.testing.assert_allclose(explained.values["job"], np.array([1, -3, 0, 1]) + 2 / 3, atol=1e-4)
    assert explained.summary().index[0] == "job"


@pytest.mark.filterwarnings("ignore")  # of SHAP
def test_shap_draws_tables():
    shap, plt = pytest.importorskip("shap"), pytest.importorskip("matplotlib.pyplot")
    explained = explanation(explain(additive, BACKGROUND[:8], background=BACKGROUND, method=lp.StraightLine()))
    assert explained.feature_names == list(BACKGROUND.columns)
    shap.plots.waterfall(explained[0], show=False)
    assert any(BACKGROUND["job"].iloc[0] in text.get_text() for text in plt.gca().get_yticklabels())
    shap.plots.beeswarm(explained, show=False)
    plt.close("all")


@pytest.mark.filterwarnings("ignore:the model is in training mode")
def test_a_model_in_training_mode_is_left_as_it_was():
    """From the first forward pass on, which finds the predicted classes."""
    model = seeded(lambda: nn.Sequential(nn.Linear(7, 6), nn.BatchNorm1d(6), nn.Dropout(), nn.Linear(6, 2))).train()
    with left_untouched(model), pytest.raises(ValueError, match="not independent"):
        explain(model, FRAME, background=BACKGROUND)


# ---- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"background": BACKGROUND.to_numpy()}, "expected a pandas DataFrame"),
        ({"background": BACKGROUND[:0]}, "has no rows"),
        ({"background": BACKGROUND[["age"]]}, r"background lacks the columns .* background\[frame.columns\]"),
        ({"background": BACKGROUND.assign(more=1.0)}, r"frame lacks the columns \['more'\]"),
        ({"background": BACKGROUND[list(BACKGROUND.columns)[::-1]]}, "the same columns in another order"),
        ({"background": BACKGROUND.assign(age=np.nan)}, "'age' has missing values"),
        ({"background": BACKGROUND[BACKGROUND["member"] == "no"]}, "none of its 1 categories"),
        ({"frame": FRAME.iloc[0]}, r"df.iloc\[\[0\]\]"),
        ({"background": BACKGROUND.assign(age=pd.Timestamp("2020"))}, "'age' holds dates"),
        ({"model": nn.Linear(4, 2)}, "does not take rows of 7 numbers"),
        ({"categorical": ["jobs"]}, "no columns"),
        ({"categorical": ["job"]}, r"leaves out \['member'\]"),
        ({"preprocess": 3}, "a fitted transformer or a function"),
        ({"preprocess": pipeline(), "categorical": ["job"]}, "does that already"),
        ({"preprocess": pipeline(), "groups": {"job": [0, 1]}}, "each of the 7 outputs"),
        ({"baseline": "mode"}, "a number of rows"),
        ({"baseline": 1000}, "pass 1 to 120"),
        ({"baseline": BACKGROUND[:3]}, "a frame of 1 or 5 rows"),
        ({"model": StandardScaler()}, "expected a function of tensors"),
        ({"model": nn.Linear(7, 2), "target": 0.5}, "a class index"),
    ],
)
def test_errors(settings, sentence):
    call = {"model": additive, "frame": FRAME, "background": BACKGROUND} | settings
    with pytest.raises(ValueError, match=sentence):
        explain(**call)


def test_missing_values_and_mixing_steps():
    with pytest.raises(ValueError, match="missing values"):
        explain(additive, FRAME.assign(income=np.nan), background=BACKGROUND)
    numeric = BACKGROUND[["age", "income"]]
    mixing = Pipeline([("pca", PCA(2))]).fit(numeric)
    with pytest.raises(ValueError, match="make the step a function of tensors"):
        explain(lambda x: x[:, 0], numeric[:2], background=numeric, preprocess=mixing)
    nameless = FunctionTransformer(lambda frame: np.c_[frame.to_numpy(), np.ones(len(frame))])
    with pytest.raises(ValueError, match="a larger background"):
        explain(lambda x: x[:, 0], numeric[:2], background=numeric, preprocess=nameless)


def test_without_pandas_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"leastpath\[tabular\]"):
        explain(additive, FRAME, background=BACKGROUND)


@pytest.mark.parametrize(
    ("model", "target", "sentence"),
    [
        (additive, 5, "target=5 of a model with a single output: pass target=None, or 0"),
        (classifier, 9, "target=9 is out of range: the model returns 3 classes, 0 to 2"),
        (classifier, [0, 1], "got 2 targets for 5 rows"),
        (classifier, "yes", "target='yes' is a label: expected the index of a class, 0 to 2, or one per row"),
    ],
)
def test_targets_that_do_not_exist_are_refused(model, target, sentence):
    made = model() if model is classifier else model
    with pytest.raises(ValueError, match=sentence):
        explain(made, FRAME, background=BACKGROUND, target=target)


def test_a_word_among_numbers_is_said_with_its_column():
    frame = pd.DataFrame({"age": [20.0, 30.0], "size": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"column 'size' should hold numbers .* 'tall'"):
        explain(lambda x: x[:, 0], frame.astype({"size": object}).replace({"size": {1.0: "tall"}}), background=frame)


# ---- scikit-learn's pipelines, missing values, models without gradients ------------------------------------------

GAPS = BACKGROUND.assign(
    age=BACKGROUND["age"].astype(float).where(np.arange(120) % 7 > 0),
    job=BACKGROUND["job"].where(np.arange(120) % 11 > 0),
)
YOUNG = (BACKGROUND["age"] < BACKGROUND["age"].median()).astype(int)


def columns_with_imputers(**indicator):
    return ColumnTransformer(
        [
            ("num", make_pipeline(SimpleImputer(strategy="median", **indicator), StandardScaler()), ["income", "age"]),
            ("cat", make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["job", "member"]),
        ]
    )


def test_a_whole_pipeline_with_imputers_against_its_parts():
    """Oracle: for a linear model, weights times the differences in the transformer's output, summed by its names."""
    pipe = make_pipeline(columns_with_imputers(add_indicator=True), LogisticRegression()).fit(GAPS, YOUNG)
    explained = explain(pipe, GAPS[:8], 1, background=GAPS, output="raw")
    numbers = pipe[:-1].transform(GAPS)
    parts = pd.DataFrame((numbers[:8] - numbers.mean(0)) * pipe[-1].coef_[0], columns=pipe[:-1].get_feature_names_out())
    for column in GAPS.columns:
        mine = [n for n in parts if re.search(rf"__(missingindicator_)?{column}(_|$)", n)]
        np.testing.assert_allclose(explained.values[column], parts[mine].sum(axis=1), atol=1e-4)
    assert "missingindicator_age" in "".join(explained.result.names)


def test_rare_categories_belong_to_the_column_of_their_name():
    """A category that no row of frame and background has moves nothing: the transformer's names know its column."""
    pipe = make_pipeline(columns_with_imputers(), LogisticRegression()).fit(GAPS, YOUNG)
    rarest = GAPS["job"].value_counts().index[-1]
    few = GAPS[GAPS["job"] != rarest]
    explained = explain(pipe, few[:2], background=few)
    assert explained.values.shape == (2, 4) and (explained.encoded_values[f"cat__job_{rarest}"] == 0).all()


def test_empty_cells_are_encoded_and_come_back():
    encoding = Encoding.fit(GAPS)
    assert [n for n in encoding.get_feature_names_out() if n.endswith("missing")] == ["age_missing", "job_missing"]
    numbers = encoding.transform_exactly(GAPS)
    empty = torch.tensor(GAPS["age"].isna().tolist())
    assert torch.equal(numbers[:, 2] == 1, empty) and (numbers[empty, 1].abs() < 1e-9).all()
    cells = encoding.inverse_transform(numbers).set_axis(GAPS.index)
    pd.testing.assert_frame_equal(cells, GAPS, check_dtype=False, rtol=1e-9)


@pytest.mark.parametrize("regresses", [False, True])
def test_trees_against_shapley_values_by_hand(regresses):
    """Oracle: all 2⁴ coalitions of the columns, each a row of cells of a frame, asked one by one."""
    kind = DecisionTreeRegressor if regresses else DecisionTreeClassifier
    pipe = make_pipeline(columns_with_imputers(), kind(max_depth=5, random_state=0)).fit(GAPS, YOUNG)
    explained = explain(pipe, GAPS[10:12], None if regresses else 1, background=GAPS)
    typical, columns = GAPS.median(numeric_only=True), list(GAPS.columns)

    sets = [frozenset(some) for size in range(5) for some in itertools.combinations(columns, size)]
    cells = pd.concat([GAPS.iloc[[row]] for row in (10, 11) for _ in sets], ignore_index=True)
    for i, present in enumerate(sets * 2):
        for column in set(columns) - present:
            cells.loc[i, column] = typical[column] if column in typical else GAPS[column].mode()[0]
    answers = (pipe.predict(cells) if regresses else pipe.predict_proba(cells)[:, 1]).reshape(2, -1)

    def score(at, present):
        return answers[at, sets.index(frozenset(present))]

    for at in range(2):
        for column in columns:
            others, total = [c for c in columns if c != column], 0.0
            for size in range(4):
                for some in itertools.combinations(others, size):
                    total += (score(at, [*some, column]) - score(at, some)) / (4 * math.comb(3, size))
            assert explained.values[column].iloc[at] == pytest.approx(total, abs=1e-9)
    assert explained.choice.startswith("exact Shapley values") and explained.support.notna().all()


def test_trees_that_read_frames_and_arrays_themselves():
    """Categories by their type, empty cells as they are; and a model that was fitted to an array gets one."""
    typed = GAPS.astype({"job": "category", "member": "category"})
    boosted = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype").fit(typed, YOUNG)
    found = explain(boosted, typed[:3], 1, background=typed)
    np.testing.assert_allclose(found.scores, boosted.predict_proba(typed[:3])[:, 1], atol=1e-9)
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), found.scores, atol=1e-9)
    numeric = BACKGROUND[["income", "age"]]
    forest = RandomForestClassifier(5, random_state=0).fit(numeric.to_numpy(), YOUNG)
    assert explain(forest, numeric[:2], background=numeric, baseline=3).values.shape == (2, 2)
    asked = SimpleNamespace(predict_proba=boosted.predict_proba)  # of no library that we know
    pd.testing.assert_frame_equal(explain(asked, typed[:3], 1, background=typed).values, found.values)


def test_a_notebook_shows_cells_beside_the_baseline():
    explained = explain(additive, FRAME, background=BACKGROUND, method=lp.StraightLine(), baseline="median")
    label = next(one for one in explained.labels(0) if one.startswith("job = "))
    assert label == f"job = {FRAME['job'].iloc[0]} ({BACKGROUND['job'].mode()[0]})"
    assert f">{label}</text>" in explained._repr_html_()
    assert "income = " in explain(additive, FRAME[:1], background=BACKGROUND, baseline=3)._repr_html_()
