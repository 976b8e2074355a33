"""Python code generated from proto/fade; regenerate with `make proto`, never edit."""
