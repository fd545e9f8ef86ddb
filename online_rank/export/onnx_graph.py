"""Nodes and constants of an ONNX graph."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

#: Numbers of types: `onnx.TensorProto`.
FLOAT, INT8, INT32, INT64, DOUBLE = 1, 3, 6, 7, 11


#: The name of a tensor, or a constant.
Value: TypeAlias = str | np.ndarray | np.generic | float


class Graph:
    """Nodes of an ONNX graph and the constants that they use; every value is float64 unless a method says otherwise."""

    def __init__(self, helper: Any, numpy_helper: Any) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._n_values = 0
        self._helper = helper
        self._numpy_helper = numpy_helper
        self.has_trees = False

    def tensor(self, values: np.ndarray) -> Any:
        """Values as a tensor, for an attribute of a node."""
        return self._numpy_helper.from_array(values)

    def constant(self, value: Any) -> str:
        """A constant array; its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(self._numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, kind: str, *inputs: Value, **attributes: Any) -> str:
        """Add a node; inputs may be names or constants. Returns the name of its output."""
        return self.add_several(kind, 1, *inputs, **attributes)[0]

    def add_several(self, kind: str, n_outputs: int, *inputs: Value, **attributes: Any) -> list[str]:
        """The same for a node with several outputs."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        outputs = [f"v{self._n_values}_{k}" for k in range(n_outputs)]
        self._n_values += 1
        self.nodes.append(self._helper.make_node(kind, names, outputs, **attributes))
        return outputs

    def choose(self, condition: str, yes: Callable[[], str], no: Callable[[], str], kind: int) -> str:
        """What one of two functions adds, of a type: `yes` if the condition holds when the graph runs, else `no`."""
        parts = {name: self._part(name, add, kind) for name, add in (("then_branch", yes), ("else_branch", no))}
        return self.add("If", condition, **parts)

    def _part(self, name: str, add: Callable[[], str], kind: int) -> Any:
        """The nodes that a function adds, as a graph; constants stay in the whole graph."""
        whole, self.nodes = self.nodes, []
        made = add()
        part = self._helper.make_graph(self.nodes, name, [], [self._helper.make_tensor_value_info(made, kind, None)])
        self.nodes = whole
        return part
