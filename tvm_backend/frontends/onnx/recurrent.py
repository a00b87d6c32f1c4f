"""Recurrent layers of ONNX networks (``LSTM``, ``GRU``, ``RNN``), written out frame by frame: TVM 0.27 imports none.

The product of the input's weights is taken for all frames at once, as ``Gemm``; that of the state's once a frame. A
state that begins with zeros is left out of the first frame. Where sequences have lengths of their own, states are kept
after their ends. Layers with clipping, coupled gates, unusual activations, or weights that are no constants stay as
they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from archloom.tvm_backend.frontends.onnx import editor as edit
from archloom.tvm_backend.frontends.onnx import skeleton
from archloom.tvm_backend.frontends.onnx.editor import Editor, Shape

ACTIVATIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
"""The recurrent operators, with their activations."""
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
WRITABLE = frozenset({"Sigmoid", "Tanh", "Relu", "Softsign", "Softplus"})
REFUSED = ("clip", "input_forget", "activation_alpha", "activation_beta")
"""Attributes of which only the value 0 is taken."""
LENGTHS, STATE, CELL, PEEPHOLES = 4, 5, 6, 7
"""Positions among the inputs."""


@edit.rewriting(*ACTIVATIONS)
def frames_first(node: onnx.NodeProto, editor: Editor) -> bool:
    """Put the frames first (``layout=0``) in recurrent layers; onnxruntime does not run layers with the batch first
    either."""
    if not any(a.name == "layout" and a.i for a in node.attribute):
        return False
    layer = edit.with_attributes(node, without=["layout"])
    for position in (0, STATE, CELL):
        if len(node.input) > position and (name := node.input[position]):
            layer.input[position] = editor.node(
                "Transpose", [name], f"{node.output[0] or node.name}.in{position}", perm=(1, 0, 2))
    layer.output[:] = [name and f"{name}.frames_first" for name in node.output]
    editor.write(layer)
    for position, name in enumerate(node.output):
        if name:
            order = (2, 0, 1, 3) if position == 0 else (1, 0, 2)
            editor.node("Transpose", [layer.output[position]], name, perm=order)
    return True


def frame_by_frame(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network with its recurrent layers written out."""
    if not edit.has_operators(model, ACTIVATIONS):
        return model
    return _unrolled(skeleton.inferred(model))


@edit.rewriting(*ACTIVATIONS)
def _unrolled(node: onnx.NodeProto, editor: Editor) -> bool:
    if (layer := _Layer.of(node, editor)) is not None:
        layer.write()
    return layer is not None


@dataclass
class _Layer:
    """A recurrent operator with the names of its inputs, "" for those left out, and its arrays [directions, ...]."""

    node: onnx.NodeProto
    editor: Editor
    inputs: list[str]
    shape: Shape
    arrays: tuple[np.ndarray, ...]
    activations: tuple[str, ...]
    direction: str
    after_product: bool
    masks: set[str] = field(default_factory=set)

    @property
    def nodes_name(self) -> str:
        """What the names of its nodes begin with."""
        return str(self.node.name or self.node.output[0])

    @staticmethod
    def of(node: onnx.NodeProto, editor: Editor) -> "_Layer | None":
        """The layer, or None for one that stays as it is."""
        attributes = edit.attributes_of(node)
        inputs = [*node.input, *[""] * (8 - len(node.input))]
        shape = editor.shapes.get(inputs[0], ())
        if len(shape) != 3 or any(attributes.get(key) for key in (*REFUSED, "layout")):
            return None
        given = [inputs[1], inputs[2], *(name for name in (inputs[3], inputs[PEEPHOLES]) if name)]
        if any(name not in editor.constants for name in given):
            return None
        direction = attributes.get("direction", b"forward").decode()
        default = ACTIVATIONS[node.op_type] * (2 if direction == "bidirectional" else 1)
        activations = tuple(a.decode() for a in attributes.get("activations", [])) or default
        if not set(activations) <= WRITABLE:
            return None
        w, r = (editor.value(name) for name in inputs[1:3])
        b = editor.value(inputs[3]) if inputs[3] else np.zeros((len(w), 2 * w.shape[1]), w.dtype)
        return _Layer(node, editor, inputs, shape, (w, r, b), activations, direction,
                      bool(attributes.get("linear_before_reset")))

    def write(self) -> None:
        """Write the nodes that compute the layer's outputs."""
        name = self.nodes_name
        frames, batch, _ = self.shape
        hidden = self.arrays[1].shape[2]
        ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[self.direction]
        ends: list[tuple[str, ...]] = []
        every: list[list[str]] = []
        for way, backwards in enumerate(ways):
            states = self._direction(f"{name}.{way}", way, backwards)
            ends.append(states[0 if backwards else -1])
            every.append([self._within(frame, h, "", f"{h}.shown") for frame, (h, *_) in enumerate(states)])
        outputs = [*self.node.output, *[""] * (3 - len(self.node.output))]
        if outputs[0]:
            rows = [self.editor.reshaped(every[way][frame], f"{name}.{way}.{frame}.row", (1, 1, batch, hidden))
                    for frame in range(frames) for way in range(len(ways))]
            flat = self._add("Concat", rows, f"{name}.rows", axis=0)
            self.editor.reshaped(flat, outputs[0], (frames, len(ways), batch, hidden))
        for position, output in enumerate(outputs[1:]):
            if output:
                parts = [self.editor.reshaped(end[position], f"{output}.{way}", (1, batch, hidden))
                         for way, end in enumerate(ends)]
                self._add("Concat", parts, output, axis=0)

    def _direction(self, name: str, way: int, backwards: bool) -> list[tuple[str, ...]]:
        """The states (hidden, or hidden and cell) after each frame, in the frames' order."""
        frames, batch, width = self.shape
        w, r, b = (array[way] for array in self.arrays)
        kind, gates = self.node.op_type, GATES[self.node.op_type]
        entering_bias, state_bias = np.split(b, 2)
        if kind != "GRU":
            entering_bias, state_bias = entering_bias + state_bias, np.zeros_like(state_bias)
        rows = self.editor.reshaped(self.inputs[0], f"{name}.frames", (frames * batch, width))
        entering = self._add("Gemm", [rows, self.editor.constant(f"{name}.w", w.T), self.editor.constant(
            f"{name}.b", entering_bias)], f"{name}.entering")
        entering = self.editor.reshaped(entering, f"{name}.entering.frames", (frames, batch, gates * r.shape[1]))
        weights = {"r": r.T} if kind != "GRU" else {"gates": r[:2 * r.shape[1]].T, "new": r[2 * r.shape[1]:].T}
        self.state_weights = {key: self.editor.constant(f"{name}.{key}", value) for key, value in weights.items()}
        self.state_bias = np.split(state_bias, gates)
        count = len(self.activations) // (2 if self.direction == "bidirectional" else 1)
        self.acts = self.activations[way * count:(way + 1) * count]
        step = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[kind]
        peepholes = self.inputs[PEEPHOLES]
        self.peeping = np.split(self.editor.value(peepholes)[way], 3) if peepholes else ()
        state = self._first(name, way)
        states: list[tuple[str, ...]] = []
        for frame in reversed(range(frames)) if backwards else range(frames):
            label = f"{name}.{frame}"
            place = self.editor.constant(f"{label}.place", np.int64(frame))
            new = step(label, self._add("Gather", [entering, place], f"{label}.entering", axis=0), state)
            state = tuple(self._within(frame, made, old, f"{made}.kept") for made, old in zip(new, state, strict=True))
            states.append(state)
        return states[::-1] if backwards else states

    def _first(self, name: str, way: int) -> tuple[str, ...]:
        """The initial state; "" for zeros."""
        inputs, positions = self.inputs, (STATE, CELL) if self.node.op_type == "LSTM" else (STATE,)
        found = []
        for p in positions:
            label = f"{name}.first.{p}"
            place = [self.editor.constant(f"{label}.place", np.int64(way))] if inputs[p] else []
            found.append(self._add("Gather", [inputs[p], *place], label, axis=0) if place else "")
        return tuple(found)

    # one frame of each kind: what enters, and the state before → the state after

    def _lstm(self, label: str, entering: str, state: tuple[str, ...]) -> tuple[str, ...]:
        h, c = state
        sums = self._sum(f"{label}.sums", entering, self._product(f"{label}.state", h, "r"))
        i, o, f, g = self._split(sums, f"{label}.gate", 4)
        i, f = (self._add(self.acts[0], [self._peeped(gate, place, c, f"{label}.{key}")], f"{label}.{key}")
                for key, gate, place in (("i", i, 0), ("f", f, 2)))
        new = self._add("Mul", [i, self._add(self.acts[1], [g], f"{label}.g")], f"{label}.new")
        cell = self._sum(f"{label}.c", new, self._add("Mul", [f, c], f"{label}.kept") if c else "")
        o = self._add(self.acts[0], [self._peeped(o, 1, cell, f"{label}.o")], f"{label}.o")
        return self._add("Mul", [o, self._add(self.acts[2], [cell], f"{label}.shown")], f"{label}.h"), cell

    def _peeped(self, gate: str, place: int, cell: str, label: str) -> str:
        """A gate with what it sees of the cell, where the layer has peepholes (input, output, forget)."""
        if not self.peeping or not cell:
            return gate
        weights = self.editor.constant(f"{label}.p", self.peeping[place])
        return self._sum(f"{label}.peeped", gate, self._add("Mul", [cell, weights], f"{label}.seen"))

    def _within(self, frame: int, new: str, old: str, label: str) -> str:
        """``new`` where the frame belongs to the sequence, else ``old`` ("" for zeros)."""
        if not self.inputs[LENGTHS]:
            return new
        inside = f"{self.nodes_name}.{frame}.inside"
        if inside not in self.masks:
            self.masks.add(inside)
            place = self.editor.constant(f"{inside}.place", np.int32(frame))
            flat = self._add("Less", [place, self.inputs[LENGTHS]], f"{inside}.flat")
            self.editor.reshaped(flat, inside, (self.shape[1], 1))
        if not old:
            old = self.editor.constant(f"{label}.nothing", np.zeros((1, 1), self.arrays[1].dtype))
        return self._add("Where", [inside, new, old], label)

    def _gru(self, label: str, entering: str, state: tuple[str, ...]) -> tuple[str, ...]:
        (h,) = state
        ez, er, eh = self._split(entering, f"{label}.in", 3)
        sz, sr = self._split(product, f"{label}.state", 2) if (
            product := self._product(f"{label}.gates", h, "gates")) else ("", "")
        bz, br, bh = (self.editor.constant(f"{label}.bias{i}", b) for i, b in enumerate(self.state_bias))
        z, r = (self._add(self.acts[0], [self._sum(f"{label}.{key}.sum", self._sum(f"{label}.{key}.all", e, s), b)],
                          f"{label}.{key}") for key, e, s, b in (("z", ez, sz, bz), ("r", er, sr, br)))
        if self.after_product:
            inner = self._sum(f"{label}.inner", bh, self._product(f"{label}.new", h, "new"))
            reset = self._add("Mul", [r, inner], f"{label}.reset")
        else:
            shown = self._add("Mul", [r, h], f"{label}.reset") if h else ""
            reset = self._sum(f"{label}.inner", bh, self._product(f"{label}.new", shown, "new"))
        new = self._add(self.acts[1], [self._sum(f"{label}.n.sum", eh, reset)], f"{label}.n")
        fresh = self._add("Sub", [new, self._add("Mul", [z, new], f"{label}.held")], f"{label}.fresh")
        return (self._sum(f"{label}.h", fresh, self._add("Mul", [z, h], f"{label}.kept") if h else ""),)

    def _rnn(self, label: str, entering: str, state: tuple[str, ...]) -> tuple[str, ...]:
        sums = self._sum(f"{label}.sums", entering, self._product(f"{label}.state", state[0], "r"))
        return (self._add(self.acts[0], [sums], f"{label}.h"),)

    # nodes; "" stands for zeros

    def _add(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        return self.editor.node(op, inputs, output, **attributes)

    def _product(self, label: str, state: str, weights: str) -> str:
        return self._add("MatMul", [state, self.state_weights[weights]], label) if state else ""

    def _sum(self, label: str, a: str, b: str) -> str:
        return self._add("Add", [a, b], label) if a and b else a or b

    def _split(self, x: str, label: str, parts: int) -> list[str]:
        sizes = [self.arrays[1].shape[2]] * parts
        outputs = [f"{label}{i}" for i in range(parts)]
        if self.editor.version < 13:
            self.editor.write(helper.make_node("Split", [x], outputs, label, axis=1, split=sizes))
        else:
            given = self.editor.constant(f"{label}.sizes", np.array(sizes, np.int64))
            self.editor.write(helper.make_node("Split", [x, given], outputs, label, axis=1))
        return outputs
