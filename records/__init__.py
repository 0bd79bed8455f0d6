"""Files of a run, for its results and for resuming: records, metrics, trackers, child processes."""
