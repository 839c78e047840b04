"""Export to GGUF, the files of llama.cpp: language models as Llama or GPT-2, in float32, float16 or 8-bit blocks.

The names are those of `pretrained/gguf.py`, inverted. Rows of Llama's queries and keys are reordered, as llama.cpp
rotates neighboring features. The check reads the file with our importer. If llama.cpp is installed, it must generate
the same text. Its logits are not compared to 1e-4: its GELU is a float16 table, so logits of GPT-2's layout differ by
some 2e-3.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard import api
from regard.data.tokenizer import Tokenizer
from regard.exporters.base import Comparison, ExportPlan, ExportRequest, Format, RefusalError, entries, misfits
from regard.exporters.hf import language as hf
from regard.exporters.hf.language import LanguagePlan
from regard.exporters.proof import (
    TOLERANCE,
    WRITTEN,
    difference,
    greedy_decode,
    greedy_tokens,
    require_same_tokens,
    tied_at,
)
from regard.models.language_model import LanguageModel
from regard.pretrained.families import read
from regard.pretrained.gguf import CONTROL, LAYOUTS
from regard.pretrained.tokenizer_files import CUTS, byte_level
from regard.pretrained.weights import write_run

# A GGUF file in llama.cpp itself, where it is installed: pip install llama-cpp-python.

F32 = 0  # of ggml: keys and values are kept as they are computed, not in float16


def is_installed() -> bool:
    return find_spec("llama_cpp") is not None


class LlamaCpp:
    def __init__(self, file: Path, context: int) -> None:
        import llama_cpp  # pyright: ignore[reportMissingImports] (it has to be built, and few have it)

        self._model: Any = llama_cpp.Llama(
            str(file), n_ctx=context, n_batch=context, logits_all=True, type_k=F32, type_v=F32, flash_attn=False,
            verbose=False, n_threads=torch.get_num_threads(),
        )  # fmt: skip

    def encode(self, text: str) -> list[int]:
        return self._model.tokenize(text.encode(), add_bos=False, special=False)

    def logits(self, tokens: Sequence[int]) -> Tensor:
        """Return the next-token logits after each of the tokens."""
        self._model.reset()
        self._model.eval(list(tokens))
        return torch.from_numpy(np.array(self._model.scores[: len(tokens)]))


NORMAL, UNUSED = 1, 5  # types of tokens
TYPES = {"float32": "F32", "float16": "F16", "q8_0": "Q8_0"}
Q8_BLOCK = 32
POSITIONS = "position_embd"
FILE = "model.gguf"
#: A reader of a file: a tokenizer, and a function from tokens to next-token logits.
Reading = tuple[Callable[[str], list[int]], Callable[[Sequence[int]], Tensor]]


class Gguf(Format):
    name: ClassVar[str] = "gguf"
    dtypes: ClassVar[tuple[str, ...]] = tuple(TYPES)
    writes: ClassVar[tuple[str, ...]] = ("gguf",)

    def plan(self, request: ExportRequest) -> ExportPlan:
        run = request.run
        if not isinstance(run.model, LanguageModel):
            raise RefusalError("it holds only language models")
        s: Any = run.recipe.model  # pyright: ignore[reportAttributeAccessIssue]
        as_llama = misfits(s, norm=["rms"], bias=[False], positions=["rotary"], activation=["swiglu"])
        as_gpt2 = misfits(
            s, norm=["layer"], bias=[True], positions=["learned", "sinusoidal"], activation=["gelu_tanh"],
            kv_heads=[None, s.heads],
        )  # fmt: skip
        if as_llama and as_gpt2:
            raise RefusalError(
                f"Llama does not have {', '.join(as_llama)}, and GPT-2 does not have {', '.join(as_gpt2)}"
            )
        cut = cut_of(run.job.input.tokenizer)  # pyright: ignore[reportAttributeAccessIssue]
        if cut is None:
            kind = run.job.input.tokenizer.kind  # pyright: ignore[reportAttributeAccessIssue]
            raise RefusalError(
                f"its tokenizers work on bytes, and that of the run on {kind}s (data.tokenizer.kind=bpe)"
            )
        inside = run.model.decoder.layers[0].feed_forward.narrow.in_features  # pyright: ignore[reportAttributeAccessIssue]
        if request.dtype == "q8_0" and (s.width % Q8_BLOCK or int(inside) % Q8_BLOCK):  # pyright: ignore[reportArgumentType]
            raise RefusalError(
                f"q8_0 has blocks of {Q8_BLOCK} numbers: model.width={s.width} and model.feed_forward={inside} must be "
                "multiples of it (--dtype float16 needs none)"
            )
        return FilePlan(request, cut, hf.plan(run), "gpt2" if as_llama else "llama")


def cut_of(tokenizer: Tokenizer) -> str | None:
    """Return llama.cpp's name of the split before bytes are merged; None if the tokenizer does not merge bytes."""
    if tokenizer.kind not in ("byte", "bytes"):
        return None

    def parts(one: Tokenizer) -> Any:
        found = json.loads(one.to_json())["pre_tokenizer"]
        return found["pretokenizers"] if found["type"] == "Sequence" else [found]

    if tokenizer.kind == "byte":  # nothing is merged, so the split does not matter
        return "gpt-2"
    return next((cut for cut in CUTS if parts(byte_level({}, [], cut, [])) == parts(tokenizer)), None)


class FilePlan(ExportPlan):
    library, tags = "gguf", ("text-generation",)
    how = f"llama-cli -m FOLDER/{FILE} -p PROMPT"

    def __init__(self, request: ExportRequest, cut: str, theirs: LanguagePlan, architecture: str) -> None:
        """`theirs`: the plan of the same run for Hugging Face, with its settings and weights."""
        self.wish, self.run, self.cut, self.theirs = request, request.run, cut, theirs
        self.architecture, self.layout = architecture, LAYOUTS[architecture]
        self.settings: Any = request.run.recipe.model  # pyright: ignore[reportAttributeAccessIssue]
        self.input: Any = request.run.job.input
        self.notes = [
            "llama.cpp does not normalize text (NFC) before it cuts it: give it composed characters",
            "its numbers are checked by regard's own importer of such files, and its outputs by llama.cpp"
            if is_installed()
            else "it is checked by regard's own importer of such files, as llama-cpp-python is not installed",
        ]

    def write(self, folder: Path) -> None:
        import gguf

        model = self.run.model
        assert isinstance(model, LanguageModel)
        writer = gguf.GGUFWriter(folder / FILE, self.architecture)
        writer.add_name(self.run.folder.name)
        told = {**self.theirs.config(), "rope_theta": self.settings.rotary_base}
        for name, key in self.layout.settings.items():
            add = writer.add_float32 if isinstance(told[name], float) else writer.add_uint32
            add(f"{self.architecture}.{key}", told[name])
        writer.add_vocab_size(model.output.out_features)
        self._add_tokenizer(writer, model.output.out_features)
        kind = gguf.GGMLQuantizationType[TYPES[self.wish.dtype]]
        for name, tensor in self._tensors():
            numbers = tensor.float().contiguous().numpy()
            small = tensor.ndim == 1 or name.startswith(POSITIONS)  # these stay in float32
            own = gguf.GGMLQuantizationType.F32 if small else kind
            writer.add_tensor(name, gguf.quants.quantize(numbers, own), raw_dtype=own)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def _add_tokenizer(self, writer: Any, rows: int) -> None:
        tokenizer = self.input.tokenizer
        specials, spec = tokenizer.specials, json.loads(tokenizer.to_json())
        types = [
            UNUSED if tokenizer.entry(index) is None else CONTROL if index in specials.names else NORMAL
            for index in range(rows)
        ]
        merges = [one if isinstance(one, str) else " ".join(one) for one in spec["model"]["merges"]]
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(self.cut)
        writer.add_token_list(entries(tokenizer, rows))
        writer.add_token_types(types)
        writer.add_token_merges(merges)
        for add, index in (
            (writer.add_bos_token_id, specials.start), (writer.add_eos_token_id, specials.end),
            (writer.add_unk_token_id, specials.unk), (writer.add_pad_token_id, specials.pad),
        ):  # fmt: skip
            if index is not None:
                add(index)
        writer.add_add_bos_token(self.input.read("").ids == self.input.read("a").ids[:1])

    def _tensors(self) -> Iterator[tuple[str, Tensor]]:
        tree = self.theirs.config()
        for name, tensor in self.theirs.weights(transposed=False).items():
            renamed = self.layout.to_gguf(name)
            heads = self.layout.heads.get(renamed.split(".")[-2])
            yield renamed, tensor if heads is None else neighbors(tensor, tree[heads])

    def stand_in(self, folder: Path) -> nn.Module:
        return self._read_back(folder).model

    def _read_back(self, folder: Path) -> api.Run:
        with TemporaryDirectory(prefix="regard-gguf-") as place:
            write_run(read(folder / FILE), Path(place) / "run", source=FILE)
            return api.load(Path(place) / "run")

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Comparison]:
        """Compare logits by our importer, and tokens and outputs by llama.cpp if it is installed."""
        ours, tokenizer = self.run.model, self.input.tokenizer
        assert isinstance(ours, LanguageModel)
        imported = self._import_back(folder)
        encode, logits = self._in_llama_cpp(folder) if is_installed() else imported
        for text in inputs:
            require_same_tokens(tokenizer.encode(text), encode(text), text)
            begun = self.input.read(text).ids[-self.settings.context + WRITTEN :]
            own = greedy_tokens(self.run, begun, WRITTEN)
            other = greedy_decode(lambda ids: logits(ids)[-1], tokenizer.specials, begun, WRITTEN)
            told = [*begun, *own]
            with torch.inference_mode():
                expected = ours.output(ours.features(torch.tensor([told])))[0]
            within = max(TOLERANCE, 2 * difference(expected, logits(told), "logits").largest)
            tied = own != other and tied_at(expected[len(begun) - 1 :], own, other, within)
            apart = difference(expected, imported[1](told), "logits")
            yield Comparison(text, *apart, tokenizer.decode(own), tokenizer.decode(other), tied)

    def _in_llama_cpp(self, folder: Path) -> Reading:
        engine = LlamaCpp(folder / FILE, self.settings.context)
        return engine.encode, engine.logits

    def _import_back(self, folder: Path) -> Reading:
        back = self._read_back(folder)
        model: Any = back.model

        @torch.inference_mode()
        def logits(ids: Sequence[int]) -> Tensor:
            return model.output(model.features(torch.tensor([list(ids)])))[0]

        return back.job.input.tokenizer.encode, logits  # pyright: ignore[reportAttributeAccessIssue]


def neighbors(rows: Tensor, heads: int) -> Tensor:
    """Invert `halves` of the importer: put features 0 2 … 1 3 … of a head in the order 0 1 2 3 …"""
    return rows.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)
