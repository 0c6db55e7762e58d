"""Benchmark of the search over everything: is the right kind of thing first, and is it the right one?"""
