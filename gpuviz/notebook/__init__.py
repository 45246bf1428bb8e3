"""Where a person meets gpuviz: rich display, and the magics."""
