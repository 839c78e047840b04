"""Every recipe that needs no file of anybody's trains, predicts, is looked at and is served."""

import re
import shlex

import pytest

from recipe_runs import recipes, sent, small_corpora, trained
from regard import config
from regard.cli import cli
from regard.jobs import JOBS
from regard.report.model_card import next_commands
from regard.tasks.result import Scores
from regard.tasks.text.translation import add_alignment_error

pytestmark = pytest.mark.slow  # every recipe is trained for a few steps


def test_every_job_has_a_recipe_that_needs_no_file():
    assert {config.read(name).job for name in recipes()} == set(JOBS)


@pytest.mark.parametrize("name", recipes())
def test_check_says_of_every_job_what_it_will_cost(name):
    told = trained(name).estimates
    assert list(told) == ["parameters", "memory for training", "steps in an epoch", "time for an epoch"]
    assert int(told["steps in an epoch"].replace(",", "")) >= 1
    assert re.fullmatch(r"about [\d.]+ [kMG]B", told["memory for training"])
    assert re.match(r"about [\d.]+ (ms|s|min)", told["time for an epoch"])


@pytest.mark.parametrize("name", recipes())
def test_a_recipe_does_all_that_it_says(name):
    run, one, _ = trained(name)
    assert run.summary()["step"] > 0
    (found,) = run.predict([one])
    assert found.n_best
    record = run.look(one)
    assert record.attentions


def test_the_headline_alignment_error_is_chosen_on_validation_pairs():
    with small_corpora():
        scores = trained("translate-transformer").run.evaluate(["decoding.beam=1"], alignments=True)
    assert scores.notes["reading"].endswith("the best on validation pairs")
    heads = {row["aer"] for row in scores.details["alignment error by layer and head"]}
    assert scores.values["aer"] in heads

    def rows(*errors: float):
        return [{"layer": "0", "head": str(n), "reading": "argmax", "aer": error} for n, error in enumerate(errors)]

    chosen = Scores({})
    add_alignment_error(chosen, rows(0.3, 0.1), valid=rows(0.2, 0.4), details=False)  # another head is best on the test
    assert (chosen.values["aer"], chosen.values["aer_best_on_test"]) == (0.3, 0.1)


@pytest.mark.parametrize("name", recipes())
def test_a_recipe_is_served(name):
    pytest.importorskip("httpx", reason="tests of the service need httpx")
    testing = pytest.importorskip("fastapi.testclient", reason="the service needs the web extra")
    from regard.serve.app import create_app
    from regard.serve.errors import Limits

    made = trained(name)
    with testing.TestClient(
        create_app({name: made.run}, Limits(max_length=50_000)), base_url="http://127.0.0.1"
    ) as client:
        (about,) = client.get("/api/models").json()["models"]
        assert (about["job"], about["takes"]) == (made.run.recipe.job, list(made.run.job.input.kinds))
        text = sent(client, made)
        answer = client.post("/api/predict", json={"inputs": [text]})
        assert answer.status_code == 200, answer.text
        (told,) = answer.json()["predictions"]
        assert told["input"] == text
        looked = client.post("/api/look", json={"text": text})
        assert looked.status_code == 200, looked.text


@pytest.mark.parametrize("name", recipes())
def test_commands_that_a_run_prints_work(name, capsys):
    run = trained(name).run
    for command in next_commands(run.job, run.folder, run.summary()):
        _, verb, *words = shlex.split(command)
        if verb in ("predict", "look"):  # the others are quick to say, and slow to do
            cli.main([verb, *words], standalone_mode=False)
            assert capsys.readouterr().out
