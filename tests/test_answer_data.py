"""Questions from files: what is read, what is refused and where, windows, stores and batches."""

import json
from typing import NamedTuple

import numpy as np
import pytest
import torch

from regard.corpora import texts
from regard.data.examples import ExampleBatches
from regard.data.pairs import SkippedLine
from regard.data.tokenizer import Tokenizer
from regard.data.windows import windows
from regard.errors import CallError, RegardError
from regard.inputs.question.files import QuestionSource
from regard.inputs.question.windows import QuestionDataSettings, encode_document
from regard.job import Job, make_job
from regard.tasks.span.output import SpanOutput
from regard.tasks.span.settings import AnswerRecipe

DOCUMENT = "Ada met Ben in Bern. Ben left Bern at noon."


def squad(*asked, context=DOCUMENT):
    return json.dumps({"version": "1.1", "data": [{"title": "x", "paragraphs": [{"context": context, "qas": asked}]}]})


def asked(name, *answers, **more):
    found = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": f"Who is {name}?", "answers": found, **more}


def columns_of(**said):
    return QuestionDataSettings(train="", **said).columns


def read(file, **how):
    return list(QuestionSource(str(file), **{"columns": columns_of(), **how}).read())


# ---------------------------------------------------------------------------------------------------------- formats
def test_squad_with_several_answers_and_places(tmp_path):
    file = tmp_path / "dev.json"
    file.write_text(squad(asked("a", ("Ben", 21), ("Bern", 15)), asked("b", ("Ben", 20)), asked("c", ("Zoe", 0))))
    first, moved, lost = read(file)
    assert first.texts == ["Ben", "Bern"]
    assert first.answers == ((21, 24), (15, 19))
    assert (moved.answers, moved.placed) == (((21, 24),), "moved")  # the nearest Ben, not the first
    assert isinstance(lost, SkippedLine)
    assert (lost.kind, lost.line) == ("not found", 3)
    assert "data[0].paragraphs[0], id c" in lost.reason


def test_questions_without_an_answer(tmp_path):
    file = tmp_path / "v2.json"
    file.write_text(squad(asked("a", is_impossible=True, plausible_answers=[{"text": "Ben"}]), asked("b", ("Ada", 0))))
    silent, spoken = read(file, no_answer=True)
    assert (silent.answers, spoken.texts) == ((), ["Ada"])
    refused, _ = read(file)
    assert refused.kind == "empty"
    assert "data.no_answer=true" in refused.reason


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "is not in SQuAD's format"),
        ('{"data": [{}]}', r"data\[0\] has no list 'paragraphs'"),
    ],
)
def test_what_is_not_squad_is_refused(tmp_path, text, said):
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(CallError, match=said):
        read(file)


@pytest.mark.parametrize(("name", "separator"), [("x.tsv", "\t"), ("x.csv", ",")])
def test_tables_with_and_without_header_and_start(tmp_path, name, separator):
    rows = [
        ["Who left?", DOCUMENT, "Ben", "21"],
        ["Who met Ben?", DOCUMENT, "Ada", ""],
        ["When?", DOCUMENT, "dawn", ""],
    ]
    file = tmp_path / name
    file.write_text("\n".join(separator.join(row) for row in rows) + "\n\n")
    given, only, lost, blank = read(file)
    assert (given.answers, given.placed) == (((21, 24),), "given")
    assert (only.answers, only.placed) == (((0, 3),), "only")
    assert (lost.kind, lost.line, lost.text) == ("not found", 3, "dawn")
    assert blank.kind == "blank"
    turned = [["id", "document", "answer", "question"], ["7", DOCUMENT, "Ben", "Who left?"]]
    file.write_text("\n".join(separator.join(row) for row in turned))
    (first,) = read(file)
    assert (first.question, first.answers, first.placed) == ("Who left?", ((8, 11),), "first")
    columns = columns_of(question=3, document=1, answer=2, header=True)
    assert read(file, columns=columns) == [first]
    with pytest.raises(CallError, match=r"no such column: data\.answer='anwser'; did you mean 'answer'"):
        read(file, columns=columns_of(answer="anwser"))


def test_jsonl_with_lists_and_paths_into_objects(tmp_path):
    file = tmp_path / "x.jsonl"
    good = {"question": "Who?", "context": DOCUMENT, "answers": {"text": ["Ada", "Ben"], "answer_start": [0, 21]}}
    uneven = {**good, "answers": {"text": ["Ada", "Ben"], "answer_start": [0]}}
    file.write_text("\n".join([json.dumps(good), json.dumps(uneven), json.dumps({"question": 3}), "nonsense"]))
    columns = columns_of(document="context", answer="answers.text", start="answers.answer_start")
    first, second, third, fourth = read(file, columns=columns)
    assert first.answers == ((0, 3), (21, 24))
    assert (second.line, second.reason) == (2, "2 answers and 1 starts")
    assert third.reason == "no field 'context'; it has question (set data.document)"
    assert (fourth.kind, fourth.line) == ("unreadable", 4)


# ------------------------------------------------------------------------------------------------ tokens and windows
def test_tokens_of_characters():
    tokenizer = Tokenizer.train([DOCUMENT], "word")
    document = encode_document(tokenizer, DOCUMENT)
    first, last = document.tokens_of(15, 19)
    assert DOCUMENT[document.chars[first, 0] : document.chars[last, 1]] == "Bern"
    assert document.tokens_of(16, 22) == (4, 6)  # ern. B: whole tokens
    assert document.tokens_of(20, 20) is None


def test_windows_cover_all_and_overlap():
    assert windows(5, 8, 3) == [(0, 5)]
    assert windows(8, 8, 3) == [(0, 8)]
    assert windows(19, 8, 3) == [(0, 8), (5, 13), (10, 18), (15, 19)]
    for tokens, size, overlap in ((100, 17, 5), (23, 4, 3), (7, 7, 0)):
        found = windows(tokens, size, overlap)
        for start in range(tokens - overlap + 1):  # what is no longer than the overlap stands whole in one of them
            assert any(a <= start and start + overlap <= b for a, b in found)


def settings(file, **more):
    how = {"train": str(file), "valid": str(file), "tokenizer": {"kind": "word"}, "max_length": 13, "max_question": 4}
    return QuestionDataSettings.model_validate({**how, "overlap": 2, **more})


@pytest.fixture
def questions(tmp_path):
    file = tmp_path / "q.tsv"
    lines = [f"Who is {n}?\t{'so ' * n}Ada met Ben. {'and ' * (7 - n)}\tBen\n" for n in range(8)]
    file.write_text("".join(lines * 5))
    return file


class Prepared(NamedTuple):
    job: Job
    splits: dict


def prepare_questions(settings, cache, *, strict=True) -> Prepared:
    job = make_job(AnswerRecipe.model_validate({"job": "answer", "data": settings, "model": {"kind": "recurrent"}}))
    return Prepared(job, job.input.prepare(cache, job.output, strict=strict))


def batches_of(prepared, max_tokens):
    examples = prepared.splits["train"]
    return ExampleBatches(examples, lambda targets: SpanOutput.collate(None, targets), max_tokens, seed=3), examples


def test_targets_stand_in_their_windows(tmp_path, questions):
    prepared = prepare_questions(settings(questions), tmp_path / "cache")
    batches, examples = batches_of(prepared, 200)
    ben = prepared.job.input.tokenizer.encode("Ben")[0]
    seen = answered = 0
    for batch in batches.epoch(0):
        for document, (start, end) in zip(batch.source.document, batch.target.tolist(), strict=True):
            seen += 1
            if start:
                answered += 1
                assert start == end
                assert document[start - 1] == ben
            else:
                assert end == 0
                assert ben not in document
    assert seen == len(examples) > len(examples.store) == 40
    assert answered >= 40


def test_batches_keep_to_their_budget_and_go_on_anywhere(tmp_path, questions):
    prepared = prepare_questions(settings(questions), tmp_path / "cache")
    batches, examples = batches_of(prepared, 60)
    whole = list(batches.epoch(2))
    sides = [batch.source for batch in whole]
    assert all(len(b.question) * (b.question.shape[1] + 3 + b.document.shape[1]) <= 60 for b in sides)
    again = list(batches_of(prepared, 60)[0].epoch(2, start=4))
    assert len(again) == len(whole) - 4 == batches.len_epoch(2) - 4
    for one, other in zip(whole[4:], again, strict=True):
        assert torch.equal(one.source.document, other.source.document)
        assert torch.equal(one.target, other.target)
    halves = [list(batches.epoch(2, rank=rank, world=2)) for rank in (0, 1)]
    rows = [sum(int((batch.target[:, 0] >= 0).sum()) for batch in half) for half in halves]
    assert sum(rows) == len(examples)  # a process without a share has a row that counts nothing


def test_held_out_questions_are_about_other_documents(tmp_path, questions):
    prepared = prepare_questions(settings(questions, valid=None, valid_share=0.4), tmp_path / "cache")
    kept, held = ({one.input.document for one in prepared.splits[role].examples(99)} for role in ("train", "valid"))
    assert kept
    assert held
    assert not kept & held


# ---------------------------------------------------------------------------------------------------------- the check
def test_check_names_file_and_place(tmp_path):
    file = tmp_path / "q.tsv"
    rows = [
        ("Who left?", DOCUMENT, "Ben", "21"),
        ("Who left?", DOCUMENT, "Ben", "20"),  # moved
        ("Who?", DOCUMENT, "Ben", ""),  # twice in the document
        ("Who?", DOCUMENT, "Zoe", ""),  # not in it
        ("Who?", DOCUMENT, "", ""),  # no answer
        ("Where in Bern is it?", DOCUMENT, "ern", "16"),  # inside a token; too long a question
    ]
    file.write_text("".join("\t".join(row) + "\n" for row in rows))
    how = settings(file, max_bad=0.5)
    prepared = prepare_questions(how, tmp_path / "cache", strict=False)
    report = prepared.job.output.check(prepared.splits)
    found = {finding.what: finding for finding in report.findings if finding.split == "train"}
    for said, lines in (
        ("does not occur in the document", [4]), ("the answer is empty", [5]), ("at another place than", [2]),
        ("occurs several times in the document", [3]), ("inside a token", [6]), ("longer than data.max_question", [6]),
        ("read in several windows", [1, 2, 3, 6]),
    ):  # fmt: skip
        (finding,) = [finding for what, finding in found.items() if said in what]
        assert (finding.file, finding.lines) == (str(file), lines)
    with pytest.raises(RegardError, match="2 of 6 lines"):
        prepare_questions(settings(file), tmp_path / "cache")


# -------------------------------------------------------------------------------------------------------- the corpus
def test_stories_are_disjoint_and_answers_stand_where_they_say():
    splits = {split: texts.load(split) for split in texts.SPLITS}
    documents = [{one.document for one in splits[split]} for split in texts.SPLITS]
    assert not documents[0] & documents[1]
    assert not documents[0] & documents[2]
    assert not documents[1] & documents[2]
    assert len(splits["train"]) > 20_000
    for one in splits["test"]:
        assert one.document.startswith(one.answer, one.start)
    with pytest.raises(CallError, match="no split 'dev'"):
        texts.load("dev")


def test_stories_with_now_are_answered_by_the_last_event():
    for one in texts.load("test"):
        if one.question.startswith("Where is the "):
            thing = one.question.removeprefix("Where is the ").removesuffix(" now?")
            told = [s for s in one.document.split(". ") if thing in s and (" put " in s or " moved " in s)]
            assert one.answer in told[-1]
    words = np.mean([len(one.document.split()) for one in texts.load("test")])
    assert 40 < words < 90
