"""The tools of all upstreams: named, kept, searched, shown, and their arguments checked."""
