"""A survey as a page: layers, texts, and the Bokeh document."""
