"""The file that `askless bench new` writes: a benchmark to change."""

TEMPLATE = '''"""A benchmark of my own. Change DATA, NET and STRATEGIES, then run

    askless bench run {file} --scale smoke --workers 1 --out runs/{name}-smoke    # seconds: does everything run?
    askless bench run {file} --out runs/{name}                                    # the numbers
"""

import askless as al
from askless.bench import Benchmark, Data, Row

# A name from `askless data list`, or your own data: an .npz with X and y, a table of texts, or a folder per class.
# Every item needs its label, which stands in for a person.
DATA = "digits"
# For photographs "frozen:efficientnet-lite2", for texts "frozen:tfidf", for vectors "linear".
NET = "frozen:raw"
STRATEGIES = {{"random": al.Random(), "margin": al.Margin(), "askless": al.Askless()}}  # names, or objects of your own


def benchmark(scale: str) -> Benchmark:
    """What is computed at `--scale smoke`, or at any other."""
    smoke = scale == "smoke"
    data = Data(
        name=DATA,
        items=200 if smoke else None,  # None: all
        test=100 if smoke else 300,  # test items; held out at random if the data have none, and never asked for
    )
    rows = tuple(
        Row(
            method=method,
            strategy=strategy,
            data=data,
            net=NET,
            learner="auto",
            start=10,  # random labels that all strategies of a seed share, evenly from the classes
            counts=(10, 20) if smoke else (10, 20, 40, 80),  # measured at each of these numbers of labels
        )
        for method, strategy in STRATEGIES.items()
    )
    seeds = tuple(range(2 if smoke else 10))  # ten or more for a claim
    return Benchmark(name="{name}", title="My strategies on " + DATA, rows=rows, seeds=seeds, scale=scale)
'''


def template(file: str, name: str) -> str:
    """The benchmark `name`, as the text of `file`."""
    return TEMPLATE.format(file=file, name=name)
