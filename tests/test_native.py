"""The compiled kernels beside what torch computes; and what happens where they cannot be compiled."""

import ctypes
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from regard.commands.doctor import examine
from regard.kernels import compiled, inference

needs_kernels = pytest.mark.skipif(
    not inference.available(), reason="needs a C compiler: apt-get install gcc, or the package of your system"
)


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@needs_kernels
@pytest.mark.parametrize("rows", [1, 2, 5, 11, 12, 31])  # each of the kernels, and what is left of them
@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (31, 7), (33, 64), (97, 129)])
def test_a_product_is_that_of_torch(rows, outputs, inputs):
    x, weight, bias = numbers(rows, inputs), numbers(outputs, inputs, seed=1), numbers(outputs, seed=2)
    panels = inference.pack(weight)
    close: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-4}
    torch.testing.assert_close(inference.linear(x, panels), F.linear(x, weight), **close)
    torch.testing.assert_close(inference.linear(x, panels, bias), F.linear(x, weight, bias), **close)
    torch.testing.assert_close(inference.linear(x, panels, bias, relu=True), F.linear(x, weight, bias).relu(), **close)
    table = numbers(rows, outputs, seed=3)
    wanted = table + F.linear(x, weight, bias)
    assert inference.linear(x, panels, bias, out=table, add=True) is table
    torch.testing.assert_close(table, wanted, **close)


@needs_kernels
def test_a_product_takes_parts_of_a_table():
    wide = numbers(5, 40)
    weight = numbers(9, 16, seed=1)
    torch.testing.assert_close(inference.linear(wide[:, 8:24], inference.pack(weight)), F.linear(wide[:, 8:24], weight))
    torch.testing.assert_close(inference.linear(wide.T[:16].T, inference.pack(weight)), F.linear(wide[:, :16], weight))


@needs_kernels
def test_threads_share_a_product(monkeypatch):
    x, weight = numbers(50, 200), numbers(333, 200, seed=1)
    alone = inference.linear(x, inference.pack(weight))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert torch.equal(inference.linear(x, inference.pack(weight)), alone)


@needs_kernels
@pytest.mark.parametrize("width", [1, 15, 16, 37, 256])
def test_norms_are_those_of_torch(width):
    x, scale, shift = numbers(7, width) * 3 + 1, numbers(width, seed=1), numbers(width, seed=2)
    torch.testing.assert_close(
        inference.norm(x, scale, shift, 1e-5), F.layer_norm(x, (width,), scale, shift, 1e-5), rtol=1e-4, atol=1e-5
    )
    torch.testing.assert_close(
        inference.norm(x, scale, None, 1e-6, rms=True), F.rms_norm(x, (width,), scale, 1e-6), rtol=1e-4, atol=1e-5
    )


@needs_kernels
@pytest.mark.parametrize("words", [1, 5, 63, 64, 65, 1000])
def test_normalizer_and_best_are_those_of_torch(words):
    logits = numbers(6, words) * 8
    logits[1, 0] = -torch.inf
    logits[2] = 3.0
    torch.testing.assert_close(inference.normalizer(logits), logits.logsumexp(1), rtol=1e-5, atol=1e-5)
    count = min(words, 10)
    value, place = inference.best(logits, count)
    assert torch.equal(value, logits.topk(count, 1).values)
    assert torch.equal(logits.gather(1, place), value)
    assert all(len(set(row)) == count for row in place.tolist())


@needs_kernels
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("width", [1, 16, 37, 300])
def test_tanh_scores_are_those_of_the_equation(width, threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    query, key, weight = numbers(2, 3, width), numbers(2, 5, width, seed=1) * 20, numbers(width, seed=2)
    query[0, 0, 0], query[0, 1, 0], query[0, 2, 0] = torch.inf, -torch.inf, 1e30
    wanted = torch.tanh(query.unsqueeze(2) + key.unsqueeze(1)) @ weight
    torch.testing.assert_close(inference.tanh_scores(query, key, weight), wanted, rtol=1e-5, atol=1e-5)
    key[1, 4, width - 1] = torch.nan
    found = inference.tanh_scores(query, key, weight)
    assert bool(found[1, :, 4].isnan().all()), "a number that is none is not hidden"
    assert int(found.isnan().sum()) == 3


@needs_kernels
@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("words", [1, 5, 16, 64, 65, 1000])
def test_rows_with_nan_or_infinity_are_those_of_torch(words, odd):
    table = numbers(4, words) * 3
    table[1, 0] = table[2, words - 1] = table[3] = odd
    same: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5, "equal_nan": True}
    torch.testing.assert_close(inference.normalizer(table), table.logsumexp(1), **same)
    for count in (1, min(words, 10)):
        value, place = inference.best(table, count)
        torch.testing.assert_close(value, table.topk(count, 1).values, rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(table.gather(1, place), value, rtol=0, atol=0, equal_nan=True)
        assert all(len(set(row)) == count for row in place.tolist())
    weight, bias = numbers(7, words, seed=1).abs(), numbers(7, seed=2)
    found = inference.linear(table, inference.pack(weight), bias, relu=True)
    torch.testing.assert_close(found, F.linear(table, weight, bias).relu(), rtol=1e-4, atol=1e-4, equal_nan=True)


@needs_kernels
@pytest.mark.parametrize("keys", [1, 15, 16, 33])
def test_a_nan_in_a_key_or_query_is_in_the_context(keys):
    query, key, value = numbers(3, 32), numbers(keys, 32, seed=1), numbers(keys, 32, seed=2)
    query[1, 3], key[keys - 1, 20] = torch.nan, torch.nan  # of the first head, of the second
    count = torch.full((3,), keys, dtype=torch.int32)
    places = torch.arange(keys, dtype=torch.int32).repeat(3, 1)
    tiles = inference.tiles_of(key, value, count[:1])
    q, k, v = (one.view(-1, 2, 16).transpose(0, 1) for one in (query, key, value))
    wanted = F.scaled_dot_product_attention(q, k, v).transpose(0, 1).flatten(1)
    assert wanted.isnan().sum(1).tolist() == [16, 32, 16]
    for found in (
        inference.attend_places(query, key, value, 2, places, count),
        inference.attend_tiles(query, tiles, 2, torch.zeros(3, dtype=torch.int32), count),
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)


NO_MEMORY = """
import ctypes, resource, sys, torch
from regard.kernels import inference, training

torch.set_num_threads(int(sys.argv[1]))
one, few, many = torch.ones(2, 16), torch.zeros(2, 1, dtype=torch.int32), 2**28
counts = torch.full((2,), many, dtype=torch.int32)
empty = training.WorkShares(torch.empty(0, 1, 16), torch.empty(0, 2**50, 16), torch.empty(0, 2**50, 16))
weights = torch.empty(0, 1, 1, 2**50)
scale = torch.ones(64)


def linear_kept(kind, rows):
    matrix = inference.matrix(one, kind, 2, many, scale, None)
    return lambda: inference.linear_kept(one[:rows], matrix)


def single_step(hidden, places):
    kept = inference.pointers([one])
    sizes = (16, 1, 1, 16, 16, hidden, 0)
    layers = (inference.KernelLayer * 1)()
    return lambda: inference.single_step(layers, None, sizes, kept, kept, places, places - 1, None, one)


cases = {
    "attend_places": lambda: inference.attend_places(one, one, one, 1, few, counts),
    "attend_tiles": lambda: inference.attend_tiles(one, one, 1, few[0], counts),
    "linear_kept, one row": linear_kept(inference.BYTES, 1),
    "linear_kept, two rows": linear_kept(inference.BYTES, 2),
    "single_step": single_step(many, 1),
    "single_step, a thread": single_step(16, 2 * many),
    "product": lambda: training.product(one, training.Packed(one, 16, many), out=one),
    "attend": lambda: training.attend(empty, 1, None, False, None),
    "attend_gradient": lambda: training.attend_gradient(empty, 1, weights, torch.empty(0, 1, 16), None, empty),
}
inference.norm(one, None, None, 1e-5), training.product(one, one.T)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28,) * 2)
for name, call in cases.items():
    try:
        call()
    except MemoryError as error:
        print(name)
"""


@needs_kernels
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc says how much memory a process uses")
def test_no_memory_is_an_exception():
    done = subprocess.run([sys.executable, "-c", NO_MEMORY, "2"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\nended with {done.returncode}: {done.stderr}"
    assert len(done.stdout.splitlines()) == 9, done.stdout


@needs_kernels
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("heads", "width"), [(1, 5), (3, 16), (2, 37), (2, 64)])
def test_each_row_attends_to_its_own_keys(heads, width, threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    counts = [0, 1, 17, 31, 16]
    query, key, value = (numbers(n, heads * width, seed=n) for n in (5, 65, 66))
    value = value[:65]
    count = torch.tensor(counts, dtype=torch.int32)
    places = torch.stack([torch.randperm(65, generator=torch.Generator().manual_seed(n)) for n in range(5)]).int()
    by_places = inference.attend_places(query, key, value, heads, places, count)
    tiles, number = inference.tiles_of(key, value, count), inference.tiles_for(count)
    by_tiles = inference.attend_tiles(query, tiles, heads, (number.cumsum(0) - number).int(), count)
    for row, begin in enumerate([0, 0, 1, 18, 49]):
        listed = places[row, : counts[row]].long(), torch.arange(begin, begin + counts[row])
        for found, mine in zip((by_places, by_tiles), listed, strict=True):
            q, k, v = (table.view(-1, heads, width).transpose(0, 1) for table in (query[row], key[mine], value[mine]))
            wanted = F.scaled_dot_product_attention(q, k, v).flatten() if counts[row] else torch.zeros(heads * width)
            torch.testing.assert_close(found[row], wanted, rtol=1e-4, atol=1e-5)


def test_without_a_compiler_torch_works_alone(tmp_path):
    program = (
        "import torch; from regard.kernels import inference; from regard.layers.packed import linear; "
        "assert not inference.available(); layer = torch.nn.Linear(4, 3); x = torch.ones(2, 4); "
        "torch.set_grad_enabled(False); assert all(torch.equal(linear(layer, x), layer(x)) for _ in range(40))"
    )
    for environment in ({"PATH": str(tmp_path)}, {"REGARD_NATIVE": "off"}, {"REGARD_CACHE": "/dev/null/cache"}):
        subprocess.run([sys.executable, "-c", program], env={**os.environ, **environment}, check=True)


def test_a_user_without_a_home_folder_works_without_kernels(monkeypatch, tmp_path):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    for name in ("REGARD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", no_home)  # as pathlib does, in a container whose user is not known there
    with pytest.raises(compiled.NotCompiledError, match="no home folder: set REGARD_CACHE"):
        compiled.compile_kernels()
    compiled.library.cache_clear()
    assert compiled.library() is None
    compiled.library.cache_clear()
    assert examine(tmp_path).kernels is not None


@needs_kernels
def test_a_compiler_that_fails_is_asked_once_a_day(tmp_path, monkeypatch):
    real, calls = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang"), tmp_path / "calls"
    compiler = tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\necho called >> {calls}\necho 'no such vectors' >&2\nexit 3\n")
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    for _ in range(2):
        with pytest.raises(compiled.NotCompiledError, match="no such vectors"):
            compiled.compile_kernels()
    assert calls.read_text() == "called\n" * len(compiled.FOR_THIS_PROCESSOR)  # not again the second time
    (failed,) = (tmp_path / "cache").rglob("*.failed")
    long_ago = time.time() - 2 * compiled.DAY
    os.utime(failed, (long_ago, long_ago))
    compiler.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    assert compiled.compile_kernels().is_file(), "what was wrong is over"
    assert not failed.exists()


@needs_kernels
def test_a_compiler_that_knows_the_processor_by_another_flag_is_told_so(tmp_path, monkeypatch):
    real, compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang"), tmp_path / "cc"
    compiler.write_text(
        '#!/bin/sh\ncase "$*" in *-march=native*) echo "unknown argument" >&2; exit 1;; esac\n'
        f'exec {real} -O1 $(echo "$@" | sed s/-mcpu=native//)\n'
    )
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    assert ctypes.CDLL(str(compiled.compile_kernels())).panel_width() > 0
