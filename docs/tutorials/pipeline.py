# %% [markdown]
# # A pipeline and a forest
#
# Scikit-learn's wines, with holes in the table and one column of words. A pipeline is
# explained as it is: frame in, frame out.

# %%
import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from leastpath import tabular
from leastpath.report import bars

wines = load_wine(as_frame=True)
columns = ["alcohol", "malic_acid", "magnesium", "flavanoids", "proline"]
frame = wines.data[columns].copy()
frame["colour"] = np.where(wines.data["hue"] > 1.1, "warm", "cold")
frame["colour"] = frame["colour"].where(wines.data["hue"] > 0.6, "dark")
holes = np.random.default_rng(0).random(frame.shape) < 0.05
frame = frame.mask(holes)
print(frame.head(3))

# %%
numbers = make_pipeline(SimpleImputer(), StandardScaler())
words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
prepare = make_column_transformer(
    (numbers, make_column_selector(dtype_include="number")), (words, ["colour"])
)
model = make_pipeline(prepare, LogisticRegression()).fit(frame, wines.target)
explained = tabular.explain(model, frame[:3], background=frame)
print(explained.values.round(2))
print(explained.result.status[0].value)

# %% [markdown]
# Each cell beside that of the baseline, which is the mean:

# %%
title = f"class {explained.target.iloc[0]}, log-probability"
figure = bars(explained.values.iloc[0], explained.labels(0), title=title)
figure.savefig("pipeline-bars.png", dpi=110)

# %% [markdown]
# A forest has no gradients. Its columns get Shapley values, from a typical row, and
# the same test:

# %%
forest = make_pipeline(prepare, RandomForestClassifier(30, random_state=0))
explained = tabular.explain(
    forest.fit(frame, wines.target), frame[:3], background=frame
)
print(explained.choice)
print(explained.values.round(2))
print(explained.support.round(2).tolist())
