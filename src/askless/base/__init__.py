"""What every other room may use: errors, options, seeds, files, locks, processes. Nothing here knows of learning."""
