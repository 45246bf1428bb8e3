"""gpuviz: where a GPU's time went, and why, inside a notebook.

Importing gpuviz loads none of Bokeh, IPython, torch or CUPTI; each comes with the first call that needs it.
"""
