"""Whole sites: the pages of a folder of a site, read one after the other by a job that can be continued."""
