"""An index of vectors on Chroma, which proposes candidates to the engine on PostgreSQL."""
