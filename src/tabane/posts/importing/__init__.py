"""Posts from outside: twilog.csv, X's own archive, results of a model, folders of vectors."""
