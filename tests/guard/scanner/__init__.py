"""Tests of the scanner of definitions, and the collections that its quality is measured on."""
