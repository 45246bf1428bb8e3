"""Sizes and type that the Python side of the views shares; colours live with the engine, which knows the theme."""

LABEL_FONT = "Helvetica, Arial, sans-serif"
LABEL_SIZE = "11px"
LEFT_BORDER = 150
"""Room for lane labels, in pixels; the engine shrinks it on narrow pages."""

LAYER_COLOURS = {
    "kernel": "#EE6677",
    "memcpy": "#332288",
    "memset": "#AA7799",
    "graph_run": "#EE6677",
    "host": "#56B4E9",
}
"""Light colours of the static picture (checked for four kinds of colour vision; docs/architecture.md)."""
