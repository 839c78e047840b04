"""Tests that skip because something is not installed: the end of a run names what to install. In CI a skip is a
failure, unless `ALLOWED` names the test: a failed installation must not look like tests that passed.

Active with `CI=true` in the environment, as `.ci/run` sets it, or with `--strict-skips`.
"""

import os
from collections import Counter
from typing import Any

import pytest

ALLOWED = {  # tests of packages that `pip install -e '.[dev]'` leaves out
    "tests/test_auto.py::test_tables_of_other_libraries[polars]": "polars",
    "tests/test_data_files.py::test_data_sets_saved_by_the_library": "datasets",
    "tests/test_data_files.py::test_folders_of_data_files_are_read_by_the_library": "datasets",
    "tests/test_tag.py::test_scores_of_spans_agree_with_seqeval": "seqeval",
    "tests/test_watching.py::test_a_model_of_timm": "timm, which needs torchvision",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-skips", action="store_true", help="fail if a test skips that tests/skips.py does not list"
    )


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # in a process of xdist, the first process counts
        strict = config.getoption("--strict-skips") or os.environ.get("CI") == "true"
        config.pluginmanager.register(Skips(strict), "skips-of-tests")


class Skips:
    """The reasons of skipped tests and files, by their names."""

    def __init__(self, strict: bool) -> None:
        self.strict, self.reasons = strict, dict[str, str]()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.reasons[report.nodeid] = _reason(report)

    def pytest_collectreport(self, report: Any) -> None:
        if report.skipped:
            self.reasons[report.nodeid] = _reason(report)

    @property
    def refused(self) -> list[str]:
        return sorted(self.reasons.keys() - ALLOWED.keys()) if self.strict else []

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.refused and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.reasons:
            return
        terminalreporter.section("skipped")
        for reason, count in sorted(Counter(self.reasons.values()).items()):
            terminalreporter.line(f"{count} × {reason}")
        for name in self.refused:
            terminalreporter.line(f"FAILED {name}: CI runs it (tests/skips.py lists what may skip)", red=True)


def _reason(report: Any) -> str:
    """The sentence alone: pytest puts the file and the line before it."""
    found = report.longrepr
    return (found[2] if isinstance(found, tuple) else str(found)).removeprefix("Skipped: ")
