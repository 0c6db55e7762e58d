"""An index of vectors on Milvus, which proposes candidates to the engine on PostgreSQL."""
