"""Export to ONNX, for ONNX Runtime and other readers: every model, with any score function, without torch."""
