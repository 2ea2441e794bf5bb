"""The tree of names: order, nesting, copies and errors."""

from __future__ import annotations

import pytest

import popxl
from popxl_addons.dot_tree import DotTree, sanitise, to_mapping
from popxl_addons.named_tensors import NamedTensors


class OtherTree(DotTree[int]):
    pass


def sample() -> DotTree[int]:
    return DotTree.from_dict({"b": 1, "a.y": 2, "a.x.w": 3, "2": 4, "0": 5})


def test_every_way_of_reading_gives_the_same() -> None:
    tree = sample()
    assert tree.b == tree["b"] == tree.get("b") == 1
    assert tree.a.x.w == tree["a.x.w"] == tree["a"]["x"].w == 3
    assert tree[2] == tree["2"] == tree.get(2) == getattr(tree, "2") == 4


def test_methods_hide_keys_of_the_same_name_from_attribute_access() -> None:
    tree: DotTree[int] = DotTree(keys=1, copy=2)
    assert tree["keys"] == 1 and callable(tree.keys)
    assert tree.keys() == ["keys", "copy"]


def test_negative_numbers_count_back_from_the_highest() -> None:
    tree = sample()
    assert tree[-1] == 4 and tree[-3] == 5
    for key in (-2, -4):
        with pytest.raises(KeyError):
            tree.get(key)
    with pytest.raises(ValueError, match="numeric keys"):
        DotTree(a=1).get(-1)


def test_missing_names_list_those_that_exist() -> None:
    tree = sample()
    with pytest.raises(KeyError, match=r"'c'.*\['b', 'a', '2', '0'\]"):
        tree.get("c")
    with pytest.raises(AttributeError, match=r"no attribute or key 'c'.*'b'"):
        _ = tree.c
    for key in ("b.c", "a.x.w.q", "a.z"):
        with pytest.raises(KeyError):
            tree.get(key)
    assert "a.x.w" in tree and "a.x" in tree and "a.q" not in tree and "b.c" not in tree


def test_reading_does_not_descend_into_trees_of_another_class() -> None:
    tree: DotTree[int] = OtherTree(a=DotTree(b=1))
    with pytest.raises(KeyError):
        tree.get("a.b")
    assert tree.to_dict() == {"a.b": 1}


def test_listing_follows_insertion() -> None:
    tree = sample()
    assert tree.keys() == ["b", "a", "2", "0"] and tree.len() == 4
    assert tree.keys_flat() == ["b", "a.y", "a.x.w", "2", "0"]
    assert tree.values_flat() == [1, 2, 3, 4, 5] and tree.len_flat() == 5
    assert list(tree.to_dict().items())[1] == ("a.y", 2)
    assert tree.to_dict().idx(2) == 3
    names, leaves = tree.unpack()
    assert (names, leaves) == (("0", "2", "a.x.w", "a.y", "b"), (5, 4, 3, 2, 1))
    names, leaves = DotTree().unpack()
    assert (names, leaves) == ([], [])


def test_len_and_iteration_are_pythons_own() -> None:
    with pytest.raises(TypeError):
        len(sample())  # type: ignore[arg-type]
    tree: DotTree[int] = DotTree.from_dict({0: 7, 1: 8})
    items = iter(tree)  # type: ignore[call-overload]
    assert (next(items), next(items)) == (7, 8)
    with pytest.raises(KeyError):
        next(items)
    assert bool(DotTree())


@pytest.mark.parametrize("key", ["a b", "1a", "", "a..b", "a.-1", -1])
def test_keys_are_numbers_or_identifiers(key: str | int) -> None:
    tree = sample()
    with pytest.raises(ValueError):
        tree.insert(key, 0)
    assert tree.to_dict() == sample().to_dict()


def test_insert_keeps_what_exists() -> None:
    tree = sample()
    for key in ("b", "a", "a.new", "a.x.w"):
        with pytest.raises(ValueError, match="already exists"):
            tree.insert(key, 0)
    tree.insert("c.d", 6)
    tree.insert(7, 7)
    assert tree["c.d"] == 6 and tree["7"] == 7


def test_insert_with_overwrite_copies_nested_trees() -> None:
    tree = sample()
    outside = tree.a
    tree.insert("a.x.v", 9, overwrite=True)
    assert tree["a.x.v"] == 9 and tree["a.y"] == 2
    assert "x.v" not in outside
    tree.insert("a", 0, overwrite=True)
    assert tree["a"] == 0


def test_trees_are_held_by_reference() -> None:
    child: DotTree[int] = DotTree()
    parent: DotTree[int] = DotTree(child=child)
    child.insert("a", 1)
    assert parent["child.a"] == 1
    parent.insert("other", child)
    assert parent.other is child


def test_update_copies_and_replaces_whole_trees() -> None:
    tree = sample()
    values: DotTree[int] = DotTree.from_dict({"a.q": 8})
    with pytest.raises(ValueError):
        tree.update(values)
    tree.update(values, overwrite=True)
    assert tree.a.to_dict() == {"q": 8}
    values.a.insert("later", 1)
    assert "later" not in tree.a


def test_pop_reaches_into_nested_trees() -> None:
    tree = sample()
    assert tree.pop("a.x.w") == 3 and tree.pop(2) == 4
    assert tree.keys_flat() == ["b", "a.y", "0"]
    assert tree.a.keys() == ["y", "x"], "the emptied tree stays"
    for key in ("c", "a.c", "b.c"):
        with pytest.raises(KeyError):
            tree.pop(key)


def test_copy_shares_leaves_only() -> None:
    leaf = [1]
    tree: DotTree[list[int]] = OtherTree(a=OtherTree(b=leaf))
    copy = tree.copy()
    assert type(copy) is OtherTree and copy["a.b"] is leaf and copy.a is not tree.a


def test_filter_keys() -> None:
    tree = sample()
    assert list(tree.filter_keys(["2", "a.x", "b"]).to_dict().items()) == [
        ("2", 4),
        ("a.x.w", 3),
        ("b", 1),
    ]
    assert tree.filter_keys(["a.y", "a.x.w"]).to_dict() == {"a.y": 2, "a.x.w": 3}
    with pytest.raises(ValueError, match="more than once"):
        tree.filter_keys(["b", "b"])
    with pytest.raises(KeyError):
        tree.filter_keys(["c"])


def test_from_dict_extends_given_trees_in_place() -> None:
    child: DotTree[int] = DotTree(x=1)
    tree: DotTree[int] = DotTree.from_dict({"a": child, "a.y": 2})
    assert child.to_dict() == {"x": 1, "y": 2} and tree.a is child
    with pytest.raises(AttributeError, match="leaf"):
        DotTree.from_dict({"a": 1, "a.b": 2})
    with pytest.raises(ValueError):
        DotTree.from_dict({"a.b": 1, "a": 2})


def test_pack_and_unpack_are_inverse() -> None:
    tree = sample()
    names, leaves = tree.unpack()
    assert dict(DotTree.pack(names, leaves).to_dict()) == dict(tree.to_dict())
    assert DotTree.pack(["a", "b"], [1]).to_dict() == {"a": 1}


def test_map_keeps_the_class_and_the_keys() -> None:
    doubled = OtherTree(a=1, b=OtherTree(c=2)).map(lambda leaf: 2 * leaf)
    assert type(doubled) is OtherTree and doubled.to_dict() == {"a": 2, "b.c": 4}


def test_to_mapping_takes_the_common_keys() -> None:
    other: DotTree[str] = DotTree.from_dict({"a.y": "two", "b": "one", "c": "none"})
    assert sample().to_mapping(other) == to_mapping(sample(), other) == {1: "one", 2: "two"}


def test_clear_removes_leaves_and_keeps_trees() -> None:
    tree = sample()
    nested = tree.a
    tree._clear()
    assert tree.keys() == ["a"] and tree.a is nested and nested.keys() == ["x"]


def test_text() -> None:
    assert repr(DotTree()) == "DotTree({})"
    assert str(OtherTree(a=1, b=OtherTree(c=2))) == "OtherTree({\na: 1,\nb.c: 2,\n})"


def test_sanitise() -> None:
    assert [sanitise(name) for name in ("a/b.c", "1x", "ok_1")] == ["a_b_c", "_1x", "ok_1"]


def test_variables_print_as_tensors() -> None:
    with popxl.Ir().main_graph:
        tree = NamedTensors(w=popxl.variable([1], name="w"))
    assert str(tree) == repr(tree) == "NamedTensors({\nw: Tensor[w popxl.dtypes.int32 (1,)],\n})"
