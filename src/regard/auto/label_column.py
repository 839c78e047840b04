"""The labels of a table: which there are, how often, several a row or one, and rows that have none."""

from collections import Counter
from dataclasses import replace

from regard.auto.detected import Detected, class_counts
from regard.auto.several_labels import label_counts, separator_of
from regard.auto.tables import Table
from regard.auto.told import Told
from regard.data.label_writing import Writing

_SHOWN = 5  # labels with their counts


def with_labels(found: Detected, table: Table, told: Told) -> Detected:
    """The same, with what its column of labels holds: `data.separator` where a row has several, and the counts."""
    column = next((one for one in table.columns if one.key == found.data.get("label")), None)
    if found.kinds[1] != "label" or found.kinds[0] == "series" or column is None:
        return found
    if column.key in table.lists or column.separator:
        separator = column.separator or separator_of(table.labels(column))
        counts, none = label_counts(table.labels(column))
        lone = f"; {none:,} rows have no label" if none else ""
        said = f"{len(counts):,} labels, several a row (data.separator={separator!r}): {_listed(counts)}{lone}"
        return replace(found, data={**found.data, "separator": separator}, beliefs=[*found.beliefs, said])
    names = found.data.get("names", {}) | (told.data.get("names") or {})
    writing = Writing(names=tuple((str(key), str(name)) for key, name in names.items()))
    counts = table.counts(column)
    missing = {label: count for label, count in counts.items() if writing.is_missing(label)}
    beliefs = [*found.beliefs, class_counts(Counter({name: counts[name] for name in counts if name not in missing}))]
    if missing:
        words = sorted(label for label in missing if label)
        written = f" (also written as {', '.join(map(repr, words))})" if words else ""
        keep = f"; to make a class of it: data.names={{{words[0]}: NAME}}" if words else ""
        beliefs.append(f"{sum(missing.values()):,} rows have no label{written} and are left out{keep}")
    kept = [(one, said) for one, said in zip(found.inputs, found.targets, strict=False) if not writing.is_missing(said)]
    whole = len(found.inputs) == len(found.targets)  # of pictures and recordings, few are opened
    return replace(
        found,
        count=found.count - sum(missing.values()),
        inputs=[one for one, _ in kept] if whole else found.inputs,
        targets=[said for said in found.targets if not writing.is_missing(said)],
        beliefs=beliefs,
        shown=[(one, said) for one, said in found.shown if not writing.is_missing(said)],
    )


def _listed(counts: Counter[str]) -> str:
    first = ", ".join(f"{name} ({count:,})" for name, count in counts.most_common(_SHOWN))
    return first + (", …" if len(counts) > _SHOWN else "")
