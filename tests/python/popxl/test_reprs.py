"""What objects say of themselves, as text and as tables in notebooks."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import popxl
import popxl_addons as addons
from popxl import notebook, ops


class Cells(HTMLParser):
    """The text of each row's cells; fails for tags that are not closed."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.open, self.heading = [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag == "br":
            self.handle_data(" ")
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if tag != "br":
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.rows and ("td" in self.open or "th" in self.open):
            self.rows[-1][-1] += data
        else:
            self.heading += data


@pytest.fixture
def program():
    ir = popxl.Ir(replication=2)
    ir.num_host_transfers = 3
    with ir.main_graph, popxl.in_sequence():
        x = popxl.h2d_stream((2, 3), popxl.float32, "x")
        y = popxl.d2h_stream((2, 4), popxl.float32, "y")
        w = popxl.variable(np.ones((3, 4), np.float32), name="w<b>")
        graph = ir.create_graph(lambda a, b: a @ b, popxl.TensorSpec((2, 3), popxl.float32), w)
        (out,) = ops.call(graph, ops.host_load(x), w)
        ops.host_store(y, out)
    return ir, graph


def test_a_graph_as_a_table(program):
    ir, graph = program
    cells = Cells(ir.main_graph._repr_html_())
    assert cells.heading == "main graph: 0 inputs, 0 outputs, 4 ops"
    head, *rows = cells.rows
    assert head == ["op", "inputs", "outputs", "line"]
    assert [row[0].split(".")[0] for row in rows] == ["Init", "HostLoad", "Call", "HostStore"]
    call = rows[2]
    assert call[0] == f"Call.{ir.main_graph._pb.ops[2].id} {graph.id}"
    assert call[1] == "x_hostload (2, 3) float32 w<b> (3, 4) float32"
    assert call[2].endswith("(2, 4) float32")
    assert re.fullmatch(r"test_reprs\.py:\d+", call[3])
    assert "<b>w" not in ir.main_graph._repr_html_()
    inner = Cells(graph._repr_html_())
    assert inner.heading == f"{graph.id}: 2 inputs, 1 output, 1 op"
    wrapped = addons.GraphWithNamedArgs(graph)
    assert wrapped._repr_html_() == graph._repr_html_()


def test_a_long_graph_is_cut():
    ir = popxl.Ir()
    with ir.main_graph:
        t = popxl.variable(np.ones(2, np.float32))
        for _ in range(notebook.MOST_ROWS + 7):
            t = ops.negate(t)
        ops.concat([t] * 12)
    rows = Cells(ir.main_graph._repr_html_()).rows
    assert len(rows) == 1 + notebook.MOST_ROWS + 1 and notebook.MOST_ROWS == 100
    assert rows[-1] == ["and 8 more ops"]
    with ir.create_empty_graph() as other:
        ops.concat([popxl.constant([1.0, 2.0])] * 12)
    assert Cells(other._repr_html_()).rows[1][1].endswith("and 4 more")


def test_an_ir_as_a_table(program):
    ir, graph = program
    cells = Cells(ir._repr_html_())
    assert cells.heading == (
        f"Ir {ir.id}: 2 replicas, 3 host transfers a run, 2 graphs, 5 ops, 1 variable of 48 B, "
        "0 remote buffers"
    )
    assert [row[0] for row in cells.rows] == ["graph", "main graph", graph.id]
    assert cells.rows[1][3:] == ["4", graph.id]
    assert cells.rows[2][1:] == [
        "a (2, 3) float32 b (3, 4) float32",
        f"{graph.outputs[0].name} (2, 4) float32",
        "1",
        "",
    ]
    assert repr(ir) == f"Ir[id={ir.id}]"


def test_numbers_of_bytes():
    sizes = [0, 1023, 1024, 1536, 5 << 20, 3 << 30]
    wanted = ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "3.0 GiB"]
    assert [notebook.byte_text(size) for size in sizes] == wanted


def test_a_session(program):
    ir, _ = program
    session = popxl.Session(ir, "ipu_model")
    memory = session._pb_session.program.memory
    text = (
        f"Session[ir={ir.id} replicas=2 device=IpuModel attached=False inputs=['x'] outputs=['y'] "
        f"variables=1 device_bytes={memory.persistent_bytes + memory.peak_frame_bytes}]"
    )
    assert repr(session) == text
    with session:
        assert repr(session) == text.replace("False", "True")
    assert repr(popxl.Session.__new__(popxl.Session)) == "Session[not compiled]"


class Layer(addons.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self._secret = "hidden"

    def build(self, x):
        return x * self.add_variable_input("w", lambda: np.ones(self.size), popxl.float32)


def test_objects_of_addons():
    ir = popxl.Ir()
    with ir.main_graph:
        net = addons.Module.from_list([Layer(2), Layer(3)])
        assert repr(net) == "Module[0=Layer[size=2], 1=Layer[size=3]]"
        vars(net)["me"] = net
        assert "me=..." in repr(net)
        factories, graph = Layer(2).create_graph(popxl.TensorSpec((2,), popxl.float32))
        assert repr(graph) == (
            f"GraphWithNamedArgs[graph={graph.graph.name} inputs=2 outputs=1 args=['w']]"
        )
        gradient = graph.autodiff()
        assert repr(gradient).endswith(f"args=[] gradient_of={graph.graph.name}]")
        bound = graph.bind(factories.init())
        assert repr(bound) == (
            f"BoundGraph[graph={graph.graph.name} w=Tensor[w popxl.dtypes.float32 (2,)]]"
        )
        assert repr(factories.w) == "VariableFactory[w popxl.dtypes.float32 (2,)]"
        streams = addons.InputStreams(a=((2, 3), popxl.float16), b=((), popxl.int32))
        assert repr(streams) == "InputStreams[a=float16 (2, 3), b=int32 ()]"
