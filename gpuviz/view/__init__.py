"""How a trace looks: tables → rectangles → linked Bokeh views in one self-contained HTML output."""
