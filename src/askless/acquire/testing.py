"""The contract that every strategy keeps, as a function to run on your own: `check_strategy(MyStrategy())`."""

import json
from collections.abc import Callable, Sequence
from traceback import extract_tb
from typing import Any

import numpy as np
import torch
from scipy.special import softmax

from askless.acquire import Selection, Strategy, looks_at, select
from askless.acquire.table import ARRAYS, Name, faults, make
from askless.base.errors import AsklessError, first_line

__all__ = ["check_strategy", "example_arrays"]

CLASSES, PASSES = 4, 6
KINDS = ("ordinary", "duplicated", "constant")


def example_arrays(N: int, n_labelled: int, seed: int = 0, kind: str = "ordinary") -> dict[str, np.ndarray]:
    """Every array that `askless.select` knows, for a pool of N items; labelled positions are spread over the pool.

    `kind`: "duplicated" holds every item four times over, "constant" one item N times.

    >>> example_arrays(20, 3)["probs"].shape
    (20, 4)
    """
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    features = rng.normal(size=(N, 6))
    logits = rng.normal(size=(N, CLASSES))
    grad_sq, grad_dot = rng.uniform(1, 2, size=N), rng.normal(size=N)
    by_pass = logits[:, None] + np.random.default_rng([seed, 99]).normal(size=(N, PASSES, CLASSES))
    if kind != "ordinary":
        copies = np.arange(N) % (max(1, N // 4) if kind == "duplicated" else 1)
        features, logits, grad_sq, grad_dot, by_pass = (
            a[copies] for a in (features, logits, grad_sq, grad_dot, by_pass)
        )
    return {
        "features": features,
        "probs": softmax(logits, axis=1),
        "probs_by_pass": softmax(by_pass, axis=2),
        "logits": logits,
        "grad_sq": grad_sq,
        "grad_dot": grad_dot,
        "grad_sq_by_class": grad_sq[:, None] * np.exp(-logits),
        "kernel": features @ features.T + 1,
        "labelled": rng.permutation(N)[:n_labelled],
        "labels": rng.integers(CLASSES, size=n_labelled),
    }


def check_strategy(strategy: Name | Strategy) -> None:
    """Prints what it checked; raises AssertionError with the broken promises, numbered, if the strategy breaks some.

    Right count, distinct, never labelled, positions in the pool; same seed same picks; numpy and torch alike; float32 and
    float64; inputs unchanged; duplicated and constant pools; a single item; no labelled item; n = 0 and n = all; without the
    arrays that it only wants. A strategy with `equivariant = True` also promises the same picks from a shuffled pool.

    >>> from askless import NPC
    >>> check_strategy(NPC(draws=50))
    npc keeps the contract of a strategy:
    1. a name, the arrays it needs, and select(view, n, rng)
    2. n distinct unlabelled positions, whatever n and the labels; ordinary, duplicated and constant pools
    3. the same with only the arrays in `needs`
    4. same seed, same picks
    5. numpy and torch alike, float32 and float64
    6. inputs unchanged
    """
    strategy = make(strategy) if isinstance(strategy, str) else strategy
    name = getattr(strategy, "name", type(strategy).__name__)
    if found := faults(strategy):
        raise AssertionError(broken(name, found))
    checks: dict[str, Callable[[Strategy], None]] = {
        "n distinct unlabelled positions, whatever n and the labels; ordinary, duplicated and constant pools": check_pools,
        "the same with only the arrays in `needs`": check_without_wants,
        "same seed, same picks": check_same_seed,
        "numpy and torch alike, float32 and float64": check_number_types,
        "inputs unchanged": check_inputs_untouched,
    }
    if getattr(strategy, "equivariant", False):
        checks["the same picks from a shuffled pool, because it is equivariant"] = check_equivariance
    first: Exception | None = None
    for check in checks.values():
        try:
            check(strategy)
        except Exception as error:  # of the strategy, too, which may raise anything
            sentence = in_words(strategy, error)
            if sentence not in found:  # one mistake breaks several promises
                found.append(sentence)
            first = first or error
    if found:
        raise AssertionError(broken(name, found)) from first
    print(f"{name} keeps the contract of a strategy:")
    for number, kept in enumerate(("a name, the arrays it needs, and select(view, n, rng)", *checks), 1):
        print(f"{number}. {kept}")


def broken(name: str, found: Sequence[str]) -> str:
    lines = "".join(f"\n{number}. {sentence}" for number, sentence in enumerate(found, 1))
    return f"{name} breaks the contract of a strategy:{lines}"


def in_words(strategy: Strategy, error: Exception) -> str:
    """The problem a check found, or the strategy's exception, where, and its usual reason."""
    if isinstance(error, AssertionError | AsklessError):
        return str(error)
    own = getattr(getattr(strategy.select, "__code__", None), "co_filename", "")
    lines = [place.lineno for place in extract_tb(error.__traceback__) if place.filename == own]
    where = f" in line {lines[-1]}" if lines else ""
    sentence = f"select raised {type(error).__name__}{where}: {first_line(error)}"
    if "NoneType" in str(error):
        none = ", ".join(name for name in ARRAYS if name not in looks_at(strategy) and name != "labelled")
        sentence += f"; arrays that are neither in needs nor in wants are None: {none}; add the one it uses to needs"
    return sentence


def check_pools(strategy: Strategy) -> None:
    for kind in KINDS:
        for n_labelled in (0, 1, 9):
            for n in (0, 1, 7, 40 - n_labelled):
                arrays = example_arrays(40, n_labelled, kind=kind)
                picks = choose(strategy, n, arrays)
                check_selection(picks, n, 40, arrays["labelled"], f"{kind} pool of 40, {n_labelled} labelled, n = {n}")
    for kind in KINDS[1:]:
        arrays = example_arrays(200, 5, kind=kind)
        check_selection(choose(strategy, 90, arrays), 90, 200, arrays["labelled"], f"{kind} pool of 200")
    check_selection(choose(strategy, 1, example_arrays(1, 0)), 1, 1, np.array([]), "a pool of one item")


def choose(strategy: Strategy, n: int, arrays: dict[str, Any], seed: int = 0) -> Selection:
    """`select` with only the arrays that the strategy says it looks at."""
    given = {name: arrays[name] for name in (*looks_at(strategy), "labelled", "labels")}
    try:
        return select(strategy, n, seed=seed, pool=len(arrays["features"]), **given)
    except AsklessError as error:
        raise AssertionError(f"n = {n}, {len(arrays['labelled'])} labelled: {error}") from error


def check_selection(picks: Selection, n: int, N: int, labelled: np.ndarray, where: str) -> None:
    """One selection of n from a pool of N keeps every promise about its form."""
    indices = picks.indices
    assert isinstance(indices, np.ndarray), f"{where}: indices must be a numpy array, got {type(indices).__name__}"
    assert indices.dtype == np.int64, f"{where}: indices must be int64, got {indices.dtype}"
    assert indices.shape == (n,), f"{where}: expected {n} picks, got shape {indices.shape}"
    assert len(set(indices.tolist())) == n, f"{where}: picks repeat: {indices}"
    assert ((indices >= 0) & (indices < N)).all(), f"{where}: picks outside the pool: {indices}"
    assert not set(indices.tolist()) & set(labelled.tolist()), f"{where}: picks already labelled: {indices}"
    if picks.scores is not None:
        assert picks.scores.shape == (n,), f"{where}: expected {n} scores, got shape {picks.scores.shape}"
        assert picks.scores.dtype == np.float64, f"{where}: scores must be float64, got {picks.scores.dtype}"
        assert not np.isnan(picks.scores).any(), f"{where}: expected a score for every pick, got {picks.scores}"
    try:
        json.dumps(picks.info)
    except TypeError as error:
        raise AssertionError(f"{where}: info must be plain data, {error}") from None


def check_without_wants(strategy: Strategy) -> None:
    """A strategy must work without the arrays it only wants."""
    arrays = example_arrays(60, 5)
    given: dict[str, Any] = {name: arrays[name] for name in (*strategy.needs, "labelled", "labels")}
    try:
        picks = select(strategy, 8, pool=60, **given)
    except (AsklessError, AssertionError) as error:
        raise AssertionError(f"without {', '.join(getattr(strategy, 'wants', ()))}: {error}") from error
    check_selection(picks, 8, 60, arrays["labelled"], "only the arrays in `needs`")


def check_same_seed(strategy: Strategy) -> None:
    arrays = example_arrays(60, 5)
    first, again = choose(strategy, 8, arrays, seed=3), choose(strategy, 8, arrays, seed=3)
    assert np.array_equal(first.indices, again.indices), "the same seed gave different picks; draw everything from rng"
    check_selection(choose(strategy, 8, arrays, seed=4), 8, 60, arrays["labelled"], "another seed")


def check_number_types(strategy: Strategy) -> None:
    arrays = example_arrays(60, 5)
    from_numpy = choose(strategy, 8, arrays)
    from_torch = choose(strategy, 8, {k: torch.from_numpy(v) for k, v in arrays.items()})
    assert np.array_equal(from_numpy.indices, from_torch.indices), "numpy and torch inputs gave different picks"
    narrow = {k: v.astype(np.float32) if v.dtype.kind == "f" else v for k, v in arrays.items()}
    check_selection(choose(strategy, 8, narrow), 8, 60, arrays["labelled"], "float32 inputs")


def check_inputs_untouched(strategy: Strategy) -> None:
    arrays = example_arrays(60, 5)
    before = {k: v.copy() for k, v in arrays.items()}
    for array in arrays.values():
        array.setflags(write=False)
    try:
        choose(strategy, 8, arrays)
    except ValueError as error:
        raise AssertionError(f"read-only arrays: {first_line(error)}; work on a copy") from error
    for name, array in arrays.items():
        assert np.array_equal(array, before[name]), f"{name} was modified; work on a copy"


def check_equivariance(strategy: Strategy) -> None:
    arrays = example_arrays(60, 5)
    shuffle = np.random.default_rng(1).permutation(60)
    place = np.argsort(shuffle)  # old position -> new position
    shuffled = {k: v[shuffle] if len(v) == 60 else v for k, v in arrays.items()}
    shuffled["kernel"] = shuffled["kernel"][:, shuffle]
    shuffled["labelled"] = place[arrays["labelled"]]
    plain, moved = choose(strategy, 8, arrays), choose(strategy, 8, shuffled)
    assert np.array_equal(plain.indices, shuffle[moved.indices]), "a shuffled pool gave different picks"
