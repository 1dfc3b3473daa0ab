"""What any program needs: files written whole or not at all, quiet loading of checkpoints."""
