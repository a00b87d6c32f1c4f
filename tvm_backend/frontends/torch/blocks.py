"""Equal blocks of a torch module, each exported and imported once.

Modules are equal that are of one class, with equal parts and tensors of equal shapes, and in which what a call reads of
their attributes is equal (the number of a layer, say, need not be); their numbers may differ, so this is for networks
without weights. The network is run once with shapes alone, where only the first call of a block on inputs of certain
shapes is gone through, then exported with an operator of its own in place of all calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from archloom.models.quiet import quiet
from archloom.oracle.fallbacks import Fallback
from archloom.tvm_backend.frontends.torch.pt2_files import summary

LEAST = 3
"""Blocks that occur less often are not set apart."""
CALL = "archloom.block."
"""What stands, with a block's number behind it, for the function that a call of it is imported as."""
_PLAIN = (type(None), bool, int, float, str)
_HELD = ("_parameters", "_buffers", "_modules")

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


Call: TypeAlias = Callable[[Block, int, int, list[torch.Tensor]], Sequence[torch.Tensor]]
"""What stands for a call of a block, which has a number, on tensors; the second number is that of the module that is
called: another one has other weights."""


def as_operator(block: Block, number: int, module: int, tensors: list[torch.Tensor]) -> Sequence[torch.Tensor]:
    """The operator that is imported as a call of the function :data:`CALL`."""
    results: list[torch.Tensor] = torch.ops.archloom.block(tensors, number)
    return results


@dataclass(frozen=True)
class _Seen:
    """A call that was gone through: what it read of its module's attributes, and the block, if it can be one."""

    read: "_Attributes"
    block: Block | None


class Blocks:
    """The blocks of a module, as they are found while it is called; those that cannot be set apart are gone through.

    ``fallbacks``: why none is set apart, where the module cannot be run with shapes alone on inputs like these.
    """

    def __init__(self, module: torch.nn.Module, inputs: Sequence[torch.Tensor], call: Call) -> None:
        self.found: list[Block] = []
        self.fallbacks: tuple[Fallback, ...] = ()
        self._module, self._inputs, self._call = module, inputs, call
        self._parts = list(_candidates(module))
        self._numbers = {part: number for number, (part, _) in enumerate(self._parts)}
        self._seen: dict[Any, list[_Seen]] = {}
        self._of: dict[tuple[torch.nn.Module, Any], _Seen] = {}
        self._whole: set[torch.nn.Module] = set()

    def of(self, module: torch.nn.Module, kind: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        """What takes the place of a module's ``forward``."""
        numbers = self._numbers

        def forward(*args: Any, **kwargs: Any) -> Any:
            if not all(map(_is_plain, (*args, *kwargs.values()))):
                self._whole.add(module)
                return call(*args, **kwargs)
            leaves, tree = pytree.tree_flatten((args, kwargs))
            key = kind, repr(tree), tuple(
                (tuple(x.shape), x.dtype) if isinstance(x, torch.Tensor) else x for x in leaves)
            seen = self._found(module, key)
            if seen is None:
                with _noted(module) as read:
                    result = call(*args, **kwargs)
                seen = _Seen(_attributes(module, read), self._block(Block(module, call, leaves, tree), result))
                self._seen.setdefault(key, []).append(seen)
                self._of[module, key] = seen
                return result
            if seen.block is None:
                self._whole.add(module)
                return call(*args, **kwargs)
            tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
            made = self._call(seen.block, self.found.index(seen.block), numbers[module], tensors)
            return pytree.tree_unflatten(list(made), seen.block.made)

        return forward

    def _found(self, module: torch.nn.Module, key: Any) -> _Seen | None:
        """An equal call that was gone through; asked again, the answer is at hand, as parts may have been taken out."""
        if (module, key) not in self._of:
            for seen in self._seen.get(key, ()):
                if seen.read == _attributes(module, seen.read):
                    self._of[module, key] = seen
                    break
        return self._of.get((module, key))

    def _block(self, block: Block, result: Any) -> Block | None:
        results, block.made = pytree.tree_flatten(result)
        if not results or not all(isinstance(x, torch.Tensor) for x in results):
            self._whole.add(block.module)
            return None
        block.outputs = [(tuple(x.shape), x.dtype) for x in results]
        self.found.append(block)
        return block

    @contextmanager
    def set_apart(self) -> Iterator[None]:
        """While it lasts, parts of the module are blocks: each call finds one, or makes it."""
        for part, kind in self._parts:
            part.forward = self.of(part, kind, part.forward)  # type: ignore[method-assign]
        try:
            if self._parts and (error := _failure(self._module, self._inputs)) is not None:
                self.found.clear()
                self.fallbacks = (_whole(self._module, error),)
                self._restore()
            yield
        finally:
            self._restore()

    def _restore(self) -> None:
        for part, _ in self._parts:
            vars(part).pop("forward", None)

    @contextmanager
    def taken_out(self) -> Iterator[None]:
        """While it lasts, modules of which nothing but calls of blocks is needed have neither tensors nor parts:
        ``torch.export`` lists them all, many times."""
        parts = [part for part, _ in self._parts if self.found and part not in self._whole]
        held = [(part, {name: vars(part)[name] for name in _HELD}) for part in parts]
        try:
            for part in parts:
                vars(part).update({name: {} for name in _HELD})
            if _failure(self._module, self._inputs) is not None:  # more is asked of them than to be called
                _put_back(held)
            yield
        finally:
            _put_back(held)


_current: ContextVar[Blocks] = ContextVar("archloom_blocks")


@contextmanager
def apart(module: torch.nn.Module, inputs: Sequence[torch.Tensor], call: Call = as_operator) -> Iterator[Blocks]:
    """The module's blocks; while it lasts, calls of them are what ``call`` makes of them.

    A module that cannot be run with shapes alone has none; ``fallbacks`` says why.
    """
    blocks = Blocks(module, inputs, call)
    token = _current.set(blocks)
    try:
        with blocks.set_apart():
            yield blocks
    finally:
        _current.reset(token)


def _failure(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> Exception | None:
    """What a module raises when it is run with shapes alone."""
    try:
        with torch.no_grad(), quiet("torch"), FakeTensorMode(allow_non_fake_inputs=True) as mode:
            module(*map(mode.from_tensor, inputs))
    except Exception as error:  # torch and the module's own code raise as they like
        return error
    return None


def _whole(module: torch.nn.Module, error: Exception) -> Fallback:
    return Fallback(type(module).__name__, f"it cannot be run with shapes alone: {summary(error)}",
                    "equal blocks are exported and imported each for itself, which takes longer")


def _put_back(held: "Sequence[tuple[torch.nn.Module, dict[str, Any]]]") -> None:
    for part, kept in held:
        vars(part).update(kept)


# what makes modules equal ---------------------------------------------------------------------------------------------


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
    """Classes and shapes of tensors, part by part."""
    return tuple(
        (name, type(part), tuple((key, tuple(x.shape), x.dtype) for held in (part._parameters, part._buffers)
                                 for key, x in held.items() if x is not None))
        for name, part in module.named_modules())


_Attributes: TypeAlias = dict[tuple[str, str], str]
"""The texts of attributes, by the name of a part and their own."""


def _attributes(module: torch.nn.Module, read: Iterable[tuple[str, str]]) -> _Attributes:
    return {(part, name): repr(vars(module.get_submodule(part)).get(name)) for part, name in read}


@contextmanager
def _noted(module: torch.nn.Module) -> Iterator[set[tuple[str, str]]]:
    """The attributes of a module and its parts that are read while it lasts, as they were set on these objects."""
    read: set[tuple[str, str]] = set()
    parts = dict(module.named_modules())
    kinds = {part: type(part) for part in parts.values()}
    try:
        for name, part in parts.items():
            part.__class__ = _noting(kinds[part], name, read)
        yield read
    finally:
        for part, kind in kinds.items():
            part.__class__ = kind


def _noting(kind: type[torch.nn.Module], part: str, read: set[tuple[str, str]]) -> type[torch.nn.Module]:
    """A class like ``kind`` that notes what is read of the part's attributes."""
    inherited: Any = kind.__getattribute__

    def noted(self: Any, name: str) -> Any:
        if not name.startswith("_") and name in object.__getattribute__(self, "__dict__"):
            read.add((part, name))
        return inherited(self, name)

    return type(kind.__name__, (kind,), {"__getattribute__": noted, "__module__": kind.__module__})


def _is_plain(value: Any) -> bool:
    """Whether a call with this argument depends on, and changes, nothing else."""
    return isinstance(value, (torch.Tensor, *_PLAIN)) or (type(value) is tuple and all(map(_is_plain, value)))
