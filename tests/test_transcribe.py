"""Sound to text, from the user's recordings to predictions: on the command line and in Python, on real files."""

from regard import catalog
from regard.tasks.transcribe import Transcribe


def test_the_catalogue_knows_the_job():
    assert catalog.find(catalog.TASKS, "transcribe") is Transcribe
