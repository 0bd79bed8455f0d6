"""How well a method's credit agrees with the true advantages of turns (docs/credit_quality.md)."""
