"""Importers: ONNX and torch networks in, a :class:`~archloom.tvm_backend.model.Model` out."""
