"""Public datasets that recipes name and regard does not ship: their address, license and layout.

table.py      the datasets, by name
download.py   download a file: resumes, and verifies its checksum
fetch.py      all files of a dataset, in the layout that recipes name, written atomically
layout.py     convert published files to those that recipes read
"""
