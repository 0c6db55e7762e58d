"""Child processes of upstream servers: started, watched and ended by a keeper."""
