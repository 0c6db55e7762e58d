"""GitHub by its API: repositories, folders, files, issues, pull requests, commits, releases, gists."""

from tabane.reader.sites.github.way import GitHubWay

__all__ = ["GitHubWay"]
