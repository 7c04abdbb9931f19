"""The life of a run, for the commands and the Python functions: folder, progress, documents."""
