"""Shadow models: how one is trained, which records it sees, and where its results are kept."""
