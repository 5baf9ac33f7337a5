"""Rows to train on and to predict from: read from files, picked, shuffled, split, their labels counted.

    sources -> lines -> tables, json_rows (squad), conll, parquet -> readers

A reader yields rows one by one, and a DataError in the place of a row that cannot be used, so that whoever asked
decides what becomes of it. What spoils a whole file it raises.
"""
