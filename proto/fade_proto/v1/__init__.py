"""Package fade.v1 of the contract."""
