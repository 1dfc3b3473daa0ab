"""What pictures of scenes are made of: a canvas of labelled sub-pixels, settings, people, objects."""
