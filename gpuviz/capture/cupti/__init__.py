"""CUPTI: its records, the control plane, the pool of buffers, and the backend that captures with them."""
