"""Recipes: every mistake is named, with the field, the value and the nearest valid choice, and all of them at once."""

import json
import re
import time

import pytest
import yaml

from regard import config
from regard.errors import CallError

MINIMAL = {"job": "translate", "data": {"train": "pairs.tsv"}, "model": {"kind": "transformer"}}


def mistakes(*overrides, tree=MINIMAL):
    with pytest.raises(CallError) as caught:
        config.build(config.override(tree, overrides))
    return str(caught.value)


def test_every_packaged_recipe_reads():
    names = config.packaged_recipes()
    assert {"translate-recurrent", "translate-transformer"} <= set(names)
    for name in names:
        recipe = config.read(name)
        assert recipe.about, f"{name} has no line that says what it is"


def test_overrides_take_the_type_of_their_field():
    recipe = config.build(
        config.override(
            MINIMAL, ["model.width=64", "training.learning_rate=1e-3", "data.valid=none", "model.norm_first=no"]
        )
    )
    assert recipe.model.width == 64
    assert recipe.training.learning_rate == 1e-3
    assert recipe.model.norm_first is False


def test_a_text_that_looks_like_a_number_stays_a_text():
    assert config.build(config.override(MINIMAL, ["data.train=2016"])).data.train == "2016"


def test_equals_signs_in_values_are_kept():
    assert config.parse_override("data.train=a=b.tsv") == (("data", "train"), "a=b.tsv")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("model.widht=64", "model.widht: unknown key; did you mean 'width'?"),
        ("modle.width=64", "modle: unknown key; did you mean 'model'?"),
        ("training.schedule=inverse_sqr", "did you mean 'inverse_sqrt'?"),
        ("model.width=wide", "model.width='wide': should be a valid integer"),
        ("model.width=0", "model.width='0': should be greater than or equal to 1"),
        ("model.heads=5", "model.heads=5 must divide width=256; 1, 2, 4, 8, 16, 32 would"),
        ("model.kind=transfomer", "model.kind='transfomer': not known; did you mean 'transformer'?"),
        ("data.train=none", "data.train"),
        ("training.metric=blue", "training.metric='blue' is not a score that regard knows: give training.mode=min"),
        ("model=3", "model"),
        ("job=translat", "job='translat' is not a job that regard knows; did you mean 'translate'?"),
        ("model.tied=all", "and data.tokenizer.joint=true"),
    ],
)
def test_a_mistake_is_named_with_the_nearest_choice(override, said):
    assert said in mistakes(override)


def test_two_or_more_mistakes_come_together():
    said = mistakes("model.widht=64", "model.heads=5", "training.learning_rate=fast", "data.trian=x")
    assert said.startswith("4 mistakes in the recipe:")
    for part in ("model.widht: unknown", "model.heads=5 must divide", "learning_rate='fast'", "data.trian: unknown"):
        assert part in said


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["training.metric=bleu", "training.mode=min"], "mode='min' contradicts training.metric=bleu: a larger"),
        (["training.mode=max"], "training.mode='max' contradicts training.metric=loss: a smaller loss is better"),
        (["training.metric=bleu"], True),
        (["training.metric=accuracy", "training.mode=max"], True),
        (["training.metric=perplexity"], False),
        (["training.metric=beauty", "training.mode=max"], True),
    ],
)
def test_a_score_is_known_to_be_better_where_it_is_larger_or_smaller(overrides, said):
    if isinstance(said, str):
        assert said in mistakes(*overrides)
    else:
        assert config.build(config.override(MINIMAL, overrides)).training.larger_is_better is said


@pytest.mark.parametrize("order", [1, -1])
def test_another_kind_of_model_replaces_the_old_one_whole(order):
    recipe = config.read("translate-recurrent", ["model.kind=transformer", "model.width=64"][::order])
    assert (recipe.model.kind, recipe.model.width) == ("transformer", 64)


def test_the_ladder_reads_every_rung():
    tree = config.load_recipe(config.find("ladder"))
    rungs = [config.build(config.override(tree, variant.set)) for variant in config.read("ladder").variants]
    assert len({rung.model for rung in rungs}) == len(rungs) == 10


def test_settings_are_frozen():
    recipe = config.build(MINIMAL)
    with pytest.raises(ValueError, match="frozen"):
        recipe.training.seed = 3


def test_a_named_size_is_filled_in_and_can_be_changed():
    recipe = config.build(config.override(MINIMAL, ["model.size=base", "model.heads=16"]))
    model = recipe.model
    assert (model.width, model.feed_forward, model.heads, model.encoder_layers) == (512, 2048, 16, 6)
    resized = config.read("translate-transformer", ["model.heads=16", "model.size=base"]).model
    assert (resized.width, resized.heads) == (512, 16), "a size given on top replaces the recipe's own widths"


def test_a_recipe_may_extend_another(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("extends: translate-transformer\nmodel: {width: 32}\n")
    assert config.read(mine).model.width == 32
    assert config.read(mine).model.heads == config.read("translate-transformer").model.heads


def test_variables_of_the_environment(tmp_path, monkeypatch):
    mine = tmp_path / "mine.yaml"
    mine.write_text("extends: translate-transformer\ndata: {train: '${PAIRS:-a.tsv}', test: '${PAIRS_TEST}'}\n")
    with pytest.raises(CallError, match="needs the environment variable PAIRS_TEST"):
        config.read(mine)
    monkeypatch.setenv("PAIRS_TEST", "b.tsv")
    assert (config.read(mine).data.train, config.read(mine).data.test) == ("a.tsv", "b.tsv")
    monkeypatch.setenv("PAIRS", "c.tsv")
    assert config.read(mine).data.train == "c.tsv"


def test_yaml_mistakes_name_file_and_line(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("job: translate\nmodel: {width: 3\n")
    with pytest.raises(CallError, match=r"bad\.yaml, line 3"):
        config.read(bad)
    bad.write_text("job: translate\njob: translate\n")
    with pytest.raises(CallError, match=r"line 2: the key 'job' is given twice"):
        config.read(bad)
    bad.write_text("- job\n")
    with pytest.raises(CallError, match="a recipe is a mapping of sections"):
        config.read(bad)
    bad.write_bytes(b"job: \xff\n")
    with pytest.raises(CallError, match="not UTF-8"):
        config.read(bad)


BOMB = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10))])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "aliases repeat more than 100,000 values"),
        ("job: &a [*a]", "aliases repeat more than"),
        ("job: " + "[" * 5000, "nested too deeply"),
        ("job: " + "{a: " * 5000, "nested too deeply"),
        ("about: " + "x" * 2_000_000, "larger than 1,000,000 bytes"),
        ("about: " + "9" * 5000, "digits"),
        ("about: 2024-13-45", "month must be in"),
        ("job: [translate]", "is not a job that regard knows"),
        ("1: 2\njob: translate", "1=1: Keys should be strings"),
        ("extends: 3", "extends=3 is neither a recipe's name"),
    ],
    ids=lambda text: text[:20],
)
def test_a_hostile_recipe_is_refused_at_once(tmp_path, text, said):
    bad = tmp_path / "bad.yaml"
    bad.write_text(text)
    begun = time.thread_time()  # of the processor: other work on the machine does not count
    with pytest.raises(CallError, match=said):
        config.read(bad)
    assert time.thread_time() - begun < 5


@pytest.mark.parametrize("value", ["[" * 5000, "{a: " * 5000, "[&a [*a]]", "[2024-13-45]"])
def test_a_hostile_value_is_refused(value):
    with pytest.raises(CallError, match="the value opens a list or mapping that YAML cannot read"):
        config.read("translate-transformer", [f"needs={value}"])


def test_recipes_that_extend_themselves_are_refused(tmp_path):
    one, other = tmp_path / "one.yaml", tmp_path / "other.yaml"
    one.write_text(f"extends: {one}\n")
    with pytest.raises(CallError, match="extends is circular"):
        config.read(one)
    one.write_text(f"extends: {other}\n")
    other.write_text(f"extends: {one}\n")
    with pytest.raises(CallError, match=r"extends is circular: .*one\.yaml → .*other\.yaml → .*one\.yaml"):
        config.read(one)


def test_a_folder_or_an_unreadable_file_is_no_recipe(tmp_path):
    with pytest.raises(CallError, match="is a folder, but a recipe is a YAML file"):
        config.read(tmp_path)
    with pytest.raises(CallError, match="cannot be read"):
        config.load_yaml(tmp_path)


def test_yaml_cannot_execute(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("job: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(CallError, match="could not determine a constructor"):
        config.read(bad)


def test_an_unknown_recipe_suggests_one():
    with pytest.raises(CallError, match="did you mean 'translate-transformer'"):
        config.read("translate-transfromer")


@pytest.mark.parametrize("name", list(config.packaged_recipes()))
def test_show_is_a_recipe_again_with_help_for_every_field(name):
    recipe = config.read(name)
    text = config.show(recipe)
    assert config.build(yaml.safe_load(text)) == recipe
    fields = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    helped = [line for line in fields if re.search(r"# \w", line) or line.endswith(":")]
    assert helped == fields


def printed(tree, path=()):
    """Every field of a recipe as a setting of the command line, with its value as a person would write it."""
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from printed(value, (*path, name))
        else:
            text = value if isinstance(value, str) else yaml.safe_dump(value, default_flow_style=True, width=10**6)
            yield f"{'.'.join((*path, name))}={text.removesuffix(chr(10)).removesuffix(chr(10) + '...')}"


@pytest.mark.parametrize("name", list(config.packaged_recipes()))
def test_every_field_can_be_set_to_the_value_that_it_has(name):
    recipe = config.read(name)
    for setting in printed(config.as_tree(recipe)):
        assert config.read(name, [setting]) == recipe, setting


def test_a_number_among_choices_is_a_number_on_the_command_line():
    assert config.read("digits-vit", ["data.channels=3"]).data.channels == 3
    with pytest.raises(CallError, match=r"data\.channels=2: not known; choose from 1, 3"):
        config.read("digits-vit", ["data.channels=2"])


@pytest.mark.parametrize("by", ["override", "extends"])
def test_ones_own_data_is_not_scored_on_that_of_the_recipe(by, tmp_path, capsys):
    if by == "extends":
        mine = tmp_path / "mine.yaml"
        mine.write_text("extends: encode-transformer\ndata: {train: pairs.tsv}\n")
        recipe = config.read(mine)
    else:
        recipe = config.read("encode-transformer", ["data.train=pairs.tsv"])
    assert recipe.data.test is None
    assert recipe.about == "encode-transformer on pairs.tsv"
    assert "data.test=corpus:pocket of encode-transformer is ignored" in capsys.readouterr().err
    kept = config.read("encode-transformer", ["data.train=pairs.tsv", "data.test=test.tsv"])
    assert kept.data.test == "test.tsv"
    assert config.read("encode-transformer", ["data.train=corpus:pocket"]).data.test == "corpus:pocket"
    assert capsys.readouterr().err == ""
    assert config.read("translate-recurrent").expected is not None
    assert config.read("translate-recurrent", ["data.train=pairs.tsv"]).expected is None


def test_ones_own_data_does_not_lie_as_that_of_the_recipe(capsys):
    data = config.read("flickr8k-caption", ["data.train=mine.tsv", "data.caption=said"]).data
    assert (data.files, data.image, data.split, data.caption) == (None, None, None, "said")
    assert "data.files=" in capsys.readouterr().err


def test_the_schema_knows_the_fields():
    schema = config.schema()
    json.dumps(schema)
    assert "width" in schema["$defs"]["TransformerSettings"]["properties"]
    assert schema["$defs"]["TransformerSettings"]["additionalProperties"] is False
