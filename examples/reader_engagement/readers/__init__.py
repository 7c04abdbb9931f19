"""News readers: the files of EB-NeRD and Globo.com, from raw logs to features without leaks."""
