"""The store under posts, documents and pages, beside the libraries that it is built on."""
