"""Rows to train on and to predict from: read from files, picked, shuffled, split, their labels counted.

    sources -> lines -> tables, json_rows (squad), conll, parquet -> readers

A reader yields rows one by one, and a DataError in the place of a row that cannot be used, so that the caller
decides what becomes of it. It raises what makes a complete file unusable.
"""
