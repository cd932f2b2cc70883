"""A survey as a page: its layers, its words, and the Bokeh document of them."""
