"""The tiny model: a policy of a third of a million parameters that shows real learning on a CPU."""
