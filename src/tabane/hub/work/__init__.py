"""Work that outlasts a request: jobs, tasks and scripts."""
