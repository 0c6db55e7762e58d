"""Files become documents: folders walked, texts recognized and decoded, changes followed."""
