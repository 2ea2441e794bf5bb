"""Groups of replicas."""

import pytest

import popxl


@pytest.mark.parametrize(
    ("stride", "size", "assignment"),
    [
        (1, 2, [0, 0, 1, 1, 2, 2, 3, 3]),
        (2, 2, [0, 1, 0, 1, 2, 3, 2, 3]),
        (2, 4, [0, 1, 0, 1, 0, 1, 0, 1]),
        (4, 2, [0, 1, 2, 3, 0, 1, 2, 3]),
    ],
)
def test_assignment(stride, size, assignment):
    ir = popxl.Ir(8)
    grouping = ir.replica_grouping(stride, size)
    assert grouping.assignment == assignment
    assert grouping == ir.replica_grouping_from_assignments(assignment)
    assert grouping.is_const
    assert grouping.const_rg is grouping


def test_transpose():
    for before, after in (
        ([0, 0, 1, 1], [0, 1, 0, 1]),
        ([0, 1, 2, 3], [0, 0, 0, 0]),
        ([0, 1, 0, 1, 2, 3, 2, 3], [0, 0, 1, 1, 0, 0, 1, 1]),
    ):
        ir = popxl.Ir(len(before))
        assert ir.replica_grouping_from_assignments(before).transpose().assignment == after


def test_non_constant():
    grouping = popxl.Ir(8).replica_grouping_from_assignments([0, 0, 1, 1, 0, 0, 1, 1])
    assert not grouping.is_const
    assert grouping.const_rg.assignment == [0, 0, 1, 1, 2, 2, 3, 3]
    assert grouping.to_device_map == [0, 1, 0, 1]
    assert grouping.to_host_map == [0, 1]
    with pytest.raises(NotImplementedError):
        grouping.stride  # noqa: B018
    assert repr(grouping) == "ReplicaGrouping(assignment=[0, 0, 1, 1, 0, 0, 1, 1])"


@pytest.mark.parametrize("assignment", [[0, 1, 2, 3, 1, 2, 3, 0], [0, 1, 1, 0], [0, 1, 2, 1, 2, 0]])
def test_an_irregular_grouping_is_made_of_single_replicas(assignment):
    replicas = len(assignment)
    grouping = popxl.Ir(replicas).replica_grouping_from_assignments(assignment)
    constant = grouping.const_rg
    assert constant.assignment == list(range(replicas))
    assert (constant.stride, constant.group_size, constant.num_groups) == (1, 1, replicas)
    assert grouping.to_device_map == assignment
    assert grouping.to_host_map == [assignment.index(g) for g in range(max(assignment) + 1)]


def test_errors():
    ir = popxl.Ir(4)
    for arguments in ((0,), (3,), (8,), (1, 0), (1, 5)):
        with pytest.raises(ValueError, match="given"):
            ir.replica_grouping(*arguments)
    for assignment in ([0, 1], [1, 0, 1, 0], [0, 0, 0, 1]):
        with pytest.raises(ValueError, match="given"):
            ir.replica_grouping_from_assignments(assignment)
    with pytest.raises(TypeError):
        hash(ir.replica_grouping())
    with pytest.raises(TypeError):
        ir.replica_grouping() == 1  # noqa: B015
