"""Code that the nodes share."""
