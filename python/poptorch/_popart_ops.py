"""The ops of a program as `_debugGetPopartIR` tells them, by the names that programs search for."""

from __future__ import annotations

from typing import Any


def ops_of_program(main_graph: Any, weights: set[str]) -> list[dict[str, Any]]:
    """Describe the ops of a graph and of those that it calls.

    Args:
        main_graph: The graph of the core.
        weights: The names of the parameters.

    Returns:
        For each op its type, its name (scope, then type) and the IDs of its inputs and outputs, in
        order; the ops of a called graph once, after the first call.
    """
    return _Description(weights).ops_of(main_graph)


class _Description:
    """What is known of a program while its ops are described.

    Args:
        weights: The names of the parameters.
    """

    def __init__(self, weights: set[str]) -> None:
        self._weights = weights
        self._seen: set[str] = set()
        self._makers: dict[str, str] = {}

    def ops_of(self, graph: Any) -> list[dict[str, Any]]:
        if graph.id in self._seen:
            return []
        self._seen.add(graph.id)
        found = []
        for op in graph.ops:
            # The last part of the context's name is the function that made the op.
            scope, _, function = op.context.name.rpartition("/")
            kind = self._type_of(op, graph.id, scope, function)
            found.append(
                {
                    "type": kind,
                    "name": "/".join(filter(None, [scope.strip("/"), kind])),
                    "inputs": [tensor.id for tensor in op.inputs if tensor is not None],
                    "outputs": [tensor.id for tensor in op.outputs if tensor is not None],
                }
            )
            self._makers.update({tensor.id: op.kind for tensor in op.outputs if tensor is not None})
            for called in op.called_graphs:
                found += self.ops_of(called)
        return found

    def _type_of(self, op: Any, graph: str, scope: str, function: str) -> str:
        if op.kind == "Identity" and function == "restore":
            return "Restore"
        if op.kind == "Conv" and "MultiConv" in scope.split("/"):
            return "MultiConv"
        if op.kind.startswith("ScaledAdd"):
            target, step = op.inputs[0].id, op.inputs[1].id
            if target.removeprefix(f"{graph}/") in self._weights:
                is_adam = self._makers.get(step) == "AdamUpdater"
                return "AdamVarUpdate" if is_adam else "SGD0VarUpdate"
        return str(op.kind)
