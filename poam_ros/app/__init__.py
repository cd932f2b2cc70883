"""The poam command and the code of the launch files."""
