"""What every engine of search needs: checked requests, lexical plans, BM25, cursors."""
