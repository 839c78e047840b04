"""Nothing that tests make ends up among the caches of whoever runs them."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_tests(tmp_path_factory):
    os.environ["REGARD_CACHE"] = str(tmp_path_factory.mktemp("cache"))
