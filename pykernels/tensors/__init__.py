"""What a tensor is: layouts, views, indexing, operators, methods, and how others see it."""
