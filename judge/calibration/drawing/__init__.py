"""What pictures of scenes are made of: a canvas that knows whose each sub-pixel is, settings, people, objects."""
