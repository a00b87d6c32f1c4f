"""Configurations of transformers as networks without weights, beside the models that transformers makes of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

import archloom
from archloom.models import huggingface
from archloom.oracle.errors import InputError, ModelError

SIZES = "vocab_size=64,hidden_size=32,intermediate_size=48,num_hidden_layers=3,num_attention_heads=2"
LLAMA = f"hf:LlamaForCausalLM({SIZES},num_key_value_heads=1)"


class Logits(nn.Module):
    """Llama with the same sizes, with weights, as a user of transformers gives it."""

    def __init__(self) -> None:
        super().__init__()
        self.model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2,
            num_key_value_heads=1))

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(input_ids=input_ids, use_cache=False).logits
        return logits


@pytest.mark.slow
@pytest.mark.parametrize(("target", "as_int8"), [("qkv", False), ("gemmini", True)])
def test_an_estimate_is_that_of_the_model_with_weights(target: str, as_int8: bool) -> None:
    def layers(given: Any, **options: Any) -> list[Any]:
        report = archloom.estimate(given, target, as_int8=as_int8, **options)
        assert not report.fallbacks
        return sorted((la.where, la.op, la.shape, la.macs, la.cycles or 0) for la in report.layers)

    found = layers(LLAMA, input_shapes={"input_ids": (1, 16)})
    assert found == layers(Logits().eval(), example_inputs=(torch.zeros(1, 16, dtype=torch.int64),))


def test_a_file_and_its_folder_are_the_first_architecture(tmp_path: Path) -> None:
    config = transformers.BertConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                                     num_attention_heads=2, architectures=["BertForSequenceClassification"])
    (tmp_path / "tiny").mkdir()
    config.save_pretrained(tmp_path / "tiny")
    for path in (tmp_path / "tiny", tmp_path / "tiny" / "config.json"):
        built = huggingface.outline(f"hf:{path}")
        assert type(built.module.model).__name__ == "BertForSequenceClassification" and built.name == "tiny"
        assert {name: tuple(x.shape) for name, x in built.inputs.items()} == {"input_ids": (1, 128)}
        assert all(tensor.is_meta for tensor in (*built.module.parameters(), *built.inputs.values()))


@pytest.mark.parametrize(("text", "model", "inputs"), [
    (f"hf:BertConfig({SIZES})", "BertModel", {"input_ids": (1, 128)}),
    ("hf:ViTConfig(hidden_size=32,num_hidden_layers=1,num_attention_heads=2,image_size=32,patch_size=8)", "ViTModel",
     {"pixel_values": (1, 3, 32, 32)}),
    ("hf:T5Config(d_model=32,d_ff=64,num_layers=1,num_heads=2,d_kv=16,vocab_size=64)", "T5Model",
     {"input_ids": (1, 128), "decoder_input_ids": (1, 128)})])
def test_a_configuration_is_the_model_without_a_head(text: str, model: str, inputs: dict[str, Any]) -> None:
    built = huggingface.outline(text)
    assert type(built.module.model).__name__ == model
    assert {name: tuple(x.shape) for name, x in built.inputs.items()} == inputs


def test_inputs_have_their_names_and_weights_are_asked_for() -> None:
    model = archloom.load(LLAMA, input_shapes={"input_ids": (2, 8)})
    assert [(spec.name, spec.shape) for spec in model.inputs] == [("input_ids", (2, 8))]
    for needs_weights in (archloom.compile, archloom.check):
        with pytest.raises(ModelError, match="expected a network with its weights"):
            needs_weights(model, "qkv")


@pytest.mark.parametrize(("text", "message"), [
    ("hf:LlamaConfig(hiden_size=3)", "LlamaConfig has no 'hiden_size'; did you mean 'hidden_size'"),
    ("hf:LamaConfig()", "expected the name of a model or configuration.*'LamaConfig'; did you mean 'LlamaConfig'"),
    ("hf:print()", "expected the name of a model or configuration of transformers"),
    ("hf:", "expected a class of transformers with its sizes"), ("hf:LlamaConfig(1)", "expected a class"),
    ("hf:LlamaConfig(hidden_size=open('x'))", "expected a class"), ("hf:nosuch/config.json", "expected a class"),
    ("hf:LlamaConfig(num_hidden_layers=-1)", "num_hidden_layers: expected a number of at least 0, found -1"),
    ("hf:GPT2Config(num_hidden_layers=-2)", r"n_layer \(num_hidden_layers\): expected a number of at least 0"),
    ("hf:LlavaConfig(vision_config={'model_type':'clip_vision_model','num_hidden_layers':-3})",
     r"vision_config\.num_hidden_layers: expected a number of at least 0, found -3"),
    ("hf:LlamaConfig(hidden_size=33,num_attention_heads=4)", "no LlamaConfig: .*hidden size"),
    ("hf:WhisperConfig()", "the shape of input 'input_features' does not follow from the configuration")])
def test_bad_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        archloom.estimate(text, "qkv")


@pytest.mark.parametrize(("content", "message"), [
    ("{", "expected a configuration of transformers in JSON"), ("[]", "expected a model_type"),
    (json.dumps({"model_type": "lama"}), "found 'lama'; did you mean 'llama'"),
    (json.dumps({"model_type": "llama", "hidden_size": "wide"}), "no configuration of 'llama'"),
    (json.dumps({"model_type": "llama", "num_hidden_layers": -1}), "expected a number of at least 0"),
    (json.dumps({"model_type": "llama", "architectures": ["print"]}), "expected the name of a model")])
def test_bad_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(InputError, match=f"{path}.*{message}"):
        archloom.estimate(f"hf:{path}", "qkv")


def test_without_transformers_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModelError, match="needs the package transformers: pip install transformers"):
        archloom.estimate(LLAMA, "qkv")
