"""What went wrong in a run, from its metrics (docs/doctor.md)."""
