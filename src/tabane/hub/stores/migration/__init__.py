"""The migration of all collections from one engine to another: places, copying, verification."""
