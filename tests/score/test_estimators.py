"""Scikit-learn's estimators. Oracle: their own predict and predict_proba."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PolynomialFeatures, StandardScaler

import leastpath as lp
from leastpath.methods import METHODS
from leastpath.score.estimators import as_function, as_module

NUMBERS = np.random.default_rng(0)
X = NUMBERS.normal(3, 2, (60, 4))
SUM = X @ np.array([1.0, -2.0, 0.5, 0.0])
TWO, THREE = (SUM > -1).astype(int), np.digitize(SUM, [-3.0, 1.0])
SMALL = {"hidden_layer_sizes": (6, 5), "solver": "lbfgs", "max_iter": 20, "random_state": 0}
ROWS = torch.as_tensor(X)


def network(kind=MLPClassifier, **settings):
    return kind(**{**SMALL, **settings})


@pytest.mark.parametrize("labels", [TWO, THREE])
@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(with_mean=False), MinMaxScaler(), MaxAbsScaler(), LogisticRegression()),
        *(network(activation=name) for name in ("identity", "logistic", "tanh", "relu")),
        make_pipeline(StandardScaler(with_std=False), "passthrough", network()),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_softmax_against_predict_proba(estimator, labels):
    fitted = estimator.fit(X, labels)
    expected = torch.as_tensor(fitted.predict_proba(X))
    torch.testing.assert_close(as_module(fitted)(ROWS).softmax(1), expected, rtol=1e-9, atol=1e-12)
    score = lp.Score(fitted, 1, "softmax")
    torch.testing.assert_close(score(ROWS), expected[:, 1], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(score(ROWS.float()).double(), expected[:, 1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("answers", [SUM, np.stack([SUM, -(X[:, 0] ** 2)], 1)], ids=["one output", "two outputs"])
@pytest.mark.parametrize(
    "estimator",
    [LinearRegression(), Ridge(), Lasso(alpha=0.1), network(MLPRegressor), make_pipeline(StandardScaler(), Ridge())],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_regressors_against_predict(estimator, answers):
    fitted = estimator.fit(X, answers)
    torch.testing.assert_close(as_module(fitted)(ROWS), torch.as_tensor(fitted.predict(X)), rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_several_labels_at_once_against_predict_proba():
    fitted = network().fit(X, np.stack([TWO, X[:, 0] > 3], 1))
    torch.testing.assert_close(as_module(fitted)(ROWS).sigmoid(), torch.as_tensor(fitted.predict_proba(X)))


def test_a_linear_regression_is_explained_by_its_coefficients():
    fitted = LinearRegression().fit(X, SUM)
    result = lp.attribute(lp.Score(fitted), ROWS[:3], 0.0, method=lp.StraightLine())
    torch.testing.assert_close(result.values, ROWS[:3] * torch.as_tensor(fitted.coef_))


def test_a_forest_is_explained_by_forwards_alone():
    forest = RandomForestClassifier(5, random_state=0).fit(X, THREE)
    score = lp.Score(as_function(forest), 1)
    np.testing.assert_allclose(score(ROWS).numpy(), forest.predict_proba(X)[:, 1])
    result = METHODS["permutation_shap"](score, ROWS[:3], ROWS.mean(0, keepdim=True))
    assert result.n_gradients.sum() == 0 and result.completeness_gap.abs().max() < 1e-9
    with pytest.raises(ValueError, match="no gradient flows"):
        lp.attribute(score, ROWS[:3], method=lp.StraightLine())


def test_an_estimator_that_was_fitted_to_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    forest = RandomForestClassifier(5, random_state=0).fit(frame, THREE)
    np.testing.assert_allclose(as_function(forest)(ROWS).numpy(), forest.predict_proba(frame))


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"RandomForestClassifier cannot be written as a torch .* \(permutation_shap,"):
        lp.Score(RandomForestClassifier(2).fit(X, TWO), 1)
    with pytest.raises(ValueError, match="LinearRegression is not fitted: call fit first"):
        lp.Score(LinearRegression())
    with pytest.raises(ValueError, match="is no fitted StandardScaler, MinMaxScaler or MaxAbsScaler"):
        lp.Score(make_pipeline(PolynomialFeatures(), LinearRegression()).fit(X, SUM))
    with pytest.raises(ValueError, match="list has no predict"):
        as_function([])


class Doubled(Ridge):
    """Another answer than its weights say."""

    def predict(self, x):
        return 2 * super().predict(x)


class Strict(LogisticRegression):
    """The same probabilities, and labels of another threshold."""

    def predict(self, x):
        return np.full(len(x), self.classes_[0])


@pytest.mark.parametrize(
    ("estimator", "labels"),
    [
        (Doubled(), [0.0, 1.0, 2.0, 3.0]),
        (Strict(), [0, 1, 1, 0]),
        (network(MLPRegressor, loss="poisson"), [1.0, 2.0, 3.0, 4.0]),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_module_that_is_not_the_estimator_is_refused(estimator, labels):
    x = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match=r"answers otherwise than its weights say.*as_function"):
        as_module(estimator.fit(x, labels))
