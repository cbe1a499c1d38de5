"""What users do with tensors: indexing by arrays."""
