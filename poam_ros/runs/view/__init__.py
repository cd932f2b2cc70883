"""A survey as a page to look into: its layers, its words, and the Bokeh document of them."""
