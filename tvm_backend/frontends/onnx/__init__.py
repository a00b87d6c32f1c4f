"""ONNX networks in: files and protos in, networks that are safe to compute and that the importers read right out."""
