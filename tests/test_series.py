"""Tables of times and numbers: nothing leaks from the future, and whatever is wrong is named with file and line."""

import gzip
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
import torch

from regard import api
from regard.corpora.series import LAG, lag
from regard.errors import CallError, RegardError
from regard.inputs.series.input import build_encoder
from regard.inputs.series.item import Fitted, Scaler
from regard.inputs.series.panel import load_panel
from regard.inputs.series.prepare import SeriesBatch, WindowBatches, prepare_windows
from regard.inputs.series.settings import WindowSettings
from regard.inputs.series.table import Roles, find_roles, read_table
from regard.inputs.series.times import (
    Step,
    as_number,
    calendar,
    date_format,
    find_step,
    has_thousands,
    labels,
    with_points,
    without_signs,
)
from regard.inputs.series.windows import WindowLayout, cut_times
from regard.metrics.series import Errors
from regard.models.forecaster import Forecaster, pinball
from regard.tasks.values.output import build_forecaster
from regard.tasks.values.scoring import Baselines, naive_errors
from regard.tasks.values.settings import PatchForecasterSettings, RecurrentForecasterSettings


def seconds(text):
    return as_number(text, None)[0]


def days(count, start="2024-01-01"):
    return np.datetime_as_string(np.datetime64(start) + np.arange(count), unit="D").tolist()


def settings(file, **changes):
    return WindowSettings(**{"train": str(file), "look_back": 5, "horizon": 3, "split": [0.6, 0.2, 0.2]} | changes)


def forecaster(how, lay):
    return build_forecaster(how, build_encoder(how, lay.inputs, lay.look_back), lay)


def write(file, lines):
    file.write_text("\n".join(lines) + "\n")
    return file


def table(tmp_path, count=40, seed=1):
    chance = np.random.default_rng(seed)
    numbers = chance.standard_normal((count, 2)).round(4)
    rows = [f"{day},{a},{b}" for day, (a, b) in zip(days(count), numbers, strict=True)]
    return write(tmp_path / "table.csv", ["date,a,b", *rows]), numbers


# --------------------------------------------------------------------------------------------------------------- times
@pytest.mark.parametrize(
    ("times", "step", "following"),
    [
        (["2024-01-01", "2024-01-02", "2024-01-03"], Step("seconds", 86400.0), "2024-01-04"),
        (["2024-01-01 00:00", "2024-01-01 00:15"], Step("seconds", 900.0), "2024-01-01 00:30"),
        (["2024-01-01", "2024-02-01", "2024-03-01"], Step("months", 1.0), "2024-04-01"),
        (["2023-12-31", "2024-01-31", "2024-02-29", "2024-03-31"], Step("months", 1.0), "2024-04-30"),
        (["2023-12-30", "2024-01-30", "2024-02-29", "2024-03-30"], Step("months", 1.0), "2024-04-30"),
        (["2022-11-30", "2022-12-30", "2023-01-30", "2023-02-28"], Step("months", 1.0), "2023-03-30"),
        (["2022-12-28", "2023-01-28", "2023-02-28"], Step("months", 1.0), "2023-03-28"),
        (["2022-12-29 12:00", "2023-01-29 12:00", "2023-02-28 12:00"], Step("months", 1.0), "2023-03-29 12:00"),
        (["2000-01-15", "2000-04-15", "2000-07-15"], Step("months", 3.0), "2000-10-15"),
        (["2022-11-30", "2023-02-28", "2023-05-30", "2023-08-30"], Step("months", 3.0), "2023-11-30"),
        (["2019-02-28", "2020-02-29", "2021-02-28"], Step("months", 12.0), "2022-02-28"),
        (["2001", "2002", "2003"], Step("number", 1.0), "2004"),
    ],
)
def test_the_step_is_found_and_goes_on(times, step, following):
    read = [as_number(time, None) for time in times]
    numbers, dates = np.array([time for time, _ in read]), read[0][1]
    found = find_step(numbers, dates)
    assert found == step
    np.testing.assert_allclose(np.diff(found.places(numbers)), 1, atol=1e-9)
    assert labels(found.after(numbers[-1], 1), dates) == [following]


def test_working_days_leave_no_gap_at_weekends():
    week = [day for day in days(14) if np.is_busday(day)]  # from a Monday
    times = np.array([seconds(day) for day in week])
    step = find_step(times, True)
    assert step == Step("weekdays", 1.0)
    np.testing.assert_array_equal(np.diff(step.places(times)), 1)
    assert labels(step.after(times[-1], 2), True) == ["2024-01-15", "2024-01-16"]  # Friday → Monday, Tuesday


def test_times_are_read_as_people_write_them():
    assert as_number("1970-01-02", None) == (86400.0, True)
    assert as_number("1970-01-01T01:00:00+01:00", None) == (0.0, True)
    assert as_number("19700102", None) == (86400.0, True)
    assert as_number("86400", None) == (86400.0, False)
    assert as_number("02.01.1970", "%d.%m.%Y") == (86400.0, True)
    assert as_number("1700000000", None) == as_number("1700000000000", None) == (1_700_000_000.0, True)
    assert as_number("1970-Q2", date_format(["1970-Q1", "1970-Q2"], "when")) == (90 * 86400.0, True)
    assert labels(np.array([0.0, 5400.0]), True) == ["1970-01-01 00:00", "1970-01-01 01:30"], "no seconds, if all are 0"
    assert labels(np.array([0.0, 5401.0]), True)[1] == "1970-01-01 01:30:01"
    signed = without_signs(["$1,234.50", "5%", "- 3 €", "1,5", "a 5%"])
    assert with_points(signed, thousands=has_thousands(signed)) == ["1234.50", "5", "-3", "1,5", "a 5%"]
    with pytest.raises(ValueError, match=r"'Tuesday' is not an ISO date and not a number; set data\.time_format"):
        as_number("Tuesday", None)


def test_the_calendar_is_a_circle():
    noon_and_next = np.array([seconds("2024-01-01 12:00"), seconds("2024-01-02 12:00")])
    waves = calendar(noon_and_next, ["hour", "weekday"])
    np.testing.assert_allclose(waves[:, :2], [[0, -1], [0, -1]], atol=1e-9)  # sin, cos of half a day
    monday = 2 * np.pi * 0.5 / 7  # 2024-01-01 was a Monday
    np.testing.assert_allclose(waves[0, 2:], [np.sin(monday), np.cos(monday)], atol=1e-9)


# --------------------------------------------------------------------------------------------- windows without a leak
def test_windows_are_the_rows_they_should_be(tmp_path):
    file, numbers = table(tmp_path)
    prepared = prepare_windows(settings(file))
    train = prepared.windows["train"]
    assert [len(prepared.windows[part]) for part in ("train", "valid", "test")] == [24 - 8 + 1, 8 - 3 + 1, 8 - 3 + 1]
    scaled = prepared.fitted.scaler.scaled(numbers)
    np.testing.assert_allclose(prepared.fitted.scaler.mean, numbers[:24].mean(0))
    np.testing.assert_allclose(prepared.fitted.scaler.deviation, numbers[:24].std(0))
    batch = train.cut(np.array([2, 0]))
    np.testing.assert_allclose(batch.past[0], scaled[2:7], rtol=1e-5)
    np.testing.assert_allclose(batch.target[0], scaled[7:10], rtol=1e-5)
    first = prepared.windows["test"].cut(np.array([0]))  # reads back into the validation part, says only its own
    np.testing.assert_allclose(first.past[0], scaled[27:32], rtol=1e-5)
    np.testing.assert_allclose(first.target[0], scaled[32:35], rtol=1e-5)


@pytest.mark.parametrize("gaps", ["refuse", "fill"])
def test_nothing_leaks_from_the_future(tmp_path, gaps):
    """Change all that comes after the training part: no scale, no window, no baseline of training changes."""
    file, numbers = table(tmp_path)
    before = prepare_windows(settings(file, gaps=gaps))
    changed = numbers.copy()
    changed[24:] = 1e6 * np.random.default_rng(5).standard_normal((16, 2))
    rows = [f"{day},{a},{b}" for day, (a, b) in zip(days(40), changed, strict=True)]
    after = prepare_windows(settings(write(tmp_path / "other.csv", ["date,a,b", *rows]), gaps=gaps))
    for name, one in (("before", before), ("after", after)):
        (tmp_path / name).mkdir()
        one.fitted.save(tmp_path / name)
        Baselines.fit(one.windows["train"], one.windows["train"], one.fitted.scaler, 3).save(tmp_path / name)
    files = [{file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("before", "after")]
    assert set(files[0]) == {"series.json", "baselines.safetensors"}
    assert files[0] == files[1]
    assert before.windows["train"].digest() == after.windows["train"].digest()
    assert before.windows["test"].digest() != after.windows["test"].digest()
    everything = np.arange(len(before.windows["train"]))
    one, other = (prepared.windows["train"].cut(everything) for prepared in (before, after))
    assert np.array_equal(one.past, other.past)
    assert np.array_equal(one.target, other.target)


def test_filling_takes_only_what_was_there_before(tmp_path):
    rows = [f"{day},{value},1" for value, day in enumerate(days(30)) if value not in (10, 11)]
    rows[20] = rows[20].split(",")[0] + ",,1"  # day 22: an empty cell
    file = write(tmp_path / "gap.csv", ["date,a,b", *rows])
    panel = load_panel(file, find_roles(file, settings(file)), settings(file, gaps="fill"))
    expected = [*range(10), 9, 9, *range(12, 22), 21, *range(23, 30)]
    np.testing.assert_array_equal(panel.series[0].values[:, 0], expected)


def test_series_are_divided_at_one_moment(tmp_path):
    """A series that began later has a shorter training part: what others knew only later stays in the future."""
    rows = [f"{day},x,{n}" for n, day in enumerate(days(40))]
    rows += [f"{day},y,{n}" for n, day in enumerate(days(20, "2024-01-21"))]
    file = write(tmp_path / "two.csv", ["date,id,a", *rows])
    how = settings(file, id="id", targets="a")
    prepared = prepare_windows(how)
    end, _, _ = cut_times(prepared.windows["train"].panel, how)
    assert end == seconds("2024-01-25")
    train = prepared.windows["train"]
    assert (train.times[train.starts + train.layout.rows - 1] < end).all()
    scaler = prepared.fitted.scaler
    assert set(naive_errors(train, scaler, 3)) == {"x", "y"}
    assert set(naive_errors(train, scaler, 4)) == {"x"}  # the other has four days of training


def test_no_window_crosses_a_gap(tmp_path):
    rows = [f"{day},{value}" for value, day in enumerate(days(60)) if value not in (20, 21)]
    file = write(tmp_path / "gap.csv", ["date,a", *rows])
    prepared = prepare_windows(settings(file, gaps="split"))
    assert [len(one) for one in prepared.windows["train"].panel.series] == [20, 38]
    for windows in prepared.windows.values():
        for number in range(len(windows)):
            start = windows.starts[number]
            np.testing.assert_array_equal(np.diff(windows.times[start : start + 8]), 86400)


def test_the_order_of_batches_is_that_of_seed_and_epoch(tmp_path):
    file, _ = table(tmp_path)
    train = prepare_windows(settings(file)).windows["train"]
    batches = WindowBatches(train, 8 * 5, seed=3)
    assert batches.len_epoch(0) == 4  # 17 windows, 5 at a time
    whole: list[Any] = list(batches.epoch(1))
    again: list[Any] = list(batches.epoch(1, start=2))
    first: Any = next(batches.epoch(2))
    assert torch.equal(whole[2].past, again[0].past)
    assert not torch.equal(whole[0].past, first.past)
    shares: list[list[Any]] = [list(batches.epoch(1, rank=rank, world=2)) for rank in (0, 1)]
    both = torch.cat([shares[0][0].target, shares[1][0].target])
    assert torch.equal(both.sort(0).values, whole[0].target.sort(0).values)


def test_converted_windows_hold_no_target(tmp_path):
    file, numbers = table(tmp_path)
    prepared = prepare_windows(settings(file, mode="convert", targets="a", past="b"))
    scaled = prepared.fitted.scaler.scaled(numbers)
    batch = prepared.windows["train"].cut(np.array([4]))
    np.testing.assert_allclose(batch.past[0, :, 0], scaled[4:9, 1], rtol=1e-5)
    np.testing.assert_allclose(batch.target[0, :, 0], scaled[6:9, 0], rtol=1e-5)


def test_fitted_comes_back_as_it_went(tmp_path):
    file, _ = table(tmp_path)
    fitted = prepare_windows(settings(file)).fitted
    fitted.save(tmp_path)
    again = Fitted.load(tmp_path)
    assert (again.roles, again.step, again.dates) == (fitted.roles, fitted.step, fitted.dates)
    np.testing.assert_array_equal(again.scaler.deviation, fitted.scaler.deviation)
    (tmp_path / "series.json").write_text("{}")
    with pytest.raises(RegardError, match="the scales of the run cannot be read"):
        Fitted.load(tmp_path)


def test_parquet_and_packed_csv_give_the_same(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'regard[parquet]'")
    from pyarrow import parquet

    file, numbers = table(tmp_path)
    packed = tmp_path / "table.csv.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    columns = {"date": np.array(days(40), dtype="datetime64[D]"), "a": numbers[:, 0], "b": numbers[:, 1]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "table.parquet")
    digests = {
        prepare_windows(settings(one)).windows["train"].digest() for one in (file, packed, tmp_path / "table.parquet")
    }
    assert len(digests) == 1


# ----------------------------------------------------------------------------------------------------------- bad input
GOOD = [f"{day},{n},{n % 5}" for n, day in enumerate(days(40))]
BAD = {
    "a string among numbers": (
        {7: "2024-01-08,seven,2"}, "a: 'seven' is not a number", [9], "they count as missing"),
    "an infinity": ({7: "2024-01-08,inf,2"}, "infinity cannot be learned", [9], "they count as missing"),
    "an empty cell": ({5: "2024-01-06,,0", 9: "2024-01-10,9,NaN"}, "2 lines with an empty cell", [7, 11], "filled"),
    "a missing day": ({5: None}, "1 missing step of 1 day in 1 gaps", [7], "filled"),
    "a time given twice": ({5: "2024-01-05,5,0"}, "1 time given twice", [7], "the last line of each is used"),
    "times out of order": ({5: GOOD[6], 6: GOOD[5]}, "1 time earlier than the line before", [8], "sorted"),
    "an irregular time": ({5: "2024-01-06 07:00,5,0"}, "off the step of 1 day", [7, 8], "filled"),
    "too few columns": ({5: "2024-01-06,5"}, "2 columns where the first line has 3", [7], "they count as missing"),
    "no time": ({5: ",5,0"}, "date: the time is missing", [7], "they count as missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_lines_are_named_with_file_and_line(name, tmp_path):
    changes, what, lines, done = BAD[name]
    rows = [changes.get(number, row) for number, row in enumerate(GOOD)]
    file = write(tmp_path / "bad.csv", ["date,a,b", *(row for row in rows if row is not None)])
    how = settings(file, gaps="fill", max_bad=0.05)
    findings = prepare_windows(how, strict=False).findings
    finding = next(one for one in findings if what in one.what)
    assert sum(one.lines == lines for one in findings) == 1, "a bad cell is told once, and not as an empty one, too"
    assert finding.severity == "warning"
    assert finding.file == str(file)
    assert finding.lines == lines
    assert done in finding.advice
    if name != "times out of order":  # sorting loses nothing
        with pytest.raises(RegardError, match="cannot be trained on") as refused:
            prepare_windows(settings(file))
        assert what in str(refused.value)


def test_a_change_to_summer_time_and_back_is_one_missing_and_one_doubled_hour(tmp_path):
    """Local times of Berlin: hours stay the step; `refuse` names both lines, `fill` leaves regular hours."""
    summer, winter = datetime(2023, 3, 26, 1), datetime(2023, 10, 29, 1)  # UTC
    times = [datetime(2023, 3, 20) + timedelta(hours=n) for n in range(24 * 230)]
    hours = [time + timedelta(hours=2 if summer <= time < winter else 1) for time in times]
    file = write(tmp_path / "load.csv", ["time,a", *(f"{hour},{n % 24}" for n, hour in enumerate(hours))])
    found = prepare_windows(settings(file, gaps="fill", targets="a"), strict=False)
    assert found.fitted.step == Step("seconds", 3600.0)
    lines = {one.what: one.lines for one in found.findings}
    assert lines["1 missing step of 1 hour in 1 gaps"] == [hours.index(datetime(2023, 3, 26, 3)) + 2]
    assert lines["1 time given twice"] == [hours.index(datetime(2023, 10, 29, 2)) + 3]
    with pytest.raises(RegardError, match="1 missing step of 1 hour") as refused:
        prepare_windows(settings(file, targets="a"))
    assert "1 time given twice" in str(refused.value)


def test_mixed_frequencies_and_constant_columns_are_named(tmp_path):
    hours = [f"2024-02-10 {hour:02}:30,{hour},7" for hour in range(24)]
    file = write(tmp_path / "mixed.csv", ["date,a,b", *(f"{day},{n},7" for n, day in enumerate(days(40))), *hours])
    found = [one.what for one in prepare_windows(settings(file, gaps="split"), strict=False).findings]
    assert any("mixed frequencies" in what for what in found)
    assert any("column 'b' never changes: it is 7" in what for what in found)


def test_too_many_bad_lines_are_refused_even_when_gaps_are_filled(tmp_path):
    rows = [row if n % 4 else row.replace(f",{n},", ",oops,") for n, row in enumerate(GOOD)]
    file = write(tmp_path / "bad.csv", ["date,a,b", *rows])
    with pytest.raises(RegardError, match=r"25\.0% of all lines are bad, data\.max_bad allows 1\.0%"):
        prepare_windows(settings(file, gaps="fill", targets="a,b"))


def test_what_makes_a_table_unusable_is_said(tmp_path):
    with pytest.raises(CallError, match="there is no such file"):
        prepare_windows(settings(tmp_path / "none.csv"))
    file, _ = table(tmp_path)
    with pytest.raises(CallError, match=r"there is no column data\.targets='c'"):
        prepare_windows(settings(file, targets="c"))
    with pytest.raises(RegardError, match="not one window of look_back=50"):
        prepare_windows(settings(file, look_back=50))
    numbers = write(tmp_path / "mix.csv", ["time,a", "1,1", "2024-01-01,2"])
    with pytest.raises(RegardError, match="dates and plain numbers"):
        prepare_windows(settings(numbers))
    far = write(tmp_path / "far.csv", ["date,a", "2024-01-01 00:00:00,1", "2024-01-01 00:00:01,2", "2034-01-01,3"])
    with pytest.raises(RegardError, match="filling the gaps of a step of 1 second would make"):
        prepare_windows(settings(far, gaps="fill"))


def test_tables_without_a_header_or_a_clock_are_understood(tmp_path):
    file, numbers = table(tmp_path)
    lines = file.read_text().splitlines()[1:]
    expected = prepare_windows(settings(file)).windows["train"].rows
    bare = prepare_windows(settings(write(tmp_path / "bare.csv", lines)))
    assert bare.fitted.roles == Roles("column 1", None, ("column 2", "column 3"), (), ())
    assert np.array_equal(bare.windows["train"].rows, expected)
    untimed = write(tmp_path / "untimed.csv", ["a,b", *(line.partition(",")[2] for line in lines)])
    found = prepare_windows(settings(untimed))
    assert (found.fitted.roles.time, found.fitted.roles.targets) == (None, ("a", "b"))
    assert np.array_equal(found.windows["train"].rows, expected)
    rising = write(tmp_path / "rising.csv", ["t,a", *(f"{0.5 * n},{a}" for n, (a, _) in enumerate(numbers))])
    assert find_roles(rising, settings(rising)).time == "t"


WRITTEN = {
    "german": (";", "%d.%m.%Y", lambda x: f"{x + 1000:,.2f}".translate(str.maketrans(",.", ".,"))),
    "french": ("\t", "%d/%m/%Y %H:%M", lambda x: f"{x + 1000:.2f}".replace(".", ",")),
    "american": (",", "%m/%d/%Y", lambda x: f"{x + 1000:.2f}"),
    "quoted": (",", "%Y-%m-%d", lambda x: f'"{x + 1000:.2f}"'.replace(".", ",")),
}


@pytest.mark.parametrize("header", [["date", "a", "b"], []], ids=["header", "bare"])
@pytest.mark.parametrize("how", WRITTEN)
def test_numbers_and_dates_are_read_as_they_are_written_elsewhere(how, header, tmp_path):
    delimiter, form, number = WRITTEN[how]
    rows = [(datetime(2024, 1, 1) + timedelta(n), n / 4, 0.25 + n % 5) for n in range(40)]
    lines = [delimiter.join([f"{day:{form}}", number(a), number(b)]) for day, a, b in rows]
    plain = [f"{day:%Y-%m-%d},{a + 1000},{b + 1000}" for day, a, b in rows]
    ending = "tsv" if delimiter == "\t" else "csv"
    found = prepare_windows(
        settings(write(tmp_path / f"own.{ending}", [*([delimiter.join(header)] if header else []), *lines]))
    )
    expected = prepare_windows(settings(write(tmp_path / "plain.csv", [",".join(header), *plain] if header else plain)))
    assert np.array_equal(found.windows["train"].rows, expected.windows["train"].rows)
    assert (
        found.windows["train"].panel.series[0].times.tolist()
        == expected.windows["train"].panel.series[0].times.tolist()
    )
    found.fitted.save(tmp_path)
    assert Fitted.load(tmp_path).roles == found.fitted.roles  # a few lines to predict from are read in the same way
    later = write(tmp_path / f"later.{ending}", lines[:2])
    assert read_table(str(later), found.fitted.roles).values.tolist() == [[1000, 1000.25], [1000.25, 1001.25]]


@pytest.mark.parametrize("price", [True, False])
def test_points_between_thousands_are_no_decimal_points(price, tmp_path):
    """Beside decimal commas, or in a column of whole numbers."""
    prices = [";2,49"] * 40 if price else [""] * 40
    amounts = [f"{n:,}".replace(",", ".") for n in range(980, 1020)]
    rows = [f"{day};{amount}{price}" for day, amount, price in zip(days(40), amounts, prices, strict=True)]
    file = write(tmp_path / "de.csv", ["datum;menge" + ";preis" * price, *rows])
    roles = find_roles(file, settings(file))
    assert read_table(str(file), roles).values[:, 0].tolist() == [*range(980, 1020)]
    later = write(tmp_path / "later.csv", ["datum;menge" + ";preis" * price, *rows[-2:]])
    assert read_table(str(later), roles).values[:, 0].tolist() == [1018, 1019]
    english = write(tmp_path / "en.csv", ["day,a", *(f"{day},{1 + n / 1000:.3f}" for n, day in enumerate(days(40)))])
    assert read_table(str(english), find_roles(english, settings(english))).values[5, 0] == 1.005


def test_what_may_be_two_dates_or_two_numbers_is_not_guessed(tmp_path):
    lines = ["date,a", *(f"0{1 + n % 3}/0{1 + n % 2}/2024,{n}" for n in range(9))]
    with pytest.raises(CallError, match=r"may be a day and a month.*data\.time_format='%d/%m/%Y' or"):
        prepare_windows(settings(write(tmp_path / "either.csv", lines)))
    thousands = write(tmp_path / "thousands.csv", ["date;a;b", *(f"{day};1,234;7" for day in days(40))])
    assert find_roles(thousands, settings(thousands)).targets == ("b",)


def test_columns_of_texts_help_and_are_never_predicted(tmp_path):
    lines = [f"{day},{n},{('sun', 'rain', 'snow')[n % 3]}" for n, day in enumerate(days(40))]
    file = write(tmp_path / "sky.csv", ["date,a,sky", *lines])
    with pytest.raises(CallError, match=r"column data\.targets='sky' holds texts; only numbers can be predicted"):
        prepare_windows(settings(file, targets="sky"))
    with pytest.raises(CallError, match="no column of numbers beside 'date'; sky holds texts"):
        prepare_windows(settings(write(tmp_path / "none.csv", ["date,sky", "2024-01-01,sun"])))
    prepared = prepare_windows(settings(file, targets="a", past="sky", scale="none"))
    assert prepared.fitted.roles.past == ("sky=rain", "sky=snow", "sky=sun")
    past = prepared.windows["train"].cut(np.array([1])).past[0]
    assert past[:3, 1:].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    many = write(tmp_path / "many.csv", ["date,a,b", *(f"{day},1,x{n}" for n, day in enumerate(days(60)))])
    with pytest.raises(CallError, match=r"data\.past='b' holds 60 texts, and at most 50 are allowed"):
        prepare_windows(settings(many, targets="a", past="b"))


def test_check_shows_parts_columns_and_findings(tmp_path):
    file, _ = table(tmp_path)
    overrides = [f"data.train={file}", "data.look_back=5", "data.horizon=3"]
    report = api.check("stocks-forecast", overrides)
    assert report.as_dict()["ok"]
    assert [row["windows"] for row in report.tables["parts"]] == [28 - 8 + 1, 4 - 3 + 1, 8 - 3 + 1]


# ---------------------------------------------------------------------------------------- models, baselines and scores
def test_the_planted_lag_is_where_it_is_said_to_be():
    columns = lag()
    follower, driver = columns["follower"], columns["driver"]
    match = [np.corrcoef(follower[40:], driver[40 - step : len(driver) - step])[0, 1] for step in range(40)]
    assert int(np.argmax(match)) == LAG
    assert sorted(np.abs(match))[-2] < 0.1


def test_the_instance_norm_is_undone():
    """A window moved and stretched gives an answer moved and stretched alike, whatever the weights are."""
    torch.manual_seed(0)
    lay = WindowLayout(look_back=11, horizon=5, convert=False, targets=3, past=0, ahead=0)
    model = forecaster(RecurrentForecasterSettings.model_validate({"width": 8, "dropout": 0.0}), lay).eval()
    past, known = torch.randn(2, 11, 3), torch.empty(2, 5, 0)
    factor, level = torch.tensor([2.0, 0.5, 30.0]), torch.tensor([-7.0, 0.0, 100.0])
    expected = model.predict(past, known).squeeze(-1) * factor + level
    torch.testing.assert_close(model.predict(past * factor + level, known).squeeze(-1), expected, rtol=1e-3, atol=1e-2)


def test_taking_the_last_value_makes_levels_alike():
    torch.manual_seed(0)
    lay = WindowLayout(look_back=11, horizon=5, convert=False, targets=3, past=0, ahead=0)
    how = PatchForecasterSettings.model_validate(
        {"patch": 4, "stride": 3, "width": 6, "heads": 2, "feed_forward": 7, "instance_norm": "last"}
    )
    model = forecaster(how, lay).eval()
    past, known, level = torch.randn(2, 11, 3), torch.empty(2, 5, 0), torch.tensor([-7.0, 0.0, 100.0])
    expected = model.predict(past, known).squeeze(-1) + level
    torch.testing.assert_close(model.predict(past + level, known).squeeze(-1), expected, rtol=1e-4, atol=1e-4)


def test_patches_read_each_target_alone():
    torch.manual_seed(0)
    lay = WindowLayout(look_back=14, horizon=5, convert=False, targets=3, past=0, ahead=0)
    how = PatchForecasterSettings.model_validate(
        {"patch": 4, "stride": 3, "width": 6, "heads": 2, "feed_forward": 7, "layers": 2, "shortcut": True}
    )
    model = forecaster(how, lay).eval()
    past, known = torch.randn(2, 14, 3), torch.empty(2, 5, 0)
    said = model.predict(past, known)
    assert said.shape == (2, 5, 3, 1)
    other = past.clone()
    other[..., 1] = torch.randn(2, 14)
    again = model.predict(other, known)
    torch.testing.assert_close(again[..., [0, 2], :], said[..., [0, 2], :])
    assert not torch.allclose(again[..., 1, :], said[..., 1, :])
    turned = model.predict(past.flip(-1), known)  # one set of weights for all
    torch.testing.assert_close(turned.flip(2), said)


def test_pinball_by_hand_and_at_its_least():
    error = torch.tensor([[2.0, 2.0], [-1.0, -1.0]])
    torch.testing.assert_close(pinball(error, torch.tensor([0.1, 0.9])), torch.tensor([[0.2, 1.8], [0.9, 0.1]]))
    values = torch.arange(101.0)
    losses = torch.stack([pinball((values - guess)[:, None], torch.tensor([0.8])).mean() for guess in values])
    assert losses.argmin() == 80


def test_quantiles_are_trained_by_pinball(tmp_path):
    lay = WindowLayout(look_back=6, horizon=2, convert=False, targets=2, past=0, ahead=0)
    model = forecaster(RecurrentForecasterSettings.model_validate({"width": 8, "quantiles": [0.1, 0.5, 0.9]}), lay)
    assert isinstance(model, Forecaster)
    file, _ = table(tmp_path)
    batch = SeriesBatch.of(prepare_windows(settings(file, look_back=6, horizon=2)).windows["train"], np.arange(7))
    model.eval()
    loss = model(batch)
    error = batch.target.unsqueeze(-1) - model.predict(batch.past, batch.known)
    assert loss.count == 7 * 2 * 2 * 3
    torch.testing.assert_close(loss.total, torch.maximum(model.quantiles * error, (model.quantiles - 1) * error).sum())


def test_baselines_say_what_they_should(tmp_path):
    file = write(tmp_path / "line.csv", ["time,a", *(f"{n},{2 * n + (n % 3)}" for n in range(90))])
    prepared = prepare_windows(settings(file, look_back=7, horizon=4, season=3))
    windows = prepared.windows["test"]
    beside = Baselines.fit(prepared.windows["train"], prepared.windows["valid"], prepared.fitted.scaler, 3)
    batch = SeriesBatch.of(windows, np.array([0, 3]))
    said = dict(beside.said(batch, windows.layout))
    torch.testing.assert_close(said["last"][:, :, 0], batch.past[:, -1:, 0].expand(-1, 4))
    torch.testing.assert_close(said["seasonal"][:, :, 0], batch.past[:, [4, 5, 6, 4], 0])
    torch.testing.assert_close(said["linear"], batch.target, rtol=1e-2, atol=1e-2)  # a line and a season: all known
    beside.save(tmp_path)
    again = Baselines.load(tmp_path)
    assert (again.season, again.naive) == (3, beside.naive)
    assert torch.equal(again.linear.predict(batch, windows.layout), said["linear"])


def test_errors_by_hand():
    errors = Errors.empty(periods=2, steps=3, targets=1)
    said, true = np.zeros((2, 3, 1)), np.array([[[1.0], [2.0], [3.0]], [[0.0], [0.0], [-6.0]]])
    errors.add(said, true, naive=np.array([[2.0], [0.5]]), period=np.array([0, 1]))
    means = errors.means()
    assert means["mse"] == pytest.approx((1 + 4 + 9 + 36) / 6)
    assert means["mae"] == pytest.approx(12 / 6)
    assert means["mase"] == pytest.approx((6 / 2 + 6 / 0.5) / 6)
    np.testing.assert_allclose(errors.mse_by_step(), [0.5, 2, 22.5])
    np.testing.assert_allclose(errors.mse_by_period(), [14 / 3, 12])
    errors.add_quantiles(np.array([0.0, 2.0]) + np.zeros((2, 3, 1, 2)), true, np.array([0.1, 0.9]))
    assert errors.means()["coverage"] == pytest.approx(4 / 6)  # 1, 2, 0 and 0 lie between 0 and 2


def test_mase_is_one_for_the_naive_forecast_of_a_regular_series(tmp_path):
    chance = np.random.default_rng(2)
    file = write(
        tmp_path / "walk.csv", ["time,a", *(f"{n},{v:.5f}" for n, v in enumerate(chance.normal(size=400).cumsum()))]
    )
    prepared = prepare_windows(settings(file, horizon=1, season=1))
    windows = prepared.windows["train"]
    naive = naive_errors(windows, prepared.fitted.scaler, 1)[""]
    batch = SeriesBatch.of(windows, np.arange(len(windows)))
    error = (batch.target[:, 0] - batch.past[:, -1]).abs().mean()
    assert float(error) / naive[0] == pytest.approx(1.0, abs=0.02)


def test_a_scaler_leaves_constant_columns_finite():
    scaler = Scaler.fit(np.array([[1.0, 5.0], [3.0, 5.0]]), "standard")
    np.testing.assert_array_equal(scaler.scaled(np.array([[3.0, 5.0], [1.0, 6.0]])), [[1, 0], [-1, 1]])
