"""Unique keys, and what may be given as keys."""
import embers
import numpy as np
import pytest
from embers import _core


def test_unique_keeps_the_order_of_first_appearance():
    keys = np.array([[5, -3, 5], [2**62, 0, -3]])
    unique, inverse = embers.unique(keys)
    assert unique.tolist() == [5, -3, 2**62, 0]
    assert inverse.shape == keys.shape and inverse.dtype == np.int64
    assert (unique[inverse] == keys).all()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "uint32", "uint64", ">i8"])
def test_integers_of_any_type_are_keys(dtype):
    unique, inverse = embers.unique(np.array([7, 7, 1], dtype))
    assert unique.dtype == np.int64 and unique.tolist() == [7, 1] and inverse.tolist() == [0, 0, 1]


def test_strided_keys_are_read_as_they_are():
    keys = np.arange(10)[::3]
    assert embers.unique(keys)[0].tolist() == [0, 3, 6, 9]


def test_many_keys_agree_with_numpy():
    random = np.random.default_rng(3)
    keys = random.integers(-2**63, 2**63 - 1, 500)[random.integers(0, 500, 20000)]
    unique, inverse = embers.unique(keys)
    assert len(unique) == len(np.unique(keys)) and (unique[inverse] == keys).all()


@pytest.mark.parametrize("keys, error", [
    ([1.5], "float64"), (np.array([True]), "bool"), (np.array([2**63], "uint64"), "2\\^63"), (3, "int"), (None, "NoneType"),
    ("abc", "one str"), (["a"], "unique_strings")])
def test_what_is_no_integer_is_refused(keys, error):
    with pytest.raises(embers.BadInput, match=error):
        embers.unique(keys)


WORDS = ["b", "ä", "", "b", "水火", "ä"]


@pytest.mark.parametrize("words", [WORDS, tuple(WORDS), np.array(WORDS), np.array(WORDS, object),
                                   [w.encode() for w in WORDS], np.array([w.encode() for w in WORDS])])
def test_unique_strings_take_lists_and_arrays(words):
    unique, inverse = embers.unique_strings(words)
    assert [u if isinstance(u, bytes) else u.encode() for u in unique] == [b"b", "ä".encode(), b"", "水火".encode()]
    assert inverse.tolist() == [0, 1, 2, 0, 3, 1]
    assert isinstance(unique, np.ndarray) == isinstance(words, np.ndarray)


def test_str_and_bytes_of_the_same_text_are_the_same_key():
    assert embers.unique_strings(["ä", "ä".encode()])[1].tolist() == [0, 0]


@pytest.mark.parametrize("words, error", [(["a", 1], "key 1 of .* is of type int"), (["\ud800"], "UTF-8"),
                                          (np.array(["\ud800"]), "UTF-8"), ([1, 2], "unique\\(\\)"),
                                          (np.array(["2020-01-01"], "datetime64[D]"), "datetime64")])
def test_what_is_no_string_is_refused(words, error):
    with pytest.raises(embers.BadInput, match=error):
        embers.unique_strings(words)


def test_rows_of_repeated_keys_are_summed_in_order():
    random = np.random.default_rng(1)
    rows, places = random.normal(size=(30, 4)).astype(np.float32), random.integers(0, 5, 30)
    expected = np.zeros((6, 4), np.float32)
    for row, place in zip(rows, places):
        expected[place] += row
    assert (_core.sum_rows(rows, places, 6) == expected).all()
    with pytest.raises(embers.BadInput, match="outside"):
        _core.sum_rows(rows, places, 4)
    with pytest.raises(embers.BadInput, match="29 places"):
        _core.sum_rows(rows, places[1:], 6)
