"""CUPTI: the layout of its records, and the way from its buffers to arrays and back."""
