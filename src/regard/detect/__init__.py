"""Detect what data holds and choose a recipe that suits it.

    DATA → detect: what it holds → plan: a value and a reason for every setting → RUN/recipe.yaml → training

The table of `jobs.py` maps kinds of data to jobs. The folders of inputs and outputs hold the decisions of a single job.
This package holds what all jobs share.
"""
