"""Tensors: layouts, views, indexing, operators, methods, and their interfaces to other packages."""
