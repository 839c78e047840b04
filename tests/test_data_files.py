"""Reading pairs: every format, plain and packed, and files that are not what they should be."""

import bz2
import gzip
import json
import lzma
import pickle
import subprocess
import sys
import tracemalloc
from typing import Any

import pytest
import zstandard

from regard.data.files import PairSource
from regard.data.pairs import Columns, Pair, SkippedLine
from regard.errors import CallError, RegardError
from regard.files.lines import LONGEST_LINE, files_of, group_shards, pattern_of

PAIRS = [("a dog", "un perro"), ('she said "no", twice', "dijo que no\tdos veces"), ("¿eh?", "wie, bitte?")]
PACKERS = {
    "": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstandard.compress
}  # fmt: skip


def read(where, *, source=None, target=None, sides=("source", "target"), format: Any = "auto", **more) -> list[Any]:
    columns = Columns(dict(zip(sides, (source, target), strict=True)), **more)
    return list(PairSource(str(where), format=format, columns=columns).read())


def texts(items):
    assert all(isinstance(item, Pair) for item in items), items
    return [(item.source, item.target) for item in items]


def bads(items):
    return [(item.line, item.kind, item.lines) for item in items if isinstance(item, SkippedLine)]


def write(path, content: bytes | str):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.fixture(params=PACKERS, ids=lambda ending: ending or "plain")
def packed(request, tmp_path):
    """Write a file, packed by each packer in turn."""
    return lambda name, content: write(tmp_path / (name + request.param), PACKERS[request.param](content))


def test_tsv(packed):
    lines = "".join(f"{source}\t{target.replace(chr(9), ' ')}\n" for source, target in PAIRS)
    items = read(packed("pairs.tsv", lines.encode()))
    assert texts(items) == [(source, target.replace("\t", " ")) for source, target in PAIRS]
    assert [item.line for item in items] == [1, 2, 3]


def test_csv_with_quotes_and_line_feeds(packed):
    path = packed("pairs.csv", b'a,b\n"x, ""y""","z\nz"\nlast,one\n')
    items = read(path)
    assert texts(items) == [("a", "b"), ('x, "y"', "z\nz"), ("last", "one")]
    assert [item.line for item in items] == [1, 2, 4]


def test_jsonl(packed):
    lines = "".join(json.dumps({"source": source, "target": target, "id": 3}) + "\n" for source, target in PAIRS)
    assert texts(read(packed("pairs.jsonl", lines.encode()))) == PAIRS


def test_parquet(packed, tmp_path):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'regard[parquet]'")
    from pyarrow import parquet

    plain = tmp_path / "made.parquet"
    rows = [{"translation": {"en": source, "es": target}} for source, target in PAIRS]
    parquet.write_table(pa.Table.from_pylist([*rows, {"translation": {"en": "x", "es": None}}]), plain)
    path = packed("pairs.parquet", plain.read_bytes())
    items = read(path, source="translation.en", target="translation.es")
    assert texts(items[:3]) == PAIRS
    assert bads(items) == [(4, "empty", 1)]
    assert read(path) == items, "there are two columns, and both are texts"
    with pytest.raises(
        CallError, match=r"no such column: data.source='english'; choose from translation.en, translation.es"
    ):
        read(path, source="english")


def test_two_parallel_files(packed):
    one = packed("train.en", b"one\ntwo\r\nthree")
    other = packed("train.de", "eins\nzwei\ndr\u2028ei\n".encode())  # a line separator inside a line is no line's end
    assert texts(read(f"{one},{other}")) == [("one", "eins"), ("two", "zwei"), ("three", "dr\u2028ei")]


@pytest.mark.parametrize("longer", ["source", "target"])
def test_parallel_files_of_unequal_length_say_which(tmp_path, longer):
    long, short = write(tmp_path / "long", "1\n2\n3\n4\n5\n"), write(tmp_path / "short", "1\n2\n")
    items = read(f"{long},{short}" if longer == "source" else f"{short},{long}")
    assert len(items) == 3
    assert bads(items) == [(3, "unpaired", 3)]
    assert f"{long} has 5 lines, {short} has 2" in items[-1].reason


def test_a_comma_in_a_name_is_no_separator_if_the_file_exists(tmp_path):
    assert texts(read(write(tmp_path / "a,b.tsv", "x\ty\n"))) == [("x", "y")]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"source": "de", "target": "en"}, [("hund", "dog")]),
        ({"source": 2, "target": 1}, [("hund", "dog")]),
        ({"source": 2, "target": 1, "header": False}, [("de", "en"), ("hund", "dog")]),
        ({"source": 2, "target": 1, "header": True}, [("hund", "dog")]),
        ({}, [("dog", "hund")]),
    ],
)
@pytest.mark.parametrize("name", ["t.tsv", "t.csv"])
def test_columns_by_name_and_by_number(tmp_path, name, columns, expected):
    content = "id\ten\tde\n7\tdog\thund\n"
    path = write(tmp_path / name, content if name == "t.tsv" else content.replace("\t", ","))
    assert texts(read(path, **columns)) == expected


def test_a_header_of_source_and_target_is_known_as_one(tmp_path):
    path = write(tmp_path / "t.tsv", "\ufefftarget\tsource\nt\ts\n")
    assert texts(read(path)) == [("s", "t")]
    assert texts(read(path, header=False))[0] == ("target", "source")


SENTENCES = [(f"This is sentence number {n} of them.", f"Das ist der Satz Nummer {n} davon.") for n in range(30)]


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        ("t.tsv", ["English\tFrench", "Go.\tVa !", "Hi.\tSalut !"], [("Go.", "Va !"), ("Hi.", "Salut !")]),
        ("t.csv", ["English words/sentences,French words/sentences", "Hi.,Salut!"], [("Hi.", "Salut!")]),
        ("t.csv", ["id;English;French", *(f"{n};{a};{b}" for n, (a, b) in enumerate(SENTENCES))], SENTENCES),
        ("t.tsv", ["key\tphrase\tSatz", *(f"k{n}\t{a}\t{b}" for n, (a, b) in enumerate(SENTENCES))], SENTENCES),
        ("t.tsv", [f"{7 * n}\t{a}\t{b}\ttatoeba" for n, (a, b) in enumerate(SENTENCES)], SENTENCES),
        ("t.csv", [f'"{a}",{b}' for a, b in SENTENCES], SENTENCES),
        ("t.tsv", ["Yes.\tJa.", *("\t".join(pair) for pair in SENTENCES)], [("Yes.", "Ja."), *SENTENCES]),
        ("t.jsonl", [json.dumps({"id": n, "en": a, "de": b}) for n, (a, b) in enumerate(SENTENCES)], SENTENCES),
    ],
    ids=["names", "languages", "semicolons", "codes", "no header", "commas", "a short first pair", "objects"],
)
def test_columns_are_found_by_what_stands_in_them(tmp_path, name, lines, expected):
    assert texts(read(write(tmp_path / name, "\n".join(lines)))) == expected


def test_classes_are_told_from_texts_and_from_ids(tmp_path):
    """Whatever the columns are called and however they are ordered."""
    sides = {"sides": ("text", "label")}
    rows = [(f"review {n} of a film that was long", ("good", "bad", "so so")[n % 3]) for n in range(40)]
    lines = [f"{n},{label},{text}" for n, (text, label) in enumerate(rows)]
    assert texts(read(write(tmp_path / "a.csv", "\n".join(["nr,stars,opinion", *lines])), **sides)) == rows
    assert texts(read(write(tmp_path / "b.csv", "\n".join(f"{label},{text}" for text, label in rows)), **sides)) == rows
    path = write(tmp_path / "c.csv", "\n".join(["stars,opinion", *(f"{label},{text}" for text, label in rows)]))
    said = r"column 'opinion' cannot be data.label: it has 40 different values in 40 rows, .* data.label=stars"
    with pytest.raises(CallError, match=said):
        read(path, source="stars", target="opinion", **sides)
    with pytest.raises(CallError, match=r"column 1 cannot be data.label: .* column 0 has 3: data.label=0"):
        read(tmp_path / "b.csv", source=0, target=1, **sides)


def test_names_of_files_are_told_from_captions(tmp_path):
    rows = [(f"img{n}.jpg", f"a dog number {n} runs") for n in range(9)]
    lines = ["n|what is seen|photo", *(f"{n}|{text}|{name}" for n, (name, text) in enumerate(rows))]
    assert texts(read(write(tmp_path / "t.csv", "\n".join(lines)), sides=("image", "caption"))) == rows


def test_missing_columns_are_named_before_anything_is_read(tmp_path):
    path = write(tmp_path / "t.tsv", "english\tgerman\na\tb\n")
    with pytest.raises(CallError, match=r"no such column: data.target='germna'; did you mean 'german'"):
        read(path, source="english", target="germna")
    with pytest.raises(CallError, match=r"data.target=2 \(columns count from 0\), but the first line has 2 columns"):
        read(path, source=0, target=2)
    with pytest.raises(CallError, match="has 1 column: 'no tabs here'"):
        read(write(tmp_path / "u.tsv", "no tabs here\n"))


def test_hostile_tsv(tmp_path):
    content = b"\xef\xbb\xbfone\tuno\r\n\r\ntwo\n\tx\ny\t \nthree\ttres\textra\n"
    content += b"\xe9t\xe9\tverano\na\0b\tc\nfour\tcuatro"
    items = read(write(tmp_path / "t.tsv", content))
    assert texts([items[0], items[-1]]) == [("one", "uno"), ("four", "cuatro")]
    assert bads(items) == [
        (2, "blank", 1),
        (3, "columns", 1),
        (4, "empty", 1),
        (5, "empty", 1),
        (6, "columns", 1),
        (7, "encoding", 1),
        (8, "unreadable", 1),
    ]
    assert [item.reason for item in items[2:8]] == [
        "1 column where the first line has 2",
        "the source is empty",
        "the target is empty",
        "3 columns where the first line has 2",
        "byte 1 (0xe9) is not UTF-8",
        "byte 2 is zero: not a text file?",
    ]
    assert str(items[6]) == f"{tmp_path / 't.tsv'}:7: byte 1 (0xe9) is not UTF-8: '\ufffdt\ufffd\\tverano'"


def test_a_line_in_the_wrong_encoding_does_not_shift_parallel_files(tmp_path):
    one, other = write(tmp_path / "a", b"1\n\xff\n3\n"), write(tmp_path / "b", b"1\n2\n\x80\n")
    items = read(f"{one},{other}")
    assert texts(items[:1]) == [("1", "1")]
    assert [(item.file, item.line, item.kind) for item in items[1:]] == [
        (str(one), 2, "encoding"),
        (str(other), 3, "encoding"),
    ]


def test_hostile_jsonl(tmp_path):
    lines = [
        '{"source": "a", "target": "b"}',
        '{"source": "a", "target": "b"',
        '["a", "b"]',
        '{"source": "a"}',
        '{"source": "a", "target": 3}',
        '{"source": "\\ud800x", "target": "b"}',
        '{"source": "\\ud83d\\ude00", "target": "b"}',
        "",
        '{"source": null, "target": "b"}',
        "[" * 100_000,
        '{"source": ' + "1" * 5000 + "}",
    ]
    items = read(write(tmp_path / "t.jsonl", "\n".join(lines)))
    assert texts([items[0], items[6]]) == [("a", "b"), ("😀", "b")]
    assert bads(items) == [
        (2, "unreadable", 1),
        (3, "unreadable", 1),
        (4, "columns", 1),
        (5, "columns", 1),
        (6, "encoding", 1),
        (8, "blank", 1),
        (9, "empty", 1),
        (10, "unreadable", 1),
        (11, "unreadable", 1),
    ]
    assert items[3].reason == "no field 'target'; it has source (set data.target)"


def test_hostile_csv(tmp_path):
    items = read(write(tmp_path / "t.csv", b'a,b\n"x"y,z\n\n"\xff\nsecond",c\nd,e\n"never closed,f\ng,h\n'))
    assert texts([items[0], items[4]]) == [("a", "b"), ("d", "e")]
    assert bads(items) == [(2, "unreadable", 1), (3, "blank", 1), (4, "encoding", 2), (7, "unreadable", 1)]
    assert texts(items[6:]) == [("g", "h")]


@pytest.mark.parametrize("after", ["d,e\n", 'd,"e, f"\n', '"d","e"\n'])
def test_a_quote_never_closed_costs_its_line_only(tmp_path, after):
    items = read(write(tmp_path / "t.csv", 'a,b\n"open,c\n' + after * 40_000))
    assert (len(items), bads(items)) == (40_002, [(2, "unreadable", 1)])


def test_many_quotes_never_closed_cost_little_time(tmp_path):
    items = read(write(tmp_path / "t.csv", "a,b\n" + '"open,c\n' * 100 + "d,e\n" * 50_000))
    assert (len(items), len(bads(items))) == (50_101, 100)


def test_a_cell_may_hold_a_carriage_return_or_a_long_document(tmp_path):
    long = "word " * 30_000
    items = read(write(tmp_path / "t.csv", f'a,b\n{long},c\nd\rd,e\n"{long}\n{long}",f\n'), header=False)
    assert texts(items) == [("a", "b"), (long, "c"), ("d d", "e"), (f"{long}\n{long}", "f")]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (['"a ""b"" c"\t1', '"d\ne"\t2', '"f\tg"\t3'], [('a "b" c', "1"), ("d\ne", "2"), ("f\tg", "3")]),  # pandas
        (['"a"\t"b"', '"c"\t1', '"Go!"\t2'], [("a", "b"), ("c", "1"), ("Go!", "2")]),  # R, and QUOTE_ALL
        (['"Go!"\t1', '"Go," he said\t2', '"stop\t3'], [('"Go!"', "1"), ('"Go," he said', "2"), ('"stop', "3")]),
    ],
)
def test_quotes_in_tsv_are_read_where_a_program_wrote_them(tmp_path, rows, expected):
    content = "x\t0\n" * (rows[0][0] != '"' or '""' in rows[0]) + "".join(row + "\n" for row in rows)
    items = read(write(tmp_path / "t.tsv", content), header=False)
    assert texts(items)[-len(expected) :] == expected


def test_an_endless_line_is_one_bad_line(tmp_path):
    content = b"a\tb\n" + b"x" * (3 * LONGEST_LINE + 5) + b"\nc\td\n"
    items = read(write(tmp_path / "t.tsv", content))
    assert texts([items[0], items[2]]) == [("a", "b"), ("c", "d")]
    assert bads(items) == [(2, "unreadable", 1)]
    assert items[2].line == 3


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_a_truncated_file_is_an_error_that_says_where(tmp_path, ending):
    import random

    chance = random.Random(3)
    content = "".join(f"{chance.random()}\t{chance.random()}\n" for _ in range(4_000)).encode()
    whole = PACKERS[ending](content)
    with pytest.raises(RegardError, match=r"t\.tsv\..* cannot be unpacked beyond line [\d,]+"):
        read(write(tmp_path / f"t.tsv{ending}", whole[: len(whole) // 2]))
    with pytest.raises(RegardError, match="beyond line 0"):
        read(write(tmp_path / f"u.tsv{ending}", b"not packed at all, and long enough to tell"))


def test_several_frames_are_one_file(tmp_path):
    frames = zstandard.compress(b"a\tb\nc") + zstandard.compress(b"\td\n") + zstandard.compress(b"e\tf\n")
    assert texts(read(write(tmp_path / "t.tsv.zst", frames))) == [("a", "b"), ("c", "d"), ("e", "f")]


@pytest.mark.parametrize("ending", [".tsv", ".csv.gz", ".jsonl", ".parquet", ".conll"])
def test_shards_are_read_in_the_order_of_their_numbers(tmp_path, ending):
    rows = {number: [(f"a{number}", "B"), ("c", "D"), (f"e{number}", "F")] for number in (1, 2, 10)}
    for number, some in rows.items():
        file = tmp_path / f"train_{number}{ending}"
        if ending == ".parquet":
            pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'regard[parquet]'")
            columns = {"source": [one for one, _ in some], "target": [other for _, other in some]}
            pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install 'regard[parquet]'").write_table(
                pyarrow.table(columns), file
            )
        else:
            line = '{{"source": "{}", "target": "{}"}}\n' if ending == ".jsonl" else "{}\t{}\n"
            text = "".join(line.format(*row) + "\n" * (ending == ".conll") for row in some)
            write(file, (gzip.compress if ending.endswith(".gz") else bytes)(text.encode()))
    expected = [row for number in (1, 2, 10) for row in rows[number]]
    assert texts(read(tmp_path / f"train_*{ending}")) == expected
    with pytest.raises(CallError, match="no file matches the pattern"):
        read(tmp_path / "valid_*.tsv")


def test_shards_are_told_from_other_files_and_a_missing_one_is_named(tmp_path):
    def made(*names):
        return [write(tmp_path / name, "") for name in names]

    counted = made(*(f"train_{number}.csv" for number in range(1, 12)))
    assert group_shards(counted) == [counted]
    assert files_of(pattern_of(counted)) == counted
    different = made("test_2016.csv", "test_2017.csv", "a-0-1.csv", "a-1-2.csv")
    assert [len(group) for group in group_shards(different)] == [1] * 4
    others = made("p-00000-of-00002.csv", "p-00001-of-00002.csv", "p-00000-of-00001.csv")
    assert pattern_of(others[:2]).name == "p-?????-of-00002.csv"
    assert [len(group) for group in group_shards(others)] == [1, 2]
    with pytest.raises(CallError, match="2 of 3 shards are present"):
        group_shards(made("q-00000-of-00003.csv", "q-00002-of-00003.csv"))


def test_wrong_calls_name_what_would_work(tmp_path):
    path = write(tmp_path / "t.tsv", "a\tb\n")
    with pytest.raises(CallError, match=r"no such file: .*missing"):
        read(tmp_path / "missing.tsv")
    with pytest.raises(CallError, match=r"no such file: .*missing"):
        read(f"{path},{tmp_path / 'missing'}")
    with pytest.raises(CallError, match=r"unknown format: '\.doc'; use one of \.tsv"):
        read(write(tmp_path / "t.doc", ""))
    with pytest.raises(CallError, match="parallel text needs two files"):
        read(path, format="text")
    with pytest.raises(CallError, match="one file of pairs or two parallel files"):
        read(f"{path},{path},{path}")
    with pytest.raises(CallError, match="is UTF-16; convert it first: iconv"):
        read(write(tmp_path / "t16.tsv", "a\tb\n".encode("utf-16")))
    with pytest.raises(RegardError, match="not a complete Parquet file"):
        read(path, format="parquet")
    assert texts(read(write(tmp_path / "t.txt", "a\tb\n"), format="tsv")) == [("a", "b")]
    assert read(write(tmp_path / "empty.tsv", "")) == []


def test_memory_does_not_grow_with_the_file(tmp_path):
    peaks = []
    for lines in (3_000, 30_000):
        path = write(tmp_path / f"{lines}.tsv", "some source text\tsome target text\n" * lines)
        tracemalloc.start()
        assert sum(1 for _ in PairSource(str(path)).read()) == lines
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_data_sets_without_the_library_say_what_to_install():
    program = "import sys; sys.modules['datasets'] = None\n"
    program += "from regard.data.files import PairSource\nlist(PairSource('hub:some/name').read())"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.stderr.strip().endswith("-m pip install 'regard[hub]'")


def test_folders_of_data_files_are_read_by_the_library(tmp_path):
    pytest.importorskip("datasets", reason="needs datasets: pip install 'regard[hub]'")
    for split, pairs in (("train", PAIRS), ("validation", PAIRS[1:2])):
        lines = "".join(json.dumps({"source": source, "target": target}) + "\n" for source, target in pairs)
        write(tmp_path / f"{split}.jsonl", lines)
    assert texts(read(tmp_path)) == PAIRS
    assert texts(list(PairSource(str(tmp_path), role="valid").read())) == PAIRS[1:2]
    with pytest.raises(CallError, match="has no 'test' part; it has train, validation"):
        list(PairSource(str(tmp_path), role="test").read())


def test_data_sets_saved_by_the_library(tmp_path):
    datasets = pytest.importorskip("datasets", reason="needs datasets: pip install 'regard[hub]'")
    try:
        rows = datasets.Dataset.from_list([{"source": source, "target": target} for source, target in PAIRS])
    except pickle.PicklingError:
        pytest.skip("this version of datasets cannot make a data set with this version of pyarrow")
    datasets.DatasetDict({"train": rows, "validation": rows.select([1])}).save_to_disk(str(tmp_path / "saved"))
    assert texts(read(tmp_path / "saved")) == PAIRS
    assert texts(list(PairSource(str(tmp_path / "saved"), role="valid").read())) == PAIRS[1:2]
