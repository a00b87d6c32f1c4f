"""Quantization: a float ONNX network and samples in, a QDQ network out; and back to floats for comparisons."""
