"""Data of others that recipes name and regard does not ship: where it is, what may be done with it, how it is laid out.

table.py      the data sets, by name
download.py   a file of the network: goes on where it stopped, and is held against its checksum
fetch.py      all files of a data set, laid out as recipes name them; there as a whole or not at all
layout.py     from the files that others publish to those that recipes read
"""
