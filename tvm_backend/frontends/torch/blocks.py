"""Equal blocks of a torch module, each exported and imported once.

Modules are equal that are of one class, with equal attributes and parts and tensors of equal shapes; their numbers may
differ, so this is for networks without weights. The network is run once with shapes alone, where only the first call of
a block on inputs of certain shapes is gone through, then exported with an operator of its own in place of all calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

LEAST = 3
"""Blocks that occur less often are not set apart."""
CALL = "archloom.block."
"""What stands, with a block's number behind it, for the function that a call of it is imported as."""
_PLAIN = (type(None), bool, int, float, str)

torch.library.define("archloom::block", "(Tensor[] inputs, int number) -> Tensor[]")


@torch.library.register_fake("archloom::block")
def _results(inputs: list[torch.Tensor], number: int) -> list[torch.Tensor]:
    return [torch.empty(shape, dtype=dtype) for shape, dtype in _current.get().found[number].outputs]


class Block(torch.nn.Module):
    """Equal modules called on inputs of equal shapes, as a module of these tensors that gives a tuple of tensors.

    ``leaves`` and ``tree`` are the arguments of the call, ``outputs`` shapes and types of what it gives, ``made`` the
    structure of that.
    """

    def __init__(self, module: torch.nn.Module, call: Callable[..., Any], leaves: list[Any], tree: Any) -> None:
        super().__init__()
        self.module, self.call, self.leaves, self.tree = module, call, leaves, tree
        self.outputs: list[tuple[tuple[int, ...], torch.dtype]] = []
        self.made: Any = None

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = iter(tensors)
        leaves = [next(given) if isinstance(x, torch.Tensor) else x for x in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        return tuple(pytree.tree_leaves(self.call(*args, **kwargs)))

    def inputs(self) -> tuple[torch.Tensor, ...]:
        return tuple(torch.zeros(x.shape, dtype=x.dtype) for x in self.leaves if isinstance(x, torch.Tensor))


class Blocks:
    """The blocks of a module, as they are found while it is called; those that cannot be set apart are gone through."""

    def __init__(self) -> None:
        self.found: list[Block] = []
        self._known: dict[Any, Block | None] = {}

    def of(self, module: torch.nn.Module, kind: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        """What takes the place of a module's ``forward``."""
        def forward(*args: Any, **kwargs: Any) -> Any:
            if not all(map(_is_plain, (*args, *kwargs.values()))):
                return call(*args, **kwargs)
            leaves, tree = pytree.tree_flatten((args, kwargs))
            key = kind, repr(tree), tuple(
                (tuple(x.shape), x.dtype) if isinstance(x, torch.Tensor) else x for x in leaves)
            if key not in self._known:
                result = call(*args, **kwargs)
                self._known[key] = self._block(Block(module, call, leaves, tree), result)
                return result
            block = self._known[key]
            if block is None:
                return call(*args, **kwargs)
            tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
            return pytree.tree_unflatten(torch.ops.archloom.block(tensors, self.found.index(block)), block.made)

        return forward

    def _block(self, block: Block, result: Any) -> Block | None:
        results, block.made = pytree.tree_flatten(result)
        if not results or not all(isinstance(x, torch.Tensor) for x in results):
            return None
        block.outputs = [(tuple(x.shape), x.dtype) for x in results]
        self.found.append(block)
        return block


_current: ContextVar[Blocks] = ContextVar("archloom_blocks")


@contextmanager
def apart(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> Iterator[Blocks]:
    """The module's blocks; while it lasts, calls of them are calls of one operator, which has their number.

    A module that cannot be run with shapes alone has none: exporting it says what is wrong.
    """
    blocks = Blocks()
    parts = list(_candidates(module))
    for part, kind in parts:
        part.forward = blocks.of(part, kind, part.forward)  # type: ignore[method-assign]
    token = _current.set(blocks)
    try:
        if parts and not _goes_through(module, inputs):
            blocks.found.clear()
            _restore(parts)
        yield blocks
    finally:
        _current.reset(token)
        _restore(parts)


def _goes_through(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> bool:
    """Run a module with shapes alone."""
    try:
        with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True) as mode:
            module(*map(mode.from_tensor, inputs))
    except Exception:  # torch and the module's own code raise as they like
        return False
    return True


def _restore(parts: "Sequence[tuple[torch.nn.Module, Any]]") -> None:
    for part, _ in parts:
        vars(part).pop("forward", None)


def _candidates(module: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, Any]]:
    """The outermost parts, of several layers each, that occur often enough, each with what all that are equal share."""
    kinds = {part: _kind(part) for part in module.modules() if any(True for _ in part.children())}
    count = Counter(kinds.values())
    waiting = list(module.children())
    while waiting:
        part = waiting.pop()
        if part in kinds and count[kinds[part]] >= LEAST and not part._forward_hooks and "forward" not in vars(part):
            yield part, kinds[part]
        else:
            waiting += part.children()


def _kind(module: torch.nn.Module) -> tuple[Any, ...]:
    parts = []
    for name, part in module.named_modules():
        tensors = tuple((key, tuple(x.shape), x.dtype) for held in (part._parameters, part._buffers)
                        for key, x in held.items() if x is not None)
        attributes = tuple((key, repr(value)) for key, value in vars(part).items() if not key.startswith("_"))
        parts.append((name, type(part), tensors, attributes))
    return tuple(parts)


def _is_plain(value: Any) -> bool:
    """Whether a call with this argument depends on, and changes, nothing else."""
    return isinstance(value, (torch.Tensor, *_PLAIN)) or (type(value) is tuple and all(map(_is_plain, value)))
