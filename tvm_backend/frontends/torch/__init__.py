"""PyTorch networks in: modules and exported programs in, Relax modules (or ONNX, to be quantized) out."""
