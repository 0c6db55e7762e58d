"""The moving picture of the README: a real session on a terminal, drawn as an animated SVG."""
