"""Positions and tables, of pandas and polars themselves where they are installed."""

import numpy as np
import pytest

import askless as al
from askless.base.errors import InputError
from askless.base.plain import in_order, is_small, is_sparse, short, table_numbers

X = np.random.default_rng(0).normal(size=(20, 3))


def test_sets_are_ordered_and_everything_else_is_as_it_was():
    assert in_order("labelled", {3, 1, 2}).tolist() == [1, 2, 3]
    assert in_order("labelled", set()).tolist() == []
    given = [2, 1]
    assert in_order("labelled", given) is given
    assert table_numbers("features", X) is X


def test_a_value_is_short_in_a_message():
    assert short(range(3)) == "range(0, 3)"
    assert short("x" * 100) == "a str"
    assert short(X) == "an array of shape (20, 3)"


def test_sparse_is_told_from_dense_and_small_from_large(monkeypatch):
    from scipy.sparse import csr_array

    sparse = csr_array(X)
    assert is_sparse(sparse)
    assert not is_sparse(X)
    assert is_small(sparse)
    monkeypatch.setattr("askless.base.plain.DENSE", X.nbytes - 1)
    assert not is_small(sparse)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_tables_of_numbers_are_features_and_pools_and_a_column_of_text_is_named(package):
    frames = pytest.importorskip(package)
    table = frames.DataFrame({"a": X[:, 0], "b": np.arange(20) % 2 == 0, "c": np.arange(20)})
    plain = np.column_stack([X[:, 0], np.arange(20) % 2 == 0, np.arange(20)])
    expected = al.select("coreset", 4, features=plain).indices
    assert np.array_equal(al.select("coreset", 4, features=table), expected)
    assert np.allclose(np.asarray(al.data.as_pool(table).x), plain)
    mixed = frames.DataFrame({"a": X[:, 0], "city": ["Oslo"] * 20})
    for use in (lambda: al.select("coreset", 4, features=mixed), lambda: al.data.as_pool(mixed)):
        with pytest.raises(InputError, match="got 'Oslo' in column 'city'; drop what is not a number, or encode it"):
            use()


def test_pandas_takes_a_selection_and_its_index_is_no_position():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, index=range(100, 120))
    picks = al.select("coreset", 4, features=table)
    assert np.array_equal(table.iloc[picks].to_numpy(), X[picks.indices])
    for index in (table.index[[1, 2]], pandas.Index(["a", "b"])):
        with pytest.raises(InputError, match=r"labelled: expected positions from 0, got a pandas index"):
            al.select("coreset", 4, features=table, labelled=index)
    named = al.select("coreset", 4, features=table, labelled=np.flatnonzero(table.index.isin([101, 102])))
    assert np.array_equal(named, al.select("coreset", 4, features=X, labelled=[1, 2]))
