"""Run ONNX exports without torch, with numpy, tokenizers and ONNX Runtime.

run = regard.load("exported")              # written by: regard export runs/mine --to onnx -o exported
run.predict("we are eating bread").text
"""
