"""Targets with attributes, as TVM's tests of UMA targets had it: test_target."""

from __future__ import annotations

from typing import Any

import pytest

from archloom.oracle.errors import TargetError
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.choice import choose
from tests.support.tvm_backend.vanilla import VanillaInt8


def make(name: str, attributes: dict[str, Any]) -> VanillaInt8:
    class Mine(VanillaInt8):
        def __init__(self) -> None:
            super().__init__()
            self._attributes.clear()
            for key, value in attributes.items():
                self._register_target_attr(key, value)

        @property
        def target_name(self) -> str:
            return name

    return Mine()


@pytest.mark.parametrize(("name", "attributes", "given"), [
    ("my_hwa", {}, {}),
    ("my_hwa2", {"local_memory_size": 128 * 1024, "variant": "version1"},
     {"local_memory_size": 256 * 1024, "variant": "version2"}),
])
def test_uma_target(name: str, attributes: dict[str, Any], given: dict[str, Any]) -> None:
    make(name, attributes).register()
    target = registry.get(name)
    assert target.target_name == name and dict(target.attributes) == attributes

    (defaults,) = choose(name)
    assert {k: v for k, v in defaults.options.items() if k in attributes} == attributes
    (chosen,) = choose(name, given)
    assert {k: v for k, v in chosen.options.items() if k in given} == given
    assert dict(target.attributes) == attributes, "choosing changes no default"
    assert not set(attributes) & set(chosen.accelerator_options)


def test_an_attribute_that_is_not_declared_is_refused() -> None:
    make("my_hwa", {"variant": "version1"}).register()
    with pytest.raises(TargetError, match="unknown option 'variants'"):
        choose("my_hwa", {"variants": "version2"})


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, object()])
def test_an_attribute_is_a_number_a_text_or_a_truth_value(value: Any) -> None:
    """In TVM a None ended the process."""
    with pytest.raises(TargetError, match="attribute 'size': expected a default that is a number"):
        make("my_hwa", {"size": value})


def test_names_and_attributes_clash_with_a_message() -> None:
    first = make("my_hwa", {})
    first.register()
    first.register()
    with pytest.raises(TargetError, match="target 'my_hwa' is registered already"):
        make("my_hwa", {}).register()
    with pytest.raises(TargetError, match="attribute 'variant' is registered twice"):
        VanillaInt8()._register_target_attr("variant", "version3")
