"""Training on one process or many, with the same loop: `torchrun --nproc-per-node 2 -m regard train ...`.

All code about processes is in this file and in `sharding.py`. Each process works on its share of every batch;
gradients are exchanged by torch's DistributedDataParallel, or by FSDP (`fully_shard`), which also splits weights and
optimizer state. CPUs use gloo, GPUs NCCL. Only process 0 writes, but all processes read checkpoints:
several machines need a shared folder.
"""

import copy
import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from itertools import count
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode

from regard.errors import CallError, RegardError
from regard.training.optimizer import InStages

# The device for training and prediction.

DEVICES = {"cpu", "cuda", "mps", "xpu"}  # torch has others that compute nothing, such as meta


def pick_device(name: str, local_rank: int = 0) -> torch.device:
    """Return the device by name; `auto` is a GPU if there is one. With several processes each takes its own GPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in DEVICES:
        raise CallError(f"training.device={name!r}: not a device to train on; try auto, cpu, cuda or cuda:1")
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise CallError(f"training.device={name!r}: there is no CUDA GPU here; try auto or cpu")
        device = torch.device("cuda", local_rank if device.index is None else device.index)
        torch.cuda.set_device(device)
    return device


# Time limit for joining, gradients and small exchanges. A dead process is noticed at once; this is for one that
# hangs.
TOGETHER = timedelta(minutes=5)
# Time limit for the work of process 0 alone: prepare data, validate, save.
ALONE = timedelta(hours=4)
_joined = count()  # how often this process has joined a group


class Parallel:
    """This process among `world` processes. `Parallel()` is a single process."""

    def __init__(
        self,
        rank: int = 0,
        world: int = 1,
        device: torch.device | None = None,
        shard: bool = False,
        patient: dist.ProcessGroup | None = None,
    ) -> None:
        self.rank, self.world = rank, world
        self.patient = patient  # group of the same processes, with the longer time limit
        self.device = device or pick_device("auto")
        self.shard = shard and world > 1
        self._whole: nn.Module | None = None

    @property
    def main(self) -> bool:
        return self.rank == 0

    # ----------------------------------------------------------------------------------------------- the model
    def wrap(self, model: nn.Module) -> nn.Module:
        """Move the model to this process's device and return the module to call in training."""
        model.to(self.device)
        if self.shard:
            self._whole = copy.deepcopy(model).to("cpu") if self.main else None
            return _sharding().shard(model, dist.device_mesh.init_device_mesh(self.device.type, (self.world,)))
        if self.world > 1:
            partly = isinstance(model, InStages) and model.in_stages
            return DistributedDataParallel(model, gradient_as_bucket_view=True, find_unused_parameters=partly)
        return model

    def accumulating(self, wrapped: nn.Module, last: bool) -> AbstractContextManager[None]:
        """Wrap forward and backward of a batch of a step: gradients are exchanged with the last batch only."""
        if self.shard:
            _sharding().exchange_gradients(wrapped, last)
        elif isinstance(wrapped, DistributedDataParallel) and not last:
            return wrapped.no_sync()
        return nullcontext()

    def weights(self, model: nn.Module) -> dict[str, Tensor]:
        """Return whole weights and buffers by name; tied ones under the first name. All processes must call it."""
        first: dict[int, str] = {}
        state = model.state_dict(keep_vars=True)
        for name, tensor in state.items():
            first.setdefault(id(tensor), name)
        return {name: self.gather(state[name]) for name in first.values()}

    def load(self, model: nn.Module, saved: dict[str, Tensor]) -> None:
        """Load the result of `weights`."""
        state = model.state_dict(keep_vars=True)
        for name, value in saved.items():
            if name not in state or state[name].shape != value.shape:
                raise CallError(f"the saved weights do not fit this model: {name} {tuple(value.shape)}")
            self.fill(state[name], value)

    @contextmanager
    def validating(self, model: nn.Module) -> Iterator[nn.Module | None]:
        """Yield the whole model in evaluation mode on process 0; None on the others, which then wait."""
        if self.shard:
            weights = self.weights(model)
            if self._whole is not None:
                Parallel(device=self.device).load(self._whole.to(self.device), weights)
                yield self._whole.eval()
                self._whole.to("cpu")
            else:
                yield None
            return
        training = model.training
        model.eval()
        try:
            yield model if self.main else None
        finally:
            model.train(training)

    # ---------------------------------------------------------------------------------------------- tensors
    @torch.no_grad()
    def gather(self, tensor: Tensor) -> Tensor:
        """Return a whole tensor from parts that may be on several processes."""
        return _sharding().whole(tensor) if self.shard else tensor.detach()

    @torch.no_grad()
    def fill(self, target: Tensor, value: Tensor) -> None:
        """Copy a whole tensor into one whose parts may be on several processes."""
        target.copy_(_sharding().part(value.to(self.device), target) if self.shard else value)

    def length(self, gradients: Iterable[Tensor]) -> Float[Tensor, ""]:
        """Return the Euclidean norm of all gradients together."""
        return self.gather(nn.utils.get_total_norm(gradients)).float()

    def sum_(self, tensor: Tensor) -> Tensor:
        """Sum over processes, in place."""
        if self.world > 1:
            dist.all_reduce(tensor)
        return tensor

    # ---------------------------------------------------------------------------------------------- agreement
    def largest(self, numbers: Sequence[int | float]) -> list[int | float]:
        """Return the element-wise maximum over processes, without waiting for a GPU."""
        if self.world == 1:
            return list(numbers)
        box = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(box, op=dist.ReduceOp.MAX)
        return box.tolist()

    def share(self, value: Any) -> Any:
        """Return process 0's value on all processes, which wait until it is computed."""
        if self.world == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self.patient, device=torch.device("cpu"))
        return box[0]

    def wait_for_main(self) -> None:
        """Wait for process 0, before an exchange with a shorter time limit than its work may take."""
        self.share(None)

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """Run the block in process 0 first, then in the others: it builds a file that they find. If it raises an error,
        all processes raise it."""
        if not self.main and (error := self.share(None)) is not None:
            raise error
        try:
            yield
        except BaseException as error:
            if self.main:
                with suppress(RuntimeError):  # from torch.distributed: the others have ended
                    self.share(_for_others(error))
            raise
        if self.main:
            self.share(None)

    # ------------------------------------------------------------------------------------------ random numbers
    def seed(self, seed: int, step: int) -> None:
        """Seed a step's random numbers by (seed, step, process), so that dropout does not depend on interruptions.

        Hashed, because torch's CPU generator uses 32 bits only. `torch.manual_seed` would be a hundred times slower, as
        it checks every kind of device.
        """
        digest = hashlib.blake2b(f"{seed} {step} {self.rank}".encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "little") >> 1
        torch.default_generator.manual_seed(number)
        if self.device.type != "cpu":
            torch.get_device_module(self.device).manual_seed(number)


@contextmanager
def processes(device: str = "auto", shard: bool = False) -> Iterator[Parallel]:
    """Join the processes that torchrun started, if any, and leave them at the end."""
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    chosen = pick_device(device, int(os.environ.get("LOCAL_RANK", 0)))
    if world == 1:
        yield Parallel(device=chosen)
        return
    try:
        _join(rank, world, chosen)
        patient = dist.new_group(backend="gloo", timeout=ALONE)
        assert isinstance(patient, dist.ProcessGroup)  # it is a number for a group without this process
        yield Parallel(rank, world, chosen, shard, patient)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _for_others(error: BaseException) -> RegardError:
    """Return the error of process 0 that the other processes raise."""
    if isinstance(error, RegardError):
        return (CallError if isinstance(error, CallError) else RegardError)(str(error))
    return RegardError(f"process 0 ended with {type(error).__name__}: {error}")


def _join(rank: int, world: int, device: torch.device) -> None:
    """Join the other processes.

    torchrun keeps one store of addresses for all attempts (`--max-restarts`), and torch does not separate them:
    restarted processes would contact dead ones. So each attempt, and each run that a program trains after another,
    has its own part of the store here.
    """
    attempt = f"{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}.{next(_joined)}"
    try:
        store, _, _ = next(rendezvous("env://", rank, world, timeout=TOGETHER))
        store.set_timeout(TOGETHER)
        # Small exchanges use CPU tensors even where gradients use NCCL.
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        mine = dist.PrefixStore(f"attempt {attempt}", store)  # pyright: ignore[reportPrivateImportUsage] (documented)
        dist.init_process_group(backend, store=mine, rank=rank, world_size=world, timeout=TOGETHER)
    except RuntimeError as problem:  # the base class of all errors of torch.distributed
        said = str(problem).splitlines()[0]
        raise RegardError(
            f"process {rank} of {world} waited {TOGETHER.total_seconds():.0f} s and did not meet the others: {said}"
        ) from None


def _sharding() -> Any:
    """Import FSDP for sharded runs only: it takes longer to import than a short prediction takes."""
    from regard.training import sharding

    return sharding


# Refuse a model that does not fit into memory while it is built, before memory runs out.

MAKERS = {torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.arange}
MOST = 5_000  # weights, each a matrix or a vector: as in several hundred layers
LONGEST = 2**24  # size of one axis: more than any vocabulary or window has


def within_memory(build: Callable[[], nn.Module], memory: int | None = None) -> nn.Module:
    """Return `build()`, or raise a `CallError` as soon as it takes more than `memory` bytes (default: all memory)."""
    with _Counting(memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")):
        return build()


class _Counting(TorchFunctionMode):
    """Compute the size of every new tensor before it is made (on `meta`, which uses no memory)."""

    def __init__(self, memory: int) -> None:
        super().__init__()
        self.memory, self.bytes, self.weights = memory, 0, 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in MAKERS:
            self._count(func, args, kwargs)
        return func(*args, **kwargs)

    def _count(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            if func is torch.arange:  # on `meta` it would import half of torch's compiler, which takes seconds
                longest = len(range(*map(math.ceil, args)))
                size = 8 * longest
            else:
                planned = func(*args, **{**kwargs, "device": "meta"})
                longest, size = max(planned.shape, default=0), planned.nbytes
        except (RuntimeError, TypeError, OverflowError):  # too large for torch to count
            longest, size = LONGEST + 1, 0
        self.bytes += size
        self.weights += 1
        if longest > LONGEST:
            raise CallError(
                f"the model is too large: a weight would have more than {LONGEST:,} rows or columns; "
                "make the sizes of model (width, context, ...) smaller"
            )
        if self.bytes > self.memory:
            raise CallError(
                f"the model is too large for this machine: its weights alone take more than {self.memory / 1e9:,.3g} GB"
                ", all of its memory; make the sizes of model (width, layers, ...) smaller"
            )
        if self.weights > MOST:
            raise CallError(f"the model has more than {MOST:,} tables of weights; use fewer layers in model")
