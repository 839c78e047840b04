"""Record the attention of any PyTorch model:

    with watching(model) as seen:
        model(**inputs)
    seen.record(rows=tokens)

Three implementations of attention in PyTorch are recorded:

    scaled_dot_product_attention     the fused kernel: its weights are computed again from the same arguments
    softmax(…) and then a product    explicit attention: the weights of the model
    nn.MultiheadAttention            and the fast path of nn.TransformerEncoderLayer: computed again, as above

A torch function mode receives the first two calls. While it is active, torch.nn disables its fast path, which changes
the last bit of its results. So the mode is off while those modules run, and their weights are computed from their
inputs. Global hooks identify the running module (other hooks would disable the fast path, too). Nothing is replaced:
outputs are the same to the last bit, and there is no cost outside the block.
"""

import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from regard.errors import CallError, pip_install
from regard.look.records import AttentionRecord
from regard.look.watched import Watched, WatchedCall
from regard.look.watched_weights import WeightRequest, function_weights, fused_weights, module_weights, with_heads

SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax}
DROPOUT = {F.dropout, torch.dropout}
PRODUCT = {
    torch.matmul, torch.bmm, torch.einsum, torch.baddbmm,
    Tensor.matmul, Tensor.bmm, Tensor.__matmul__, Tensor.__rmatmul__,
}  # fmt: skip
#: Modules with a fast path that a torch function mode would disable.
FAST = {nn.MultiheadAttention.forward, nn.TransformerEncoderLayer.forward, nn.TransformerEncoder.forward}
NO_MEMORY = ("pos", "mask", "bias", "rotary")  # in the name of an argument: its vectors are not keys


@contextmanager
def watching(
    model: nn.Module,
    *,
    only: str | Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    rows: Sequence[int] | None = None,
) -> Iterator[Watched]:
    """Record attention weights while the block runs; `seen.record()` makes a record of them.

    only     names of modules (`seen.names` has them), with * for anything: "encoder.layer.11.*"
    heads    numbers of heads, from 0
    rows     queries of each pass through the model; -1 is the last. A decoding step has one
    """
    _require_eager(model)
    watcher = _Watcher(model, WeightRequest(heads, rows), [only] if isinstance(only, str) else only)
    hooks = [
        register_module_forward_pre_hook(watcher.before),
        register_module_forward_hook(watcher.after, with_kwargs=True, always_call=True),
    ]
    try:
        with watcher:
            yield watcher.seen
    finally:
        for hook in hooks:
            hook.remove()


@dataclass
class _Frame:
    """A running module. `open`: calls inside it whose keys are not yet known."""

    module: nn.Module
    name: str
    switched: bool = False
    saw: bool = False
    open: list[WatchedCall] = field(default_factory=list)


class _Table(NamedTuple):
    """A softmax or a tensor derived from it, its weights, and the module that computed it."""

    tensor: Tensor
    weights: Tensor
    frame: _Frame


class _Watcher(TorchFunctionMode):
    def __init__(self, model: nn.Module, request: WeightRequest, only: Sequence[str] | None) -> None:
        super().__init__()
        self.seen = Watched(type(model).__name__, only, request.rows)
        self._names = {module: name or type(model).__name__ for name, module in model.named_modules()}
        self._wanted = request
        self._thread = threading.get_ident()
        self._frames: list[_Frame] = []
        self._tables: dict[int, _Table] = {}  # by id: each softmax and the tensors derived from it
        self._passes = 0
        self._aside = self._at_work = False

    # ---------------------------------------------------------------------------------------------------------- calls
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if self._at_work or not self._frames:
            return result
        if func is F.scaled_dot_product_attention:
            self._watch_fused(*args, **kwargs)
        elif func is F.multi_head_attention_forward:
            self._functional(*args, **kwargs)
        elif func in SOFTMAX:
            if _over_last(args, kwargs) and result.dim() > 1:
                self._tables[id(result)] = _Table(result, result, self._owner())
        elif self._tables:
            self._follow(func, args, result)
        return result

    def _watch_fused(self, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> None:
        size = query.shape[-2], key.shape[-2]
        self._see(size, lambda: fused_weights(self._wanted, query, key, value, *args, **kwargs))

    def _functional(self, query: Tensor, key: Tensor, *args: Any, **kwargs: Any) -> None:
        size, weights = (len(query), len(key)), lambda: function_weights(query, key, *args, **kwargs)
        self._see(size, lambda: self._wanted.of(weights())).looks_elsewhere = query is not key

    def _follow(self, func: Any, args: Any, result: Any) -> None:
        """Follow a softmax: it is attention if a matrix product uses it, also after dropout, slicing or casts."""
        if func in PRODUCT:
            found = next((self._tables[id(one)] for one in _operands(args) if id(one) in self._tables), None)
            if found is not None:
                self._tables.clear()
                weights = with_heads(found.weights)
                self._see((weights.shape[-2], weights.shape[-1]), lambda: self._wanted.of(weights).detach().float())
        elif args and id(args[0]) in self._tables and isinstance(result, Tensor) and result.is_floating_point():
            _, before, frame = self._tables[id(args[0])]
            same = result.dim() == max(3, before.dim()) and (
                before.dim() == 2 or result.shape[:-1] == before.shape[:-1]
            )
            self._tables[id(result)] = _Table(result, result if same and func not in DROPOUT else before, frame)

    def _see(self, size: tuple[int, int], weights: Callable[[], Tensor], name: str | None = None) -> WatchedCall:
        frame = self._owner()
        name = name or frame.name
        call = WatchedCall(name, size, self._passes, self._wanted.rows_of(size[0]))
        if self.seen.wants(name) and call.rows:
            self._at_work = True
            try:
                with torch.no_grad():
                    call.weights = weights()
            finally:
                self._at_work = False
        self.seen.calls.append(call)
        frame.open.append(call)
        frame.saw = True
        return call

    def _owner(self) -> _Frame:
        """Return the running module; for nn.Softmax, its caller."""
        return next((f for f in reversed(self._frames) if not isinstance(f.module, nn.Softmax)), self._frames[-1])

    # -------------------------------------------------------------------------------------------------------- modules
    def before(self, module: nn.Module, args: Any) -> None:
        own = _is_plain(type(module))
        if own and not module._modules and self._frames:  # a torch layer without attention
            return
        if self._at_work or module not in self._names or threading.get_ident() != self._thread:
            return
        if not self._frames:
            self._passes += 1
        frame = _Frame(module, self._names[module])
        frame.switched = not own and self._switch(aside=type(module).forward in FAST)
        self._frames.append(frame)

    def after(self, module: nn.Module, args: Any, kwargs: Any, output: Any = None) -> None:
        """Close the frame of a module. After an error, torch passes neither output nor keywords."""
        if self._at_work or not any(frame.module is module for frame in reversed(self._frames)):
            return
        if threading.get_ident() != self._thread:
            return
        while self._frames[-1].module is not module:  # an error ended the inner modules
            self._frames.pop()
        frame = self._frames[-1]
        if output is not None:
            self._computed_inside(frame, args, kwargs)
        self._frames.pop()
        if frame.switched:
            self._switch(aside=not self._aside)
        if self._tables:
            self._tables = {key: table for key, table in self._tables.items() if table.frame is not frame}
        if output is not None:
            self._place(frame, args, kwargs)

    def _switch(self, aside: bool) -> bool:
        """Turn the mode off or on. If another mode is active, there is no fast path to preserve."""
        if aside == self._aside or (aside and _get_current_function_mode_stack() != [self]):
            return False
        self._aside = aside
        if aside:
            self.__exit__(None, None, None)
        else:
            self.__enter__()
        return True

    def _computed_inside(self, frame: _Frame, args: Any, kwargs: Any) -> None:
        """Compute the weights of torch.nn modules that ran while the mode was off."""
        module = frame.module
        if not self._aside or frame.saw:
            return
        if isinstance(module, nn.MultiheadAttention):
            self._of_module(module, frame.name, args, kwargs)
        elif isinstance(module, nn.TransformerEncoderLayer):  # all of it was one kernel
            source, masks = _encoder_layer_arguments(*args, **kwargs)
            x = module.norm1(source) if module.norm_first else source
            self._of_module(module.self_attn, f"{frame.name}.self_attn", (x, x, x), masks)

    def _of_module(self, module: nn.MultiheadAttention, name: str, args: Any, kwargs: Any) -> None:
        query, key = (args[at] if len(args) > at else kwargs[word] for at, word in enumerate(("query", "key")))
        dim = 1 if module.batch_first and query.dim() == 3 else 0
        size = tuple(max(len(one) for one in x.unbind()) if x.is_nested else x.shape[dim] for x in (query, key))
        call = self._see((size[0], size[1]), lambda: module_weights(self._wanted, module, *args, **kwargs), name)
        call.looks_elsewhere = query is not key

    def _place(self, frame: _Frame, args: Any, kwargs: Any) -> None:
        """Find the origin of the vectors: whether the module received two different sequences."""
        if not frame.saw and any(word in type(frame.module).__name__.lower() for word in ("attention", "attn")):
            self.seen.unseen.append(frame.name)
        parent = self._frames[-1] if self._frames else None
        given = _vectors_given(frame.module, args, kwargs) if frame.open else []
        if parent is not None:
            parent.saw |= frame.saw
        if parent is not None and not given:
            parent.open += frame.open
            return
        for call in (call for call in frame.open if call.looks_elsewhere is None):
            call.looks_elsewhere = any(x is not given[0] and x.shape[-2] == call.size[1] for x in given[1:])


def _encoder_layer_arguments(
    src: Tensor,
    src_mask: Tensor | None = None,
    src_key_padding_mask: Tensor | None = None,
    is_causal: bool = False,
) -> tuple[Tensor, dict[str, Tensor | None]]:
    """Return the arguments of `nn.TransformerEncoderLayer.forward`."""
    return src, {"attn_mask": src_mask, "key_padding_mask": src_key_padding_mask}


def _over_last(args: Any, kwargs: Any) -> bool:
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    x = args[0] if args else kwargs["input"]
    return dim is not None and dim % x.dim() == x.dim() - 1


def _operands(args: Any) -> Iterator[Any]:
    for one in args:
        yield from one if isinstance(one, tuple | list) else (one,)


@cache
def _is_plain(kind: type[nn.Module]) -> bool:
    """Whether this is a torch module without a fast path."""
    return kind.__module__.startswith("torch.nn.") and kind.forward not in FAST


@cache
def _parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _vectors_given(module: nn.Module, args: Any, kwargs: Any) -> list[Tensor]:
    """Return the queries and keys that a module received, in this order."""
    function = getattr(module.forward, "__func__", None)
    names = list(inspect.signature(module.forward).parameters) if function is None else _parameters(function)[1:]
    named = {**dict(zip(names, args, strict=False)), **kwargs}
    return [
        x
        for name, x in named.items()
        if isinstance(x, Tensor) and x.is_floating_point() and x.dim() in (2, 3)
        if not any(word in name for word in NO_MEMORY)
    ]


def _require_eager(model: nn.Module) -> None:
    dynamo = sys.modules.get("torch._dynamo")
    for name, module in model.named_modules():
        if module._compiled_call_impl is not None or (dynamo and isinstance(module, dynamo.OptimizedModule)):
            where = f"{name} is" if name else "this model is"
            raise CallError(
                f"{where} compiled, and a compiled model cannot be watched: watch the model that was given to "
                "torch.compile (it has the same weights), or do not call .compile() before watching"
            )


# Attention of a `transformers` model in a local folder: `regard look hf:FOLDER "text"`.
#
# For folders that `regard import` does not support. The model runs in the classes of `transformers` and is watched
# (`watch.py`). An encoder-only or decoder-only model reads the text. An encoder-decoder also generates an output, or
# is forced to a given one. Nothing is downloaded, and no code from the folder is run.

PREFIX = "hf:"
LONGEST = 64  # generated tokens


def look_at_folder(folder: Path, text: str, output: str | None = None) -> AttentionRecord:
    """Return the attention record of one text. `output` is the forced output of an encoder-decoder."""
    model, tokenizer = _load_folder(folder)
    read = tokenizer(text, return_tensors="pt")
    if not read["input_ids"].numel():
        raise CallError(f"{text!r} has no tokens: give a longer text")
    tokens = tokenizer.convert_ids_to_tokens(read["input_ids"][0])
    writes = bool(model.config.is_encoder_decoder)
    if output is not None and not writes:
        raise CallError("--target needs an encoder-decoder; give this model the whole text as input")
    with torch.inference_mode():
        if writes:
            written = _decoder_tokens(model, tokenizer, read, output)
            with watching(model) as seen:
                model(**read, decoder_input_ids=written)
            told = tokenizer.convert_ids_to_tokens(written[0])
            said = tokenizer.decode(written[0], skip_special_tokens=True)
            record = seen.record(rows=told, columns=tokens, input=text, output=said)
        else:
            with watching(model) as seen:
                model(**{name: read[name] for name in ("input_ids", "attention_mask") if name in read})
            record = seen.record(rows=tokens, input=text)
    return record


def _decoder_tokens(model: Any, tokenizer: Any, read: Any, output: str | None) -> torch.Tensor:
    """Return the decoder input: start token, then the generated or given output."""
    if output is None:
        return model.generate(**read, max_new_tokens=LONGEST, num_beams=1, do_sample=False)[:, :-1]
    ids = tokenizer(text_target=output, return_tensors="pt")["input_ids"]
    first = model.generation_config.decoder_start_token_id
    return torch.cat([torch.full_like(ids[:, :1], first), ids[:, :-1]], dim=1)


def _load_folder(folder: Path) -> tuple[Any, Any]:
    try:
        import transformers
    except ImportError:
        raise CallError(f"hf:FOLDER needs transformers: {pip_install('transformers')}") from None
    if not (folder / "config.json").is_file():
        raise CallError(f"hf:{folder}: no config.json, so this is not the folder of a transformers model")
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        kind = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModel
        model = kind.from_pretrained(folder, local_files_only=True, use_safetensors=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise CallError(f"hf:{folder}: transformers cannot load it: {str(error).splitlines()[0]}") from None
    return model.eval(), tokenizer
