"""The store under posts, documents and pages, beside engines that one could have taken instead."""
