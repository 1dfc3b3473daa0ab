"""Pictures with people hidden: detectors, masks, fills, folders of masked pictures, and pictures as judges see them."""
