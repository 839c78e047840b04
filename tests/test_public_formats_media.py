"""Series and arrays of pictures in the formats of public data sets, read as those of test_public_formats.py are."""

import gzip
import math
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.detect.detect import detect
from regard.errors import CallError
from test_public_formats import Case, check_case, compressed, detected, files, lines


def wave(step: int, start: float = 0.0) -> float:
    return 5 + 2 * math.sin(step / 3 + start)


def steps(columns: int, mark: str = ",", form: str = ".4f") -> str:
    """200 lines of numbers that follow each other."""
    return lines(200, lambda n: mark.join(f"{wave(n, at):{form}}" for at in range(columns)))


def one_series(number: int, mark: str = ",") -> str:
    """40 values; those of two classes begin elsewhere."""
    return mark.join(f"{wave(step, number % 2 * 2):.4f}" for step in range(40))


def _hour(n: int) -> str:
    return f"{1 + n // 24:02} {n % 24:02}:00:00"


_UCR = lines(30, lambda n: f"{1 + n % 2}\t{one_series(n, chr(9))}")
_SKTIME = (
    "#GunPoint\n@problemName GunPoint\n@timeStamps false\n@univariate true\n@classLabel true 1 2\n@data\n"
    + lines(30, lambda n: f"{one_series(n)}:{1 + n % 2}")
)
_MOTIONS = "@problemName BasicMotions\n@univariate false\n@dimensions 2\n@classLabel true run walk\n@data\n" + lines(
    30, lambda n: f"{one_series(n)}:{one_series(n + 1)}:{('run', 'walk')[n % 2]}"
)
_ARFF = (
    "% UCR\n@relation GunPoint\n"
    + lines(40, lambda n: f"@attribute att{n} numeric")
    + "@attribute target {1,2}\n@data\n"
    + lines(30, lambda n: f"{one_series(n)},{1 + n % 2}")
)
_MONASH = (
    "@relation tourism\n@attribute series_name string\n@attribute start_timestamp date\n@frequency monthly\n"
    "@horizon 24\n@missing false\n@equallength false\n@data\n"
) + lines(20, lambda n: f"T{n}:1979-11-01 00-00-00:{','.join(f'{wave(k):.2f}' for k in range(60 + n))}")
_M4 = lines(
    40,
    lambda n: f'"M{n}",' + ",".join(f'"{wave(k):.1f}"' if k < 30 + n else "" for k in range(70)),
    ",".join(f'"V{k}"' for k in range(1, 72)),
)
_LABELED = {"id": "series", "kind": "series", "label": "label"}


def wave_array(*shape: int) -> np.ndarray:
    return np.sin(np.arange(math.prod(shape)) / 30).reshape(shape)


def _saved(file: Path, *array: np.ndarray, **arrays: np.ndarray) -> Path:
    np.savez(file, **arrays) if arrays else np.save(file, *array)  # pyright: ignore[reportArgumentType]
    return file


SERIES: list[Case] = [
    Case(
        "exchange_rate.txt: numbers with commas and no header",
        files("exchange_rate.txt", steps(8)),
        ("series", "values"), {"train": "exchange_rate.txt"}, 200,
    ),
    Case(
        "exchange_rate.txt.gz, as it is downloaded",
        compressed("exchange_rate.txt.gz", steps(8)),
        ("series", "values"), {"train": "exchange_rate.txt.gz"}, 200,
    ),
    Case(
        "a table with spaces, compressed with xz",
        compressed("sensors.dat.xz", steps(3, "  ")),
        ("series", "values"), {"train": "sensors.dat.xz"}, 200,
    ),
    Case(
        "UCI: .dat with spaces at the beginning of lines and exponents",
        files("synthetic_control.dat", "".join(f"   {row}\n" for row in steps(3, "   ", ".7e").splitlines())),
        ("series", "values"), {"train": "synthetic_control.dat"}, 200,
    ),
    Case(
        "Santa Fe: a number a line",
        files("laser.txt", steps(1)),
        ("series", "values"), {"train": "laser.txt"}, 200,
    ),
    Case(
        "numpy.savetxt with names",
        files("weather.txt", "temp wind rain\n" + steps(3, " ")),
        ("series", "values"), {"train": "weather.txt"}, 200,
    ),
    Case(
        "UCI: household power, a day and an hour in two columns, ? for what is missing",
        files("household_power_consumption.txt", lines(
            200, lambda n: f"{16 + n // 100}/12/2006;{n % 100 // 60:02}:{n % 60:02}:00;{'?' if n == 9 else wave(n)};2",
            "Date;Time;Global_active_power;Sub_metering_1",
        )),
        ("series", "values"), {"train": "reshaped/household_power_consumption.csv", "time": "time"}, 200,
    ),
    Case(
        "UCI: LD2011_2014.txt, semicolons, decimal commas, a clock without a name",
        files("LD2011_2014.txt", lines(
            200, lambda n: f'"2011-01-{_hour(n)}";' + f"{wave(n):.6f};{wave(n, 1):.6f}".replace(".", ","),
            '"";"MT_001";"MT_002"',
        )),
        ("series", "values"), {"train": "LD2011_2014.txt", "time": "column 1"}, 200,
    ),
    Case(
        "ETT: ETTh1.csv",
        files("ETTh1.csv", lines(
            100, lambda n: f"2016-07-{_hour(n)}," + ",".join(f"{wave(n, at):.3f}" for at in range(7)),
            "date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT",
        )),
        ("series", "values"), {"train": "ETTh1.csv", "time": "date"}, 100,
    ),
    Case(
        "Jena: climate every ten minutes, German dates",
        files("jena_climate.csv", lines(
            100, lambda n: f"01.01.2009 {n // 6:02}:{n % 6}0:00,{wave(n):.2f},{wave(n, 1):.2f}",
            '"Date Time","p (mbar)","T (degC)"',
        )),
        ("series", "values"), {"train": "jena_climate.csv", "time": "Date Time"}, 100,
    ),
    Case(
        "AirPassengers: months",
        files("AirPassengers.csv", lines(
            144, lambda n: f"{1949 + n // 12}-{1 + n % 12:02},{100 + n}", "Month,#Passengers")),
        ("series", "values"), {"train": "AirPassengers.csv", "time": "Month"}, 144,
    ),
    Case(
        "sunspots: years",
        files("sunspots.csv", lines(144, lambda n: f"{1749 + n},{wave(n):.1f}", "YEAR,SUNACTIVITY")),
        ("series", "values"), {"train": "sunspots.csv", "time": "YEAR"}, 144,
    ),
    Case(
        "M4: a series a row, of different lengths",
        files("Monthly-train.csv", _M4),
        ("series", "values"), {"train": "reshaped/Monthly-train.csv", "id": "series"}, sum(range(29, 69)) + 40,
    ),
    Case(
        "Monash: .tsf with a frequency",
        files("tourism_monthly_dataset.tsf", _MONASH),
        ("series", "values"), {"train": "tourism_monthly_dataset.tsf", "time": "time", "id": "series"}, 1390,
    ),
    Case("UCR: .ts of sktime", files("GunPoint_TRAIN.ts", _SKTIME),
         ("series", "label"), {"train": "GunPoint_TRAIN.ts", **_LABELED}, 30),
    Case("UEA: .ts with several channels", files("BasicMotions_TRAIN.ts", _MOTIONS),
         ("series", "label"), {"train": "BasicMotions_TRAIN.ts", **_LABELED}, 30),
    Case("UCR: .arff", files("GunPoint_TRAIN.arff", _ARFF),
         ("series", "label"), {"train": "GunPoint_TRAIN.arff", **_LABELED}, 30),
    Case("UCR: .tsv", files("GunPoint_TRAIN.tsv", _UCR),
         ("series", "label"), {"train": "reshaped/GunPoint_TRAIN.csv", **_LABELED}, 30),
    Case("UCR: .txt with spaces", files("GunPoint_TRAIN.txt", _UCR.replace("\t", "  ")),
         ("series", "label"), {"train": "reshaped/GunPoint_TRAIN.csv", **_LABELED}, 30),
    Case("UCR: a folder with two parts",
         files("d/ECG_TRAIN.tsv", _UCR, "d/ECG_TEST.tsv", _UCR, "d/README.md", "x", give="d"),
         ("series", "label"), {"train": "reshaped/train.csv", "test": "reshaped/test.csv", **_LABELED}, 30),
    Case("UCR: a folder with all formats",
         files("d/ECG_TRAIN.ts", _SKTIME, "d/ECG_TEST.ts", _SKTIME, "d/ECG_TRAIN.arff", _ARFF, "d/ECG_TEST.arff", _ARFF,
               "d/ECG_TRAIN.txt", _UCR, "d/ECG_TEST.txt", _UCR, give="d"),
         ("series", "label"), {"train": "d/ECG_TRAIN.ts", "test": "d/ECG_TEST.ts", **_LABELED}, 30),
    Case("NumPy: an array of steps and columns", lambda folder: _saved(folder / "flow.npy", wave_array(200, 3)),
         ("series", "values"), {"train": "flow.npy"}, 200),
    Case("NumPy: an .npz with the array data", lambda folder: _saved(folder / "PEMS.npz", data=wave_array(200, 3)),
         ("series", "values"), {"train": "PEMS.npz"}, 200),
]  # fmt: skip


@pytest.mark.parametrize("case", SERIES, ids=lambda case: case.name)
def test_series_of_public_data_sets_are_known(case: Case, tmp_path: Path) -> None:
    check_case(case, tmp_path)


def mnist(at: str, give: str, pack: Callable[[bytes], bytes] = bytes) -> Callable[[Path], Path]:
    """60 pictures for training and 20 for testing, as MNIST has them."""

    def make(folder: Path) -> Path:
        (folder / at).mkdir(parents=True, exist_ok=True)
        for part, count in (("train", 60), ("t10k", 20)):
            for name, array in (("images-idx3", _pixels(count)), ("labels-idx1", np.arange(count) % 10)):
                head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
                ending = ".gz" if pack is gzip.compress else ""
                (folder / at / f"{part}-{name}-ubyte{ending}").write_bytes(
                    pack(head + array.astype(np.uint8).tobytes())
                )
        return folder / give

    return make


def _pixels(count: int) -> np.ndarray:
    return np.arange(count * 64).reshape(count, 8, 8) % 255


def cifar(*names: str, labels: int, give: str = "d", classes: str = "") -> Callable[[Path], Path]:
    """20 rows of labels and 32×32 colors in each file."""

    def make(folder: Path) -> Path:
        (folder / "d").mkdir()
        for name in names:
            rows = b"".join(bytes([n % 2] * (labels - 1) + [n % 4]) + bytes(3072) for n in range(20))
            (folder / "d" / name).write_bytes(rows)
        (folder / "d" / classes).write_text("apple\nbear\ncup\ndog\n")
        return folder / give

    return make


def _kaggle(part: str) -> tuple[str, str]:
    names = ",".join(f"pixel{n}" for n in range(784))
    return f"d/{part}.csv", lines(
        40, lambda n: f"{n % 10}," + ",".join(str(n + k % 200) for k in range(784)), f"label,{names}"
    )


def _npz(folder: Path, names: str) -> Path:
    train, labels, test, others = names.split()
    numbers = np.arange(60)[:, None] % 10
    arrays = {train: _pixels(60), labels: numbers, test: _pixels(20), others: numbers[:20]}
    return _saved(folder / "data.npz", **arrays)


_TWO_PARTS = {"kind": "image", "train": "d", "test": "d"}
_ONE_FILE = {"kind": "image", "train": "data.npz", "test": "data.npz"}

PICTURES: list[Case] = [
    Case("MNIST: idx files", mnist("d", "d"), ("image", "label"), _TWO_PARTS, 60),
    Case("MNIST: idx.gz files in MNIST/raw", mnist("d/MNIST/raw", "d", gzip.compress),
         ("image", "label"), {"kind": "image", "train": "d/MNIST/raw", "test": "d/MNIST/raw"}, 60),
    Case("MNIST: one of its files", mnist("d", "d/train-images-idx3-ubyte.gz", gzip.compress),
         ("image", "label"), {"kind": "image", **dict.fromkeys(("train", "test"), "d/train-images-idx3-ubyte.gz")}, 60),
    Case("MNIST: mnist.npz of Keras", lambda folder: _npz(folder, "x_train y_train x_test y_test"),
         ("image", "label"), _ONE_FILE, 60),
    Case("MedMNIST: .npz", lambda folder: _npz(folder, "train_images train_labels test_images test_labels"),
         ("image", "label"), _ONE_FILE, 60),
    Case("MNIST: Kaggle's csv of pixels", files(*_kaggle("mnist_train"), *_kaggle("mnist_test"), give="d"),
         ("image", "label"), {"kind": "image", **dict.fromkeys(("train", "test"), "reshaped/pictures.npz")}, 40),
    Case("CIFAR-10 in binary",
         cifar("data_batch_1.bin", "data_batch_2.bin", "test_batch.bin", labels=1, classes="batches.meta.txt"),
         ("image", "label"), _TWO_PARTS, 40),
    Case("CIFAR-100 in binary", cifar("train.bin", "test.bin", labels=2, classes="fine_label_names.txt"),
         ("image", "label"), _TWO_PARTS, 20),
]  # fmt: skip


@pytest.mark.parametrize("case", PICTURES, ids=lambda case: case.name)
def test_arrays_of_pictures_are_known(case: Case, tmp_path: Path) -> None:
    check_case(case, tmp_path)


def test_pickles_are_refused_and_never_opened(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in ("data_batch_1", "test_batch", "batches.meta"):
        (folder / name).write_bytes(pickle.dumps({"data": bytes(range(256)) * 40}, 2))
    torch.save({"x": torch.zeros(3)}, tmp_path / "data.pt")
    for data in (folder, folder / "data_batch_1", tmp_path / "data.pt"):
        with pytest.raises(CallError, match="is a pickle of Python, which can run code"):
            detected(data, tmp_path)


@pytest.mark.parametrize(
    ("name", "start", "said"),
    [
        ("train.h5", b"\x89HDF\r\n\x1a\n", "is HDF5"),
        ("train_32x32.mat", b"MATLAB 5.0 MAT-file, Platform: GLNXA64", "is a file of MATLAB"),
        ("train.feather", b"ARROW1\0\0", "save it as Parquet"),
        ("reviews.sqlite", b"SQLite format 3\0", "is a database of SQLite"),
    ],
)
def test_files_of_other_programs_are_refused_with_what_to_do(
    name: str, start: bytes, said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(start + bytes(range(256)) * 20)
    with pytest.raises(CallError, match=said):
        detected(tmp_path / name, tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("iris.data", lines(60, lambda n: f"{n * 37 % 50 / 10},{n * 13 % 31 / 10},1.4,{'ab'[n // 30]}"), "features"),
        ("sts.tsv", lines(60, lambda n: f"A {n} is.\tIt is {n}.\t{n % 26 / 5}", "sentence1\tsentence2\tscore"),
         "column 'score' holds numbers that are said of"),
        ("Motions.arff", "@relation r\n@attribute a relational\n@data\n'1,2'\n", "use the .ts file"),
        ("Price_TRAIN.ts", "@problemName P\n@targetLabel true\n@data\n1,2:3\n", "regard predicts classes"),
    ],
)  # fmt: skip
def test_tables_of_numbers_that_are_no_series_are_refused(name: str, text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(CallError, match=said):
        detect(str(files(name, text)(tmp_path)))
