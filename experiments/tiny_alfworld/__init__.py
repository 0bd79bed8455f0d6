"""The tiny model for ALFWorld: as small as the one for TextWorld, and with these words."""
