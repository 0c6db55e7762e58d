"""Plots as SVG, drawn without a library: legible on light and dark pages, and with a text for each."""
