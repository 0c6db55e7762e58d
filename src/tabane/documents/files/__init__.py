"""Files become documents: folders walked, texts recognised and decoded, changes followed."""
