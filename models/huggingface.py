"""Networks of the package transformers by their configurations, on torch's ``meta`` device: shapes without weights.

``hf:`` and a class with sizes, of a configuration (of ``hf:BertConfig(hidden_size=384)``, what ``AutoModel`` makes) or
of a model (``hf:LlamaForCausalLM(num_hidden_layers=32)``), or the path of a ``config.json`` or of the folder that has
one, whose first architecture is taken. Nothing is downloaded, and no code of a folder is executed.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archloom.models.catalogue import Built
from archloom.models.quiet import TORCHAO, quiet
from archloom.oracle.errors import InputError, ModelError, suggest
from archloom.oracle.reading import TEXT_BYTES, read_bytes

if TYPE_CHECKING:
    import torch

PREFIX = "hf:"
FILE = "config.json"
LENGTH = 128
"""Of texts, where the network takes as many and no other length is asked for."""
Shapes = Mapping[str, Sequence[int]]


def is_spelled(text: object) -> bool:
    """Whether ``text`` is meant as such a network."""
    return isinstance(text, str) and text.startswith(PREFIX)


def outline(text: str, shapes: Shapes | None = None) -> Built:
    """The network without weights, with inputs of ``shapes`` (by default those of :func:`_inputs`).

    ModelError where transformers is not installed or cannot make it, InputError for a text or file that says nothing.
    """
    import torch

    from archloom.models.networks.language import the_package

    the_package()
    kind, config = _read(text)
    _refuse_negative(text, config)
    config.use_cache = False
    try:
        with torch.device("meta"), _offline(), quiet(*TORCHAO):
            model = kind(config).eval()
    except Exception as error:  # whatever transformers raises of sizes that do not fit
        raise ModelError(f"{text}: transformers cannot make it: {type(error).__name__}: {_short(error)}") from error
    inputs = _inputs(text, model, shapes or {})
    return Built(_title(text), _whole(model, tuple(inputs)), inputs, lambda *_: [])


def _title(text: str) -> str:
    """What it is called: the text, or of a file its folder."""
    path = Path(text.removeprefix(PREFIX))
    return (path.parent if path.name == FILE else path).resolve().name if path.exists() else text.removeprefix(PREFIX)


def _whole(model: Any, names: tuple[str, ...]) -> "torch.nn.Module":
    """The model as a module that takes its inputs in order and gives all tensors of its results."""
    import torch

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            found = self.model(**dict(zip(names, tensors, strict=True)), return_dict=True)
            return tuple(leaf for leaf in torch.utils._pytree.tree_leaves(found) if isinstance(leaf, torch.Tensor))

    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", *names)]
    Whole.forward.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # by which inputs are named
    return Whole().eval()


# configurations -------------------------------------------------------------------------------------------------------


def _read(text: str) -> tuple[Any, Any]:
    """A class of models, and a configuration for it."""
    given = text.removeprefix(PREFIX)
    path = Path(given)
    is_file = bool(given) and path.exists()
    return _of_file(path / FILE if path.is_dir() else path) if is_file else _of_class(text, given)


def _of_file(path: Path) -> tuple[Any, Any]:
    import transformers

    try:
        stated = json.loads(read_bytes(path, TEXT_BYTES))
    except ValueError as error:
        raise InputError(f"{path}: expected a configuration of transformers in JSON: {error}") from error
    kind = stated.get("model_type") if isinstance(stated, dict) else None
    if not isinstance(kind, str) or kind not in transformers.CONFIG_MAPPING:
        raise InputError(f"{path}: expected a model_type that transformers {transformers.__version__} knows, found "
                         f"{kind!r}{_near(str(kind), list(transformers.CONFIG_MAPPING))}")
    try:
        config = transformers.CONFIG_MAPPING[str(kind)].from_dict(stated)
    except Exception as error:  # whatever transformers raises of values that are none of its own
        raise InputError(f"{path}: no configuration of {kind!r}: {type(error).__name__}: {_short(error)}") from error
    architectures = config.architectures or []
    if not architectures:
        return _bare(str(path), config), config
    return _named(str(path), architectures[0]), config


def _of_class(text: str, given: str) -> tuple[Any, Any]:
    name, sizes = _spelling(text, given)
    found = _named(text, name)
    kind = found if name.endswith("Config") else found.config_class
    known = _sizes(text, kind)
    if unknown := [key for key in sizes if key not in known]:
        raise InputError(f"{text}: {kind.__name__} has no {unknown[0]!r}{suggest(unknown[0], known)}")
    try:
        config = kind(**sizes)
    except Exception as error:  # whatever transformers raises of values
        raise InputError(f"{text}: no {kind.__name__}: {type(error).__name__}: {_short(error)}") from error
    return _bare(text, config) if found is kind else found, config


def _sizes(text: str, kind: Any) -> list[str]:
    """What a class of configurations has: transformers itself takes any word."""
    try:
        return sorted({*kind().to_dict(), *kind.attribute_map})
    except Exception as error:  # of other configurations, which it wants to be given
        raise InputError(f"{text}: {kind.__name__} has no defaults: give a {FILE} ({_short(error)})") from error


def _refuse_negative(text: str, config: Any, within: str = "") -> None:
    """InputError for an integer below 0 where the default is above: no size or count is (transformers makes a network
    of no layers of -1). Tokens and classes may be, which names tell: -1 stands for none."""
    try:
        usual = vars(type(config)())
    except Exception:  # of what has no defaults, only the configurations in it can be looked at
        usual = {}
    also = {own: f" ({name})" for name, own in config.attribute_map.items()}
    for name, value in vars(config).items():
        if hasattr(value, "attribute_map"):
            _refuse_negative(text, value, f"{within}{name}.")
        elif type(value) is int and value < 0 and not name.endswith(("_id", "_index")) and (
                type(usual.get(name)) is int and usual[name] > 0):
            raise InputError(f"{text}: {within}{name}{also.get(name, '')}: expected a number of at least 0, found "
                             f"{value}")


@contextmanager
def _offline() -> Iterator[None]:
    """While it lasts, nothing is downloaded: a configuration may name backbones that are elsewhere."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _spelling(text: str, given: str) -> tuple[str, dict[str, Any]]:
    """A class's name and its sizes, which are numbers, texts and lists as Python writes them."""
    try:
        call = ast.parse(given if "(" in given else f"{given}()", mode="eval").body
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args:
            return call.func.id, {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        pass
    raise InputError(f"{text}: expected a class of transformers with its sizes, such as "
                     f"{PREFIX}LlamaConfig(num_hidden_layers=2), or the path of a {FILE}")


def _named(text: str, name: str) -> Any:
    """A class of transformers: a configuration, or a model with one."""
    import transformers

    found = getattr(transformers, name, None) if name.isidentifier() else None
    base = transformers.PreTrainedConfig if name.endswith("Config") else transformers.PreTrainedModel
    if not isinstance(found, type) or not issubclass(found, base) or getattr(found, "config_class", found) is None:
        raise InputError(f"{text}: expected the name of a model or configuration of transformers "
                         f"{transformers.__version__}, found {name!r}{_near(name, dir(transformers))}")
    return found


def _bare(text: str, config: Any) -> Any:
    """The model without a head."""
    import transformers

    found: Any = transformers.MODEL_MAPPING.get(type(config), None)
    if isinstance(found, Sequence):
        found = found[0]
    if found is None:
        raise InputError(f"{text}: transformers has no model without a head for {type(config).__name__}: name the class"
                         f" of a model, such as {PREFIX}LlamaForCausalLM(...)")
    return found


def _near(name: str, known: list[str]) -> str:
    """The nearest of names that are too many to be listed."""
    return "".join(f"; did you mean {near!r}?" for near in get_close_matches(name, known, 1))


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


# inputs ---------------------------------------------------------------------------------------------------------------


def _inputs(text: str, model: Any, shapes: Shapes) -> "dict[str, torch.Tensor]":
    """One text of :data:`LENGTH` tokens, one image of the size in the configuration, or what ``shapes`` says."""
    import torch

    names = [model.main_input_name]
    if model.config.is_encoder_decoder:
        names.append("decoder_input_ids")
    if unknown := [name for name in shapes if name not in names]:
        raise InputError(f"{text}: no input {unknown[0]!r} (inputs: {', '.join(names)})")
    found = {}
    for name in names:
        shape = shapes.get(name) or _usual(text, name, model.config)
        dtype = torch.int64 if name.endswith("input_ids") else torch.float32
        found[name] = torch.empty(tuple(shape), dtype=dtype, device="meta")
    return found


def _usual(text: str, name: str, config: Any) -> tuple[int, ...]:
    config = config.get_text_config() if name.endswith("input_ids") else getattr(config, "vision_config", config)
    if name.endswith("input_ids"):
        return 1, min(LENGTH, getattr(config, "max_position_embeddings", None) or LENGTH)
    size = getattr(config, "image_size", None)
    if name != "pixel_values" or size is None:
        raise InputError(f"{text}: the shape of input {name!r} does not follow from the configuration: give it "
                         f"(--input-shape {name}:1x..., input_shapes={{{name!r}: ...}})")
    height, width = (size, size) if isinstance(size, int) else size
    return 1, getattr(config, "num_channels", 3), height, width
