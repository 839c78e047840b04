# A service of exported models, without torch:
#
#   regard export runs/mine --to onnx -o exports/mine
#   docker build -t regard-light .
#   docker run -p 8000:8000 -v "$PWD/exports:/exports:ro" regard-light regard serve /exports/mine --host 0.0.0.0
#
# Pictures need `regard[light,image]`, recordings `regard[light,audio]`.
# `python benchmarks/light.py` runs the steps (RUN) below in a folder of its own, and measures what they make.
FROM python:3.11-slim AS made
ENV SOURCE=/source LIGHT=/light
COPY . $SOURCE
RUN python -m venv $LIGHT
RUN $LIGHT/bin/pip install --no-compile --no-cache-dir -c $SOURCE/constraints.txt "regard[light] @ file://$SOURCE"
# What tokenizers would download with, rich would color code with, ONNX Runtime would convert models by and numpy would compile
# Fortran by, tests, and what type checkers and C compilers read: nobody runs them here.
RUN $LIGHT/bin/pip uninstall --yes hf-xet huggingface_hub httpx2 httpcore2 fsspec filelock tqdm pygments protobuf flatbuffers setuptools pip
RUN cd $LIGHT/lib/python*/site-packages && rm -r onnxruntime/transformers onnxruntime/quantization onnxruntime/tools numpy/f2py numpy/distutils
RUN find $LIGHT/lib -type d -name tests -prune -exec rm -r {} +
RUN find $LIGHT/lib -name "*.pyi" -delete -o -name "*.[ah]" -delete
# What is used is compiled once, here.
RUN $LIGHT/bin/python -c "import onnxruntime, regard.light.run, regard.commands.look, regard.commands.predict, regard.serve.app; regard.light.run.every_kind()"

FROM python:3.11-slim
COPY --from=made /light /light
ENV PATH=/light/bin:$PATH
RUN useradd --create-home regard
USER regard
EXPOSE 8000
CMD ["regard", "serve", "/exports", "--host", "0.0.0.0"]
