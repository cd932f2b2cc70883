"""Map models in scaled units: no ROS, no files, no plots; metres in ``mapper.py`` alone.

Matrices are named as in the paper (X y Z Kuu Kuf m S, sizes N M D); ``old`` stands for its prime.
"""
