"""Point at data, say how long, get a model: what data is, and the recipe that suits it.

    DATA → detect: what it holds → plan: a value and a reason for every setting → RUN/recipe.yaml → training

Which job a kind of data is for stands in the table of `jobs.py`; what a job decides, in the folders of its input and
its output. Here is only what is the same for all.
"""
