"""How many labels askless needs for what random has at 110: thirty seeds beside the ten of `askless.frozen`.

    askless bench run benchmarks/fewer_labels.py

Ten seeds tell the labels that are needed to some five; these are the rows of askless and random of that benchmark, up to
110 labels, with the seeds 10 to 39.
"""

import dataclasses

from askless.bench import preset

plain = preset("askless.frozen", "small")
rows = tuple(
    dataclasses.replace(row, counts=tuple(n for n in row.counts if n <= 110))
    for row in plain.rows
    if row.method in ("askless", "random")
)
benchmark = dataclasses.replace(
    plain,
    name="fewer_labels",
    title="askless and random: CIFAR-10 with frozen features, from 10 labels to 110, thirty further seeds",
    rows=rows,
    seeds=tuple(range(10, 40)),
    figures=({"kind": "curves"},),
)
