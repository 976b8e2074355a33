"""The contract over gRPC: translation and nothing more."""
