"""robots.txt by RFC 9309: what a site asks of programs that read it on their own account."""

from tabane.reader.fetching.robots.robots import Robots
from tabane.reader.fetching.robots.rules import Rules, rules

__all__ = ["Robots", "Rules", "rules"]
