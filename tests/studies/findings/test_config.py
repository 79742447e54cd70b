"""Sizes of complete and of quick runs."""

from leastpath._support.store import Store
from studies.findings.config import SIZES, Setting


def test_a_quick_run_looks_at_less(tmp_path):
    complete, quick = Setting(Store(tmp_path, {})), Setting(Store(tmp_path, {}), quick=True)
    assert (complete.of("sign.points"), quick.of("sign.points")) == (100, 8)
    assert complete.of("digit_nets.cnn relu") == 40
    for study, sizes in SIZES.items():
        for name in sizes:  # `every` skips: more is less
            assert (complete.of(f"{study}.{name}") > quick.of(f"{study}.{name}")) != (name == "every")
