"""Records of studies on half-moons with planted numbers, and what every section of these owes."""

from studies.findings.study import Study


def planted(row, net="n", noise=0.1, **lists):
    return {"row": row, "net": net, "noise": noise, **lists}


def energy_record(row, cancellation, ratio=1.0):
    n = len(cancellation)
    more = {"change": [2.0] * n, "across": [True] * n, "length_ratio": [ratio] * n, "gradients": [64.0] * n}
    return planted(row, cancellation=cancellation, **more)


def check_section(study: Study, records: dict, rows: list[str]) -> None:
    """A section has these rows, each once, and copes with an interrupted run: one record alone, or one missing."""
    section = study.section(records)
    for row in rows:
        assert section.count(f"\n{row}") == 1
    for key, record in records.items():
        assert study.section({key: record}).count("\n| ") == 3
        assert study.section({k: r for k, r in records.items() if k != key})
