"""Graphs for ONNX Runtime and whatever else reads ONNX: of every model, with any score, without torch."""
