"""Mistakes that users make: each is refused with a sentence that says what to do, and leaves nothing behind.

A row is one mistake: the words of the command line, what the sentence says, and the exit code. `FILES` (name → content)
are made in a folder of the test's own. Rows of every part of the program belong here.
"""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import regard as package
from command_line import regard
from regard.errors import CallError

FILES = {
    "pairs.tsv": "".join(f"the cat {n} sleeps\tel gato {n} duerme\n" for n in range(60)),
    "movies.csv": "id,review,sentiment\n"
    + "".join(
        f'{n},"a {"fine" if n % 2 else "dull"} film, number {n}",{"pos" if n % 2 else "neg"}\n' for n in range(80)
    ),
    "sentences.txt": "the cat 1 sleeps\nthe cat 2 sleeps\n",
}


class Mistake(NamedTuple):
    words: str
    says: tuple[str, ...]
    code: int = 2


NO_RUN = [
    # names of recipes, commands and jobs
    Mistake("train translate-transfomer", ("did you mean 'translate-transformer'",)),
    Mistake("train nosuchrecipe", ("no such recipe", "`regard recipes` lists")),
    Mistake("train nosuch.csv", ("no such file or folder: nosuch.csv",)),
    Mistake("train classify", ("regard train DATA", "recipe such as")),
    Mistake("train ner", ("job tag", "regard train DATA")),
    Mistake("train data.train=pairs.tsv", ("is a setting", "give a recipe or your data first")),
    Mistake("tain pairs.tsv", ("no command 'tain'", "did you mean 'train'")),
    Mistake("fit pairs.tsv", ("did you mean 'train'",)),
    Mistake("list", ("did you mean 'recipes'",)),
    Mistake("eval runs/x", ("did you mean 'evaluate'",)),
    Mistake("pairs.tsv", ("it is a file or folder", "train pairs.tsv")),
    Mistake("xyzzy", ("no command 'xyzzy'", "--help lists all")),
    Mistake("predict", ("missing argument 'RUN'", "regard predict --help")),
    # options
    Mistake("train pairs.tsv --epochs 3", ("no option --epochs", "training.max_epochs=3")),
    Mistake("train pairs.tsv --epochs=3", ("training.max_epochs=3",)),
    Mistake("train pairs.tsv --lr 0.1", ("training.learning_rate=0.1",)),
    Mistake("train pairs.tsv -lr 0.1", ("training.learning_rate=0.1",)),
    Mistake("train pairs.tsv --batch-size 32", ("training.max_tokens=TOKENS",)),
    Mistake("train pairs.tsv --device cpu", ("training.device=cpu",)),
    Mistake("train pairs.tsv --gpu", ("training.device=cuda",)),
    Mistake("train pairs.tsv --target es", ("data.target=es",)),
    Mistake("train pairs.tsv --force", ("write --fresh",)),
    Mistake("train pairs.tsv --task ner", ("write --job",)),
    Mistake("train pairs.tsv --training.max_epochs 3", ("settings have no dashes", "training.max_epochs=3")),
    Mistake("train pairs.tsv --xyzzy", ("no option --xyzzy", "regard train --help lists all")),
    Mistake("predict runs/x --beam 4 hello", ("decoding.beam=4",)),
    Mistake("predict runs/x --num-beams 4 hello", ("decoding.beam=4",)),
    Mistake("predict runs/x --device cuda hello", ("CUDA_VISIBLE_DEVICES",)),
    Mistake("predict runs/x --file sentences.txt", ("write --input",)),
    Mistake("look runs/x --view matrixx hello", ("'matrixx' is not one of", "matrix")),
    # settings
    Mistake("train translate-transformer data.trian=pairs.tsv", ("data.trian", "did you mean 'train'")),
    Mistake("train translate-transformer model.widht=3", ("did you mean 'width'",)),
    Mistake("train translate-transformer training.lr=0.1", ("did you mean 'learning_rate'",)),
    Mistake("train translate-transformer epochs=3", ("did you mean 'training.max_epochs'",)),
    Mistake("train translate-transformer training.epochs=3", ("did you mean 'max_epochs'",)),
    Mistake("train translate-transformer learning_rate=3", ("did you mean 'training.learning_rate'",)),
    Mistake("train translate-transformer batch_size=8", ("training.max_tokens=TOKENS",)),
    Mistake("train translate-transformer model.hidden_size=8", ("did you mean 'width'",)),
    Mistake("train languages data.target=y", ("did you mean 'label'",)),
    Mistake("train translate-transformer data.label=y", ("did you mean 'target'",)),
    Mistake("train translate-transformer width", ("not of the form key=value",)),
    # data where a recipe may stand, runs that are not there
    Mistake("check nosuch.tsv", ("no such file or folder: nosuch.tsv",)),
    Mistake("verify movies.csv", ("is data, without a score to verify", "expected.metric=")),
    Mistake("compare movies.csv", ("--vary model.width=64,128",)),
    Mistake("cost transfomer-base", ("did you mean 'transformer-base'",)),
    Mistake("predict hello", ("no such run: hello", "No runs here yet", "regard train DATA")),
    Mistake("serve runs/x", ("no such run: runs/x",)),
    Mistake("train translate-transformer start=runs/x", ("start=runs/x: no such run",)),
    # data and time
    Mistake("train pairs.tsv --job classification", ("--job classification", "did you mean 'classify'")),
    Mistake("train pairs.tsv --job asr", ("did you mean 'transcribe'",)),
    Mistake("train pairs.tsv --time-limit soon", ("write seconds, or a text such as 45s",)),
    Mistake("train movies.csv data.label=sentimant", ("did you mean 'sentiment'",)),
    Mistake("train translate-transformer --dry-run", ("are for data", "regard train DATA")),
    Mistake("train pairs.tsv training.device=cuda", ("there is no CUDA GPU here", "try auto or cpu")),
    Mistake("train hub:no/such-data-set", ("cannot download the dataset no/such-data-set",), 1),
    Mistake("import hub:no/such-model -o runs/b", ("cannot download the model no/such-model",), 1),
    Mistake("export runs/x --to onnx -o out", ("no such run: runs/x",)),
]


def _rows(first: str, row: Callable[[int], str], count: int = 60) -> str:
    return first + "".join(row(n) + "\n" for n in range(count))


_RANDOM = random.Random(1)
FEATURES = " ".join(
    str(_RANDOM.choice(of)) for of in (range(18, 80), range(900), ("a", "b"), (0, 1)) for _ in range(60)
)

#: Data of which no model is made: file → content.
BAD: dict[str, str | bytes] = {
    "empty.tsv": "",
    "blank.csv": "\n  \n\n",
    "names.csv": "text,label\n",
    "three.tsv": "a cat\tun gato\na dog\tun perro\na cow\tuna vaca\n",
    "one_class.csv": _rows("text,label\n", lambda n: f"film number {n} of all,good"),
    "no_labels.csv": _rows("id,text,label\n", lambda n: f"{n},film number {n} of all,"),
    "commas.csv": _rows("text,label\n", lambda n: f"film number {n}{'' if n % 3 else ', in all'},{n % 2}"),
    "broken.json": '[{"text": "a film", "label": "good"}, {"text": "a fi',
    "broken.jsonl": '{"text": "a film", "label"\n' * 30,
    "one_column.csv": _rows("review\n", lambda n: f"film number {n} of all"),
    "two_names.csv": _rows("text,label,text\n", lambda n: f"film number {n},{n % 2},other words {n}"),
    "notes.docx": b"PK\x03\x04" + bytes(range(256)),
    "model.pkl": b"\x80\x04\x95\x00\x00" + bytes(range(256)),
    "paper.pdf": b"%PDF-1.7\n" + bytes(range(256)),
    "features.csv": _rows("age,income,city,bought\n", lambda n: ",".join(FEATURES.split()[n::60])),
    "stars.csv": _rows("review,stars\n", lambda n: f"film number {n} of all,{n * 37 % 50 / 10 + n / 1000}"),
    "many/pairs.tsv": FILES["pairs.tsv"],
    "many/movies.csv": FILES["movies.csv"],
    "unknown/a.bin": b"some\0thing",
    "unknown/b.docx": b"PK\x03\x04" + bytes(100),
}
SAVE_AS_TEXT = "save what is in it as text first: a table as .csv"
BAD_DATA = [
    Mistake("train empty.tsv", ("empty.tsv: is empty",)),
    Mistake("train blank.csv", ("blank.csv: contains no readable text",)),
    Mistake("train names.csv", ("1 row can be read", "4 are the least")),
    Mistake("train three.tsv", ("3 rows can be read", "give more")),
    Mistake("train one_class.csv", ("'label' holds the same label in all rows", "a second class is missing")),
    Mistake("train no_labels.csv", ("'label' is empty in all rows", "fill it with labels")),
    Mistake(
        "train commas.csv",
        ("20 of 60 lines", "commas.csv:2: 3 columns where the first line has 2", "data.max_bad=0.34"),
        1,
    ),
    Mistake("train broken.json", ("is not JSON or JSON Lines", "line 1 column", "repair it")),
    Mistake("train broken.jsonl", ("broken.jsonl:1: not JSON", "contains no usable examples"), 1),
    Mistake("train one_column.csv", ("there is no column to predict", "add one of labels", ".txt")),
    Mistake("train two_names.csv", ("2 columns named 'text'", "rename or remove")),
    Mistake("train notes.docx", ("document of an office program", "a document as .txt")),
    Mistake("train model.pkl", ("is a pickle of Python", "save arrays (numpy.savez) or a table")),
    Mistake("train paper.pdf", ("is a PDF", SAVE_AS_TEXT)),
    Mistake("train features.csv", ("tables of features", "scikit-learn", "data.time=", "data.id=")),
    Mistake("train stars.csv", ("'stars' holds many different numbers", "(regression)", "low, middle and high")),
    Mistake("train many", ("holds several data sets", "regard train many/pairs.tsv", "regard train many/movies.csv")),
    Mistake("train unknown", ("none of its files is data that regard reads (a.bin, b.docx)", ".csv")),
    Mistake("train nothing", ("nothing: is empty", "give a folder of tables")),
    Mistake("train stars.csv -o deep/er/run", ("(regression)",)),
    Mistake("check stars.csv", ("(regression)",)),
    Mistake("cost empty.tsv", ("is empty",)),
    Mistake("compare many/pairs.tsv --vary model.widht=8,16 -o a/b", ("model.widht: unknown key",)),
    Mistake("compare features.csv --vary model.width=8,16", ("tables of features",)),
]


@pytest.mark.parametrize("mistake", BAD_DATA, ids=lambda mistake: mistake.words)
def test_data_that_no_model_is_made_of_is_refused_and_leaves_nothing(mistake: Mistake, tmp_path: Path) -> None:
    for name, content in BAD.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (tmp_path / "nothing").mkdir()
    before = {*tmp_path.rglob("*")}
    limit = ["--time-limit", "1s"] if mistake.words.startswith("train") else []
    done = regard(*mistake.words.split(), *limit, cwd=tmp_path)
    assert done.returncode == mistake.code, done.stderr
    assert not [words for words in mistake.says if words not in done.stderr], done.stderr
    assert "Traceback" not in done.stderr
    assert {*tmp_path.rglob("*")} == before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("mistake", NO_RUN, ids=lambda mistake: mistake.words)
def test_a_mistake_is_refused_with_what_to_do_and_leaves_nothing(mistake: Mistake, folder: Path) -> None:
    before = files_in(folder)
    done = regard(*mistake.words.split(), cwd=folder)
    assert done.returncode == mistake.code, done.stderr
    for words in mistake.says:
        assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert files_in(folder) == before
    assert not (folder / "runs").exists()


# ------------------------------------------------------------------------------------------------------ finished runs
@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files, a translator in runs/pairs and a classifier of reviews in runs/movies."""
    folder = tmp_path_factory.mktemp("trained")
    for name, content in FILES.items():
        (folder / name).write_text(content, encoding="utf-8")
    for name in ("pairs.tsv", "movies.csv"):
        done = regard("train", name, "--time-limit", "2s", "--max-steps", 2, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


OTHER_DATA = [
    Mistake("train movies.csv -o runs/pairs", ("runs/pairs", "pairs.tsv before, movies.csv now", "--fresh", "-o")),
    Mistake("train pairs.tsv --time-limit 1h", ("--time-limit: 2.0 before, 3600.0 now", "--fresh")),
    Mistake("train pairs.tsv --job translate", ("--job: none before, translate now",)),
    Mistake("train languages data.train=movies.csv -o runs/pairs", ("job: translate → classify", "pairs.tsv →")),
    Mistake("train pairs.tsv data.targt=1 -o runs/movies --fresh", ("data.targt", "did you mean 'target'")),
    Mistake("train runs/pairs/recipe.yaml -o runs/pairs --fresh", ("is in runs/pairs", "move it")),
    Mistake("train pairs.tsv -o . --fresh", ("has no run",)),
]


@pytest.mark.parametrize("mistake", OTHER_DATA, ids=lambda mistake: mistake.words)
def test_a_finished_run_never_answers_for_other_data(mistake: Mistake, trained: Path) -> None:
    before = files_in(trained)
    done = regard(*mistake.words.split(), cwd=trained)
    assert done.returncode == mistake.code, done.stderr
    assert not [words for words in mistake.says if words not in done.stderr], done.stderr
    assert files_in(trained) == before


WORDS = [
    Mistake(
        "predict runs/pairs beem=4 hello", ("'beem=4' looks like a setting", "decoding.beam=4", "put -- before it")
    ),
    Mistake("predict runs/pairs beam=4 hello", ("write decoding.beam=4",)),
    Mistake("predict runs/pairs batch=4 hello", ("write decoding.batch_tokens=TOKENS",)),
    Mistake("predict runs/pairs num_beams=4 hello", ("write decoding.beam=4",)),
    Mistake("predict runs/pairs epochs=4 hello", ("belongs to training", "accepts only decoding.*")),
    Mistake("predict runs/pairs model.width=4 hello", ("a trained run has a fixed model",)),
    Mistake("predict runs/pairs decoding.beem=4 hello", ("decoding.beem", "did you mean 'beam'")),
    Mistake(
        "predict runs/pairs sentences.txt", ("sentences.txt is a file", "--input sentences.txt", "put -- before it")
    ),
    Mistake("predict runs/pairs nosuch.txt", ("no such file: nosuch.txt", "--input FILE")),
    Mistake("predict runs/pairs photo.png", ("no such file: photo.png",)),
    Mistake("predict runs/pairs runs/movies", ("runs/movies is a folder, and this model reads texts",)),
    Mistake("predict runs/pairs hello --input sentences.txt", ("either as arguments or with --input FILE",)),
    Mistake("predict runs/pairs --input nosuch.csv", ("no such file: nosuch.csv",)),
    Mistake(
        "predict runs/movies --input other.csv", ("no such column: data.text='review'", "id, comment", "--column NAME")
    ),
    Mistake("predict runs/movies --input broken.csv", ("broken.csv:3: 5 columns", "repair the row"), 1),
    Mistake("predict runs/movies --input sentences.txt --column review", ("--column review", "is not a table")),
    Mistake("predict runs/movies --column review hello", ("give the table with --input FILE",)),
    Mistake("predict runs/movies --input tags.conll", ("has one word per line", "regard evaluate")),
    Mistake("predict runs/pair hello", ("no such run: runs/pair", "did you mean runs/pairs")),
    Mistake("predict runs hello", ("runs is not a run", "Runs in runs/: movies, pairs")),
    Mistake("predict hello", ("no such run: hello. Runs in runs/: movies, pairs",)),
    Mistake("evaluate nothere", ("Runs in runs/: movies, pairs",)),
    Mistake("evaluate runs/pairs pairs.tsv", ("write data.test=pairs.tsv",)),
    Mistake("evaluate runs/pairs data.tset=pairs.tsv", ("did you mean 'test'",)),
    Mistake("evaluate runs/pairs --test pairs.tsv", ("no option --test",)),
    Mistake("evaluate runs/movies data.test=sentences.txt", ("sentences.txt",)),
    Mistake("evaluate runs/pairs data.test=movies.csv", ("names columns (id, review, sentiment)", "Remove the line")),
    Mistake("evaluate runs/movies data.test=pairs.tsv", ("no such column: data.text='review'",)),
    Mistake("evaluate runs/pairs data.test=nosuch.tsv", ("no such file: nosuch.tsv",)),
    Mistake("export runs/pairs --to torchscript -o out", ("unknown export format 'torchscript'", "onnx")),
    Mistake("look runs/pairs hello --layer 7", ("layer",)),
    Mistake("look runs/pairs hello --head 99", ("head",)),
    Mistake("look runs/pairs hello --method rollaut", ("did you mean 'rollout'",)),
    Mistake("look runs/pairs hello -o x.gif", ("x.gif", ".png")),
    Mistake("look runs/pairs beem=4", ("looks like a setting", "decoding.beam=4")),
    Mistake("look runs/pairs sentences.txt", ("sentences.txt is a file", "put -- before it")),
    Mistake("look runs/pairs sentences.txt --explain inputs", ("sentences.txt is a file",)),
    Mistake("look runs/pairs two words", ("regard look takes one input, not 2", "quotes")),
]


@pytest.mark.parametrize("mistake", WORDS, ids=lambda mistake: mistake.words)
def test_a_word_that_is_no_text_is_not_taken_for_one(mistake: Mistake, trained: Path) -> None:
    for name in ("other.csv", "broken.csv", "tags.conll"):
        (trained / name).write_text(TABLES[name], encoding="utf-8")
    done = regard(*mistake.words.split(), cwd=trained)
    assert done.returncode == mistake.code, done.stderr
    assert not [words for words in mistake.says if words not in done.stderr], done.stderr
    assert done.stdout == ""


def test_the_reasons_in_a_recipe_are_true(trained: Path) -> None:
    lines = (trained / "runs/pairs/recipe.yaml").read_text(encoding="utf-8").splitlines()
    reasons = {line.split(":")[0].strip(): line.partition("#")[2] for line in lines}
    assert "of the 2 seconds as requested" in reasons["time_limit"]
    assert "set by the user" in reasons["max_steps"]
    assert "half of about 2 steps" in reasons["warmup"]
    assert "about 2 steps are expected" in reasons["max_epochs"]


def test_data_may_stand_where_a_recipe_may(trained: Path) -> None:
    before = files_in(trained)
    found = regard("check", "pairs.tsv", "--json", cwd=trained)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["splits"]["train"]["file"].startswith("pairs.tsv")
    assert json.loads(regard("cost", "pairs.tsv", "--json", cwd=trained).stdout)["parameters"] > 0
    assert package.check(str(trained / "pairs.tsv")).splits["train"].pairs > 30
    assert files_in(trained) == before


def test_a_translator_of_labels_is_warned_of_and_the_end_repeats_it(trained: Path) -> None:
    words = ["data.train=movies.csv", "data.source=review", "data.target=sentiment", "model.width=16", "model.heads=2"]
    options = ["--max-steps", 2, "-o", "runs/labels"]
    done = regard("train", "translate-transformer", *words, *options, cwd=trained)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("2 different targets: these look like labels") == 1 + 1
    last = done.stderr[done.stderr.index("ended by") :]
    assert "warning: 78 pairs with 2 different targets" in last
    assert "`regard train movies.csv` makes a classifier" in last
    scores = regard("evaluate", "runs/labels", "data.test=movies.csv", "--json", cwd=trained)
    assert "2 different targets in 80 test pairs" in json.loads(scores.stdout)["targets"]
    shutil.rmtree(trained / "runs/labels")


def test_nothing_is_no_input(trained: Path) -> None:
    for command in ("predict", "look"):
        done = regard(command, "runs/pairs", " ", cwd=trained)
        assert done.returncode == 2
        assert "the input is empty" in done.stderr


def test_behind_two_dashes_every_word_is_a_text(trained: Path) -> None:
    words = ["beam=4", "sentences.txt", "decoding.beam=4"]
    plain = regard("predict", "runs/movies", "--json", "--", *words, cwd=trained)
    assert [one["input"] for one in json.loads(plain.stdout)] == words, plain.stderr


#: Tables of reviews for the classifier, which was trained with the columns id, review, sentiment.
TABLES = {
    "reviews.csv": 'id,review,sentiment\n1,"a fine, fine film",pos\n2,"a ""dull"" film\nof two lines",neg\n3,,pos\n',
    "reviews.tsv": "id\treview\n1\ta fine film\n2\ta dull film\n3\tfilm\n",
    "reviews.jsonl": '{"review": "a fine film"}\n{"id": 2, "review": "a dull film"}\n{"review": ""}\n',
    "one.csv": "review\na fine film\n\na dull film\nfilm\n",
    "other.csv": "id,comment\n1,a fine film\n2,a dull film\n3,film\n",
    "broken.csv": "id,review,sentiment\n1,a film,pos\n2,a film, and more,neg,x\n",
    "tags.conll": "a DET\nfilm NOUN\n",
}


@pytest.mark.parametrize(
    "name", ["reviews.csv", "reviews.tsv", "reviews.jsonl", "one.csv", "other.csv", "b.parquet", "b.xlsx"]
)
def test_a_table_of_inputs_gives_one_output_a_row(name: str, trained: Path) -> None:
    file = trained / name
    if name in TABLES:
        file.write_text(TABLES[name], encoding="utf-8")
    else:
        import pandas

        frame = pandas.DataFrame({"id": [1, 2, 3], "review": ["a fine film", "a dull film", None]})
        frame.to_parquet(file) if file.suffix == ".parquet" else frame.to_excel(file, index=False)
    column = ["--column", "comment"] if name == "other.csv" else []
    done = regard("predict", "runs/movies", "--input", name, *column, "--json", cwd=trained)
    assert done.returncode == 0, done.stderr
    first, second, third = (one["input"] for one in json.loads(done.stdout))
    assert (first[:6], second[:4], third) == (
        "a fine",
        "a du" if name != "reviews.csv" else 'a "d',
        "film" if third else "",
    )
    lines = regard("predict", "runs/movies", "--input", name, *column, "-o", f"{name}.out", cwd=trained)
    assert lines.returncode == 0, lines.stderr
    assert len((trained / f"{name}.out").read_text(encoding="utf-8").splitlines()) == 3


def test_changed_data_is_refused_and_fresh_starts_again(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "copy")
    folder = tmp_path / "copy"
    same = regard("train", "./pairs.tsv", cwd=folder)
    assert (same.returncode, "resumes" in same.stderr) == (0, True), same.stderr
    (folder / "pairs.tsv").write_text(FILES["pairs.tsv"].replace("gato", "perro"), encoding="utf-8")
    changed = regard("train", "pairs.tsv", cwd=folder)
    assert changed.returncode == 2
    assert "pairs.tsv has changed since" in changed.stderr
    fresh = regard("train", "pairs.tsv", "--time-limit", "2s", "--max-steps", 1, "--fresh", cwd=folder)
    assert fresh.returncode == 0, fresh.stderr
    run: Any = package.load(folder / "runs/pairs")
    assert run.summary()["step"] == 1
    assert sorted(path.name for path in (folder / "runs").iterdir()) == ["movies", "pairs"]


def test_python_never_answers_for_other_data(tmp_path: Path) -> None:
    texts = [f"a {'fine' if n % 2 else 'dull'} film, number {n}" for n in range(60)]

    def train(labels: tuple[str, str], **options: Any) -> Any:
        data = (texts, [labels[n % 2] for n in range(60)])
        return package.train(data, output=tmp_path / "run", max_steps=1, time_limit=2, **options)

    assert train(("neg", "pos")).predict(texts[0]).text in ("neg", "pos")
    before = files_in(tmp_path)
    with pytest.raises(CallError, match=r"(?s)has changed since.*overwrite=True"):
        train(("BLUE", "RED"))
    with pytest.raises(CallError, match=r"model\.width"):
        train(("neg", "pos"), model={"width": 24})
    with pytest.raises(CallError, match=r"data: data from Python .tuple. before, .* now"):
        package.train(str(_written(tmp_path)), output=tmp_path / "run")
    (tmp_path / "pairs.tsv").unlink()
    assert files_in(tmp_path) == before
    assert train(("BLUE", "RED"), overwrite=True).predict(texts[0]).text in ("BLUE", "RED")


def _written(folder: Path) -> Path:
    file = folder / "pairs.tsv"
    file.write_text(FILES["pairs.tsv"], encoding="utf-8")
    return file


# ------------------------------------------------------------------------------------------------------------- Python
def _films(count: int = 60) -> dict[str, list[Any]]:
    return {
        "id": [*range(count)],
        "review": [f"a {'fine' if n % 2 else 'dull'} film, number {n}" for n in range(count)],
        "sentiment": [("neg", "pos")[n % 2] for n in range(count)],
    }


class Call(NamedTuple):
    name: str
    make: Callable[[Any, Any], Any]
    says: str


#: Arguments of regard.train, from a DataFrame and its class.
CALLS = [
    Call("no rows", lambda df, _: {"recipe": df[:0]}, "the table has no rows"),
    Call("no columns", lambda _, frame: {"recipe": frame()}, "the table has no columns"),
    Call("empty lists", lambda *_: {"recipe": ([], [])}, "0 inputs and 0 labels"),
    Call("lengths", lambda df, _: {"recipe": (df.review, df.sentiment[:5])}, "60 inputs and 5 labels"),
    Call("X without y", lambda df, _: {"X": df.review}, "X and y belong together"),
    Call("X and data", lambda df, _: {"recipe": "languages", "data": df, "X": df.id, "y": df.id}, "or data=: not both"),
    Call("a number", lambda *_: {"recipe": 3}, "data of int: give a path, a table"),
    Call("nothing", lambda *_: {}, "give a recipe, or data"),
    Call("no labels", lambda df, _: {"recipe": df.assign(sentiment=None)}, "'sentiment' is empty in all rows"),
    Call("doubled", lambda df, _: {"recipe": df[["id", "review", "review"]]}, "2 columns named 'review'"),
    Call("data twice", lambda df, _: {"recipe": df, "data": df}, "give either data, or a recipe and its data"),
    Call("a typo", lambda df, _: {"recipe": "languges", "data": df}, "did you mean 'languages'"),
    Call("no file", lambda *_: {"recipe": "nosuch.csv"}, "no such file or folder: nosuch.csv"),
    Call("dry_run", lambda df, _: {"recipe": df, "dry_run": True}, "`regard train DATA --dry-run`"),
    Call("verbose", lambda df, _: {"recipe": df, "verbose": False}, "no argument 'verbose': progress is written to"),
    Call("job", lambda df, _: {"recipe": df, "job": "classify"}, "no argument 'job': name a recipe"),
    Call("epochs", lambda df, _: {"recipe": df, "epochs": 3}, "write training={'max_epochs': ...}"),
    Call("seed", lambda df, _: {"recipe": "languages", "data": df, "seed": 3}, "write training={'seed': ...}"),
    Call("label", lambda df, _: {"recipe": df, "label": "sentiment"}, "write data={'label': ...}"),
    Call("force", lambda df, _: {"recipe": df, "force": True}, "write overwrite=True"),
    Call("width", lambda df, _: {"recipe": df, "width": 64}, "model={'width': 128}"),
    Call("a section", lambda df, _: {"recipe": df, "model": "small"}, "a section is a mapping"),
    Call("a key", lambda df, _: {"recipe": df, "training": {"lr": 1}}, "did you mean 'learning_rate'"),
    Call("a column", lambda df, _: {"recipe": df, "data": {"label": "sentimant"}}, "did you mean 'sentiment'"),
    Call("a start", lambda df, _: {"recipe": df, "start": "runs/x"}, "no such run: runs/x"),
    Call("a time", lambda df, _: {"recipe": df, "time_limit": "soon"}, "write seconds, or a text such as 45s"),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_python_refuses_and_leaves_nothing(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas

    monkeypatch.chdir(tmp_path)
    given = {"time_limit": 1, **call.make(pandas.DataFrame(_films()), pandas.DataFrame)}
    with pytest.raises(CallError) as refused:
        package.train(output=tmp_path / "runs" / "run", **given)
    assert call.says in str(refused.value)
    assert not [*tmp_path.iterdir()]


#: What is asked of a classifier of reviews, with a DataFrame of other rows.
ASKED = [
    Call("no column", lambda run, df: run.predict(df[["id"]]), "the table has no column 'review'"),
    Call("another name", lambda run, df: run.predict(df.rename(columns={"review": "x"})), "it has id, x, sentiment"),
    Call("no cell", lambda run, df: run.predict(df.assign(review=None)), "row 0 of the table has no text"),
    Call("a number", lambda run, df: run.predict(3), "an input is a text, not int"),
    Call("nan", lambda run, df: run.predict([float("nan")]), "an input is a text, not float"),
    Call("no labels", lambda run, df: run.evaluate(df[["id", "review"]]), "no column 'sentiment'"),
    Call("inputs only", lambda run, df: run.evaluate(test=df.review), "no column 'sentiment'"),
    Call("lengths", lambda run, df: run.evaluate((df.review, df.sentiment[:2])), "12 inputs and 2 labels"),
    Call("no rows", lambda run, df: run.evaluate(df[:0]), "the table has no rows"),
    Call("no file", lambda run, df: run.evaluate(test="nosuch.csv"), "no such file: nosuch.csv"),
]


@pytest.mark.parametrize("call", ASKED, ids=lambda call: call.name)
def test_a_run_refuses_what_is_no_input(call: Call, trained: Path) -> None:
    import pandas

    run = package.load(trained / "runs/movies")
    with pytest.raises(CallError) as refused:
        call.make(run, pandas.DataFrame(_films(12)))
    assert call.says in str(refused.value)


def test_tables_of_python_are_trained_validated_tested_and_predicted_row_by_row(tmp_path: Path) -> None:
    """With a recipe's name and without, as a section, as parts, as X and y; a row without a label is left out."""
    import pandas

    films, few = pandas.DataFrame(_films()), pandas.DataFrame(_films(12))
    short: Any = {"max_steps": 1, "time_limit": 2, "check": False}
    small: Any = {"model": {"width": 16}, **short}
    holes = films.assign(sentiment=[None if n % 5 == 0 else one for n, one in enumerate(films.sentiment)])
    ways: list[dict[str, Any]] = [
        {"recipe": "classify-recurrent", "data": {"train": films, "valid": few, "test": few}, **small},
        {"recipe": "classify-recurrent", "X": films.review, "y": films.sentiment, **small},
        {"recipe": {"train": films, "valid": few}, "model": {"width": 16}, **short},
        {"recipe": holes, **short},
    ]
    for number, way in enumerate(ways):
        run: Any = package.train(output=tmp_path / str(number), **way)
        assert json.loads((run.folder / "labels.json").read_text(encoding="utf-8"))["names"] == ["neg", "pos"]
        assert len(run.predict(few)) == len(run.predict(few.review)) == 12
        for test in (few, (few.review, few.sentiment)):
            assert run.evaluate(test).values["examples"] == run.evaluate(test=test).values["examples"] == 12
