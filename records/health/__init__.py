"""What a run's metrics say about its health: conditions, the rules, and alarms (docs/health.md)."""
