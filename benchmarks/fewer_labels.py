"""How many labels askless needs for what random has at 110 under FixMatch: thirty seeds beside the ten of `askless.frozen`.

    askless bench run benchmarks/fewer_labels.py

Ten seeds tell the labels that are needed to some five. Here are the rows of askless and random of that benchmark, up to 110
labels, with the seeds 10 to 39, which no choice was made by.
"""

import dataclasses

from askless.bench import preset

plain = preset("askless.frozen", "small")
rows = tuple(
    dataclasses.replace(row, counts=tuple(n for n in row.counts if n <= 110))
    for row in plain.rows
    if row.method in ("askless", "random") and row.group == "fixmatch"
)
benchmark = dataclasses.replace(
    plain,
    name="fewer_labels",
    title="askless and random under FixMatch: CIFAR-10 with frozen features, 10 to 110 labels, thirty further seeds",
    rows=rows,
    seeds=tuple(range(10, 40)),
    figures=({"kind": "curves"},),
)
