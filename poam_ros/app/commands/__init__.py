"""The subcommands of poam, one module each."""
