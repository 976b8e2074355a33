"""What the server keeps."""
