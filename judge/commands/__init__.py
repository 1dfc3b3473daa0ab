"""What each command does, from settings to files."""
