"""Where data comes from: hub repositories, folders, readers of files, made-up sets."""
