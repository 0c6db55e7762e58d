"""Several hubs that share one database: who is there, who owns what, and requests passed to the owner."""
