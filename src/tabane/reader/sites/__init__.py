"""The ways to a page, each a module: sites that have their own, then what every site has."""
