"""Exports to ONNX, run without torch: numpy, tokenizers and ONNX Runtime do what a run does.

run = regard.load("exported")              # written by: regard export runs/mine --to onnx -o exported
run.predict("we are eating bread").text
"""
