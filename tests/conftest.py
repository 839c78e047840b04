"""What all tests share: caches of their own, so that those of whoever runs them stay as they are; and a browser."""

import fcntl
import gc
import os
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

import jaxtyping
import pytest

import shape_checks

pytest_plugins = ["skips"]

FORK = ("test_training_power_loss.py",)

shape_checks.install()
gc.disable()  # while modules are imported, which stay


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items):
    """Files with most slow tests come first and the smallest last, so that all processes end at about the same time.
    Before them, those that fork at every step: it takes a tenth of the time while a process is small."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    size = {path: path.stat().st_size for path in {item.path for item in items}}
    items.sort(key=lambda item: (item.path.name not in FORK, -slow[item.path], -size[item.path]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Shapes are checked in quick tests, which reach every part; in slow ones that would take much time."""
    shape_checks.begin_test()
    jaxtyping.config.update("jaxtyping_disable", item.get_closest_marker("slow") is not None)
    try:
        return (yield)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_tests(tmp_path_factory):
    os.environ["REGARD_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    own = tmp_path_factory.getbasetemp()
    several = os.environ.get("PYTEST_XDIST_WORKER")
    os.environ["REGARD_TEST_RUNS"] = str(own.parent if several else own)  # one folder for all processes


@pytest.fixture(scope="session", autouse=True)
def no_waiting():
    """What only takes time: the disk, which no test pulls the plug of (those of power loss have a disk of their own),
    and further pictures of the same kind in the report of every run. The number of calls stays what it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        patch.setattr("regard.job.PICTURES", 1)
        yield


@pytest.fixture(scope="session")
def built(cache_of_the_tests) -> Path:
    """An sdist of the repository, a wheel of what the sdist holds, and `site`, where that wheel is installed: once,
    whichever process asks first."""
    folder = Path(os.environ["REGARD_TEST_RUNS"]) / "dist"
    build = [sys.executable, "-m", "hatchling", "build"]
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (done := folder / "done").exists():
            root = Path(__file__).parents[1]
            subprocess.run([*build, "-t", "sdist", "-d", str(folder)], cwd=root, check=True, capture_output=True)
            with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
                archive.extractall(folder, filter="data")
            unpacked = next(path for path in folder.iterdir() if path.is_dir())
            subprocess.run([*build, "-t", "wheel", "-d", str(folder)], cwd=unpacked, check=True, capture_output=True)
            install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
            wheel, site = next(folder.glob("*.whl")), folder / "site"
            subprocess.run([*install, "--target", str(site), str(wheel)], check=True, capture_output=True)
            done.touch()
    return folder


@pytest.fixture(scope="session")
def site(built) -> Path:
    """A folder with the installed wheel and nothing else."""
    return built / "site"


@pytest.fixture(scope="module")
def browser():
    """A real Chromium: `pip install playwright`, and /usr/bin/chromium or CHROMIUM=path. Of a module, because its event
    loop runs as long as it is open, and other tests begin their own."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium, or CHROMIUM=path")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser):
    """Opens an address. An error of a script, a token that is run as one, or a request to elsewhere fails the test; a
    question that the service refuses does not, since the page has a sentence for it."""
    wrong, contexts = [], []

    def opened(address, *, scheme="light", size=(1280, 900)):
        context = browser.new_context(color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append("a token was run as a script"))
        page.on(
            "console",
            lambda one: (
                wrong.append(one.text)
                if one.type == "error" and not one.text.startswith("Failed to load resource")
                else None
            ),
        )
        here = address.partition("#")[0] if address.startswith("file:") else "/".join(address.split("/", 3)[:3])

        def only_here(route):
            if route.request.url.startswith((here, "data:", "blob:")):
                return route.continue_()
            wrong.append(f"asked for {route.request.url}")
            return route.abort()

        page.route("**/*", only_here)
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not wrong, wrong
