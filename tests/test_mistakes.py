"""Mistakes that users make: each is refused with a sentence that says what to do, and leaves nothing behind.

A row is one mistake: the words of the command line, what the sentence says, and the exit code. `FILES` (name → content)
are made in a folder of the test's own. Rows of every part of the program belong here.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from command_line import regard

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
    Mistake("train data.train=pairs.tsv", ("is a setting", "first comes a recipe, or your data")),
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
]


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
    assert done.stderr.count("regard: ") == 1
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert files_in(folder) == before
    assert not (folder / "runs").exists()
