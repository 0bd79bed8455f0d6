"""What only makes a run on CPUs start some seconds sooner: it can be deleted with its tests, and no other module changes."""
